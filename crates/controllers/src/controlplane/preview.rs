//! What a change of a cluster would do, pool by pool and node by node, before anything happens.
//!
//! Both states of the cluster are rendered by the code that would act on them: what differs is what would happen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Kind as _;
use api::catalogue::labels;
use api::machine::MachineConfig;
use api::provisioning::v1::{Cluster, RKEConfig};
use api::rke::v1::RKEControlPlane;
use jiff::Timestamp;
use kit::object::Unreadable;
use kit::{Key, KindId, Object, index};
use kube::Client;
use planner::{Impact, MachineName, NodePreview, Releases};
use provisioning::graph::impact::{self, Impact as PoolImpact};
use provisioning::graph::{self, ConfigRef, Facts, Graph, Hold, Source};
use serde::Serialize;
use serde_json::{Value, json};

use super::Settings;
use super::gather::{Ground, Kept, gather};
use super::known::{Known, Lists, kinds};
use super::published::server_info;

/// Most lines of a preview among an admission's warnings.
const MOST_LINES: usize = 10;
/// Longest of these lines; clients cut longer ones.
const LONGEST_LINE: usize = 200;

/// Why there is no preview.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster cannot be rendered as it is proposed.
    #[error("{0}")]
    Refused(String),
    /// An object is not what its type says.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// What was rendered has another shape than its type.
    #[error("cannot read what the cluster becomes")]
    Shape(#[from] serde_json::Error),
}

/// How much a change does, for a program's exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Nothing changes.
    Nothing,
    /// Something changes, and no node is disturbed.
    Harmless,
    /// Nodes restart, are drained, are replaced or go.
    Disturbing,
}

/// What would happen.
#[derive(Debug)]
pub struct Change {
    /// Which cluster.
    pub cluster: Key,
    /// It would be made.
    pub new: bool,
    /// Its nodes.
    pub nodes: planner::Preview,
    /// Its pools, by the names of their MachineDeployments: what happens, and how many machines before and after.
    pub pools: BTreeMap<String, Pool>,
    /// Something changes at all.
    pub differs: bool,
}

/// What would happen to a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// What.
    pub impact: PoolImpact,
    /// Machines asked for now.
    pub before: i32,
    /// Machines asked for then.
    pub after: i32,
}

impl Pool {
    /// What happens, in few words; none if nothing does.
    pub fn words(&self) -> Option<String> {
        Some(match self.impact {
            PoolImpact::None => return None,
            PoolImpact::InPlace => "machines keep running and follow".into(),
            PoolImpact::Scale => format!("scales from {} to {}", self.before, self.after),
            PoolImpact::Replace => "every machine is replaced".into(),
            PoolImpact::Made => format!("new, with {} machines", self.after),
            PoolImpact::Gone => "goes, with its machines".into(),
        })
    }

    fn disturbs(&self) -> bool {
        match self.impact {
            PoolImpact::Replace | PoolImpact::Gone => true,
            _ => self.after < self.before,
        }
    }
}

impl Change {
    /// How much it does.
    pub fn weight(&self) -> Weight {
        let joining = |node: &&NodePreview| !node.joins;
        let worst = self.nodes.nodes.iter().filter(joining).map(|node| node.impact).max().unwrap_or_default();
        match () {
            () if worst >= Impact::Restart || self.pools.values().any(Pool::disturbs) => Weight::Disturbing,
            () if self.differs || self.new || worst != Impact::None => Weight::Harmless,
            () => Weight::Nothing,
        }
    }

    /// The whole of it for programs.
    pub fn document(&self) -> Value {
        let weight = match self.weight() {
            Weight::Nothing => "none",
            Weight::Harmless => "harmless",
            Weight::Disturbing => "disturbing",
        };
        json!({
            "cluster": {"namespace": self.cluster.namespace, "name": self.cluster.name},
            "new": self.new,
            "change": weight,
            "pools": self.pools.iter().map(|(name, pool)| PoolLine::of(name, pool)).collect::<Vec<_>>(),
            "nodes": self.nodes.nodes.iter().enumerate().map(|(index, node)| NodeLine::of(index, node)).collect::<Vec<_>>(),
            "warnings": self.nodes.warnings,
            "waits": self.nodes.waits.iter().map(|wait| super::explain::Explained::of_planner(wait, None)).collect::<Vec<_>>(),
        })
    }

