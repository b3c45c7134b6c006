//! One file in, all objects out. `UPDATE_GOLDEN=1` writes what comes out.

use std::fmt::Write as _;

use provisioning::management::{self, Images};
use provisioning::{Object, graph};
use serde_json::Value;

use crate::shape::{Shape, directory};

pub(crate) const SHAPES: [&str; 12] = [
    "01-single",
    "02-ha",
    "03-split-roles",
    "04-custom",
    "05-windows",
    "06-vsphere-native",
    "07-aws-native",
    "08-azure-native",
    "09-native-pool",
    "10-mixed",
    "11-operations",
    "12-long-names",
];

const SPEC: &str = "rke.cattle.io/cluster-spec";

/// An object as a reader wants to see it.
fn shown(object: &Object) -> String {
    let mut document = sorted(object.document());
    if let Some(encoded) = object.annotation(SPEC) {
        let spec = graph::decode_cluster_spec(encoded).expect("the recorded spec is readable");
        document["metadata"]["annotations"][SPEC] =
            format!("(the spec, version {}, without operations)", spec.kubernetes_version).into();
        let config = spec.rke_config.expect("there is a configuration");
        assert_eq!(config.etcd_snapshot_create, None);
        assert_eq!(config.etcd_snapshot_restore, None);
        assert_eq!(config.rotate_certificates, None);
        assert_eq!(config.rotate_encryption_keys, None);
    }
    serde_saphyr::to_string(&document).unwrap()
}

/// Keys in the order of the alphabet, whatever the map of this build keeps.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            Value::Object(entries.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

fn all_objects(shape: &Shape) -> String {
    let graph = shape.render().unwrap_or_else(|hold| panic!("{hold:?}"));
    let mut text = String::new();
    for adoption in &graph.adoptions {
        let owner = &adoption.owners[0];
        writeln!(text, "# takes {} for {} {}", adoption.config, owner.kind, owner.name).unwrap();
    }
    let images = Images { agent: "herdsman/cluster-agent:v1", auth: "", registry: "" };
    let management = management::objects(&shape.cluster, "c-m-w2bfx9xq", images);
    for object in management.iter().chain(&graph.objects) {
        write!(text, "---\n{}", shown(object)).unwrap();
    }
    text
}

#[test]
fn shapes_become_their_objects() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    for name in SHAPES {
        let path = directory().join(format!("{name}.out.yaml"));
        let text = all_objects(&Shape::read(name));
        if update {
            std::fs::write(&path, &text).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        let difference = golden.lines().zip(text.lines()).enumerate().find(|(_, (old, new))| old != new);
        assert_eq!(difference, None, "{name}: UPDATE_GOLDEN=1 accepts what is new");
        assert_eq!(golden, text, "{name}: UPDATE_GOLDEN=1 accepts what is new");
    }
}

#[test]
fn every_shape_is_listed() {
    let mut found: Vec<String> = std::fs::read_dir(directory())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".in.yaml").map(str::to_owned))
        .collect();
    found.sort();
    assert_eq!(found, SHAPES);
}

#[test]
fn what_is_applied_is_left_alone() {
    for name in SHAPES {
        let shape = Shape::read(name);
        let existing = shape.apply(&shape.foreign);
        assert_eq!(shape.changes(&existing).unwrap(), [], "{name}: a second pass");
        for object in &shape.foreign {
            assert!(existing.contains(object), "{name}: {} is the user's", object.id());
        }
        let mut gone = shape.clone();
        if let Some(config) = &mut gone.cluster.spec.rke_config {
            config.machine_pools.clear();
        }
        let left = gone.apply(&existing);
        for object in &shape.foreign {
            assert!(left.contains(object), "{name}: {} is the user's", object.id());
        }
        let of_pools = |object: &&Object| object.kind() == "MachineDeployment";
        assert_eq!(left.iter().filter(of_pools).count(), 0, "{name}: pools go");
    }
}
