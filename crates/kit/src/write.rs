//! Writing objects: only what changed, only what is ours, and nothing that nobody needs.

use std::sync::Arc;

use api::Tracked;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::cache::Cache;
use crate::caches::Caches;
use crate::conditions;
use crate::object::{Key, KindId, Object, revision};
use crate::runner::Turn;

/// How often conditions are merged with what somebody else wrote meanwhile, before it is left to the next look.
const TRIES: usize = 5;

/// A write that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused it, or was not reached.
    #[error("cannot {what} {kind} {key}")]
    Refused {
        /// What was to be done.
        what: &'static str,
        /// Kind of the object.
        kind: String,
        /// Which one.
        key: Key,
        /// The answer.
        #[source]
        answer: Box<kube::Error>,
    },
    /// The object cannot be read or written as its type.
    #[error("cannot read or write {kind} {key} as its type")]
    Shape {
        /// Kind of the object.
        kind: String,
        /// Which one.
        key: Key,
        /// What does not fit.
        #[source]
        problem: serde_json::Error,
    },
}

impl Error {
    /// The HTTP status of the answer.
    pub fn code(&self) -> Option<u16> {
        match self {
            Error::Refused { answer, .. } => code(answer),
            Error::Shape { .. } => None,
        }
    }

    /// Whether nothing can be made any more where it was to be: the namespace is being deleted.
    pub fn namespace_goes(&self) -> bool {
        let Error::Refused { answer, .. } = self else { return false };
        let kube::Error::Api(status) = &**answer else { return false };
        let details = status.details.as_ref();
        details
            .is_some_and(|details| details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating"))
    }

    /// The server's words.
    pub fn words(&self) -> String {
        match self {
            Error::Refused { answer, .. } => match &**answer {
                kube::Error::Api(status) => status.message.clone(),
                other => other.to_string(),
            },
            Error::Shape { problem, .. } => problem.to_string(),
        }
    }
}

/// The HTTP status of a client's error.
pub fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// Writes, and tells the turn what to expect of the caches.
#[derive(Clone, Debug)]
pub struct Writer {
    caches: Caches,
    manager: &'static str,
}

/// An object that is being changed.
#[derive(Debug)]
pub struct Edit<T> {
    cache: Arc<Cache>,
    key: Key,
    revision: String,
    tracked: Tracked<T>,
    before: Vec<Condition>,
}

impl<T> std::ops::Deref for Edit<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.tracked
    }
}

impl<T> std::ops::DerefMut for Edit<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.tracked
    }
}

impl<T: Serialize + DeserializeOwned> Edit<T> {
    /// Begins to change an object of a cache.
    ///
    /// # Errors
    /// If it is not a `T`.
    pub fn begin(cache: &Arc<Cache>, object: &Object) -> Result<Self, Error> {
        let mut document = object.document().clone();
        if let Some(metadata) = document["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        let shape = |problem| Error::Shape { kind: cache.kind().kind.clone(), key: object.key(), problem };
        Ok(Edit {
            cache: cache.clone(),
            key: object.key(),
            revision: object.meta().resource_version.clone().unwrap_or_default(),
            before: listed(&document),
            tracked: Tracked::from_document(document).map_err(shape)?,
        })
    }

    fn shape(&self, problem: serde_json::Error) -> Error {
        Error::Shape { kind: self.cache.kind().kind.clone(), key: self.key.clone(), problem }
    }
}

fn listed(document: &Value) -> Vec<Condition> {
    let conditions = document.pointer("/status/conditions").cloned().unwrap_or_default();
    serde_json::from_value(conditions).unwrap_or_default()
}

impl Writer {
    /// A writer under a name that stands in objects' managed fields.
    pub fn new(caches: Caches, manager: &'static str) -> Self {
        Writer { caches, manager }
    }

    /// The same under another name.
    pub fn named(&self, manager: &'static str) -> Self {
        Writer { caches: self.caches.clone(), manager }
    }

    fn client(&self) -> Client {
        self.caches.client().clone()
    }

    fn api(&self, kind: &KindId, namespace: &str) -> Api<DynamicObject> {
        match namespace {
            "" => Api::all_with(self.client(), &kind.resource()),
            namespace => Api::namespaced_with(self.client(), namespace, &kind.resource()),
        }
    }

