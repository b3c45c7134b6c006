//! Clusters and machines to begin with.

use std::collections::BTreeMap;

use api::catalogue::labels;
use api::rke::v1::RKEControlPlaneSpec;
use planner::{Cluster, ClusterAgent, Tokens};
use serde_json::Value;

/// A cluster as the scenarios use it.
pub(crate) fn cluster(name: &str, version: &str) -> Cluster {
    Cluster {
        namespace: "fleet-default".into(),
        name: name.into(),
        spec: RKEControlPlaneSpec {
            kubernetes_version: version.into(),
            cluster_name: name.into(),
            management_cluster_name: "c-m-w2bfx9xq".into(),
            ..RKEControlPlaneSpec::default()
        },
        cluster_spec: "H4sIAAAAAAAA".into(),
        agent: Some(ClusterAgent {
            image: "herdsman/cluster-agent:v1".into(),
            server_url: "https://herdsman.example.com".into(),
            ca_checksum: "ab".repeat(32),
            ca_certificates: "-- the server's authority --\n".into(),
            token: "registration-token".into(),
            customization: None,
        }),
        ..Cluster::default()
    }
}

pub(crate) fn tokens() -> Tokens {
    Tokens { server: "server-token-0123456789".into(), agent: "agent-token-0123456789".into() }
}

/// Sets a field of the spec by its path, such as `upgradeStrategy.workerConcurrency`; null removes it.
pub(crate) fn set(spec: &RKEControlPlaneSpec, path: &str, value: Value) -> RKEControlPlaneSpec {
    let mut document = serde_json::to_value(spec).unwrap();
    let mut place = &mut document;
    let (parents, last) = path
        .rsplit_once('.')
        .map_or((Vec::new(), path), |(before, last)| (before.split('.').collect(), last));
    for part in parents {
        place =
            place.as_object_mut().unwrap().entry(part).or_insert_with(|| Value::Object(Default::default()));
    }
    let object = place.as_object_mut().unwrap();
    match value {
        Value::Null => object.remove(last),
        value => object.insert(last.to_owned(), value),
    };
    serde_json::from_value(document).unwrap()
}

/// Labels of a machine of these roles, on the Machine and on its plan Secret.
pub(crate) fn role_labels(cluster: &str, name: &str, roles: &[&str]) -> BTreeMap<String, String> {
    let mut words = BTreeMap::from([
        (labels::CLUSTER_NAME.to_owned(), cluster.to_owned()),
        (labels::MACHINE_NAME.to_owned(), name.to_owned()),
        (labels::PLAN_CLUSTER_KIND.to_owned(), "Cluster".to_owned()),
        (labels::PLAN_CLUSTER_NAME.to_owned(), cluster.to_owned()),
        (labels::PLAN_MACHINE_NAME.to_owned(), name.to_owned()),
        (labels::MACHINE_ID.to_owned(), format!("id-{name}")),
    ]);
    for role in roles {
        let (label, value) = match *role {
            "etcd" => (labels::ETCD_ROLE, "true"),
            "control-plane" => (labels::CONTROL_PLANE_ROLE, "true"),
            "worker" => (labels::WORKER_ROLE, "true"),
            "windows" => (labels::OS, "windows"),
            other => panic!("no role {other:?}"),
        };
        words.insert(label.to_owned(), value.to_owned());
    }
    words
}
