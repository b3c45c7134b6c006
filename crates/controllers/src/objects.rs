//! Objects of any kind as documents: found, made, changed, deleted. What is to be done was decided elsewhere.

use std::sync::Arc;
use std::time::Duration;

use api::overlay;
use kit::write::{Writer, code};
use kit::{Cache, Caches, Change, Key, KindId, Object, Turn, index};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use provisioning::graph::difference;
use provisioning::object::{self as documents, Id};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// How long the first look at a kind waits until its objects are known.
const SYNC_WITHIN: Duration = Duration::from_secs(20);

/// Kinds of Kubernetes' own that have no CRD: group, version, kind, plural, whether they have namespaces.
const BUILT_IN: [(&str, &str, &str, &str, bool); 5] = [
    ("", "v1", "Secret", "secrets", true),
    ("", "v1", "ServiceAccount", "serviceaccounts", true),
    ("", "v1", "Namespace", "namespaces", false),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles", true),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", true),
];

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A write failed.
    #[error(transparent)]
    Write(#[from] kit::write::Error),
    /// The API does not know a kind.
    #[error("the API does not know kind {kind} of {api_version}: is its CustomResourceDefinition installed?")]
    NoKind {
        /// Group and version.
        api_version: String,
        /// The kind.
        kind: String,
    },
    /// Objects of a kind are not known yet.
    #[error("objects of {kind} are not known yet: {trouble}")]
    NotSynced {
        /// The kind.
        kind: String,
        /// What keeps them from being known.
        trouble: String,
    },
    /// A status was not taken.
    #[error("cannot change the status of {kind} {key}")]
    Status {
        /// The kind.
        kind: String,
        /// Which one.
        key: Key,
        /// The answer.
        #[source]
        answer: Box<kube::Error>,
    },
    /// A status cannot be written as a document.
    #[error("the status of {kind} {key} cannot be written")]
    Shape {
        /// The kind.
        kind: String,
        /// Which one.
        key: Key,
        /// What does not fit.
        #[source]
        problem: serde_json::Error,
    },
}

impl Error {
    /// Whether somebody else was faster: what was decided is out of date, and nothing is wrong.
    pub(crate) fn is_conflict(&self) -> bool {
        let found = match self {
            Error::Write(error) => error.code(),
            Error::Status { answer, .. } => code(answer),
            _ => None,
        };
        found == Some(409)
    }
}

/// Takes from a cached object what nobody reads.
pub(crate) fn trim(document: &mut Value) {
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// What is known, and a hand to change it under one name.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    caches: Caches,
    writer: Writer,
    manager: &'static str,
    definitions: Arc<Cache>,
}

