//! Whatever a CRD lets in, its type reads, and gives back whole: nulls, foreign fields and all.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;

use api::{Kind, Tracked, capi, clusterctl, ipam, management, operation, plans, provisioning, rke};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A version of a kind, and the check of it.
struct Checked {
    group: &'static str,
    plural: &'static str,
    version: &'static str,
    check: fn(),
}

macro_rules! checked {
    ($($Kind:ty),* $(,)?) => {
        &[$(Checked {
            group: <$Kind as Kind>::GROUP,
            plural: <$Kind as Kind>::PLURAL,
            version: <$Kind as Kind>::VERSION,
            check: holds::<$Kind>,
        }),*]
    };
}

const KINDS: &[Checked] = checked![
    provisioning::v1::Cluster,
    rke::v1::RKECluster,
    rke::v1::RKEControlPlane,
    rke::v1::RKEBootstrap,
    rke::v1::RKEBootstrapTemplate,
    rke::v1::CustomMachine,
    rke::v1::ETCDSnapshot,
    plans::v1alpha1::Beacon,
    operation::v1alpha1::ETCDSnapshotSave,
    operation::v1alpha1::ETCDSnapshotRestore,
    operation::v1alpha1::EncryptionKeyRotation,
    management::v3::Cluster,
    management::v3::ClusterRegistrationToken,
    management::v3::NodeDriver,
    management::v3::DynamicSchema,
    management::v3::Token,
    management::v3::User,
    management::v3::Setting,
    management::v3::Feature,
    management::v3::ClusterRoleTemplateBinding,
    management::v3::RoleTemplate,
    management::v3::PodSecurityAdmissionConfigurationTemplate,
    capi::v1beta2::Cluster,
    capi::v1beta2::Machine,
    capi::v1beta2::MachineSet,
    capi::v1beta2::MachineDeployment,
    capi::v1beta2::MachineHealthCheck,
    capi::v1beta2::MachineDrainRule,
    capi::v1beta2::MachinePool,
    capi::v1beta1::Cluster,
    capi::v1beta1::Machine,
    capi::v1beta1::MachineSet,
    capi::v1beta1::MachineDeployment,
    capi::v1beta1::MachineHealthCheck,
    capi::v1beta1::MachineDrainRule,
    ipam::v1alpha1::IPAddress,
    ipam::v1alpha1::IPAddressClaim,
    ipam::v1beta1::IPAddress,
    ipam::v1beta1::IPAddressClaim,
    ipam::v1beta2::IPAddress,
    ipam::v1beta2::IPAddressClaim,
    clusterctl::v1alpha3::Provider,
];

#[test]
fn rancher() {
    check(|group| group.ends_with(".cattle.io") && group != "management.cattle.io");
}

#[test]
fn management() {
    check(|group| group == "management.cattle.io");
}

#[test]
fn cluster_api() {
    check(|group| group.ends_with("cluster.x-k8s.io"));
}

fn check(wanted: fn(&str) -> bool) {
    KINDS.iter().filter(|kind| wanted(kind.group)).for_each(|kind| (kind.check)());
}

#[test]
fn every_version_of_every_kind_is_checked() {
    let checked = KINDS.iter().map(|kind| format!("{}.{} {}", kind.plural, kind.group, kind.version));
    let served = api::crd::all().into_iter().flat_map(|crd| {
        let name = crd.metadata.name.unwrap();
        crd.spec.versions.into_iter().map(move |version| format!("{name} {}", version.name))
    });
    assert_eq!(checked.collect::<BTreeSet<_>>(), served.collect::<BTreeSet<_>>());
}

/// What somebody else put into an object.
const FOREIGN: &str = "foreign";

fn holds<K: Kind + Serialize + DeserializeOwned>() {
    let name = format!("{}.{}", K::PLURAL, K::GROUP);
    let crds = api::crd::all().into_iter().map(|crd| serde_json::to_value(crd).unwrap());
    let crd = crds.into_iter().find(|crd| crd["metadata"]["name"] == name).unwrap();
    let versions = crd["spec"]["versions"].as_array().unwrap();
    let schema =
        &versions.iter().find(|version| version["name"] == K::VERSION).unwrap()["schema"]["openAPIV3Schema"];
    let objects = || samples::custom_objects(&crd, K::VERSION, special).unwrap();
    let outcome = samples::runner(60).run(&(objects(), objects()), |(mut object, other)| {
        add_foreign(&mut object, schema);
        let read = Tracked::<K>::from_document(object.clone());
        prop_assert!(read.is_ok(), "{}", read.err().unwrap());
        let mut read = read.unwrap();
        prop_assert_eq!(read.document().unwrap(), object.clone(), "nothing changed, nothing changes");

        let mut relabelled = object.clone();
        relabelled["metadata"]["labels"]["new"] = "label".into();
        read.meta_mut().labels.get_or_insert_default().insert("new".into(), "label".into());
        prop_assert_eq!(read.document().unwrap(), relabelled, "only what changed changes");

        // Everything that the type knows is replaced.
        *read = serde_json::from_value(other).unwrap();
        let written = read.document().unwrap();
        for path in foreign_fields(&object, "") {
            prop_assert_eq!(written.pointer(&path), Some(&json!(true)), "{}", path);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{name} {}: {failure}", K::VERSION));
}

/// Adds a foreign field to every object whose fields the schema names.
fn add_foreign(value: &mut Value, schema: &Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| add_foreign(item, &schema["items"])),
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                let known = schema["properties"].get(name);
                add_foreign(field, known.unwrap_or(&schema["additionalProperties"]));
            }
            if schema["properties"].is_object() {
                fields.insert(FOREIGN.into(), json!(true));
            }
        }
        _ => {}
    }
}

/// The foreign fields that no list stands above: of a list, items may go.
fn foreign_fields(value: &Value, path: &str) -> Vec<String> {
    let Value::Object(fields) = value else { return Vec::new() };
    let below = fields.iter().flat_map(|(name, field)| match name.as_str() {
        FOREIGN => vec![format!("{path}/{FOREIGN}")],
        name => foreign_fields(field, &format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"))),
    });
    below.collect()
}

/// Fields whose meaning the schema does not tell.
fn special(field: &str) -> Option<BoxedStrategy<Value>> {
    match field {
        "drainBeforeDeleteTimeout" | "unhealthyNodeTimeout" => samples::cluster_api_fields("timeout"),
        _ => samples::cluster_api_fields(field),
    }
}
