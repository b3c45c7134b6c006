//! Who else has a say in what is written.
//!
//! A write is read and gets its managed fields, then changed by whoever may change it (nobody comes to own what they
//! set), then made ready and validated, then judged by whoever may refuse it, then stored: the order of upstream's
//! admission chain. Those in process are asked first, then those
//! outside: mutating webhooks, and policies and validating webhooks. If a webhook changes an object, all that may
//! change it are asked once more (of the webhooks those that want to be).

mod options;
mod parts;

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use kubeapi::apply::Managers;
use kubeapi::authn::User;
use kubeapi::builtin::{self, Node};
use kubeapi::request::DeleteOptions;
use kubeapi::{GroupVersionKind, Status, meta};
use serde_json::{Value, json};

use super::{Call, Server, body, fits};
use crate::admission::{Asking, Reinvocation};
use crate::registry::Resource;

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It is new.
    Create,
    /// It replaces another, by an update or a patch.
    Update,
    /// It goes, or begins to.
    Delete,
}

impl Operation {
    /// As webhooks have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
        }
    }
}

/// What a write is about.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// What is done. An update that creates is a creation.
    pub operation: Operation,
    /// To what kind of object, in the version of the request.
    pub resource: &'a Arc<Resource>,
    /// What kind the objects that are shown have: some subresources have their own.
    pub kind: &'a GroupVersionKind,
    /// To which part; empty for the whole.
    pub subresource: &'a str,
    /// Where; empty for kinds without namespaces.
    pub namespace: &'a str,
    /// The object's name; empty if it is yet to be made up.
    pub name: &'a str,
    /// Who asks.
    pub user: &'a User,
    /// What is there now, in the version of the request.
    pub old: Option<&'a Value>,
    /// `CreateOptions`, `UpdateOptions` or `DeleteOptions`, as clients send them.
    pub options: &'a Value,
    /// Nothing is stored in the end: nothing outside may be changed either.
    pub dry_run: bool,
}

impl Attributes<'_> {
    /// What a client is told whose write is refused: `pods "a" is forbidden: ..`.
    pub fn forbidden(&self, object: Option<&Value>, why: &str) -> Status {
        let text = |field: &str| object.map(|object| meta::text(object, field)).unwrap_or_default();
        let names = [self.name, text("name"), text("generateName"), "Unknown"];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        Status::forbidden(&self.resource.group_resource(), name, why)
    }
}

/// What an [`Admission`] answers: warnings for the client, or a refusal.
pub type Verdict<'a> = Pin<Box<dyn Future<Output = Result<Vec<String>, Status>> + Send + 'a>>;

/// Changes or refuses writes. It may be asked more than once about a write, if another one comes in between.
///
/// A Status that it refuses with is what the client gets. Who would be a webhook elsewhere says it in a webhook's words
/// with [`kubeapi::admission::denied_with`].
pub trait Admission: Send + Sync {
    /// May change an object that is created or updated, before it is validated. Defaults are filled in again
    /// afterwards.
    fn mutate<'a>(&'a self, _about: Attributes<'a>, _object: &'a mut Value) -> Verdict<'a> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// May refuse a write; the object is valid and as it would be stored. A deletion has none.
    fn validate<'a>(&'a self, _about: Attributes<'a>, _object: Option<&'a Value>) -> Verdict<'a> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// Warnings that come up while a request is served.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    /// A warning is given once, however often it comes up.
    pub(crate) fn add(&self, warnings: Vec<String>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for warning in warnings {
            if !known.contains(&warning) {
                known.push(warning);
            }
        }
    }

    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Makes an object that was changed on its way to the store one of its kind again: what the kind does not know goes,
/// defaults come.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn reread(resource: &Resource, kind: &GroupVersionKind, object: &mut Value) -> Result<(), String> {
    match *kind == resource.gvk() {
        true => body::read_changed(resource, object),
        false => fits::fit(Node::of_kind(builtin::types(), kind), object, &kind.kind).map(drop),
    }
}

/// A write that others have a say in.
struct Write<'a> {
    call: Call<'a>,
    operation: Operation,
    kind: GroupVersionKind,
    old: Option<&'a Value>,
    options: Value,
    dry_run: bool,
}

impl<'a> Write<'a> {
    /// One that creates, or replaces `old`.
    fn new(call: Call<'a>, old: Option<&'a Value>, dry_run: bool) -> Self {
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        let options = options::of_write(&call.request.query, operation);
        Write { call, operation, kind: kind(call), old, options, dry_run }
    }

    fn deletion(call: Call<'a>, old: &'a Value, options: &DeleteOptions) -> Self {
        let (kind, dry_run) = (kind(call), options.dry_run);
        let options = options::of_deletion(options);
        Write { call, operation: Operation::Delete, kind, old: Some(old), options, dry_run }
    }

