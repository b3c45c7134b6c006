//! Whatever a CRD lets in, its type reads, and gives back whole: nulls, foreign fields and all.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use api::{Kind, Tracked, capi, clusterctl, ipam, management, operation, plans, provisioning, rke};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[test]
fn provisioning_and_rke() {
    holds::<provisioning::v1::Cluster>();
    holds::<rke::v1::RKECluster>();
    holds::<rke::v1::RKEControlPlane>();
    holds::<rke::v1::RKEBootstrap>();
    holds::<rke::v1::RKEBootstrapTemplate>();
    holds::<rke::v1::CustomMachine>();
    holds::<rke::v1::ETCDSnapshot>();
}

#[test]
fn plans_and_operations() {
    holds::<plans::v1alpha1::Beacon>();
    holds::<operation::v1alpha1::ETCDSnapshotSave>();
    holds::<operation::v1alpha1::ETCDSnapshotRestore>();
    holds::<operation::v1alpha1::EncryptionKeyRotation>();
}

#[test]
fn management() {
    holds::<management::v3::Cluster>();
    holds::<management::v3::ClusterRegistrationToken>();
    holds::<management::v3::NodeDriver>();
    holds::<management::v3::DynamicSchema>();
    holds::<management::v3::Token>();
    holds::<management::v3::User>();
    holds::<management::v3::Setting>();
    holds::<management::v3::Feature>();
    holds::<management::v3::ClusterRoleTemplateBinding>();
    holds::<management::v3::RoleTemplate>();
    holds::<management::v3::PodSecurityAdmissionConfigurationTemplate>();
}

#[test]
fn cluster_api() {
    holds::<capi::v1beta2::Cluster>();
    holds::<capi::v1beta2::Machine>();
    holds::<capi::v1beta2::MachineSet>();
    holds::<capi::v1beta2::MachineDeployment>();
    holds::<capi::v1beta2::MachineHealthCheck>();
    holds::<capi::v1beta2::MachineDrainRule>();
    holds::<capi::v1beta1::Cluster>();
    holds::<capi::v1beta1::Machine>();
    holds::<capi::v1beta1::MachineSet>();
    holds::<capi::v1beta1::MachineDeployment>();
    holds::<capi::v1beta1::MachineHealthCheck>();
    holds::<capi::v1beta1::MachineDrainRule>();
    holds::<ipam::v1alpha1::IPAddress>();
    holds::<ipam::v1alpha1::IPAddressClaim>();
    holds::<ipam::v1beta1::IPAddress>();
    holds::<ipam::v1beta1::IPAddressClaim>();
    holds::<ipam::v1beta2::IPAddress>();
    holds::<ipam::v1beta2::IPAddressClaim>();
    holds::<clusterctl::v1alpha3::Provider>();
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