    /// The lines for people who apply something: short, and not many. None if no node is touched.
    pub fn warnings(&self) -> Vec<String> {
        let pools =
            self.pools.iter().filter_map(|(name, pool)| Some(format!("pool {name}: {}", pool.words()?)));
        let mut lines: Vec<String> = pools.collect();
        let touched = self.nodes.nodes.iter().filter(|node| node.impact >= Impact::Restart && !node.joins);
        for node in touched {
            let pace = node.at_a_time.map(|count| format!(", {count} at a time")).unwrap_or_default();
            lines.push(format!("node {}: {} ({}{pace})", node.machine, node.impact, node.tier.as_str()));
        }
        lines.extend(self.nodes.warnings.iter().cloned());
        if lines.len() > MOST_LINES {
            let more = lines.len() - (MOST_LINES - 1);
            lines.truncate(MOST_LINES - 1);
            lines.push(format!("and {more} more: run `herdsman plan`"));
        }
        for line in &mut lines {
            line.truncate(line.floor_char_boundary(LONGEST_LINE));
        }
        lines
    }
}

#[derive(Serialize)]
struct PoolLine<'a> {
    name: &'a str,
    change: Option<String>,
    before: i32,
    after: i32,
}

impl<'a> PoolLine<'a> {
    fn of(name: &'a str, pool: &Pool) -> Self {
        PoolLine { name, change: pool.words(), before: pool.before, after: pool.after }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeLine {
    order: usize,
    machine: String,
    tier: &'static str,
    impact: String,
    at_a_time: Option<usize>,
    joins: bool,
    files: Vec<Value>,
}

impl NodeLine {
    fn of(index: usize, node: &NodePreview) -> Self {
        let files = node.files.iter();
        NodeLine {
            order: index + 1,
            machine: node.machine.to_string(),
            tier: node.tier.as_str(),
            impact: node.impact.to_string(),
            at_a_time: node.at_a_time,
            joins: node.joins,
            files: files.map(|(path, change)| json!({"path": path, "change": change.to_string()})).collect(),
        }
    }
}

/// What would happen if a cluster were as proposed. `configs` are machine configs that come with the proposal.
///
/// # Errors
/// If the cluster cannot be rendered.
pub fn preview(ground: &Ground<'_>, proposed: &Cluster, configs: &[MachineConfig]) -> Result<Change, Error> {
    let namespace = proposed.metadata.namespace.clone().unwrap_or_default();
    let key = Key::new(&namespace, proposed.metadata.name.as_deref().unwrap_or_default());
    let found = ground.known.get(&KindId::of::<Cluster>(), &key);
    let control_plane = ground.known.get(&kinds::control_planes(), &key);
    let encoded =
        control_plane.as_ref().and_then(|one| one.annotation(api::catalogue::annotations::CLUSTER_SPEC));
    let Some(found) = found else {
        let after = render(ground.known, &dressed(proposed, None), configs, None)?;
        let pools = pools(&Graph::default(), &after);
        return Ok(Change {
            cluster: key,
            new: true,
            nodes: planner::Preview::default(),
            pools,
            differs: true,
        });
    };
    let existing = found.view::<Cluster>()?;
    let before = render(ground.known, &dressed(&existing, Some(&existing)), &[], encoded);
    let before = before.unwrap_or_default();
    let after = render(ground.known, &dressed(proposed, Some(&existing)), configs, encoded)?;
    let pools = pools(&before, &after);
    let nodes = match &control_plane {
        Some(control_plane) => nodes(ground, control_plane, &after, &replaced(ground.known, &key, &pools))?,
        None => planner::Preview::default(),
    };
    let differs = before.objects != after.objects;
    Ok(Change { cluster: key, new: false, nodes, pools, differs })
}

/// A cluster with what the server would have given it: identity, finalizer, management cluster.
fn dressed(cluster: &Cluster, existing: Option<&Cluster>) -> Cluster {
    let mut dressed = cluster.clone();
    dressed.status = existing.and_then(|existing| existing.status.clone());
    let status = dressed.status.get_or_insert_default();
    if status.cluster_name.is_empty() {
        status.cluster_name = "c-m-new".into();
    }
    let metadata = &mut dressed.metadata;
    let before = existing.map(|existing| existing.metadata.clone()).unwrap_or_default();
    metadata.uid = before.uid;
    metadata.deletion_timestamp = before.deletion_timestamp;
    metadata.finalizers =
        before.finalizers.filter(|all| !all.is_empty()).or_else(|| Some(vec!["herdsman.io/preview".into()]));
    dressed
}

fn render(
    known: &dyn Known,
    cluster: &Cluster,
    given: &[MachineConfig],
    encoded: Option<&str>,
) -> Result<Graph, Error> {
    let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
    let Some(config) = &cluster.spec.rke_config else {
        return Err(Error::Refused("spec.rkeConfig is not set: there are no nodes to plan for".into()));
    };
    let mut configs = BTreeMap::new();
    for pool in &config.machine_pools {
        let Some(Source::Driver(reference)) = pool.machine_config_ref.as_ref().map(Source::of) else {
            continue;
        };
        let named = |one: &&MachineConfig| {
            one.kind == reference.kind && one.metadata.name.as_deref() == Some(reference.name.as_str())
        };
        let found = given.iter().find(named).cloned().or_else(|| config_of(known, namespace, &reference));
        configs.extend(found.map(|found| (reference, found)));
    }
    // Whether credentials exist is admission's question; here they are taken to.
    let credentials = credentials(cluster, config);
    let id = cluster.status.as_ref().map(|status| status.cluster_name.as_str()).unwrap_or_default();
    let facts = Facts { cluster, id, configs: &configs, credentials: &credentials, encoded_spec: encoded };
    graph::render(&facts).map_err(|hold| match hold {
        Hold::Nothing => Error::Refused("the cluster is being deleted".into()),
        Hold::Waiting(wait) => Error::Refused(wait.to_string()),
        Hold::Refused(refusal) => Error::Refused(refusal.to_string()),
    })
}

fn config_of(known: &dyn Known, namespace: &str, reference: &ConfigRef) -> Option<MachineConfig> {
    let group = api::machine::CONFIG_GROUP;
    let definitions = known.filed(&index::definitions(), &index::kind(group, &reference.kind));
    let plural = definitions.first()?.document()["spec"]["names"]["plural"].as_str()?.to_owned();
    let kind = KindId::new(group, api::machine::VERSION, &reference.kind, &plural);
    let found = known.get(&kind, &Key::new(namespace, &reference.name))?;
    serde_json::from_value(found.document().clone()).ok()
}

fn credentials(cluster: &Cluster, config: &RKEConfig) -> BTreeSet<String> {
    let pools = config.machine_pools.iter().map(|pool| pool.common.cloud_credential_secret_name.clone());
    pools.chain([cluster.spec.cloud_credential_secret_name.clone()]).collect()
}

fn pools(before: &Graph, after: &Graph) -> BTreeMap<String, Pool> {
    let count = |graph: &Graph, name: &str| {
        let found = graph.objects.iter().find(|one| one.kind() == "MachineDeployment" && one.name() == name);
        let replicas =
            found.map(|one| one.document()["spec"]["replicas"].as_i64().unwrap_or(1)).unwrap_or_default();
        i32::try_from(replicas).unwrap_or_default()
    };
    let all = impact::of_pools(&before.objects, &after.objects);
    let pool = |name: &str, impact| Pool { impact, before: count(before, name), after: count(after, name) };
    all.into_iter().map(|(name, impact)| (name.clone(), pool(&name, impact))).collect()
}

/// Machines that others take the place of, or that go with their pool.
fn replaced(known: &dyn Known, cluster: &Key, pools: &BTreeMap<String, Pool>) -> BTreeSet<MachineName> {
    let gone = |object: &Arc<Object>| {
        let pool = object.label(labels::CAPI_DEPLOYMENT_NAME).and_then(|name| pools.get(name));
        pool.is_some_and(|pool| matches!(pool.impact, PoolImpact::Replace | PoolImpact::Gone))
    };
    let machines = known.filed(&kinds::machines(), &index::cluster(&cluster.namespace, &cluster.name));
    machines.iter().filter(|object| gone(object)).map(|object| object.name().into()).collect()
}

/// What would happen to nodes if the control plane were the rendered one.
fn nodes(
    ground: &Ground<'_>,
    control_plane: &Arc<Object>,
    after: &Graph,
    replaced: &BTreeSet<MachineName>,
) -> Result<planner::Preview, Error> {
    let rendered = after.objects.iter().find(|one| one.kind() == RKEControlPlane::KIND);
    let Some(rendered) = rendered else { return Ok(planner::Preview::default()) };
    let mut document = control_plane.document().clone();
    document["spec"] = rendered.document()["spec"].clone();
    for part in ["labels", "annotations"] {
        let words = rendered.document()["metadata"][part].as_object().cloned().unwrap_or_default();
        for (key, value) in words {
            document["metadata"][part][key] = value;
        }
    }
    let proposed = Arc::new(Object::from_document(document)?);
    let current = gather(ground, control_plane, &mut Kept::default())?;
    let proposed = gather(ground, &proposed, &mut Kept::default())?;
    Ok(planner::preview(&current.snapshot, &proposed.snapshot, replaced))
}

/// The lines with which admission answers a dry run. Empty if the change does nothing to nodes, or nothing can be said: a preview
/// never stands in the way of a write.
pub async fn preview_warnings(client: &Client, releases: &Arc<Releases>, proposed: &Cluster) -> Vec<String> {
    let namespace = proposed.metadata.namespace.as_deref().unwrap_or_default();
    let Ok(mut lists) = Lists::read(client, namespace).await else { return Vec::new() };
    if lists.read_configs(client, proposed).await.is_err() {
        return Vec::new();
    }
    let settings = Settings { releases: releases.clone(), ..Settings::default() };
    let server = server_info(&lists);
    // No part of a preview goes by the time.
    let ground = Ground { known: &lists, settings: &settings, server: &server, now: Timestamp::UNIX_EPOCH };
    preview(&ground, proposed, &[]).map(|change| change.warnings()).unwrap_or_default()
}
