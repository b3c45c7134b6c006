//! Delete and deletecollection.

use kubeapi::meta::{self, FOREGROUND_FINALIZER, ORPHAN_FINALIZER};
use kubeapi::request::{DeleteOptions, ListOptions, Propagation};
use kubeapi::status::Details;
use kubeapi::{GroupResource, Status};
use serde_json::{Value, json};

use super::selection::Selection;
use super::update::ATTEMPTS;
use super::{Answer, Call, Request, Server, definition, kinds, object, sweep};
use crate::store::{Expect, Scope, Write};

/// What became of an object.
enum Outcome {
    /// It is gone.
    Gone(Value),
    /// It waits for its finalizers.
    Held(Value),
}

impl Server {
    pub(super) async fn delete(&self, call: Call<'_>) -> Result<Answer, Status> {
        let options = DeleteOptions::parse(&call.request.query, call.request.body.as_ref())?;
        let _lock = self.lock_definitions(call.resource).await;
        Ok(match self.remove(call, &options).await? {
            Outcome::Gone(object) if kinds::answers_with_deleted(call.resource) => {
                call.answer(200, object, Vec::new())
            }
            Outcome::Gone(object) => call.answer(200, success(call, &object)?, Vec::new()),
            Outcome::Held(object) => {
                let code = if options.orphan_dependents == Some(false) { 202 } else { 200 };
                call.answer(code, object, Vec::new())
            }
        })
    }

    pub(super) async fn delete_collection(&self, call: Call<'_>) -> Result<Answer, Status> {
        let options = DeleteOptions::parse(&call.request.query, call.request.body.as_ref())?;
        let list = ListOptions::parse(&call.request.query)?;
        let selection = Selection::new(call.resource, &list)?;
        let _lock = self.lock_definitions(call.resource).await;
        let view = self.store.view();
        let scope = Scope::prefix(call.resource.prefix(call.namespace()));
        let mut items = Vec::new();
        for stored in view.scan(&scope) {
            let object = object::decode(call.resource, stored)?;
            if !selection.matches(&object) {
                continue;
            }
            let mut request: Request = call.request.clone();
            meta::text(&object, "name").clone_into(&mut request.target.name);
            meta::text(&object, "namespace").clone_into(&mut request.target.namespace);
            match self.remove(Call { request: &request, resource: call.resource }, &options).await {
                // Somebody else was faster.
                Err(status) if status.code == 404 => {}
                Err(status) => return Err(status),
                Ok(_) => items.push(object),
            }
        }
        let list = json!({
            "kind": call.resource.list_kind,
            "apiVersion": call.resource.group_version().to_string(),
            "metadata": {"resourceVersion": view.head().to_string()},
            "items": items,
        });
        Ok(call.answer(200, list, Vec::new()))
    }

    /// Deletes an object, or marks it as going if there are finalizers.
    async fn remove(&self, call: Call<'_>, options: &DeleteOptions) -> Result<Outcome, Status> {
        for _ in 0..ATTEMPTS {
            let (stored, old) = self.current(call)?;
            check_preconditions(call, options, &old)?;
            let mut new = old.clone();
            set_finalizers(&mut new, options);
            if definition::is_definition(call.resource) {
                sweep::mark_terminating(&mut new, self.clock.now());
            }
            let held = kinds::is_held(call.resource, &new);
            if held && !meta::is_being_deleted(&old) {
                meta::mark_deleted(&mut new, self.clock.now(), 0);
                if (call.resource.group.as_str(), call.resource.plural.as_str()) == ("", "namespaces") {
                    new["status"]["phase"] = json!("Terminating");
                }
            }
            if options.dry_run || (held && new == old) {
                return Ok(if held { Outcome::Held(new) } else { Outcome::Gone(new) });
            }
            let write = match held {
                true => {
                    Write::update(stored.key.clone(), object::encode(call.resource, &new)?, stored.modified)
                }
                false => Write::delete(stored.key.clone(), Expect::Revision(stored.modified)),
            };
            if let Some(revision) = self.swap(call, write).await? {
                if held {
                    object::set_version(&mut new, Some(revision));
                    return Ok(Outcome::Held(new));
                }
                return Ok(Outcome::Gone(new));
            }
        }
        Err(Status::modified(&call.resource.group_resource(), call.name()))
    }
}

/// The finalizers that say what becomes of dependents; others stay.
fn set_finalizers(object: &mut Value, options: &DeleteOptions) {
    let propagation = match options.orphan_dependents {
        Some(true) => Some(Propagation::Orphan),
        Some(false) => Some(Propagation::Background),
        None => options.propagation,
    };
    // Without a word the object's own wish stands.
    let Some(propagation) = propagation else { return };
    let wanted = match propagation {
        Propagation::Orphan => Some(ORPHAN_FINALIZER),
        Propagation::Foreground => Some(FOREGROUND_FINALIZER),
        Propagation::Background => None,
    };
    let before = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let mut after = before.clone();
    after.retain(|one| {
        one != ORPHAN_FINALIZER && one != FOREGROUND_FINALIZER || wanted.is_some_and(|wanted| one == wanted)
    });
    if let Some(wanted) = wanted.filter(|wanted| !after.contains(&json!(wanted))) {
        after.push(json!(wanted));
    }
    if after != before {
        object["metadata"]["finalizers"] = after.into();
    }
}

fn check_preconditions(call: Call<'_>, options: &DeleteOptions, object: &Value) -> Result<(), Status> {
    let conflict = |why: String| {
        // Upstream names the kind here, where everywhere else it names the resource.
        let about = GroupResource::new(&*call.resource.group, &*call.resource.kind);
        Err(Status::conflict(&about, call.name(), &why))
    };
    let uid = meta::text(object, "uid");
    if let Some(wanted) = options.preconditions.uid.as_deref().filter(|wanted| *wanted != uid) {
        return conflict(format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        ));
    }
    let version = meta::text(object, "resourceVersion");
    if let Some(wanted) =
        options.preconditions.resource_version.as_deref().filter(|wanted| *wanted != version)
    {
        return conflict(format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
        ));
    }
    Ok(())
}

/// What a finished deletion answers; its code is in the answer's head only.
fn success(call: Call<'_>, object: &Value) -> Result<Value, Status> {
    let details = Details {
        name: call.name().into(),
        group: call.resource.group.clone(),
        kind: call.resource.plural.clone(),
        uid: meta::text(object, "uid").into(),
        ..Details::default()
    };
    let mut status = serde_json::to_value(Status::success(details)).map_err(Status::internal)?;
    if let Some(fields) = status.as_object_mut() {
        fields.remove("code");
    }
    Ok(status)
}