    /// Creates an object; gives it as it was stored.
    ///
    /// # Errors
    /// If the server refuses it.
    pub async fn create(
        &self,
        turn: &Turn,
        cache: &Arc<Cache>,
        mut document: Value,
    ) -> Result<Object, Error> {
        let kind = cache.kind();
        document["apiVersion"] = kind.api_version().into();
        document["kind"] = kind.kind.clone().into();
        let object = Object::from_document(document.clone());
        let key = object.as_ref().map_or_else(|_| Key::new("", ""), Object::key);
        let shape = |problem| Error::Shape { kind: kind.kind.clone(), key: key.clone(), problem };
        let object = serde_json::from_value(document).map_err(shape)?;
        let options = PostParams { field_manager: Some(self.manager.into()), ..PostParams::default() };
        let answer = self.api(kind, &key.namespace).create(&options, &object).await;
        let created = answer.map_err(|answer| refused("create", kind, &key, answer))?;
        turn.expect(cache.expect_revision(revision(&created.metadata)));
        let document = serde_json::to_value(created).map_err(shape)?;
        Object::from_document(document).map_err(shape)
    }

    /// Writes what was changed: metadata and spec, then status. Nothing is sent if nothing was changed.
    ///
    /// # Guarantees
    /// - Conditions of `owned` types become what was set; of other types only those that were changed. Whatever else
    ///   somebody wrote meanwhile stays.
    /// - Lists that several writers share (finalizers, owner references) are only written if nobody has written
    ///   since: else this is an error and the next look starts from what is there.
    ///
    /// # Errors
    /// If the server refuses it. An object that is gone is no error.
    pub async fn apply<T>(&self, turn: &Turn, mut edit: Edit<T>, owned: &[&str]) -> Result<(), Error>
    where
        T: Serialize + DeserializeOwned,
    {
        let patch = edit.tracked.merge_patch().map_err(|problem| edit.shape(problem))?;
        let Some(Value::Object(mut patch)) = patch else { return Ok(()) };
        let status = patch.remove("status");
        if !patch.is_empty() && !self.apply_main(turn, &mut edit, patch).await? {
            return Ok(());
        }
        match status {
            Some(status) => self.apply_status(turn, &edit, status, owned).await,
            None => Ok(()),
        }
    }

    /// Writes only what was changed of metadata and spec. Gives whether anything was: the status is then left to the next
    /// look, which sees what others made of it meanwhile, and one write tells all.
    ///
    /// # Errors
    /// As [`Writer::apply`].
    pub async fn apply_without_status<T>(&self, turn: &Turn, edit: &mut Edit<T>) -> Result<bool, Error>
    where
        T: Serialize + DeserializeOwned,
    {
        let patch = edit.tracked.merge_patch().map_err(|problem| edit.shape(problem))?;
        let Some(Value::Object(mut patch)) = patch else { return Ok(false) };
        patch.remove("status");
        if patch.is_empty() {
            return Ok(false);
        }
        self.apply_main(turn, edit, patch).await?;
        Ok(true)
    }

    /// Gives whether the object is still there.
    async fn apply_main<T>(
        &self,
        turn: &Turn,
        edit: &mut Edit<T>,
        mut patch: Map<String, Value>,
    ) -> Result<bool, Error> {
        let shared = |metadata: &Value| {
            metadata.get("finalizers").is_some() || metadata.get("ownerReferences").is_some()
        };
        if patch.get("metadata").is_some_and(shared) {
            patch["metadata"]["resourceVersion"] = edit.revision.clone().into();
        }
        let kind = edit.cache.kind();
        let api = self.api(kind, &edit.key.namespace);
        match api.patch(&edit.key.name, &self.options(), &Patch::Merge(Value::Object(patch))).await {
            Err(answer) if code(&answer) == Some(404) => Ok(false),
            Err(answer) => Err(refused("change", kind, &edit.key, answer)),
            Ok(written) => {
                turn.expect(edit.cache.expect_revision(revision(&written.metadata)));
                let finalizers = written.metadata.finalizers.as_deref().unwrap_or_default();
                let gone = written.metadata.deletion_timestamp.is_some() && finalizers.is_empty();
                // What was changed without a lock must not hide what somebody else wrote to the status.
                if listed(&serde_json::to_value(&written).unwrap_or_default()) == edit.before {
                    edit.revision = written.metadata.resource_version.unwrap_or_default();
                }
                Ok(!gone)
            }
        }
    }

