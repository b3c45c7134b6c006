//! What there is to move, and what keeps it from being moved.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use api::catalogue::annotations;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::discovery::{ApiCapabilities, Discovery, Scope};
use plan::PlanSecret;
use plan::secret::Data;
use serde_json::Value;

use super::item::{self, Fate, Item};
use crate::verbs::ask::explained;

/// Groups whose objects are a cluster's own. Those of providers end with [`PROVIDERS`].
const OURS: [&str; 7] = [
    "provisioning.cattle.io",
    "rke.cattle.io",
    "rke-machine.cattle.io",
    "rke-machine-config.cattle.io",
    "operation.cattle.io",
    "plan.cattle.io",
    "cluster.x-k8s.io",
];
const PROVIDERS: &str = ".cluster.x-k8s.io";
/// What providers are installed: each management cluster has its own list.
const INSTALLED: &str = "clusterctl.cluster.x-k8s.io";
const MANAGEMENT: &str = "management.cattle.io";
/// Kinds of that group that belong to a cluster.
const OF_CLUSTERS: [&str; 2] = ["Cluster", "ClusterRegistrationToken"];
/// Kinds of that group that are made from others.
const DERIVED: [&str; 2] = ["DynamicSchema", "Feature"];
/// Kinds of Kubernetes itself, taken from the namespaces that clusters are in.
const CORE: [(&str, &str); 5] = [
    ("", "Secret"),
    ("", "ConfigMap"),
    ("", "ServiceAccount"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
];
/// Where credentials of clouds and clusters are.
const GLOBAL: &str = "cattle-global-data";
/// What every namespace has by itself.
const BY_ITSELF: [&str; 2] = ["default", "kube-root-ca.crt"];
/// Types of Secrets that are somebody else's.
const FOREIGN: [&str; 2] = ["helm.sh/release.v1", "bootstrap.kubernetes.io/token"];

/// Kinds that a server has.
pub(super) type Kinds = Vec<(ApiResource, ApiCapabilities)>;

/// All kinds of a server, in the version that it prefers.
pub(super) async fn kinds(client: &Client) -> anyhow::Result<Kinds> {
    let found = Discovery::new(client.clone()).run().await.map_err(explained)?;
    Ok(found.groups().flat_map(|group| group.recommended_resources()).collect())
}

/// What becomes of a kind's objects; none if they are not looked at.
fn fate(group: &str, kind: &str) -> Option<Fate> {
    if group == MANAGEMENT {
        return match kind {
            _ if OF_CLUSTERS.contains(&kind) => Some(Fate::Moves),
            _ if DERIVED.contains(&kind) => None,
            _ => Some(Fate::Shared),
        };
    }
    let ours = OURS.contains(&group) || (group.ends_with(PROVIDERS) && group != INSTALLED);
    ours.then_some(Fate::Moves)
}

/// Everything that is moved or shared, owners first.
pub(super) async fn take(client: &Client) -> anyhow::Result<Vec<Item>> {
    let kinds = kinds(client).await?;
    let mut items = Vec::new();
    for (resource, capabilities) in &kinds {
        if let Some(fate) = fate(&resource.group, &resource.kind) {
            items.extend(list(client, resource, capabilities, None, fate).await?);
        }
    }
    items.retain(|item| !is_untouched_setting(item));
    let mut namespaces: BTreeSet<String> =
        items.iter().map(|item| item.namespace().to_owned()).filter(|name| !name.is_empty()).collect();
    namespaces.insert(GLOBAL.into());
    for (group, kind) in CORE {
        let known = kinds.iter().find(|(one, _)| one.group == group && one.kind == kind);
        let (resource, capabilities) = known.with_context(|| format!("the server has no kind {kind}"))?;
        for namespace in &namespaces {
            let found = list(client, resource, capabilities, Some(namespace), Fate::Shared).await?;
            items.extend(found.into_iter().filter(is_wanted));
        }
    }
    item::assign_fates(&mut items);
    Ok(item::in_order(items))
}

fn is_wanted(item: &Item) -> bool {
    !BY_ITSELF.contains(&item.name())
        && !FOREIGN.contains(&item.document["type"].as_str().unwrap_or_default())
}

/// A setting that nobody has set: each server has its own.
fn is_untouched_setting(item: &Item) -> bool {
    item.is(MANAGEMENT, "Setting") && item.document["value"].as_str().unwrap_or_default().is_empty()
}

async fn list(
    client: &Client,
    resource: &ApiResource,
    capabilities: &ApiCapabilities,
    namespace: Option<&str>,
    fate: Fate,
) -> anyhow::Result<Vec<Item>> {
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    };
    let found = api.list(&ListParams::default()).await.map_err(explained);
    let found = found.with_context(|| format!("cannot list {}", resource.plural))?;
    let item = |object: DynamicObject| {
        let mut document = serde_json::to_value(object)?;
        document["apiVersion"] = resource.api_version.clone().into();
        document["kind"] = resource.kind.clone().into();
        Ok(Item {
            resource: resource.clone(),
            namespaced: capabilities.scope == Scope::Namespaced,
            has_status: capabilities.subresources.iter().any(|(one, _)| one.plural == "status"),
            fate,
            document,
        })
    };
    found.items.into_iter().map(item).collect()
}

/// Why these objects cannot be moved now, in sentences.
pub(super) fn obstacles(items: &[Item]) -> Vec<String> {
    let moving = items.iter().filter(|item| item.fate == Fate::Moves);
    let mut all: Vec<String> = moving.filter_map(obstacle).collect();
    all.extend(items.iter().filter(|item| item.is_plan()).filter_map(unfinished));
    all
}

fn obstacle(item: &Item) -> Option<String> {
    let title = item.title();
    if item.document["metadata"]["deletionTimestamp"].is_string() {
        return Some(format!("{title} is being deleted: wait until it is gone"));
    }
    let has_node = item.document["status"]["nodeRef"]["name"].is_string();
    if item.is("cluster.x-k8s.io", "Machine") && !has_node {
        return Some(format!("{title} is not a node yet: wait until it is, or delete it"));
    }
    None
}

/// Results that an agent has not reported would be reported to nobody.
fn unfinished(item: &Item) -> Option<String> {
    let secret = PlanSecret::read(&data(&item.document));
    let busy = secret.checksum.is_some() && !secret.plan_applied();
    busy.then(|| format!("the plan in {} is not applied yet: wait until it is", item.title()))
}

fn data(secret: &Value) -> Data {
    let pairs = secret["data"].as_object().into_iter().flatten();
    pairs.filter_map(|(key, value)| Some((key.clone(), STANDARD.decode(value.as_str()?).ok()?))).collect()
}

/// Kinds that the other server does not have, by the kinds that it has.
pub(super) fn unknown(items: &[Item], there: &Kinds) -> BTreeSet<String> {
    let known: BTreeMap<(&str, &str), ()> =
        there.iter().map(|(one, _)| ((one.group.as_str(), one.kind.as_str()), ())).collect();
    let missing = items.iter().filter(|item| {
        item.fate == Fate::Moves
            && !known.contains_key(&(item.resource.group.as_str(), item.resource.kind.as_str()))
    });
    missing.map(|item| format!("{} ({})", item.resource.kind, item.resource.group)).collect()
}

/// Whether somebody has paused a cluster before us.
pub(super) fn is_paused(cluster: &Item) -> bool {
    cluster.annotation(annotations::PAUSED).is_some() || cluster.document["spec"]["paused"] == true
}
