//! A pool: its MachineDeployment and what that refers to.

use std::collections::BTreeMap;

use api::Kind as _;
use api::capi::v1beta2::values::{deletion_order, rollout_strategy};
use api::capi::v1beta2::{
    Bootstrap, ContractVersionedObjectReference, DeletionOrder, MachineDeletion, MachineDeployment,
    MachineDeploymentSpec, MachineSpec, MachineTemplate, ObjectMeta as TemplateMeta, RollingUpdate, Rollout,
    RolloutStrategy,
};
use api::catalogue::{annotations, labels};
use api::machine::{Driver, GROUP as MACHINE_GROUP};
use api::provisioning::v1::{Cluster, MachinePool, RKEConfig};
use api::rke::v1::RKEBootstrapTemplate;
use api::{GoDuration, names};
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use plan::gojson;
use serde::Serialize;

use super::source::{self, ConfigRef, Source};
use super::{
    Facts, Graph, Hold, Refusal, bootstrap_template, health_check, identity, ownership, schema, template,
};
use crate::{Code, Object, Wait};

/// The operating system of pools that name none.
const LINUX: &str = "linux";

/// Host names may be limited to between these; another limit counts as none.
const HOSTNAME_LIMITS: std::ops::RangeInclusive<i64> = 10..=63;

/// Adds the objects of one pool.
pub(super) fn render(
    facts: &Facts<'_>,
    config: &RKEConfig,
    index: usize,
    infrastructure_is_ours: bool,
    graph: &mut Graph,
) -> Result<(), Hold> {
    let (cluster, pool) = (facts.cluster, &config.machine_pools[index]);
    let source = source::of_pool(cluster, index, pool)?;
    if !pool.etcd_role && !pool.control_plane_role && !pool.worker_role {
        return Err(Refusal::NoRole(pool.name.clone()).into());
    }
    let cluster_name = cluster.metadata.name.as_deref().unwrap_or_default();
    let name = names::machine_deployment(cluster_name, &pool.name);
    let infrastructure = match &source {
        Source::Driver(reference) => driver_template(facts, pool, &name, reference, graph)?,
        Source::Native(reference) => reference.clone(),
    };
    let bootstrap = match bootstrap_template::is_needed(pool, infrastructure_is_ours, source.is_native()) {
        true => {
            let own = bootstrap_template::of_pool(cluster, &name, pool);
            graph.objects.push(Object::of(&own));
            own.metadata.name.unwrap_or_default()
        }
        false => names::bootstrap_template(cluster_name),
    };
    let deployment = deployment(cluster, config, pool, &name, infrastructure, bootstrap);
    graph.objects.push(Object::of(&deployment));
    graph.objects.extend(health_check::render(&deployment, pool).map(|check| Object::of(&check)));
    Ok(())
}

/// Adds the template of a driver's pool and says how it is referred to.
fn driver_template(
    facts: &Facts<'_>,
    pool: &MachinePool,
    deployment: &str,
    reference: &ConfigRef,
    graph: &mut Graph,
) -> Result<ContractVersionedObjectReference, Hold> {
    let cluster = facts.cluster;
    let id = identity(cluster);
    let incomplete = || Refusal::IncompletePool(pool.name.clone());
    let driver = Driver::of_config_kind(&reference.kind).ok_or_else(incomplete)?;
    let Some(machine_config) = facts.configs.get(reference) else {
        return Err(Wait::new(
            Code::MachineConfigMissing,
            id.to_string(),
            format!(
                "waiting for {} {}/{} of pool {}",
                reference.kind, id.namespace, reference.name, pool.name
            ),
            "create the machine config, or correct the pool's machineConfigRef",
        )
        .into());
    };
    graph.adoptions.extend(ownership::take(cluster, machine_config)?);
    let Some(schema) = schema::frozen(pool)? else {
        return Err(schema::wait(cluster, pool, &driver).into());
    };
    let credential = template::credential(cluster, pool);
    if !credential.is_empty() && !facts.credentials.contains(credential) {
        return Err(Wait::new(
            Code::CredentialMissing,
            id.to_string(),
            format!("waiting for the cloud credential {credential} of pool {}", pool.name),
            "create the Secret, or correct cloudCredentialSecretName",
        )
        .into());
    }
    let made = template::render(cluster, pool, deployment, (&driver, reference, machine_config), &schema);
    let infrastructure = ContractVersionedObjectReference {
        kind: made.kind.clone(),
        name: made.metadata.name.clone().unwrap_or_default(),
        api_group: MACHINE_GROUP.into(),
    };
    graph.objects.push(Object::of(&made));
    Ok(infrastructure)
}

