//! Sets of objects that were found to be as they should.
//!
//! Controllers look at a set whenever anything near it changes, and almost always it is as it was. Comparing documents field by field costs
//! far more than to see that nothing in them is new.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::provisioning::Object as Document;
use ::provisioning::graph::applied::Owner;
use ::provisioning::graph::difference::{Change, Conflict, Existing, difference};
use api::capi::v1beta2::ContractVersionedObjectReference;
use kit::{Key, Object};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::objects::document;

/// A digest of what is wanted and of what is there.
type Mark = [u8; 32];

/// The sets that were as they should, each with what it was then.
#[derive(Debug, Default)]
pub(crate) struct Settled(Mutex<BTreeMap<(&'static str, Key), Mark>>);

impl Settled {
    /// As [`difference`]: none if there were none before, and nothing has changed since.
    ///
    /// # Errors
    /// If an object of that name belongs to another set.
    pub(crate) fn steps(
        &self,
        owner: &Owner,
        wanted: &[Document],
        there: &[Arc<Object>],
        referred: &BTreeSet<ContractVersionedObjectReference>,
    ) -> Result<Vec<Change>, Conflict> {
        let set = (owner.set, Key::new(&owner.object.namespace, &owner.object.name));
        let mark = mark(wanted, there, referred);
        if self.lock().get(&set) == Some(&mark) {
            return Ok(Vec::new());
        }
        let objects: Vec<Document> = there.iter().map(|object| document(object)).collect();
        let steps = difference(owner, wanted, Existing { objects: &objects, referred })?;
        if steps.is_empty() {
            self.lock().insert(set, mark);
        }
        Ok(steps)
    }

    /// The owner of a set is gone.
    pub(crate) fn forget(&self, set: &'static str, owner: &Key) {
        self.lock().remove(&(set, owner.clone()));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(&'static str, Key), Mark>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn mark(
    wanted: &[Document],
    there: &[Arc<Object>],
    referred: &BTreeSet<ContractVersionedObjectReference>,
) -> Mark {
    let mut digest = Sha256::new();
    // Lengths keep what is wanted apart from what is there.
    digest.update(json!([wanted.len(), there.len(), referred]).to_string());
    for object in wanted {
        digest.update(object.document().to_string());
    }
    for object in there {
        digest.update(state(object).to_string());
    }
    digest.finalize().into()
}

/// What of an object a set may say something of: all but the status of those whose spec has a number of its own.
fn state(object: &Object) -> Value {
    let meta = object.meta();
    let Some(generation) = meta.generation else { return json!([object.uid(), object.version()]) };
    let (labels, annotations) = (&meta.labels, &meta.annotations);
    let (owners, finalizers) = (&meta.owner_references, &meta.finalizers);
    json!([object.uid(), generation, labels, annotations, owners, finalizers, object.deleting()])
}

#[cfg(test)]
mod tests {
    use ::provisioning::graph::applied::CLUSTER_SET;
    use ::provisioning::object::Id;

    use super::*;

    fn owner() -> Owner {
        let (api_version, kind) = ("provisioning.cattle.io/v1".into(), "Cluster".into());
        let object = Id { api_version, kind, namespace: "fleet-default".into(), name: "prod".into() };
        Owner { set: CLUSTER_SET, object }
    }

    fn wanted(size: u32) -> Vec<Document> {
        let metadata = json!({"name": "a", "namespace": "fleet-default"});
        let object = json!({"apiVersion": "v1", "kind": "A", "metadata": metadata, "spec": {"size": size}});
        vec![Document::from_document(object)]
    }

    /// As the API has it after `steps`.
    fn made(steps: &[Change], edit: impl Fn(&mut Value)) -> Vec<Arc<Object>> {
        let [Change::Create(object)] = steps else { panic!("{steps:?}") };
        let mut document = object.document().clone();
        document["metadata"]["uid"] = "1".into();
        document["metadata"]["generation"] = 1.into();
        document["metadata"]["resourceVersion"] = "7".into();
        edit(&mut document);
        vec![Arc::new(Object::from_document(document).unwrap())]
    }

    #[test]
    fn what_is_new_is_compared_again() {
        let (settled, none) = (Settled::default(), BTreeSet::new());
        let steps = |wanted: &[Document], there: &[Arc<Object>]| {
            settled.steps(&owner(), wanted, there, &none).unwrap()
        };
        let created = steps(&wanted(1), &[]);
        let there = made(&created, |_| {});
        assert!(steps(&wanted(1), &there).is_empty() && settled.lock().len() == 1);
        assert!(matches!(&steps(&wanted(2), &there)[..], [Change::Update { .. }]), "other wishes");
        let said = made(&created, |document| {
            document["status"] = json!({"ready": true});
            document["metadata"]["resourceVersion"] = "8".into();
        });
        assert_eq!(mark(&wanted(1), &said, &none), mark(&wanted(1), &there, &none), "the status is others'");
        let resized = made(&created, |document| {
            document["spec"]["size"] = 3.into();
            document["metadata"]["generation"] = 2.into();
        });
        assert!(matches!(&steps(&wanted(1), &resized)[..], [Change::Update { .. }]), "somebody changed it");
        let stripped = made(&created, |document| document["metadata"]["annotations"] = json!({}));
        assert!(
            matches!(&steps(&wanted(1), &stripped)[..], [Change::Update { .. }]),
            "its mark was taken away"
        );
        assert!(matches!(&steps(&wanted(1), &[])[..], [Change::Create(_)]), "it is gone");
        settled.forget(CLUSTER_SET, &Key::new("fleet-default", "prod"));
        assert!(settled.lock().is_empty());
    }

    #[test]
    fn objects_without_a_generation_are_told_by_their_version() {
        let none = BTreeSet::new();
        let with = |version: &str| {
            let metadata = json!({"name": "a", "uid": "1", "resourceVersion": version});
            let secret = json!({"kind": "Secret", "metadata": metadata});
            mark(&[], &[Arc::new(Object::from_document(secret).unwrap())], &none)
        };
        assert!(with("1") == with("1") && with("1") != with("2"));
    }
}
