//! One realistic object of every kind: it parses into its type and comes back unchanged.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use api::{
    Kind, Tracked, capi, clusterctl, downstream, ipam, machine, management, operation, plans, provisioning,
    rke,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every document that was checked, so that none is forgotten.
#[derive(Default)]
struct Checked(BTreeSet<PathBuf>);

impl Checked {
    fn kind<K: Kind + Serialize + DeserializeOwned>(&mut self) {
        self.file::<K>(&K::KIND.to_lowercase());
    }

    fn file<K: Kind + Serialize + DeserializeOwned>(&mut self, name: &str) {
        self.document::<K>(K::GROUP, K::KIND, name);
    }

    fn object<T: Serialize + DeserializeOwned>(&mut self, group: &str, kind: &str) {
        self.document::<T>(group, kind, &kind.to_lowercase());
    }

    fn document<T: Serialize + DeserializeOwned>(&mut self, group: &str, kind: &str, name: &str) {
        let path = directory().join(group).join(format!("{name}.yaml"));
        let document = read(&path);
        assert_eq!(document["kind"], kind, "{}", path.display());
        let tracked: Tracked<T> = Tracked::from_document(document.clone())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let written = serde_json::to_value(&*tracked).unwrap();
        pretty_assertions(&written, &document, &path);
        assert_eq!(tracked.merge_patch().unwrap(), None, "{}", path.display());
        self.0.insert(path);
    }
}

fn pretty_assertions(written: &Value, document: &Value, path: &Path) {
    let text = |value| serde_json::to_string_pretty(value).unwrap();
    assert_eq!(text(written), text(document), "{}", path.display());
}

#[test]
fn every_fixture_comes_back_unchanged() {
    let mut checked = Checked::default();
    checked.kind::<provisioning::v1::Cluster>();
    checked.kind::<rke::v1::RKECluster>();
    checked.kind::<rke::v1::RKEControlPlane>();
    checked.kind::<rke::v1::RKEBootstrap>();
    checked.kind::<rke::v1::RKEBootstrapTemplate>();
    checked.kind::<rke::v1::CustomMachine>();
    checked.kind::<rke::v1::ETCDSnapshot>();
    checked.kind::<plans::v1alpha1::Beacon>();
    checked.kind::<operation::v1alpha1::ETCDSnapshotSave>();
    checked.kind::<operation::v1alpha1::ETCDSnapshotRestore>();
    checked.kind::<operation::v1alpha1::EncryptionKeyRotation>();
    checked.kind::<management::v3::Cluster>();
    checked.kind::<management::v3::ClusterRegistrationToken>();
    checked.kind::<management::v3::NodeDriver>();
    checked.kind::<management::v3::DynamicSchema>();
    checked.kind::<management::v3::Token>();
    checked.kind::<management::v3::User>();
    checked.kind::<management::v3::Setting>();
    checked.kind::<management::v3::Feature>();
    checked.kind::<management::v3::ClusterRoleTemplateBinding>();
    checked.kind::<management::v3::RoleTemplate>();
    checked.kind::<management::v3::PodSecurityAdmissionConfigurationTemplate>();
    checked.kind::<downstream::ETCDSnapshotFile>();
    checked.kind::<downstream::HelmChartConfig>();
    checked.kind::<downstream::Plan>();
    checked.kind::<capi::v1beta2::Cluster>();
    checked.file::<capi::v1beta2::Cluster>("cluster-topology");
    checked.kind::<capi::v1beta2::Machine>();
    checked.kind::<capi::v1beta2::MachineSet>();
    checked.kind::<capi::v1beta2::MachineDeployment>();
    checked.kind::<capi::v1beta2::MachineHealthCheck>();
    checked.kind::<capi::v1beta2::MachinePool>();
    checked.kind::<capi::v1beta2::MachineDrainRule>();
    checked.kind::<ipam::v1beta2::IPAddress>();
    checked.kind::<ipam::v1beta2::IPAddressClaim>();
    checked.kind::<clusterctl::v1alpha3::Provider>();
    checked.object::<machine::MachineConfig>(machine::CONFIG_GROUP, "Amazonec2Config");
    checked.object::<machine::MachineTemplate>(machine::GROUP, "Amazonec2MachineTemplate");
    checked.object::<machine::Machine>(machine::GROUP, "Amazonec2Machine");
    assert_eq!(checked.0, all_fixtures(), "every fixture is checked");
}

fn all_fixtures() -> BTreeSet<PathBuf> {
    let groups = std::fs::read_dir(directory()).unwrap().map(|group| group.unwrap().path());
    groups.flat_map(|group| std::fs::read_dir(group).unwrap().map(|file| file.unwrap().path())).collect()
}

#[test]
fn a_type_refuses_the_object_of_another_kind() {
    let cluster = read(&directory().join("rke.cattle.io/rkecluster.yaml"));
    let refusal = Tracked::<rke::v1::RKEControlPlane>::from_document(cluster).unwrap_err();
    assert!(refusal.to_string().contains("RKECluster"), "{refusal}");
}
