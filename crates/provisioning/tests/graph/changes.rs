//! The change matrix: what each change of a cluster does to its machines.

use std::collections::BTreeMap;

use api::provisioning::v1::MachinePool;
use api::rke::v1::Userdata;
use provisioning::graph::impact::{Impact, of_pools};
use serde_json::json;

use crate::shape::Shape;

struct Rule {
    what: &'static str,
    shape: &'static str,
    change: fn(&mut Shape),
    /// On the pool that changes, which is the last one.
    impact: Impact,
    /// Objects that are made, changed, deleted: by kind, sorted.
    made: &'static [&'static str],
    changed: &'static [&'static str],
    deleted: &'static [&'static str],
}

fn last(shape: &mut Shape) -> &mut MachinePool {
    shape.cluster.spec.rke_config.as_mut().unwrap().machine_pools.last_mut().unwrap()
}

fn set_field(shape: &mut Shape, field: &str, value: serde_json::Value) {
    let name = last(shape).machine_config_ref.as_ref().unwrap().name.clone().unwrap();
    let config = shape.configs.iter_mut().find(|(reference, _)| reference.name == name).unwrap().1;
    config.fields.insert(field.into(), value);
}

const RULES: &[Rule] = &[
    Rule {
        what: "nothing",
        shape: "02-ha",
        change: |_| {},
        impact: Impact::None,
        made: &[],
        changed: &[],
        deleted: &[],
    },
    Rule {
        what: "a driver's field",
        shape: "02-ha",
        change: |shape| set_field(shape, "instanceType", json!("m6i.2xlarge")),
        impact: Impact::Replace,
        made: &["Amazonec2MachineTemplate"],
        changed: &["MachineDeployment"],
        deleted: &[],
    },
    Rule {
        what: "a driver's field from false to true",
        shape: "02-ha",
        change: |shape| set_field(shape, "monitoring", json!(true)),
        impact: Impact::Replace,
        made: &["Amazonec2MachineTemplate"],
        changed: &["MachineDeployment"],
        deleted: &[],
    },
    Rule {
        what: "an empty field becomes null",
        shape: "02-ha",
        change: |shape| set_field(shape, "tags", json!(null)),
        impact: Impact::None,
        made: &[],
        changed: &["Amazonec2MachineTemplate"],
        deleted: &[],
    },
    Rule {
        what: "a field that the driver has got since the pool was made",
        shape: "02-ha",
        change: |shape| set_field(shape, "enablePrimaryIpv6", json!(false)),
        impact: Impact::None,
        made: &[],
        changed: &[],
        deleted: &[],
    },
    Rule {
        what: "another config with the same fields",
        shape: "02-ha",
        change: |shape| {
            let name = last(shape).machine_config_ref.clone().unwrap().name.unwrap();
            let (mut reference, mut config) = shape
                .configs
                .iter()
                .find(|(one, _)| one.name == name)
                .map(|(a, b)| (a.clone(), b.clone()))
                .unwrap();
            reference.name = "nc-copy".into();
            config.metadata.name = Some("nc-copy".into());
            shape.configs.insert(reference, config);
            last(shape).machine_config_ref.as_mut().unwrap().name = Some("nc-copy".into());
        },
        impact: Impact::None,
        made: &[],
        changed: &["Amazonec2MachineTemplate", "RKEControlPlane"],
        deleted: &[],
    },
    Rule {
        what: "labels",
        shape: "02-ha",
        change: |shape| drop(last(shape).common.labels.insert("zone".into(), "a".into())),
        impact: Impact::InPlace,
        made: &[],
        changed: &["Amazonec2MachineTemplate", "MachineDeployment", "RKEControlPlane"],
        deleted: &[],
    },
    Rule {
        what: "taints",
        shape: "02-ha",
        change: |shape| last(shape).common.taints.clear(),
        impact: Impact::InPlace,
        made: &[],
        changed: &["Amazonec2MachineTemplate", "MachineDeployment", "RKEControlPlane"],
        deleted: &[],
    },
    Rule {
        what: "a pool's credential",
        shape: "02-ha",
        change: |shape| {
            shape.credentials.insert("cc-new".into());
            last(shape).common.cloud_credential_secret_name = "cc-new".into();
        },
        impact: Impact::None,
        made: &[],
        changed: &["Amazonec2MachineTemplate", "RKEControlPlane"],
        deleted: &[],
    },
    Rule {
        what: "the cluster's credential",
        shape: "02-ha",
        change: |shape| {
            shape.credentials.insert("cc-new".into());
            shape.cluster.spec.cloud_credential_secret_name = "cc-new".into();
        },
        impact: Impact::None,
        made: &[],
        changed: &["Amazonec2MachineTemplate", "Amazonec2MachineTemplate", "RKEControlPlane"],
        deleted: &[],
    },
    Rule {
        what: "quantity",
        shape: "01-single",
        change: |shape| last(shape).quantity = Some(3),
        impact: Impact::Scale,
        made: &[],
        changed: &["MachineDeployment", "RKEControlPlane"],
        deleted: &[],
    },
    Rule {
        what: "quantity 0 keeps the pool",
        shape: "01-single",
        change: |shape| last(shape).quantity = Some(0),
        impact: Impact::Scale,
        made: &[],
        changed: &["MachineDeployment", "RKEControlPlane"],
        deleted: &[],
    },
    Rule {
        what: "a health check goes",
        shape: "02-ha",
        change: |shape| last(shape).unhealthy_node_timeout = None,
        impact: Impact::None,
        made: &[],
        changed: &["RKEControlPlane"],
        deleted: &["MachineHealthCheck"],
    },
    Rule {
        what: "drain before delete",
        shape: "02-ha",
        change: |shape| last(shape).drain_before_delete = true,
        impact: Impact::InPlace,
        made: &[],
        changed: &["MachineDeployment", "RKEControlPlane"],
        deleted: &[],
    },
    Rule {
        what: "paused",
        shape: "02-ha",
        change: |shape| last(shape).paused = true,
        impact: Impact::InPlace,
        made: &[],
        changed: &["MachineDeployment", "RKEControlPlane"],
        deleted: &[],
    },
    Rule {
        what: "the Kubernetes version is the planner's",
        shape: "02-ha",
        change: |shape| shape.cluster.spec.kubernetes_version = "v1.34.1+rke2r1".into(),
        impact: Impact::None,
        made: &[],
        changed: &["RKEControlPlane"],
        deleted: &[],
    },
    Rule {
        what: "user data of a driver's pool is not looked at",
        shape: "02-ha",
        change: |shape| last(shape).userdata = Some(Userdata { inline_userdata: "runcmd: []".into() }),
        impact: Impact::None,
        made: &[],
        changed: &["RKEControlPlane"],
        deleted: &[],
    },
    Rule {
        what: "another pool name",
        shape: "01-single",
        change: |shape| last(shape).name = "new".into(),
        impact: Impact::Made,
        made: &["Amazonec2MachineTemplate", "MachineDeployment"],
        changed: &["RKEControlPlane"],
        deleted: &["MachineDeployment"],
    },
    Rule {
        what: "native: another template",
        shape: "06-vsphere-native",
        change: |shape| last(shape).machine_config_ref.as_mut().unwrap().name = Some("vm-workers-2".into()),
        impact: Impact::Replace,
        made: &[],
        changed: &["MachineDeployment", "RKEControlPlane"],
        deleted: &[],
    },
    Rule {
        what: "native: user data",
        shape: "06-vsphere-native",
        change: |shape| last(shape).userdata = Some(Userdata { inline_userdata: "runcmd: []".into() }),
        impact: Impact::Replace,
        made: &["RKEBootstrapTemplate"],
        changed: &["MachineDeployment", "RKEControlPlane"],
        deleted: &["RKEBootstrapTemplate"],
    },
    Rule {
        what: "native: labels",
        shape: "06-vsphere-native",
        change: |shape| drop(last(shape).common.labels.insert("zone".into(), "a".into())),
        impact: Impact::InPlace,
        made: &[],
        changed: &["MachineDeployment", "RKEControlPlane"],
        deleted: &[],
    },
    Rule {
        what: "native: a credential is the provider's own matter",
        shape: "07-aws-native",
        change: |shape| shape.cluster.spec.cloud_credential_secret_name = "cc-missing".into(),
        impact: Impact::None,
        made: &[],
        changed: &["RKEControlPlane"],
        deleted: &[],
    },
    Rule {
        what: "an operation does not change the recorded spec",
        shape: "11-operations",
        change: |shape| {
            let config = shape.cluster.spec.rke_config.as_mut().unwrap();
            config.etcd_snapshot_create.as_mut().unwrap().generation = 9;
        },
        impact: Impact::None,
        made: &[],
        changed: &["RKEControlPlane"],
        deleted: &[],
    },
];

