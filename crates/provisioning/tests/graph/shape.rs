//! A cluster with everything that its graph is rendered from, read from one file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use api::machine::{CONFIG_GROUP, MachineConfig};
use api::provisioning::v1::Cluster;
use provisioning::Object;
use provisioning::graph::applied::{CLUSTER_SET, Owner};
use provisioning::graph::difference::{Change, Conflict, Existing, after, difference};
use provisioning::graph::{ConfigRef, Facts, Graph, Hold, identity, render};
use serde_json::Value;

#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    pub(crate) cluster: Cluster,
    pub(crate) configs: BTreeMap<ConfigRef, MachineConfig>,
    pub(crate) credentials: BTreeSet<String>,
    /// What the user made: native infrastructure.
    pub(crate) foreign: Vec<Object>,
}

pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/graphs")
}

impl Shape {
    pub(crate) fn read(name: &str) -> Self {
        let path = directory().join(format!("{name}.in.yaml"));
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut shape = Shape::default();
        for document in documents {
            shape.add(document);
        }
        shape
    }

    fn add(&mut self, document: Value) {
        let object = Object::from_document(document.clone());
        let id = object.id();
        match (id.group(), id.kind.as_str()) {
            ("provisioning.cattle.io", "Cluster") => self.cluster = serde_json::from_value(document).unwrap(),
            (CONFIG_GROUP, kind) => {
                let reference = ConfigRef { kind: kind.into(), name: id.name.clone() };
                self.configs.insert(reference, serde_json::from_value(document).unwrap());
            }
            ("", "Secret") => {
                self.credentials.insert(format!("{}:{}", id.namespace, id.name));
            }
            _ => self.foreign.push(object),
        }
    }

    pub(crate) fn render(&self) -> Result<Graph, Hold> {
        self.render_over(&[])
    }

    /// Renders as it is done when these objects exist.
    pub(crate) fn render_over(&self, existing: &[Object]) -> Result<Graph, Hold> {
        let control_plane = existing.iter().find(|object| object.kind() == "RKEControlPlane");
        let encoded = control_plane.and_then(|object| object.annotation("rke.cattle.io/cluster-spec"));
        let status = self.cluster.status.as_ref();
        render(&Facts {
            cluster: &self.cluster,
            id: status.map(|status| status.cluster_name.as_str()).unwrap_or_default(),
            configs: &self.configs,
            credentials: &self.credentials,
            encoded_spec: encoded,
        })
    }

    pub(crate) fn owner(&self) -> Owner {
        Owner { set: CLUSTER_SET, object: identity(&self.cluster) }
    }

    pub(crate) fn changes(&self, existing: &[Object]) -> Result<Vec<Change>, Conflict> {
        let wanted = self.render_over(existing).unwrap().objects;
        difference(&self.owner(), &wanted, Existing { objects: existing, referred: &BTreeSet::new() })
    }

    /// Everything that exists once the graph is applied over `existing`.
    pub(crate) fn apply(&self, existing: &[Object]) -> Vec<Object> {
        let mut all = existing.to_vec();
        for change in self.changes(existing).unwrap() {
            let place = all.iter().position(|object| same(object, &change));
            let found = place.map(|at| all[at].clone());
            match (after(&change, found.as_ref()), place) {
                (Some(object), Some(at)) => all[at] = object,
                (Some(object), None) => all.push(object),
                (None, Some(at)) => drop(all.remove(at)),
                (None, None) => {}
            }
        }
        all
    }
}

fn same(object: &Object, change: &Change) -> bool {
    let (left, right) = (object.id(), change.id());
    (left.group(), &left.kind, &left.name) == (right.group(), &right.kind, &right.name)
}
