//! The settings that go back with a snapshot: the cluster's spec is rewritten before its control plane hears of the
//! restore.

use std::collections::BTreeMap;

use api::provisioning::v1::{Cluster, ClusterSpec};
use api::rke::v1::{ETCDSnapshot, RKEControlPlane, SNAPSHOT_METADATA_CLUSTER_SPEC, restore_mode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::graph::{decode_cluster_spec, identity};
use crate::{Code, Wait};

/// What has to happen before the graph is rendered.
#[derive(Clone, Debug, PartialEq)]
pub enum Settings {
    /// Nothing: no settings are asked for, or they are back.
    AsTheyAre,
    /// The spec becomes this one; rendering waits until it is seen.
    Rewrite(Box<ClusterSpec>),
    /// The snapshot cannot be used.
    Waiting(Wait),
}

/// Why a snapshot's settings cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// Its metadata is not what it should be.
    #[error("the snapshot's metadata cannot be read")]
    Unreadable,
    /// It does not know the cluster's version.
    #[error("the snapshot holds no Kubernetes version")]
    NoVersion,
    /// It does not know the cluster's settings.
    #[error("the snapshot holds no rkeConfig")]
    NoConfig,
    /// The request asks for something that there is not.
    #[error("restoreRKEConfig must be none, kubernetesVersion or all")]
    UnknownMode,
}

/// The name of the snapshot whose settings are asked for, if any are.
pub fn wanted(spec: &ClusterSpec) -> Option<&str> {
    let request = spec.rke_config.as_ref()?.etcd_snapshot_restore.as_ref()?;
    let settings = !matches!(request.restore_rke_config.as_str(), "" | restore_mode::NONE);
    (settings && !request.name.is_empty()).then_some(request.name.as_str())
}

/// What has to happen to the cluster's settings.
pub fn settings(
    cluster: &Cluster,
    control_plane: Option<&RKEControlPlane>,
    snapshot: Option<&ETCDSnapshot>,
) -> Settings {
    let Some(name) = wanted(&cluster.spec) else { return Settings::AsTheyAre };
    let request = cluster.spec.rke_config.as_ref().and_then(|config| config.etcd_snapshot_restore.as_ref());
    let begun = control_plane
        .and_then(|one| one.status.as_ref())
        .and_then(|status| status.etcd_snapshot_restore.as_ref());
    if begun == request {
        return Settings::AsTheyAre;
    }
    let wait = |awaits: String| {
        Settings::Waiting(Wait::new(
            Code::SnapshotMissing,
            identity(cluster).to_string(),
            awaits,
            "name another snapshot, or set restoreRKEConfig to none",
        ))
    };
    let Some(snapshot) = snapshot else {
        return wait(format!("waiting for ETCDSnapshot {name}, whose settings are to be restored"));
    };
    match rewritten(&cluster.spec, snapshot) {
        Ok(spec) if spec == cluster.spec => Settings::AsTheyAre,
        Ok(spec) => Settings::Rewrite(Box::new(spec)),
        Err(reason) => wait(format!("settings cannot be restored from ETCDSnapshot {name}: {reason}")),
    }
}

/// The spec with the settings that the request asks for taken from the snapshot.
///
/// # Errors
/// If the snapshot does not have them.
pub fn rewritten(spec: &ClusterSpec, snapshot: &ETCDSnapshot) -> Result<ClusterSpec, Unusable> {
    let request = spec.rke_config.as_ref().and_then(|config| config.etcd_snapshot_restore.clone());
    let mode = request.unwrap_or_default().restore_rke_config;
    let saved = saved_spec(snapshot).ok_or(Unusable::Unreadable)?;
    if saved.kubernetes_version.is_empty() {
        return Err(Unusable::NoVersion);
    }
    let mut spec = spec.clone();
    spec.kubernetes_version = saved.kubernetes_version;
    match mode.as_str() {
        restore_mode::KUBERNETES_VERSION => Ok(spec),
        restore_mode::ALL => {
            let from = saved.rke_config.ok_or(Unusable::NoConfig)?.configuration;
            let Some(config) = &mut spec.rke_config else { return Err(Unusable::NoConfig) };
            let to = &mut config.configuration;
            to.machine_global_config = from.machine_global_config;
            to.machine_selector_config = from.machine_selector_config;
            to.chart_values = from.chart_values;
            to.registries = from.registries;
            to.upgrade_strategy = from.upgrade_strategy;
            to.additional_manifest = from.additional_manifest;
            to.networking = from.networking;
            spec.default_pod_security_admission_configuration_template_name =
                saved.default_pod_security_admission_configuration_template_name;
            spec.cluster_agent_deployment_customization = saved.cluster_agent_deployment_customization;
            spec.fleet_agent_deployment_customization = saved.fleet_agent_deployment_customization;
            spec.webhook_deployment_customization = saved.webhook_deployment_customization;
            Ok(spec)
        }
        _ => Err(Unusable::UnknownMode),
    }
}

