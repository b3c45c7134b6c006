//! Server-side apply: who owns which fields of an object, and what an applied configuration makes of it.
//!
//! Every write is recorded in `metadata.managedFields`: who wrote owns what it changed. Who *applies* says all it
//! wants to own: what it said before and does not say now goes, unless somebody else owns it, and what others own it
//! may change only by force.

mod check;
mod compare;
mod element;
mod error;
mod fields;
mod managers;
mod merge;
mod ownership;
mod scale;
mod set;
mod types;

use std::pin::Pin;
use std::sync::OnceLock;

use jiff::Timestamp;
use serde_json::{Value, json};

pub use element::{Element, Scalar, display};
pub use error::Error;
pub use managers::{Managers, Operation, Owned, Owner};
pub use ownership::Conflict;
pub use scale::Replicas;
pub use set::Set;
pub use types::Type;

use ownership::Objects;

use crate::{GroupVersionKind, builtin, meta};

/// The annotation in which `kubectl apply` without `--server-side` keeps what it applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The one client whose own annotation is followed.
const KUBECTL: &str = "kubectl";
/// Who owns what was there before anybody's fields were recorded.
const BEFORE: &str = "before-first-apply";
/// Stands for who updates, until it is known whether it changed anything.
const CURRENT: &str = "current-operation";

/// The versions of a resource: their types, and how to get from one to the other.
pub trait Versions: Sync {
    /// The type of objects of a version (`apps/v1`); `None` if there is no such version, or no more.
    fn types(&self, version: &str) -> Option<Type<'_>>;

    /// An object in another version.
    fn convert<'a>(&'a self, object: Value, to: &'a str) -> Converted<'a>;
}

/// What [`Versions::convert`] gives.
pub type Converted<'a> = Pin<Box<dyn Future<Output = Result<Value, String>> + Send + 'a>>;

/// A request as ownership sees it.
#[derive(Clone, Copy)]
pub struct Writer<'a> {
    /// The resource's versions.
    pub versions: &'a dyn Versions,
    /// What objects in the request are.
    pub kind: &'a GroupVersionKind,
    /// What the client calls itself.
    pub manager: &'a str,
    /// The subresource that is written to; empty for the object itself.
    pub subresource: &'a str,
    /// What this request cannot set.
    pub ignored: &'a Set,
    /// Now.
    pub now: Timestamp,
}

/// Fields that nobody owns: they are the server's, or say which object this is.
fn nobodys() -> &'static Set {
    static NOBODYS: OnceLock<Set> = OnceLock::new();
    NOBODYS.get_or_init(|| {
        Set::of_fields([
            "apiVersion",
            "kind",
            "metadata",
            "metadata.name",
            "metadata.namespace",
            "metadata.creationTimestamp",
            "metadata.selfLink",
            "metadata.uid",
            "metadata.clusterName",
            "metadata.generation",
            "metadata.managedFields",
            "metadata.resourceVersion",
        ])
    })
}

impl<'a> Writer<'a> {
    /// One empty entry asks to forget all owners; an empty list does so too, but not for custom resources.
    fn is_reset(&self, entries: &Value, version: &str) -> bool {
        match entries.as_array().map(Vec::as_slice) {
            Some([]) => self.versions.types(version).is_some_and(Type::is_builtin),
            Some([one]) => one.as_object().is_some_and(serde_json::Map::is_empty),
            _ => false,
        }
    }

    fn time(&self) -> Option<String> {
        Some(Timestamp::from_second(self.now.as_second()).unwrap_or(self.now).to_string())
    }

    /// Sets the managed fields of `new`, which is to replace `live`, or to be created if there is none. A client may also set them itself, or reset them.
    ///
    /// # Errors
    /// [`Error::Conversion`]. The caller does better to go on without managed fields than to refuse the write.
    pub async fn update(&self, live: Option<&Value>, new: &mut Value) -> Result<(), Error> {
        let version = self.kind.group_version().to_string();
        let given = take_managed(new);
        let mut before = live.cloned().unwrap_or_else(|| builtin::empty(self.kind));
        let recorded = take_managed(&mut before);
        let stored = || Managers::decode(&recorded).unwrap_or_default();
        let mut managers = match self.subresource.is_empty() {
            true if self.is_reset(&given, &version) => Managers::default(),
            true => {
                Managers::decode(&given).ok().filter(|managers| !managers.0.is_empty()).unwrap_or_else(stored)
            }
            false => stored(),
        };
        // An object that nobody's fields were ever recorded of stays that way until it is applied.
        if managers.0.is_empty() && live.is_some() {
            return Ok(());
        }
        self.record_update(&mut managers, &before, new, self.manager, &version).await?;
        managers.cap();
        set_managed(new, &managers);
        Ok(())
    }

    async fn record_update(
        &self,
        managers: &mut Managers,
        live: &Value,
        new: &Value,
        manager: &str,
        version: &str,
    ) -> Result<(), Error> {
        let current = Owner::of(CURRENT, Operation::Update, "", "");
        self.objects(version).update(managers, live, new, &current).await?;
        // Who has changed nothing keeps what it has, and the time of it.
        let Some(owned) = managers.0.remove(&current) else { return Ok(()) };
        let mut fields = owned.fields.difference(nobodys());
        if fields.is_empty() {
            return Ok(());
        }
        let owner = Owner::of(manager, Operation::Update, version, self.subresource);
        fields.extend(managers.0.remove(&owner).map(|owned| owned.fields).unwrap_or_default());
        let owned = Owned { version: version.into(), fields, time: self.time() };
        managers.0.insert(owner, owned);
        Ok(())
    }

