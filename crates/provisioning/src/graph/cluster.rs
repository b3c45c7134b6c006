//! The objects that every cluster has once.

use std::collections::BTreeMap;

use api::Kind as _;
use api::capi::v1beta2 as capi;
use api::catalogue::{annotations, labels};
use api::plans::v1alpha1::Beacon;
use api::provisioning::v1::{Cluster, RKEConfig};
use api::rke::v1::{RKECluster, RKEControlPlane, RKEControlPlaneSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Facts, cluster_spec, identity};
use crate::object::controller_reference;

/// The infrastructure cluster of clusters that bring none.
pub(super) fn infrastructure(cluster: &Cluster) -> RKECluster {
    let key = annotations::DELETE_MISSING_CUSTOM_MACHINES_AFTER;
    let mut metadata = metadata(cluster);
    metadata.annotations = Some(one(key, annotation(cluster, key)));
    RKECluster { metadata, ..Default::default() }
}

/// The control plane, with the configuration of every node.
pub(super) fn control_plane(facts: &Facts<'_>, config: &RKEConfig) -> RKEControlPlane {
    let (cluster, encoded) = (facts.cluster, facts.encoded_spec);
    let init_node = labels::INIT_NODE_MACHINE_ID;
    let label = cluster.metadata.labels.as_ref().and_then(|labels| labels.get(init_node));
    let mut metadata = metadata(cluster);
    metadata.labels = Some(one(init_node, label.map(String::as_str).unwrap_or_default()));
    let prime = annotations::RKE2_PRIME_ENABLED;
    metadata.annotations = Some(BTreeMap::from([
        (annotations::CLUSTER_SPEC.into(), cluster_spec::encode(&cluster.spec, encoded)),
        (prime.into(), annotation(cluster, prime).into()),
    ]));
    RKEControlPlane {
        spec: RKEControlPlaneSpec {
            configuration: config.configuration.clone(),
            agent_env_vars: cluster.spec.agent_env_vars.clone(),
            local_cluster_auth_endpoint: cluster.spec.local_cluster_auth_endpoint.clone(),
            etcd_snapshot_create: config.etcd_snapshot_create.clone(),
            etcd_snapshot_restore: config.etcd_snapshot_restore.clone(),
            rotate_certificates: config.rotate_certificates.clone(),
            rotate_encryption_keys: config.rotate_encryption_keys.clone(),
            kubernetes_version: cluster.spec.kubernetes_version.clone(),
            cluster_name: metadata.name.clone().unwrap_or_default(),
            management_cluster_name: facts.id.into(),
            unmanaged_config: false,
        },
        metadata,
        ..Default::default()
    }
}

/// What ties infrastructure, control plane and machines together for Cluster API.
pub(super) fn capi_cluster(
    cluster: &Cluster,
    config: &RKEConfig,
    infrastructure: &capi::ContractVersionedObjectReference,
) -> capi::Cluster {
    let mut metadata = owned(cluster);
    metadata.annotations = autoscaler(cluster, config).map(|key| one(key, "true"));
    let control_plane = capi::ContractVersionedObjectReference {
        kind: RKEControlPlane::KIND.into(),
        name: metadata.name.clone().unwrap_or_default(),
        api_group: RKEControlPlane::GROUP.into(),
    };
    capi::Cluster {
        metadata,
        spec: capi::ClusterSpec {
            infrastructure_ref: Some(infrastructure.clone()),
            control_plane_ref: Some(control_plane),
            ..Default::default()
        },
        ..Default::default()
    }
}

/// The annotation that tells the autoscaler what to do, if it is to do anything.
fn autoscaler(cluster: &Cluster, config: &RKEConfig) -> Option<&'static str> {
    let scaled = config
        .machine_pools
        .iter()
        .any(|pool| pool.autoscaling_min_size.is_some() && pool.autoscaling_max_size.is_some());
    match annotation(cluster, annotations::CLUSTER_AUTOSCALER_PAUSED) {
        "" if scaled => Some(annotations::CLUSTER_AUTOSCALER_ENABLED),
        "" => None,
        _ => Some(annotations::CLUSTER_AUTOSCALER_PAUSED),
    }
}

/// The lock on the cluster's plans.
pub(super) fn beacon(cluster: &Cluster) -> Beacon {
    Beacon { metadata: owned(cluster), ..Default::default() }
}

/// Name and namespace are the cluster's.
fn metadata(cluster: &Cluster) -> ObjectMeta {
    ObjectMeta {
        name: cluster.metadata.name.clone(),
        namespace: cluster.metadata.namespace.clone(),
        ..Default::default()
    }
}

/// As [`metadata`], and it goes with the cluster.
fn owned(cluster: &Cluster) -> ObjectMeta {
    let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
    ObjectMeta {
        owner_references: Some(vec![controller_reference(&identity(cluster), uid)]),
        ..metadata(cluster)
    }
}

fn annotation<'a>(cluster: &'a Cluster, key: &str) -> &'a str {
    let annotations = cluster.metadata.annotations.as_ref();
    annotations.and_then(|annotations| annotations.get(key)).map(String::as_str).unwrap_or_default()
}

fn one(key: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}