/// The spec that the snapshot's metadata holds.
fn saved_spec(snapshot: &ETCDSnapshot) -> Option<ClusterSpec> {
    let metadata = STANDARD.decode(snapshot.snapshot_file.metadata.trim()).ok()?;
    let metadata: BTreeMap<String, String> = serde_json::from_slice(&metadata).ok()?;
    decode_cluster_spec(metadata.get(SNAPSHOT_METADATA_CLUSTER_SPEC)?)
}

#[cfg(test)]
mod tests {
    use api::provisioning::v1::RKEConfig;
    use api::rke::v1::{RKEControlPlaneStatus, SnapshotRestore};
    use serde_json::json;

    use super::*;

    fn spec(version: &str, cni: &str) -> ClusterSpec {
        let mut config = RKEConfig::default();
        config.configuration.machine_global_config = BTreeMap::from([("cni".to_owned(), json!(cni))]);
        ClusterSpec { kubernetes_version: version.into(), rke_config: Some(config), ..Default::default() }
    }

    fn cluster(mode: &str) -> Cluster {
        let mut spec = spec("v9.99.9+bogus", "none");
        let config = spec.rke_config.as_mut().unwrap();
        config.configuration.data_directories.system_agent = "/kept".into();
        config.etcd_snapshot_restore =
            Some(SnapshotRestore { name: "s".into(), generation: 1, restore_rke_config: mode.into() });
        Cluster { spec, ..Default::default() }
    }

    fn snapshot(saved: &ClusterSpec) -> ETCDSnapshot {
        let packed = STANDARD.encode(plan::gzip::pack(&serde_json::to_vec(saved).unwrap()));
        let metadata = json!({SNAPSHOT_METADATA_CLUSTER_SPEC: packed}).to_string();
        let mut snapshot = ETCDSnapshot::default();
        snapshot.snapshot_file.metadata = STANDARD.encode(metadata);
        snapshot
    }

    #[test]
    fn each_mode_takes_its_part() {
        let saved = snapshot(&spec("v1.33.5+k3s1", "flannel"));
        let after = |mode| match settings(&cluster(mode), None, Some(&saved)) {
            Settings::Rewrite(spec) => {
                let config = &spec.rke_config.as_ref().unwrap().configuration;
                assert_eq!(config.data_directories.system_agent, "/kept");
                (spec.kubernetes_version.clone(), config.machine_global_config["cni"].clone())
            }
            other => panic!("{mode}: {other:?}"),
        };
        assert_eq!(after("kubernetesVersion"), ("v1.33.5+k3s1".into(), json!("none")));
        assert_eq!(after("all"), ("v1.33.5+k3s1".into(), json!("flannel")));
        for mode in ["", "none"] {
            assert_eq!(settings(&cluster(mode), None, Some(&saved)), Settings::AsTheyAre);
        }
        assert!(matches!(settings(&cluster("odd"), None, Some(&saved)), Settings::Waiting(_)));
    }

    #[test]
    fn it_happens_once_per_request() {
        let saved = snapshot(&spec("v1.33.5+k3s1", "flannel"));
        let mut one = cluster("all");
        let Settings::Rewrite(spec) = settings(&one, None, Some(&saved)) else { panic!() };
        one.spec = *spec;
        assert_eq!(settings(&one, None, Some(&saved)), Settings::AsTheyAre, "the graph may be rendered");
        let request = one.spec.rke_config.as_ref().unwrap().etcd_snapshot_restore.clone();
        let begun = RKEControlPlane {
            status: Some(RKEControlPlaneStatus { etcd_snapshot_restore: request, ..Default::default() }),
            ..Default::default()
        };
        one.spec.kubernetes_version = "v1.34.1+k3s1".into();
        assert_eq!(settings(&one, Some(&begun), None), Settings::AsTheyAre, "later changes are the user's");
    }

    #[test]
    fn a_snapshot_that_cannot_be_used_is_waited_for_by_name() {
        let Settings::Waiting(wait) = settings(&cluster("all"), None, None) else { panic!() };
        assert_eq!(wait.code, Code::SnapshotMissing);
        assert!(wait.awaits.contains("ETCDSnapshot s"));
        let Settings::Waiting(wait) = settings(&cluster("all"), None, Some(&ETCDSnapshot::default())) else {
            panic!()
        };
        assert!(wait.awaits.contains("cannot be read"), "{wait}");
        let empty = snapshot(&ClusterSpec::default());
        let Settings::Waiting(wait) = settings(&cluster("all"), None, Some(&empty)) else { panic!() };
        assert!(wait.awaits.contains("no Kubernetes version"), "{wait}");
    }
}
