//! Update, and what every change of a stored object has in common.

use std::sync::Arc;

use kubeapi::request::WriteOptions;
use kubeapi::{Status, meta};
use serde_json::Value;

use super::{Answer, Call, Server, body, definition, failure, kinds, object, validate};
use crate::store::{Error, Expect, Revision, Stored, Write};

/// How often a change is tried again that somebody else was faster with.
pub(super) const ATTEMPTS: usize = 20;

impl Server {
    pub(super) async fn update(&self, call: Call<'_>) -> Result<Answer, Status> {
        let options = WriteOptions::update(&call.request.query)?;
        let mut wanted = call.body()?;
        let warnings = body::read(call.resource, &mut wanted, options.field_validation)?;
        meta::ensure_name(&wanted, call.name())?;
        meta::ensure_namespace(&mut wanted, call.namespace())?;
        let _lock = self.lock_definitions(call.resource).await;
        let unconditional = meta::text(&wanted, "resourceVersion").is_empty();
        for _ in 0..ATTEMPTS {
            let (stored, old) = self.current(call)?;
            if unconditional && !kinds::allows_unconditional_update(call.resource) {
                return Err(failure::version_required(&call.resource.group_resource(), call.name()));
            }
            let mut new = wanted.clone();
            if unconditional {
                object::set_version(&mut new, Some(stored.modified));
            }
            match self.replace(call, &stored, &old, new, options.dry_run).await? {
                Some(updated) => return Ok(call.answer(200, updated, warnings)),
                None if unconditional => {}
                None => break,
            }
        }
        Err(Status::modified(&call.resource.group_resource(), call.name()))
    }

    /// The object that a request names, as it is stored and as clients see it.
    pub(super) fn current(&self, call: Call<'_>) -> Result<(Arc<Stored>, Value), Status> {
        let view = self.store.view();
        let stored = view.get(&call.key()).ok_or_else(|| call.not_found())?;
        Ok((stored.clone(), object::decode(call.resource, stored)?))
    }

    /// Puts `new` in the place of `old`; `None` if somebody else was faster. The last finalizer of an object that is
    /// being deleted takes the object with it.
    pub(super) async fn replace(
        &self,
        call: Call<'_>,
        stored: &Stored,
        old: &Value,
        mut new: Value,
        dry_run: bool,
    ) -> Result<Option<Value>, Status> {
        let resource = call.resource;
        check_claims(call, stored, old, &new)?;
        self.prepare_update(call, &mut new, old);
        validate::updated(resource, &new, old, call.subresource())?;
        if definition::is_definition(resource) && call.subresource().is_empty() {
            definition::accept(&mut new, &self.store.view(), self.clock.now());
        }
        let bytes = object::encode(resource, &new)?;
        let gone = meta::is_being_deleted(&new) && !kinds::is_held(resource, &new);
        if dry_run || (!gone && bytes == stored.value) {
            object::set_version(&mut new, Some(stored.modified));
            return Ok(Some(new));
        }
        let write = match gone {
            true => Write::delete(stored.key.clone(), Expect::Revision(stored.modified)),
            false => kinds::lasting(resource, Write::update(stored.key.clone(), bytes, stored.modified)),
        };
        let Some(revision) = self.swap(call, write).await? else { return Ok(None) };
        object::set_version(&mut new, Some(revision));
        Ok(Some(new))
    }

    fn prepare_update(&self, call: Call<'_>, new: &mut Value, old: &Value) {
        let resource = call.resource;
        if call.subresource() == "status" {
            meta::keep_all_but_status(new, old);
        } else if call.subresource() == "finalize" {
            kinds::keep_all_but_finalizers(new, old);
        } else if definition::is_definition(resource) {
            definition::prepare_update(new, old);
        } else {
            if resource.subresource("status").is_some() {
                meta::keep_status(new, old);
            }
            kinds::prepare(resource, new);
        }
        meta::updated(new, old, resource.generation);
    }

    /// A write that expects the object as it was read. Gives its revision; `None` if somebody else was faster.
    pub(super) async fn swap(&self, call: Call<'_>, write: Write) -> Result<Option<Revision>, Status> {
        match self.store.write(vec![write]).await {
            Ok(commit) => {
                if definition::is_definition(call.resource) {
                    self.refresh_registry();
                }
                Ok(Some(commit.revision))
            }
            Err(Error::Conflict { .. } | Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failure::of_store(error)),
        }
    }
}

/// A client that says which object it means, or which revision of it, has to be right.
fn check_claims(call: Call<'_>, stored: &Stored, old: &Value, new: &Value) -> Result<(), Status> {
    let (claimed, found) = (meta::text(new, "uid"), meta::text(old, "uid"));
    if !claimed.is_empty() && claimed != found {
        let key = stored.key.replacen("/registry/core/", "/registry/", 1);
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {claimed}, UID in object meta: {found}"
        );
        return Err(Status::conflict(&call.resource.group_resource(), call.name(), &why));
    }
    match failure::revision(meta::text(new, "resourceVersion"))? {
        Some(revision) if revision != stored.modified => {
            Err(Status::modified(&call.resource.group_resource(), call.name()))
        }
        _ => Ok(()),
    }
}