    async fn apply_status<T>(
        &self,
        turn: &Turn,
        edit: &Edit<T>,
        mut status: Value,
        owned: &[&str],
    ) -> Result<(), Error>
    where
        T: Serialize + DeserializeOwned,
    {
        let kind = edit.cache.kind();
        let api = self.api(kind, &edit.key.namespace);
        let after = listed(&edit.tracked.document().map_err(|problem| edit.shape(problem))?);
        let mut lock = status.get("conditions").is_some().then(|| edit.revision.clone());
        for _ in 0..TRIES {
            let body = match &lock {
                Some(revision) => json!({"metadata": {"resourceVersion": revision}, "status": status}),
                None => json!({"status": status}),
            };
            match api.patch_status(&edit.key.name, &self.options(), &Patch::Merge(body)).await {
                Ok(written) => {
                    turn.expect(edit.cache.expect_revision(revision(&written.metadata)));
                    return Ok(());
                }
                Err(answer) if code(&answer) == Some(404) => return Ok(()),
                Err(answer) if code(&answer) == Some(409) => {
                    let live = api.get_opt(&edit.key.name).await;
                    let Some(live) = live.map_err(|answer| refused("read", kind, &edit.key, answer))? else {
                        return Ok(());
                    };
                    lock = live.metadata.resource_version.clone();
                    let theirs = listed(&serde_json::to_value(&live).map_err(|problem| edit.shape(problem))?);
                    let merged = conditions::merge(&theirs, &edit.before, &after, owned);
                    status["conditions"] =
                        serde_json::to_value(merged).map_err(|problem| edit.shape(problem))?;
                }
                Err(answer) => return Err(refused("change the status of", kind, &edit.key, answer)),
            }
        }
        let conflict =
            kube::core::Status::failure("somebody else writes all the time", "Conflict").with_code(409);
        Err(refused("change the status of", kind, &edit.key, kube::Error::Api(Box::new(conflict))))
    }

    /// Changes an object by a merge patch that was made by hand.
    ///
    /// # Errors
    /// If the server refuses it. An object that is gone is no error.
    pub async fn patch(&self, turn: &Turn, cache: &Arc<Cache>, key: &Key, patch: Value) -> Result<(), Error> {
        let api = self.api(cache.kind(), &key.namespace);
        match api.patch(&key.name, &self.options(), &Patch::Merge(patch)).await {
            Ok(written) => {
                turn.expect(cache.expect_revision(revision(&written.metadata)));
                Ok(())
            }
            Err(answer) if code(&answer) == Some(404) => Ok(()),
            Err(answer) => Err(refused("change", cache.kind(), key, answer)),
        }
    }

    /// Deletes this very object, not another one of its name. One that is gone is no error.
    ///
    /// # Errors
    /// If the server refuses it.
    pub async fn delete(&self, turn: &Turn, cache: &Arc<Cache>, object: &Object) -> Result<(), Error> {
        let key = object.key();
        let uid = Some(object.uid().to_owned());
        let preconditions = Some(Preconditions { uid, resource_version: None });
        let options = DeleteParams { preconditions, ..DeleteParams::background() };
        match self.api(cache.kind(), &key.namespace).delete(&key.name, &options).await {
            Err(answer) if !matches!(code(&answer), Some(404 | 409)) => {
                Err(refused("delete", cache.kind(), &key, answer))
            }
            _ => {
                turn.expect(cache.expect_deletion(key, object.uid()));
                Ok(())
            }
        }
    }

    fn options(&self) -> PatchParams {
        PatchParams { field_manager: Some(self.manager.into()), ..PatchParams::default() }
    }
}

fn refused(what: &'static str, kind: &KindId, key: &Key, answer: kube::Error) -> Error {
    Error::Refused { what, kind: kind.kind.clone(), key: key.clone(), answer: Box::new(answer) }
}