fn deployment(
    cluster: &Cluster,
    config: &RKEConfig,
    pool: &MachinePool,
    name: &str,
    infrastructure_ref: ContractVersionedObjectReference,
    bootstrap: String,
) -> MachineDeployment {
    let cluster_name = cluster.metadata.name.clone().unwrap_or_default();
    let rolling = pool.rolling_update.clone().unwrap_or_default();
    let selector = [(labels::CAPI_CLUSTER_NAME, cluster_name.as_str()), (labels::CAPI_DEPLOYMENT_NAME, name)];
    let spec = MachineSpec {
        cluster_name: cluster_name.clone(),
        bootstrap: Bootstrap {
            config_ref: Some(ContractVersionedObjectReference {
                kind: RKEBootstrapTemplate::KIND.into(),
                name: bootstrap,
                api_group: RKEBootstrapTemplate::GROUP.into(),
            }),
            data_secret_name: None,
        },
        infrastructure_ref,
        deletion: MachineDeletion {
            node_drain_timeout_seconds: pool.drain_before_delete_timeout.as_ref().map(whole_seconds),
            ..Default::default()
        },
        ..Default::default()
    };
    MachineDeployment {
        metadata: ObjectMeta {
            name: Some(name.into()),
            namespace: cluster.metadata.namespace.clone(),
            labels: Some(deployment_labels(pool)),
            annotations: Some(deployment_annotations(pool)).filter(|annotations| !annotations.is_empty()),
            ..Default::default()
        },
        spec: MachineDeploymentSpec {
            cluster_name: cluster_name.clone(),
            replicas: pool.quantity,
            rollout: Rollout {
                strategy: RolloutStrategy {
                    type_: rollout_strategy::ROLLING_UPDATE.into(),
                    rolling_update: RollingUpdate {
                        max_unavailable: rolling.max_unavailable,
                        max_surge: rolling.max_surge,
                    },
                },
                ..Default::default()
            },
            selector: LabelSelector { match_labels: Some(map(selector)), match_expressions: None },
            template: MachineTemplate {
                metadata: TemplateMeta {
                    labels: machine_labels(&cluster_name, pool, name),
                    annotations: machine_annotations(config, pool),
                },
                spec,
            },
            deletion: DeletionOrder { order: deletion_order::OLDEST.into() },
            paused: Some(pool.paused),
            ..Default::default()
        },
        ..Default::default()
    }
}

fn deployment_labels(pool: &MachinePool) -> BTreeMap<String, String> {
    let mut all = pool.common.labels.clone();
    all.extend(pool.machine_deployment_labels.clone());
    all.insert(labels::OS.into(), operating_system(pool).into());
    all
}

fn deployment_annotations(pool: &MachinePool) -> BTreeMap<String, String> {
    let sizes = [
        (annotations::AUTOSCALER_MIN_SIZE, pool.autoscaling_min_size),
        (annotations::AUTOSCALER_MAX_SIZE, pool.autoscaling_max_size),
    ];
    let mut all = pool.machine_deployment_annotations.clone();
    all.extend(sizes.into_iter().filter_map(|(key, size)| Some((key.to_owned(), size?.to_string()))));
    all
}

/// Labels of the machines; the user's win, as they do upstream.
fn machine_labels(cluster: &str, pool: &MachinePool, deployment: &str) -> BTreeMap<String, String> {
    let roles = [
        (pool.etcd_role, labels::ETCD_ROLE),
        (pool.control_plane_role, labels::CONTROL_PLANE_ROLE),
        (pool.control_plane_role, labels::CAPI_CONTROL_PLANE),
        (pool.worker_role, labels::WORKER_ROLE),
    ];
    let mut all = map([
        (labels::CAPI_CLUSTER_NAME, cluster),
        (labels::CLUSTER_NAME, cluster),
        (labels::CAPI_DEPLOYMENT_NAME, deployment),
        (labels::MACHINE_POOL_NAME, &pool.name),
        (labels::OS, operating_system(pool)),
    ]);
    all.extend(roles.into_iter().filter(|(has, _)| *has).map(|(_, key)| (key.to_owned(), "true".to_owned())));
    all.extend(pool.common.labels.clone());
    all
}

/// What the planner and the drain read on the machines.
fn machine_annotations(config: &RKEConfig, pool: &MachinePool) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    if !pool.drain_before_delete {
        all.insert(annotations::EXCLUDE_NODE_DRAINING.to_owned(), "true".to_owned());
    }
    let limits = [pool.hostname_length_limit, config.machine_pool_defaults.hostname_length_limit];
    if let Some(limit) = limits.into_iter().find(|limit| HOSTNAME_LIMITS.contains(limit)) {
        all.insert(annotations::HOSTNAME_LENGTH_LIMIT.to_owned(), limit.to_string());
    }
    if !pool.common.labels.is_empty() {
        all.insert(annotations::LABELS.to_owned(), go_json(&pool.common.labels));
    }
    if !pool.common.taints.is_empty() {
        all.insert(annotations::TAINTS.to_owned(), taints_json(&pool.common.taints));
    }
    all
}

/// Taints as Go writes them: its struct has another order of fields than the alphabet.
pub(crate) fn taints_json(taints: &[Taint]) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct GoTaint<'a> {
        key: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        value: &'a str,
        effect: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        time_added: Option<&'a k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>,
    }
    let all: Vec<GoTaint<'_>> = taints
        .iter()
        .map(|taint| GoTaint {
            key: &taint.key,
            value: taint.value.as_deref().unwrap_or_default(),
            effect: &taint.effect,
            time_added: taint.time_added.as_ref(),
        })
        .collect();
    go_json(&all)
}

pub(crate) fn go_json(value: &impl Serialize) -> String {
    // The writer emits UTF-8.
    String::from_utf8(gojson::to_vec(value)).unwrap_or_default()
}

/// Whole seconds, as many as Cluster API can count.
pub(super) fn whole_seconds(duration: &GoDuration) -> i32 {
    i32::try_from(duration.seconds()).unwrap_or(if duration.seconds() < 0 { i32::MIN } else { i32::MAX })
}

fn operating_system(pool: &MachinePool) -> &str {
    if pool.machine_os.is_empty() { LINUX } else { &pool.machine_os }
}

fn map<const N: usize>(entries: [(&str, &str); N]) -> BTreeMap<String, String> {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}