#[test]
fn the_matrix() {
    for rule in RULES {
        let mut shape = Shape::read(rule.shape);
        let before = shape.apply(&shape.foreign);
        (rule.change)(&mut shape);
        let mut kinds: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for change in shape.changes(&before).unwrap() {
            use provisioning::graph::difference::Change;
            let verb = match &change {
                Change::Create(_) => "made",
                Change::Update { .. } => "changed",
                Change::Delete(_) => "deleted",
            };
            kinds.entry(verb).or_default().push(change.id().kind);
        }
        for (verb, expected) in [("made", rule.made), ("changed", rule.changed), ("deleted", rule.deleted)] {
            let mut found = kinds.remove(verb).unwrap_or_default();
            found.sort();
            assert_eq!(found, expected, "{}: {verb}", rule.what);
        }
        let after = shape.apply(&before);
        let pool = last(&mut shape).name.clone();
        let cluster = shape.cluster.metadata.name.as_deref().unwrap();
        let deployment = api::names::machine_deployment(cluster, &pool);
        assert_eq!(of_pools(&before, &after)[&deployment], rule.impact, "{}", rule.what);
    }
}

#[test]
fn old_templates_stay_and_going_back_finds_them() {
    let mut shape = Shape::read("02-ha");
    let first = shape.apply(&[]);
    set_field(&mut shape, "instanceType", json!("m6i.2xlarge"));
    let second = shape.apply(&first);
    let templates = |objects: &[provisioning::Object]| {
        objects.iter().filter(|object| object.kind() == "Amazonec2MachineTemplate").count()
    };
    assert_eq!((templates(&first), templates(&second)), (2, 3));
    set_field(&mut shape, "instanceType", json!("m6i.xlarge"));
    let third = shape.apply(&second);
    assert_eq!(templates(&third), 3, "the old template serves again");
    let impact = of_pools(&first, &third);
    assert!(impact.values().all(|impact| *impact == Impact::None), "{impact:?}");
}

#[test]
fn an_autoscalers_size_stays() {
    let shape = Shape::read("02-ha");
    let mut existing = shape.apply(&[]);
    let workers =
        existing.iter_mut().find(|object| object.id().to_string().ends_with("/prod-workers")).unwrap();
    let mut document = workers.document().clone();
    document["spec"]["replicas"] = json!(7);
    *workers = provisioning::Object::from_document(document);
    assert_eq!(shape.changes(&existing).unwrap(), [], "the pool names no quantity: the size is not ours");
}
