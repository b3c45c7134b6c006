//! Between stored bytes and the objects that clients see.

use bytes::Bytes;
use jiff::Timestamp;
use kubeapi::Status;
use serde_json::{Value, json};

use super::{failure, raw};
use crate::convert::Conversion;
use crate::registry::{Custom, Resource};
use crate::store::{Revision, Stored};

impl Conversion {
    /// A stored object in the resource's version, as clients see it.
    pub(super) async fn decode(&self, resource: &Resource, stored: &Stored) -> Result<Value, Status> {
        let decoded = self.decode_all(resource, [(stored, stored.modified)]).await?;
        decoded.into_iter().next().ok_or_else(|| Status::internal("a conversion lost an object"))
    }

    /// Stored objects in the resource's version, each with a `resourceVersion`. What has to be converted is converted
    /// in one go.
    pub(crate) async fn decode_all(
        &self,
        resource: &Resource,
        stored: impl IntoIterator<Item = (&Stored, Revision)>,
    ) -> Result<Vec<Value>, Status> {
        let (mut objects, mut revisions) = (Vec::new(), Vec::new());
        for (stored, revision) in stored {
            objects.push(parse(resource, stored)?);
            revisions.push(revision);
        }
        let version = resource.group_version().to_string();
        if objects.iter().any(|object| object["apiVersion"] != version) {
            objects = self.in_version(resource, objects, &version).await?;
        }
        for (object, revision) in objects.iter_mut().zip(revisions) {
            set_version(object, Some(revision));
        }
        Ok(objects)
    }

    /// An object as it is stored: in the storage version, without what the store itself knows.
    pub(super) async fn encode(&self, resource: &Resource, object: &Value) -> Result<Bytes, Status> {
        let storage = resource.storage();
        if storage == resource.group_version() {
            return raw::to_bytes(object).map_err(Status::internal);
        }
        let mut object = object.clone();
        set_version(&mut object, None);
        let converted = self.in_version(resource, vec![object], &storage.to_string()).await?;
        let mut object = converted.into_iter().next().unwrap_or_default();
        if let Some(custom) = resource.as_custom() {
            // So that all that is stored is what its schema says, and need not be looked at again when it is read.
            fill(custom, &mut object);
        }
        raw::to_bytes(&object).map_err(Status::internal)
    }

    /// What a client sees of an object that has just been stored as `bytes`: another version may not show all of it.
    pub(super) async fn stored_as(
        &self,
        resource: &Resource,
        object: &Value,
        bytes: &Bytes,
    ) -> Result<Value, Status> {
        if resource.storage() == resource.group_version() {
            return Ok(object.clone());
        }
        let stored = serde_json::from_slice(bytes).map_err(Status::internal)?;
        let version = resource.group_version().to_string();
        let mut seen = self.in_version(resource, vec![stored], &version).await?;
        Ok(seen.pop().unwrap_or_default())
    }

    /// Converts, and drops what the version does not know.
    pub(crate) async fn in_version(
        &self,
        resource: &Resource,
        objects: Vec<Value>,
        version: &str,
    ) -> Result<Vec<Value>, Status> {
        let mut objects =
            self.convert(resource, objects, version).await.map_err(|why| failure::plain(&why))?;
        if let Some(schema) = resource.as_custom().and_then(|custom| custom.schema_of(version)) {
            objects.iter_mut().for_each(|object| drop(schema.prune(object)));
        }
        Ok(objects)
    }
}

/// What is stored, as its own version's schema has it now.
fn parse(resource: &Resource, stored: &Stored) -> Result<Value, Status> {
    let mut object: Value = serde_json::from_slice(&stored.value())
        .map_err(|error| Status::internal(format!("{} cannot be read: {error}", stored.key)))?;
    if let Some(custom) = resource.as_custom().filter(|custom| !custom.wrote(stored.modified)) {
        // The schema has changed since the object was written, or may have.
        fill(custom, &mut object);
    }
    Ok(object)
}

/// Defaults an object by the schema of its own version, and drops what that does not know.
pub(super) fn fill(custom: &Custom, object: &mut Value) {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    if let Some(schema) = custom.schema_of(version) {
        schema.default(object);
        schema.prune(object);
    }
}

/// Sets or removes `metadata.resourceVersion`.
pub(super) fn set_version(object: &mut Value, revision: Option<Revision>) {
    let Some(metadata) = object["metadata"].as_object_mut() else { return };
    match revision {
        Some(revision) => metadata.insert("resourceVersion".into(), revision.to_string().into()),
        None => metadata.remove("resourceVersion"),
    };
}

/// A time as metadata has it, in whole seconds.
pub(super) fn time(at: Timestamp) -> Value {
    json!(Timestamp::from_second(at.as_second()).unwrap_or(at).to_string())
}
