//! CustomResourceDefinitions: their names are accepted and their resources served with the write itself.

use std::sync::Arc;

use jiff::Timestamp;
use kubeapi::crd::{self, Condition};
use serde_json::{Value, json};

use super::Server;
use crate::registry::{DEFINITIONS, Registry, Resource};
use crate::store::{Expect, Scope, View, Write};

/// What the server calls itself, as an owner of fields.
const OWN_NAME: &str = "kube-apiserver";

/// The key of the CRD that defines a custom resource.
fn key_of(resource: &Resource) -> String {
    format!("{DEFINITIONS}{}.{}", resource.plural, resource.group)
}

/// For a write of a custom object: that its CRD is still the one which the object was made for.
pub(super) fn unchanged(resource: &Resource) -> Option<Write> {
    let custom = resource.as_custom()?;
    Some(Write::check(key_of(resource), Expect::Revision(custom.definition)))
}

pub(super) fn is_definition(resource: &Resource) -> bool {
    resource.plural == "customresourcedefinitions" && resource.group == "apiextensions.k8s.io"
}

/// Decides about the names, beside the CRDs in `view`.
pub(super) fn accept(definition: &mut Value, view: &View, now: Timestamp) {
    let scope = Scope::prefix(DEFINITIONS);
    let others = view.scan(&scope).filter_map(|stored| serde_json::from_slice::<Value>(&stored.value()).ok());
    let others: Vec<Value> = others.collect();
    let acceptance = crd::accept_names(definition, &others);
    let status = &mut definition["status"];
    status["acceptedNames"] = acceptance.names.to_json();
    set_condition(status, &acceptance.names_accepted, now);
    set_condition(status, &acceptance.established, now);
}

/// The time of a condition is that of its last change.
pub(super) fn set_condition(status: &mut Value, condition: &Condition, now: Timestamp) {
    let holds = if condition.holds { "True" } else { "False" };
    let time = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    let mut next = json!({
        "type": condition.kind, "status": holds, "lastTransitionTime": time,
        "reason": condition.reason, "message": condition.message,
    });
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    match conditions.iter_mut().find(|one| one["type"] == condition.kind) {
        Some(before) => {
            if before["status"] == holds {
                next["lastTransitionTime"] = before["lastTransitionTime"].clone();
            }
            *before = next;
        }
        None => conditions.push(next),
    }
}

impl Server {
    /// Decides about the names of a CRD that is to be stored. What that sets is the server's own.
    pub(super) async fn accept_names(&self, resource: &Resource, definition: &mut Value) {
        let mut before = definition.clone();
        accept(definition, &self.store.view(), self.clock.now());
        if *definition != before {
            let names = &mut before["status"]["acceptedNames"];
            if names.is_null() {
                // There were names all along, empty ones, as upstream sees it.
                *names = json!({"kind": "", "plural": ""});
                before["status"]["conditions"] = Value::Null;
            }
            self.record_as(resource, OWN_NAME, "status", Some(&before), definition).await;
        }
    }

    /// Serves what the CRDs in the store define now. The caller holds the CRDs' lock, so that no older registry
    /// replaces a newer one.
    pub(super) fn refresh_registry(&self) {
        let view = self.store.view();
        let previous = self.registry.load_full();
        let next = Arc::new(Registry::build(&view, &previous));
        self.registry.store(next.clone());
        next.retire(&previous, view.head());
    }

    /// The lock of what is written one at a time, where a write is about such: CRDs, Services. It is taken after all
    /// others were asked about the write: they may take their time, and have writes of their own.
    pub(super) async fn one_at_a_time(&self, resource: &Resource) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        match is_definition(resource) {
            true => Some(self.definitions.lock().await),
            false => self.lock_services(resource).await,
        }
    }
}