    /// What it is about, with the name that a new object has.
    fn about<'b>(&'b self, new_name: &'b str) -> Attributes<'b> {
        let own = self.call.name();
        Attributes {
            operation: self.operation,
            resource: self.call.resource,
            kind: &self.kind,
            subresource: self.call.subresource(),
            namespace: self.call.namespace(),
            name: if own.is_empty() { new_name } else { own },
            user: &self.call.request.user,
            old: self.old,
            options: &self.options,
            dry_run: self.dry_run,
        }
    }
}

/// What kind the bodies of a request are of.
fn kind(call: Call<'_>) -> GroupVersionKind {
    let part = call.resource.subresource(call.subresource());
    part.map_or_else(|| call.resource.gvk(), |part| part.kind.clone())
}

/// Managed fields that nobody can read any more are those from before.
fn keep_owners(call: Call<'_>, object: &mut Value, before: Value) {
    if let Err(why) = Managers::decode(&object["metadata"]["managedFields"]) {
        object["metadata"]["managedFields"] = before;
        call.warnings.add(vec![format!(
            ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: {why}"
        )]);
    }
}

impl Server {
    /// Whether nobody has a say in anything.
    pub(super) fn asks_nobody(&self, call: Call<'_>) -> bool {
        self.admission.is_empty() && (call.alone || self.hooks.hooks().is_empty())
    }

    /// Those outside who are asked about a write.
    fn outside<'a>(&'a self, write: &'a Write<'a>, name: &'a str) -> Option<Asking<'a>> {
        let hooks = self.hooks.hooks();
        if write.call.alone || hooks.is_empty() {
            return None;
        }
        let (about, warnings, notes) = (write.about(name), write.call.warnings, &write.call.request.notes);
        let (registry, view) = (self.registry(), self.store.view());
        Some(Asking::new(about, hooks, &self.conversion, registry, view, warnings, notes))
    }

    /// Lets an object be changed that is created, or replaces `old`.
    pub(super) async fn admit_change(
        &self,
        call: Call<'_>,
        object: &mut Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Result<(), Status> {
        if self.asks_nobody(call) {
            return Ok(());
        }
        let write = Write::new(call, old, dry_run);
        if write.kind != call.resource.gvk() {
            // The bodies of subresources need not say what they are.
            object["apiVersion"] = json!(write.kind.group_version().to_string());
            object["kind"] = json!(write.kind.kind);
        }
        let owners = object["metadata"]["managedFields"].clone();
        let mut rounds = Reinvocation::default();
        loop {
            self.change_inside(&write, object).await?;
            let name = meta::text(object, "name").to_owned();
            if let Some(outside) = self.outside(&write, &name) {
                // Boxed, as below: it is large, and most writes are nobody else's business.
                Box::pin(outside.mutate(Some(object), &mut rounds)).await?;
            }
            if !rounds.goes_on() {
                break;
            }
        }
        keep_owners(call, object, owners);
        Ok(())
    }

    async fn change_inside(&self, write: &Write<'_>, object: &mut Value) -> Result<(), Status> {
        if self.admission.is_empty() {
            return Ok(());
        }
        let before = object.clone();
        for admission in &self.admission {
            let name = meta::text(object, "name").to_owned();
            write.call.warnings.add(admission.mutate(write.about(&name), object).await?);
        }
        match *object == before {
            true => Ok(()),
            false => reread(write.call.resource, &write.kind, object).map_err(Status::internal),
        }
    }

    /// Asks whether an object may be created, or replace `old`.
    pub(super) async fn admit(
        &self,
        call: Call<'_>,
        object: &Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Result<(), Status> {
        if self.asks_nobody(call) {
            return Ok(());
        }
        self.judge(&Write::new(call, old, dry_run), Some(object)).await
    }

    async fn judge(&self, write: &Write<'_>, object: Option<&Value>) -> Result<(), Status> {
        let name = object.map(|object| meta::text(object, "name")).unwrap_or_default();
        for admission in &self.admission {
            write.call.warnings.add(admission.validate(write.about(name), object).await?);
        }
        match self.outside(write, name) {
            Some(outside) => Box::pin(outside.validate(object)).await,
            None => Ok(()),
        }
    }

    /// Asks whether an object may be deleted. One that goes because it is evicted was asked about before.
    pub(super) async fn admit_deletion(
        &self,
        call: Call<'_>,
        old: &Value,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        if self.asks_nobody(call) || !call.subresource().is_empty() {
            return Ok(());
        }
        let write = Write::deletion(call, old, options);
        if let Some(outside) = self.outside(&write, "") {
            Box::pin(outside.mutate(None, &mut Reinvocation::default())).await?;
        }
        self.judge(&write, None).await
    }

    /// To be called after a write.
    pub(super) fn refresh_hooks(&self, written: &Resource) {
        if written.group == crate::admission::GROUP {
            self.hooks.refresh(&*self.store);
        }
    }
}