    fn objects<'b>(&self, version: &'b str) -> Objects<'b>
    where
        'a: 'b,
    {
        Objects { versions: self.versions, version, ignored: self.ignored }
    }

    /// The object that an applied configuration makes of `live`, or of nothing, with its managed fields. Defaults are not filled in.
    ///
    /// # Errors
    /// [`Error::Conflicts`] unless `force`; others for a configuration that cannot be applied.
    pub async fn apply(&self, live: Option<&Value>, config: &Value, force: bool) -> Result<Value, Error> {
        self.check_config(config)?;
        let version = self.kind.group_version().to_string();
        let mut before = live.cloned().unwrap_or_else(|| builtin::empty(self.kind));
        let mut managers = Managers::decode(&take_managed(&mut before)).map_err(Error::ManagedFields)?;
        if managers.0.is_empty() && live.is_some() {
            let empty = builtin::empty(self.kind);
            self.record_update(&mut managers, &empty, &before, BEFORE, &version).await?;
        }
        let mut applied = match self.apply_to(managers.clone(), &before, config, &version, force).await {
            // kubectl's own annotation says what it owned before it applied on the server.
            Err(Error::Conflicts(conflicts)) if self.manager == KUBECTL => {
                let allowed =
                    self.last_applied(&before, &version).ok_or(Error::Conflicts(conflicts.clone()))?;
                let left: Vec<Conflict> =
                    conflicts.into_iter().filter(|conflict| !allowed.has(&conflict.path)).collect();
                if !left.is_empty() {
                    return Err(Error::Conflicts(left));
                }
                self.apply_to(managers, &before, config, &version, true).await?
            }
            other => other?,
        };
        if self.manager == KUBECTL && applied["metadata"]["annotations"][LAST_APPLIED].is_string() {
            applied["metadata"]["annotations"][LAST_APPLIED] = json!(as_last_applied(config));
        }
        Ok(applied)
    }

    async fn apply_to(
        &self,
        mut managers: Managers,
        live: &Value,
        config: &Value,
        version: &str,
        force: bool,
    ) -> Result<Value, Error> {
        let owner = Owner::of(self.manager, Operation::Apply, version, self.subresource);
        let mut new = self.objects(version).apply(&mut managers, live, config, &owner, force).await?;
        if let Some(mut owned) = managers.0.remove(&owner) {
            owned.fields = owned.fields.difference(nobodys());
            if new != *live {
                owned.time = self.time();
            }
            if !owned.fields.is_empty() {
                managers.0.insert(owner, owned);
            }
        }
        set_managed(&mut new, &managers);
        Ok(new)
    }

    fn check_config(&self, config: &Value) -> Result<(), Error> {
        if GroupVersionKind::of(config).as_ref() != Some(self.kind) {
            return Err(Error::Request(format!("invalid object type: {}", shown_kind(config))));
        }
        if !config["metadata"]["managedFields"].is_null() {
            return Err(Error::Request("metadata.managedFields must be nil".into()));
        }
        let version = self.kind.group_version().to_string();
        let Some(types) = self.versions.types(&version) else { return Ok(()) };
        check::check(config, types).map_err(|why| {
            let [namespace, name] = ["namespace", "name"].map(|field| meta::text(config, field));
            Error::Config(format!(
                "failed to create typed patch object ({namespace}/{name}; {}): {why}",
                shown_kind(config)
            ))
        })
    }

    /// What kubectl's annotation says it owns: what it applied last and is still so.
    fn last_applied(&self, live: &Value, version: &str) -> Option<Set> {
        let text = live["metadata"]["annotations"][LAST_APPLIED].as_str()?;
        let applied: Value = serde_json::from_str(text).ok()?;
        if applied["apiVersion"] != version {
            return None;
        }
        let types = self.versions.types(version)?;
        let changed = compare::Comparison::of(&applied, live, types);
        let all = fields::of(&applied, types);
        Some(all.difference(&changed.modified).difference(&changed.added).difference(&changed.removed))
    }
}

/// What a configuration says it is, as Go prints it: with the slash, even if there is no group.
fn shown_kind(config: &Value) -> String {
    let text = |field: &str| config[field].as_str().unwrap_or_default();
    let slash = if text("apiVersion").contains('/') { "" } else { "/" };
    format!("{slash}{}, Kind={}", text("apiVersion"), text("kind"))
}

fn take_managed(object: &mut Value) -> Value {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    metadata.and_then(|metadata| metadata.remove("managedFields")).unwrap_or_default()
}

fn set_managed(object: &mut Value, managers: &Managers) {
    match managers.encode() {
        Value::Null => {}
        entries => object["metadata"]["managedFields"] = entries,
    }
}

fn as_last_applied(config: &Value) -> String {
    let mut config = config.clone();
    let annotations = config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    annotations.map(|annotations| annotations.remove(LAST_APPLIED));
    format!("{config}\n")
}
