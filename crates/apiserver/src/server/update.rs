//! Update, and what every change of a stored object has in common.

use std::sync::Arc;

use kubeapi::meta::GenerationRule;
use kubeapi::request::{Verb, WriteOptions};
use kubeapi::{Status, crd, meta};
use serde_json::Value;

use super::{Answer, Call, Server, body, definition, failure, kinds, managed, object, validate};
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
        let unconditional = meta::text(&wanted, "resourceVersion").is_empty();
        for _ in 0..ATTEMPTS {
            let (stored, old) = match self.current(call).await {
                Err(status) if status.code == 404 && creates_by_update(call) => {
                    self.check_may_create(call)?;
                    check_uid(call, &call.key(), "", &wanted)?;
                    let mut new = wanted.clone();
                    self.record(call, &options, None, &mut new).await;
                    match self.create_object(call, new, options.dry_run, warnings.clone()).await {
                        // Somebody else was faster with that, too.
                        Err(status) if status.reason == "AlreadyExists" => continue,
                        answer => return answer,
                    }
                }
                current => current?,
            };
            if unconditional && !kinds::allows_unconditional_update(call.resource) {
                return Err(failure::version_required(&call.resource.group_resource(), call.name()));
            }
            let mut new = wanted.clone();
            if unconditional {
                object::set_version(&mut new, Some(stored.modified));
            }
            self.record(call, &options, Some(&old), &mut new).await;
            let about_values = validate::warnings(call.resource, &new, Some(&old));
            match self.replace(call, &stored, &old, new, options.dry_run).await? {
                Some(updated) => {
                    let warnings = warnings.into_iter().chain(about_values).collect();
                    return Ok(call.answer(200, updated, warnings));
                }
                None if unconditional => {}
                None => break,
            }
        }
        Err(Status::modified(&call.resource.group_resource(), call.name()))
    }

    /// The object that a request names, as it is stored and as clients see it.
    pub(super) async fn current(&self, call: Call<'_>) -> Result<(Arc<Stored>, Value), Status> {
        let stored = self.store.view().get(&call.key()).cloned().ok_or_else(|| call.not_found())?;
        let object = self.conversion.decode(call.resource, &stored).await?;
        Ok((stored, object))
    }

    /// Puts `new`, which has its managed fields, in the place of `old`; `None` if somebody else was faster. The last
    /// finalizer of an object that is being deleted takes the object with it.
    pub(super) async fn replace(
        &self,
        call: Call<'_>,
        stored: &Stored,
        old: &Value,
        mut new: Value,
        dry_run: bool,
    ) -> Result<Option<Value>, Status> {
        let resource = call.resource;
        check_identity(call, stored, old, &new)?;
        let is_scale = call.subresource() == "scale";
        if !is_scale {
            self.admit_change(call, &mut new, Some(old), dry_run).await?;
        }
        check_version(call, stored, &new)?;
        self.check_grant(call, &new, Some(old))?;
        self.prepare_update(call, &mut new, old);
        validate::updated(resource, &new, old, call.subresource())?;
        self.check_parameters(call, &new, Some(old))?;
        managed::keep_times(&mut new, old);
        match is_scale {
            true => self.admit_scale(call, &new, old, dry_run).await?,
            false => self.admit_allocated(call, &new, Some(old), dry_run).await?,
        }
        let _lock = self.one_at_a_time(resource).await;
        self.allocate(resource, &mut new, Some(old))?;
        if definition::is_definition(resource) && call.subresource().is_empty() {
            self.accept_names(resource, &mut new).await;
        }
        let bytes = self.conversion.encode(resource, &new).await?;
        let mut new = self.conversion.stored_as(resource, &new, &bytes).await?;
        let gone = meta::is_being_deleted(&new) && !kinds::is_held(resource, &new);
        if dry_run || (!gone && bytes == stored.value()) {
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
            kinds::keep_all_but_status(resource, new, old);
        } else if call.subresource() == "finalize" {
            kinds::keep_all_but_finalizers(new, old);
        } else if definition::is_definition(resource) {
            crd::prepare_update(new, old);
        } else {
            if resource.subresource("status").is_some() {
                meta::keep_status(new, old);
            }
            kinds::prepare_update(resource, new, old);
        }
        let generation = match call.subresource() {
            "status" => GenerationRule::None,
            _ => resource.generation,
        };
        meta::updated(new, old, generation);
    }

    /// A write that expects the object as it was read. Gives its revision; `None` if somebody else was faster.
    pub(super) async fn swap(&self, call: Call<'_>, write: Write) -> Result<Option<Revision>, Status> {
        let about = write.key.clone();
        let transaction = definition::unchanged(call.resource).into_iter().chain([write]).collect();
        match self.store.write(transaction).await {
            Ok(commit) => {
                if definition::is_definition(call.resource) {
                    self.refresh_registry();
                }
                self.revoke(call.resource, &about);
                self.refresh_policy(call.resource);
                self.refresh_hooks(call.resource);
                Ok(Some(commit.revision))
            }
            Err(Error::Conflict { key, .. } | Error::NotFound { key }) => match key == about {
                true => Ok(None),
                false => Err(failure::redefined()),
            },
            Err(error) => Err(failure::of_store(error)),
        }
    }
}

/// Whether an update of an object that is not there creates it.
fn creates_by_update(call: Call<'_>) -> bool {
    let place = (call.resource.group.as_str(), call.resource.plural.as_str());
    let creates = matches!(
        place,
        ("", "endpoints" | "events" | "limitranges" | "services")
            | ("events.k8s.io", "events")
            | ("coordination.k8s.io", "leases")
            | ("node.k8s.io", "runtimeclasses")
            | ("rbac.authorization.k8s.io", _)
    );
    creates && call.resource.as_custom().is_none() && call.subresource().is_empty()
}

/// A client that says which object it means has to be right.
fn check_uid(call: Call<'_>, key: &str, found: &str, new: &Value) -> Result<(), Status> {
    let claimed = meta::text(new, "uid");
    if claimed.is_empty() || claimed == found {
        return Ok(());
    }
    let key = shown_key(call, key);
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {claimed}, UID in object meta: {found}"
    );
    Err(Status::conflict(&call.resource.group_resource(), call.name(), &why))
}

/// The key as upstream has it: without the group for what is built in.
fn shown_key(call: Call<'_>, key: &str) -> String {
    match call.resource.as_custom() {
        Some(_) => key.to_owned(),
        None => {
            let inside = key.splitn(4, '/').nth(3).unwrap_or_default();
            format!("/registry/{inside}")
        }
    }
}

/// A client that says which object it means, or which revision of it, has to be right.
pub(super) fn check_claims(call: Call<'_>, stored: &Stored, old: &Value, new: &Value) -> Result<(), Status> {
    check_identity(call, stored, old, new)?;
    check_version(call, stored, new)
}

fn check_identity(call: Call<'_>, stored: &Stored, old: &Value, new: &Value) -> Result<(), Status> {
    // What a patch changes is judged as a change.
    match call.request.target.verb == Verb::Patch {
        true => Ok(()),
        false => check_uid(call, &stored.key, meta::text(old, "uid"), new),
    }
}

fn check_version(call: Call<'_>, stored: &Stored, new: &Value) -> Result<(), Status> {
    let version = meta::text(new, "resourceVersion");
    let revision = failure::revision(version)
        .map_err(|_| failure::plain(&format!("strconv.ParseUint: parsing {version:?}: invalid syntax")))?;
    match revision {
        Some(revision) if revision != stored.modified => {
            Err(Status::modified(&call.resource.group_resource(), call.name()))
        }
        _ => Ok(()),
    }
}
