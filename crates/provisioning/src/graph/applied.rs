//! Which set an object belongs to, and what we last said of it.
//!
//! The annotations are those of Rancher's apply, so that a cluster which Rancher made is recognised, field by field.

use api::catalogue::annotations;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use plan::gzip;
use serde_json::Value;

use crate::Object;
use crate::object::Id;

/// The set of a cluster's objects.
pub const CLUSTER_SET: &str = "rke-cluster";

/// Whose objects they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Name of the set: an owner may have several, and each is pruned by itself.
    pub set: &'static str,
    /// The object that they are made from.
    pub object: Id,
}

/// Whose an existing object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belonging {
    /// Of this very set.
    Ours,
    /// Of nobody's set.
    Nobodys,
    /// Of somebody else's.
    Others,
}

impl Owner {
    /// The object as it is written: with its set, and with what we say of it.
    ///
    /// What an existing one carries stays if it says the same, however it is spelt: `existing` is that object and what was [`last`] said of it.
    pub(super) fn stamp(&self, wanted: &Object, existing: Option<(&Object, Option<&Value>)>) -> Object {
        let mut stamped = wanted.clone();
        for (key, value) in self.marks() {
            stamped.annotate(key, value);
        }
        let said = existing
            .filter(|(_, last)| *last == Some(wanted.document()))
            .and_then(|(object, _)| object.annotation(annotations::OBJECTSET_APPLIED))
            .map_or_else(|| encode(wanted.document()), str::to_owned);
        stamped.annotate(annotations::OBJECTSET_APPLIED, said);
        stamped
    }

    /// Whose an existing object is.
    pub fn belonging(&self, existing: &Object) -> Belonging {
        self.belonging_by(|key| existing.annotation(key))
    }

    /// The same of an object that is not at hand as a document, by its annotations.
    pub fn belonging_by<'a>(&self, annotation: impl Fn(&str) -> Option<&'a str>) -> Belonging {
        let marks = self.marks();
        let found = marks.each_ref().map(|(key, _)| annotation(key).unwrap_or_default());
        match found.iter().all(|value| value.is_empty()) {
            true => Belonging::Nobodys,
            false if found.iter().zip(&marks).all(|(found, (_, mark))| found == mark) => Belonging::Ours,
            false => Belonging::Others,
        }
    }

    fn marks(&self) -> [(&'static str, String); 4] {
        let id = &self.object;
        [
            (annotations::OBJECTSET_ID, self.set.into()),
            (annotations::OBJECTSET_OWNER_GVK, format!("{}, Kind={}", id.api_version, id.kind)),
            (annotations::OBJECTSET_OWNER_NAME, id.name.clone()),
            (annotations::OBJECTSET_OWNER_NAMESPACE, id.namespace.clone()),
        ]
    }
}

/// Whether the annotation belongs to this bookkeeping, and not to what the object is.
pub fn is_mark(key: &str) -> bool {
    key.starts_with("objectset.rio.cattle.io/")
}

/// What was last said of an object; nothing if nobody did, or it is not readable.
pub(super) fn last(existing: &Object) -> Option<Value> {
    let text = existing.annotation(annotations::OBJECTSET_APPLIED)?;
    match text.starts_with('{') {
        true => serde_json::from_str(text).ok(),
        false => {
            let packed = STANDARD_NO_PAD.decode(text.trim_end_matches('=')).ok()?;
            serde_json::from_slice(&gzip::unpack(&packed).ok()?).ok()
        }
    }
}

fn encode(document: &Value) -> String {
    STANDARD_NO_PAD.encode(gzip::pack(document.to_string().as_bytes()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn owner(name: &str) -> Owner {
        let object = Id {
            api_version: "provisioning.cattle.io/v1".into(),
            kind: "Cluster".into(),
            namespace: "fleet-default".into(),
            name: name.into(),
        };
        Owner { set: CLUSTER_SET, object }
    }

    #[test]
    fn a_stamp_tells_whose_and_what() {
        let wanted = Object::from_document(json!({"kind": "A", "metadata": {"name": "a"}, "spec": {"x": 1}}));
        let stamped = owner("prod").stamp(&wanted, None);
        assert_eq!(owner("prod").belonging(&stamped), Belonging::Ours);
        assert_eq!(owner("other").belonging(&stamped), Belonging::Others);
        assert_eq!(owner("prod").belonging(&wanted), Belonging::Nobodys);
        assert_eq!(last(&stamped).as_ref(), Some(wanted.document()));
        assert_eq!(
            stamped.annotation("objectset.rio.cattle.io/owner-gvk"),
            Some("provisioning.cattle.io/v1, Kind=Cluster")
        );
    }

    #[test]
    fn another_spelling_of_the_same_stays() {
        let wanted = Object::from_document(json!({"kind": "A", "metadata": {"name": "a"}}));
        let mut existing = owner("prod").stamp(&wanted, None);
        existing.annotate(annotations::OBJECTSET_APPLIED, wanted.document().to_string());
        assert_eq!(
            owner("prod").stamp(&wanted, Some((&existing, last(&existing).as_ref()))),
            existing,
            "plain JSON, as small objects have it"
        );
    }
}
