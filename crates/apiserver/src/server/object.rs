//! Between stored bytes and the objects that clients see.

use bytes::Bytes;
use kubeapi::Status;
use serde_json::{Value, json};

use crate::registry::Resource;
use crate::store::{Revision, Stored};

/// A stored object in the resource's version, as clients see it.
pub(super) fn decode(resource: &Resource, stored: &Stored) -> Result<Value, Status> {
    decode_at(resource, stored, stored.modified)
}

/// As [`decode`], with another `resourceVersion`: that of the change which removed it.
pub(super) fn decode_at(resource: &Resource, stored: &Stored, revision: Revision) -> Result<Value, Status> {
    let mut object: Value = serde_json::from_slice(&stored.value)
        .map_err(|error| Status::internal(format!("{} cannot be read: {error}", stored.key)))?;
    let version = resource.group_version().to_string();
    if object["apiVersion"] != version.as_str() {
        convert(resource, &mut object, &version)?;
    }
    if let Some(schema) = resource.as_custom().and_then(|custom| custom.schema.as_ref()) {
        // The schema may have changed since the object was written.
        schema.default(&mut object);
        schema.prune(&mut object);
    }
    set_version(&mut object, Some(revision));
    Ok(object)
}

/// An object as it is stored: in the storage version, without what the store itself knows.
pub(super) fn encode(resource: &Resource, object: &Value) -> Result<Bytes, Status> {
    let mut object = object.clone();
    set_version(&mut object, None);
    if resource.storage_version != resource.version {
        let storage = kubeapi::GroupVersion::new(&*resource.group, &*resource.storage_version);
        convert(resource, &mut object, &storage.to_string())?;
    }
    serde_json::to_vec(&object).map(Bytes::from).map_err(Status::internal)
}

/// Between versions that have the same fields only `apiVersion` differs.
fn convert(resource: &Resource, object: &mut Value, version: &str) -> Result<(), Status> {
    if resource.as_custom().is_some_and(|custom| custom.converted_by_webhook) {
        let from = object["apiVersion"].as_str().unwrap_or_default();
        let why = format!("no converter for {} from {from} to {version}", resource.group_kind());
        return Err(Status::internal(why));
    }
    object["apiVersion"] = json!(version);
    Ok(())
}

/// Sets or removes `metadata.resourceVersion`.
pub(super) fn set_version(object: &mut Value, revision: Option<Revision>) {
    let Some(metadata) = object["metadata"].as_object_mut() else { return };
    match revision {
        Some(revision) => metadata.insert("resourceVersion".into(), revision.to_string().into()),
        None => metadata.remove("resourceVersion"),
    };
}
