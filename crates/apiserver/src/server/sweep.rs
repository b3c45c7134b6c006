//! What follows the deletion of a CRD: its objects go, then the CRD itself, then its names are free.

use jiff::Timestamp;
use kubeapi::crd::Condition;
use kubeapi::{Status, meta};
use serde_json::{Value, json};

use super::definition::{accept, is_definition, set_condition};
use super::{Server, failure};
use crate::registry::{DEFINITIONS, Resource};
use crate::store::{Error, Expect, Scope, Stored, Write};

/// Holds a CRD until its objects are gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Makes a CRD that is deleted wait for its objects.
pub(super) fn mark_terminating(definition: &mut Value, now: Timestamp) {
    if meta::is_being_deleted(definition) {
        return;
    }
    let finalizers = &mut definition["metadata"]["finalizers"];
    match finalizers.as_array_mut() {
        Some(list) if list.iter().any(|one| one == CLEANUP) => {}
        Some(list) => list.push(json!(CLEANUP)),
        None => *finalizers = json!([CLEANUP]),
    }
    let message =
        "CustomResourceDefinition marked for deletion; CustomResource deletion will be issued as needed";
    let terminating = Condition {
        kind: "Terminating",
        holds: true,
        reason: "InstanceDeletionPending".into(),
        message: message.into(),
    };
    set_condition(&mut definition["status"], &terminating, now);
}

fn parse(stored: &Stored) -> Result<Value, Status> {
    serde_json::from_slice(&stored.value()).map_err(Status::internal)
}

fn bytes(object: &Value) -> Result<Vec<u8>, Status> {
    serde_json::to_vec(object).map_err(Status::internal)
}

impl Server {
    /// Deletes the objects of CRDs that are being deleted, and those CRDs that have none left. To be called after a
    /// change of a CRD, or of a custom object, which may have been the last.
    pub(super) async fn sweep(&self, changed: &Resource) -> Result<(), Status> {
        let terminating = changed.as_custom().is_some_and(|custom| custom.terminating);
        if !terminating && !is_definition(changed) {
            return Ok(());
        }
        let _lock = self.definitions.lock().await;
        let view = self.store.view();
        for stored in view.scan(&Scope::prefix(DEFINITIONS)) {
            let definition = parse(stored)?;
            let finalizers = definition["metadata"]["finalizers"].as_array();
            let waits = finalizers.is_some_and(|list| list.iter().any(|one| one == CLEANUP));
            if waits && meta::is_being_deleted(&definition) && self.sweep_objects(&definition).await? {
                self.finish(stored, definition).await?;
            }
        }
        Ok(())
    }

    /// Deletes the objects of a CRD as far as their finalizers let it. Gives whether none are left.
    async fn sweep_objects(&self, definition: &Value) -> Result<bool, Status> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (group, plural) =
            (text(&definition["spec"]["group"]), text(&definition["spec"]["names"]["plural"]));
        let scope = Scope::prefix(format!("/registry/{group}/{plural}/"));
        loop {
            let view = self.store.view();
            let (mut writes, mut held) = (Vec::new(), false);
            for stored in view.scan(&scope) {
                let mut object = parse(stored)?;
                let finalized = object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
                held |= !finalized;
                if finalized {
                    writes.push(Write::delete(stored.key.clone(), Expect::Revision(stored.modified)));
                } else if !meta::is_being_deleted(&object) {
                    meta::mark_deleted(&mut object, self.clock.now(), 0);
                    writes.push(Write::update(stored.key.clone(), bytes(&object)?, stored.modified));
                }
            }
            if writes.is_empty() {
                return Ok(!held);
            }
            match self.store.write(writes).await {
                // Somebody changed one of them meanwhile: look again. Also after success, for what came meanwhile.
                Ok(_) | Err(Error::Conflict { .. } | Error::NotFound { .. }) => {}
                Err(error) => return Err(failure::of_store(error)),
            }
        }
    }

    /// Takes the cleanup's finalizer off a CRD, which lets it go unless there are others. Its names are free then.
    async fn finish(&self, stored: &Stored, mut definition: Value) -> Result<(), Status> {
        let finalizers = definition["metadata"]["finalizers"].as_array_mut();
        let left = finalizers.map_or(0, |list| {
            list.retain(|one| one != CLEANUP);
            list.len()
        });
        let write = match left {
            0 => Write::delete(stored.key.clone(), Expect::Revision(stored.modified)),
            _ => Write::update(stored.key.clone(), bytes(&definition)?, stored.modified),
        };
        self.store.write(vec![write]).await.map_err(failure::of_store)?;
        let view = self.store.view();
        let mut writes = Vec::new();
        for stored in view.scan(&Scope::prefix(DEFINITIONS)) {
            let before = parse(stored)?;
            let mut after = before.clone();
            accept(&mut after, &view, self.clock.now());
            if after != before {
                writes.push(Write::update(stored.key.clone(), bytes(&after)?, stored.modified));
            }
        }
        self.store.write(writes).await.map_err(failure::of_store)?;
        self.refresh_registry();
        Ok(())
    }
}