impl Objects {
    /// `manager` is the name that stands in objects' managed fields.
    pub(crate) fn new(caches: &Caches, manager: &'static str) -> Self {
        Objects {
            caches: caches.clone(),
            writer: Writer::new(caches.clone(), manager),
            manager,
            definitions: caches.of_cluster(&index::definitions(), index::trim_definition),
        }
    }

    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }

    pub(crate) fn definitions(&self) -> &Arc<Cache> {
        &self.definitions
    }

    /// The cache of a kind with namespaces that is always there.
    pub(crate) fn of<K: api::Kind>(&self) -> Arc<Cache> {
        match K::SCOPE {
            api::Scope::Namespaced => self.caches.of(&KindId::of::<K>()),
            api::Scope::Cluster => self.caches.of_cluster(&KindId::of::<K>(), trim),
        }
    }

    /// The cache of a kind of Kubernetes' own.
    pub(crate) fn built_in(&self, kind: &str) -> Arc<Cache> {
        let found = BUILT_IN.iter().find(|one| one.2 == kind);
        let &(group, version, kind, plural, namespaced) = found.unwrap_or(&BUILT_IN[0]);
        self.start(&KindId::new(group, version, kind, plural), namespaced)
    }

    /// The cache of a kind, if the API knows the kind. The version is the one by which providers keep Cluster API's
    /// contract, so that every kind is watched once, else the one that `api_version` names.
    pub(crate) fn find(&self, api_version: &str, kind: &str) -> Option<Arc<Cache>> {
        let group = documents::group(api_version);
        if let Some((_, version, _, plural, namespaced)) =
            BUILT_IN.iter().find(|one| one.0 == group && one.2 == kind)
        {
            return Some(self.start(&KindId::new(group, version, kind, plural), *namespaced));
        }
        let definition = self.definitions.filed(&index::kind(group, kind)).into_iter().next()?;
        let spec = &definition.document()["spec"];
        let labels = definition.meta().labels.clone().unwrap_or_default();
        let by_contract = api::contract::version(&labels).ok().map(|(_, version)| version.to_owned());
        let named = api_version.rsplit_once('/').map(|(_, version)| version.to_owned());
        let version = by_contract.or(named.filter(|version| !version.is_empty()))?;
        let plural = spec["names"]["plural"].as_str()?;
        Some(self.start(&KindId::new(group, &version, kind, plural), spec["scope"] != "Cluster"))
    }

    /// As [`Objects::find`], and everything of that kind is known.
    pub(crate) async fn known(&self, api_version: &str, kind: &str) -> Result<Arc<Cache>, Error> {
        let cache = self.find(api_version, kind).ok_or_else(|| Error::NoKind {
            api_version: api_version.trim_end_matches('/').into(),
            kind: kind.into(),
        })?;
        synced(&cache).await?;
        Ok(cache)
    }

    fn start(&self, kind: &KindId, namespaced: bool) -> Arc<Cache> {
        match namespaced {
            true => self.caches.of(kind),
            false => self.caches.of_cluster(kind, trim),
        }
    }

    /// Does one step of a difference.
    pub(crate) async fn apply(&self, turn: &Turn, change: &difference::Change) -> Result<(), Error> {
        let id = change.id();
        let cache = self.known(&id.api_version, &id.kind).await?;
        let key = Key::new(&id.namespace, &id.name);
        match change {
            difference::Change::Create(object) => {
                self.writer.create(turn, &cache, object.document().clone()).await?;
            }
            difference::Change::Update { patch, .. } => {
                self.writer.patch(turn, &cache, &key, patch.clone()).await?;
            }
            difference::Change::Delete(_) => {
                if let Some(found) = cache.get(&key) {
                    self.writer.delete(turn, &cache, &found).await?;
                }
            }
        }
        Ok(())
    }

    /// Makes an object unless it is there.
    pub(crate) async fn create(&self, turn: &Turn, object: &provisioning::Object) -> Result<(), Error> {
        let id = object.id();
        let cache = self.known(&id.api_version, &id.kind).await?;
        match self.writer.create(turn, &cache, object.document().clone()).await {
            Err(error) if error.code() == Some(409) => Ok(()),
            other => Ok(other.map(drop)?),
        }
    }

    /// Changes an object by a merge patch.
    pub(crate) async fn patch(&self, turn: &Turn, id: &Id, patch: Value) -> Result<(), Error> {
        let cache = self.known(&id.api_version, &id.kind).await?;
        Ok(self.writer.patch(turn, &cache, &Key::new(&id.namespace, &id.name), patch).await?)
    }

    /// Deletes an object, if it is there.
    pub(crate) async fn delete(&self, turn: &Turn, id: &Id) -> Result<(), Error> {
        self.apply(turn, &difference::Change::Delete(id.clone())).await
    }

    /// Writes a status as a whole, if it changed: fields that the type does not know stay. It is not written over what
    /// somebody else wrote meanwhile: that is a conflict, and the next look starts from what is there.
    pub(crate) async fn set_status<T>(
        &self,
        turn: &Turn,
        cache: &Arc<Cache>,
        object: &Object,
        status: &T,
    ) -> Result<(), Error>
    where
        T: Serialize + DeserializeOwned + Default,
    {
        let (kind, key) = (cache.kind(), object.key());
        let shape = |problem| Error::Shape { kind: kind.kind.clone(), key: key.clone(), problem };
        let found = match &object.document()["status"] {
            Value::Null => json!({}),
            found => found.clone(),
        };
        let before = T::deserialize(&found).map_err(shape)?;
        let before = serde_json::to_value(before).map_err(shape)?;
        let after = serde_json::to_value(status).map_err(shape)?;
        let wanted = overlay::carry(&found, &before, &after, overlay::Removal::OfWhatIsKnown);
        let Some(patch) = overlay::merge_patch(&found, &wanted) else { return Ok(()) };
        let body = json!({"metadata": {"resourceVersion": object.meta().resource_version}, "status": patch});
        let client = self.caches.client().clone();
        let api: Api<DynamicObject> = match key.namespace.as_str() {
            "" => Api::all_with(client, &kind.resource()),
            namespace => Api::namespaced_with(client, namespace, &kind.resource()),
        };
        let options = PatchParams { field_manager: Some(self.manager.into()), ..PatchParams::default() };
        match api.patch_status(&key.name, &options, &Patch::Merge(body)).await {
            Ok(written) => {
                let revision = written.metadata.resource_version.as_deref().unwrap_or_default();
                turn.expect(cache.expect_revision(revision.parse().unwrap_or_default()));
                Ok(())
            }
            Err(answer) if code(&answer) == Some(404) => Ok(()),
            Err(answer) => Err(Error::Status { kind: kind.kind.clone(), key, answer: Box::new(answer) }),
        }
    }
}

/// Waits until everything of a kind is known, for a while.
pub(crate) async fn synced(cache: &Arc<Cache>) -> Result<(), Error> {
    if !cache.synced() && tokio::time::timeout(SYNC_WITHIN, cache.wait_synced()).await.is_err() {
        let trouble = cache.trouble().unwrap_or_else(|| "the server does not answer".into());
        return Err(Error::NotSynced { kind: cache.kind().to_string(), trouble });
    }
    Ok(())
}

/// A cached object as decisions take it.
pub(crate) fn document(object: &Object) -> provisioning::Object {
    provisioning::Object::from_document(object.document().clone())
}

/// Has a listener told of every change of a kind, as long as what it tells lives.
pub(crate) fn listen<C: Send + Sync + 'static>(
    cache: &Arc<Cache>,
    name: &'static str,
    context: &Arc<C>,
    tell: impl Fn(&Arc<C>, &Change) + Send + Sync + 'static,
) {
    let context = Arc::downgrade(context);
    cache.listen(name, || {
        Arc::new(move |change| {
            if let Some(context) = context.upgrade() {
                tell(&context, change);
            }
        })
    });
}
