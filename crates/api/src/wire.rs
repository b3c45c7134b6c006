//! Reading and writing objects so that nothing is lost.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::overlay::{self, Removal};

/// A typed object together with the document it was read from.
///
/// Use it for every object that somebody else also writes: change it through `&mut`, then write
/// [`document`](Tracked::document) or [`merge_patch`](Tracked::merge_patch). Fields that `T` does not know survive.
#[derive(Clone, Debug)]
pub struct Tracked<T> {
    read: Value,
    as_read: Value,
    value: T,
}

impl<T: Serialize + DeserializeOwned> Tracked<T> {
    /// A typed view of `document`.
    ///
    /// # Errors
    /// If a field that `T` knows has a value of the wrong type.
    pub fn from_document(document: Value) -> Result<Self, serde_json::Error> {
        let value = T::deserialize(&document)?;
        Ok(Tracked { as_read: serde_json::to_value(&value)?, read: document, value })
    }

    /// The document as it was read, with the changes made since.
    ///
    /// # Errors
    /// If `T` cannot be written as JSON.
    pub fn document(&self) -> Result<Value, serde_json::Error> {
        Ok(overlay::carry(
            &self.read,
            &self.as_read,
            &serde_json::to_value(&self.value)?,
            Removal::OfWhatIsKnown,
        ))
    }

    /// The JSON merge patch with the changes made since it was read; `None` if there are none.
    ///
    /// # Errors
    /// If `T` cannot be written as JSON.
    pub fn merge_patch(&self) -> Result<Option<Value>, serde_json::Error> {
        Ok(overlay::merge_patch(&self.read, &self.document()?))
    }
}

impl<T> Deref for Tracked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Tracked<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: Serialize + DeserializeOwned> Serialize for Tracked<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.document().map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de, T: Serialize + DeserializeOwned> Deserialize<'de> for Tracked<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Tracked::from_document(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl<T: kube::Resource> kube::Resource for Tracked<T> {
    type DynamicType = T::DynamicType;
    type Scope = T::Scope;

    fn kind(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        T::kind(dynamic)
    }
    fn group(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        T::group(dynamic)
    }
    fn version(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        T::version(dynamic)
    }
    fn plural(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        T::plural(dynamic)
    }
    fn meta(&self) -> &ObjectMeta {
        self.value.meta()
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.value.meta_mut()
    }
}

/// Reads null as the default value: users' manifests spell "not set" as null for fields that are lists, maps or
/// plain values in Go.
pub(crate) fn null_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Whether a value is its type's default: what Go calls empty and leaves out.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Reads a document as a `T` that keeps every field of it.
#[cfg(test)]
#[track_caller]
pub(crate) fn assert_round_trips<T: Serialize + DeserializeOwned>(document: Value) {
    let object = T::deserialize(&document).expect("the document is readable");
    assert_eq!(serde_json::to_value(&object).expect("the object is writable"), document);
}
