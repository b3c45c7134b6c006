//! Whatever a CRD lets in, its type reads, and gives back whole: nulls, foreign fields and all.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use api::{Kind, Tracked, capi, clusterctl, ipam, management, operation, plans, provisioning, rke};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
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
    holds::<ipam::v1beta2::IPAddress>();
    holds::<ipam::v1beta2::IPAddressClaim>();
    holds::<clusterctl::v1alpha3::Provider>();
}

fn holds<K: Kind + Serialize + DeserializeOwned>() {
    let name = format!("{}.{}", K::PLURAL, K::GROUP);
    let crds = api::crd::all().into_iter().map(|crd| serde_json::to_value(crd).unwrap());
    let crd = crds.into_iter().find(|crd| crd["metadata"]["name"] == name).unwrap();
    let objects = samples::custom_objects(&crd, K::VERSION, special).unwrap();
    let mut runner = TestRunner::new(Config { cases: 60, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&objects, |mut object| {
        object["foreign"] = json!({"kept": [1, null]});
        let read = Tracked::<K>::from_document(object.clone());
        prop_assert!(read.is_ok(), "{}", read.err().unwrap());
        let mut read = read.unwrap();
        prop_assert_eq!(read.document().unwrap(), object.clone(), "nothing changed, nothing changes");

        read.meta_mut().labels.get_or_insert_default().insert("new".into(), "label".into());
        object["metadata"]["labels"]["new"] = "label".into();
        prop_assert_eq!(read.document().unwrap(), object, "only what changed changes");
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{name} {}: {failure}", K::VERSION));
}

/// Fields whose meaning the schema does not tell.
fn special(field: &str) -> Option<BoxedStrategy<Value>> {
    match field {
        "drainBeforeDeleteTimeout" | "unhealthyNodeTimeout" => samples::cluster_api_fields("timeout"),
        _ => samples::cluster_api_fields(field),
    }
}
