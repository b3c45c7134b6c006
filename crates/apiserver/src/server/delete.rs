//! Delete and deletecollection.

use kubeapi::meta::{self, FOREGROUND_FINALIZER, ORPHAN_FINALIZER};
use kubeapi::request::{DeleteOptions, Propagation};
use kubeapi::status::Details;
use kubeapi::{GroupResource, Status};
use serde_json::{Value, json};

use super::grace::{self, Grace};
use super::update::ATTEMPTS;
use super::{Answer, Call, Request, Server, definition, kinds, object, sweep};
use crate::registry::Resource;
use crate::store::{Expect, Write};

/// What became of an object.
pub(super) enum Outcome {
    /// It is gone.
    Gone(Value),
    /// It waits for its finalizers.
    Held(Value),
}

impl Server {
    pub(super) async fn delete(&self, call: Call<'_>) -> Result<Answer, Status> {
        let options = DeleteOptions::parse(&call.request.query, call.request.body.as_ref())?;
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
        let list = self.list_objects(call).await?;
        for object in list["items"].as_array().into_iter().flatten() {
            let mut request: Request = call.request.clone();
            meta::text(object, "name").clone_into(&mut request.target.name);
            meta::text(object, "namespace").clone_into(&mut request.target.namespace);
            match self.remove(Call { request: &request, ..call }, &options).await {
                // Somebody else was faster.
                Err(status) if status.code == 404 => {}
                Err(status) => return Err(status),
                Ok(_) => {}
            }
        }
        Ok(call.answer(200, list, Vec::new()))
    }

    /// Deletes an object, or marks it as going if there are finalizers or it has time to end on its own.
    pub(super) async fn remove(&self, call: Call<'_>, options: &DeleteOptions) -> Result<Outcome, Status> {
        let mut options = options.clone();
        if kinds::is_immortal(call.resource, call.name()) {
            let why = "this namespace may not be deleted";
            return Err(Status::forbidden(&call.resource.group_resource(), call.name(), why));
        }
        for _ in 0..ATTEMPTS {
            let (stored, old) = self.current(call).await?;
            check_preconditions(call, &options, &old)?;
            self.admit_deletion(call, &old, &options).await?;
            let _lock = self.one_at_a_time(call.resource).await;
            let grace = match grace::is_given(call.resource) {
                true => grace::decide(&old, options.grace_period_seconds, self.clock.now()),
                false => Grace::None,
            };
            if grace == Grace::Pending {
                return Ok(Outcome::Held(old));
            }
            let new = self.leaving(call.resource, &old, grace, &options);
            let held = kinds::is_held(call.resource, &new);
            if options.dry_run || (held && new == old) {
                return Ok(if held { Outcome::Held(new) } else { Outcome::Gone(new) });
            }
            // What ends on its own is seen to be going before it is gone.
            let marked = held || (matches!(grace, Grace::Until { .. }) && new != old);
            let write = match marked {
                true => {
                    let bytes = self.conversion.encode(call.resource, &new).await?;
                    Write::update(stored.key.clone(), bytes, stored.modified)
                }
                false => Write::delete(stored.key.clone(), Expect::Revision(stored.modified)),
            };
            match self.swap(call, write).await? {
                Some(revision) if held => {
                    let mut new = new;
                    object::set_version(&mut new, Some(revision));
                    return Ok(Outcome::Held(new));
                }
                // That was our own change.
                Some(_) if marked => options.preconditions.resource_version = None,
                Some(_) => return Ok(Outcome::Gone(new)),
                None => {}
            }
        }
        Err(Status::modified(&call.resource.group_resource(), call.name()))
    }

    /// The object as it is once its deletion is decided.
    fn leaving(&self, resource: &Resource, old: &Value, grace: Grace, options: &DeleteOptions) -> Value {
        let now = self.clock.now();
        let mut new = old.clone();
        match grace {
            Grace::Until { time, seconds } if meta::is_being_deleted(old) => {
                new["metadata"]["deletionTimestamp"] = meta::seconds(time);
                new["metadata"]["deletionGracePeriodSeconds"] = seconds.into();
            }
            Grace::Until { time, seconds } => meta::mark_deleted(&mut new, time, seconds),
            Grace::None | Grace::Pending => {}
        }
        set_finalizers(&mut new, kinds::propagation(resource, old, options));
        if definition::is_definition(resource) {
            sweep::mark_terminating(&mut new, now);
        }
        if kinds::is_held(resource, &new) && !meta::is_being_deleted(&new) {
            meta::mark_deleted(&mut new, now, 0);
            if (resource.group.as_str(), resource.plural.as_str()) == ("", "namespaces") {
                new["status"]["phase"] = json!("Terminating");
            }
        }
        new
    }
}

/// The finalizers that say what becomes of dependents; others stay.
fn set_finalizers(object: &mut Value, propagation: Option<Propagation>) {
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
