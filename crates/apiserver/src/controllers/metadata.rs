//! The part of an object's metadata that controllers look at.

use kubeapi::meta::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use crate::store::Stored;

/// Reads no more of an object than this, for every change of every object is looked at.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    #[serde(deserialize_with = "null_is_default")]
    pub(super) uid: String,
    deletion_timestamp: Option<IgnoredAny>,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) finalizers: Vec<String>,
    #[serde(rename = "ownerReferences", deserialize_with = "null_is_default")]
    pub(super) owners: Vec<OwnerReference>,
}

/// A reference to an object that this one belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct OwnerReference {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
    #[serde(rename = "blockOwnerDeletion", deserialize_with = "null_is_default")]
    pub(super) blocks: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Object {
    metadata: Metadata,
}

impl Metadata {
    /// Of a stored object. One that cannot be read has none: it must not stop what concerns the others.
    pub(super) fn of(stored: &Stored) -> Self {
        match serde_json::from_slice::<Object>(&stored.value()) {
            Ok(object) => object.metadata,
            Err(error) => {
                tracing::error!(key = %stored.key, %error, "a stored object cannot be read");
                Metadata::default()
            }
        }
    }

    pub(super) fn is_being_deleted(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    pub(super) fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|one| one == finalizer)
    }

    /// Whether it is to go after its dependents.
    pub(super) fn waits_for_dependents(&self) -> bool {
        self.is_being_deleted() && self.has_finalizer(FOREGROUND_FINALIZER)
    }

    /// Whether it is to go once its dependents are released.
    pub(super) fn orphans_dependents(&self) -> bool {
        self.is_being_deleted() && self.has_finalizer(ORPHAN_FINALIZER)
    }
}

fn null_is_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    input: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(input)?.unwrap_or_default())
}

#[cfg(test)]
impl Metadata {
    /// For tests: from the JSON of an object's metadata.
    pub(super) fn from_json(metadata: serde_json::Value) -> Self {
        serde_json::from_value(metadata).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_null_is_not_there() {
        let none = Metadata::from_json(json!({
            "uid": null, "finalizers": null, "ownerReferences": null, "deletionTimestamp": null, "labels": {},
        }));
        assert!(!none.is_being_deleted() && none.uid.is_empty() && none.owners.is_empty());
        let some = Metadata::from_json(json!({
            "deletionTimestamp": "t", "finalizers": ["orphan"],
            "ownerReferences": [{"uid": "u", "blockOwnerDeletion": null}],
        }));
        assert!(some.orphans_dependents() && !some.waits_for_dependents() && !some.owners[0].blocks);
    }
}
