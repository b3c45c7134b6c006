//! How a cluster goes: what is deleted, in which order, what is waited for, and what force gives up.
//!
//! Rancher's order: management cluster and Cluster API cluster first; that takes machines, infrastructure and control
//! plane with it; the finalizers fall when all of it is gone. Nothing waits silently.
//!
//! The annotation `herdsman.io/force-remove: "true"` on the cluster is the way out when the cloud or the cluster itself
//! is gone: failed deletions of servers count as done, etcd members are not removed first, and objects of native
//! providers that hang in deletion lose their finalizers. What then is left at the cloud is the user's to remove.

use api::capi::v1beta2 as capi;
use api::catalogue::{annotations, conditions, finalizers};
use api::machine;
use api::names;
use api::provisioning::v1::Cluster;
use api::{GenericCondition, Kind as _};
use serde_json::Value;

use crate::graph::identity;
use crate::object::{Id, group};
use crate::status::Finding;
use crate::{Code, Object, Wait};

/// What is left of the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The cluster, which is being deleted.
    pub cluster: &'a Cluster,
    /// Its management cluster.
    pub management: Option<&'a Object>,
    /// Its Cluster API cluster.
    pub capi_cluster: Option<&'a Object>,
    /// Its control plane.
    pub control_plane: Option<&'a Object>,
    /// Its Machines.
    pub machines: &'a [Object],
    /// Its infrastructure machines and, of native providers, its infrastructure cluster.
    pub infrastructure: &'a [Object],
    /// Its RKEBootstraps.
    pub bootstraps: &'a [Object],
    /// Whatever else names the cluster.
    pub others: &'a [Object],
    /// Whether the user that stands for the cluster exists.
    pub user_exists: bool,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Delete an object.
    Delete(Id),
    /// A paused cluster would not delete its machines: unpause it.
    Unpause(Id),
    /// Set an annotation to `true`.
    Force {
        /// On which object.
        id: Id,
        /// Which annotation.
        annotation: &'static str,
    },
    /// Give up an object that hangs in deletion: take all of its finalizers away.
    GiveUp(Id),
    /// Take our finalizers off the cluster: it is gone.
    Release(Vec<&'static str>),
}

/// What to do now, and what is waited for.
#[derive(Clone, Debug, PartialEq)]
pub struct Removal {
    /// Steps, in order.
    pub steps: Vec<Step>,
    /// What is waited for; nothing once the finalizers fall.
    pub wait: Option<Wait>,
}

impl Removal {
    /// What the condition `Removed` says.
    pub fn finding(&self) -> Finding {
        match &self.wait {
            Some(wait) => Finding::waiting(wait.to_string()),
            None => Finding::yes(),
        }
    }
}

/// Our finalizers on a cluster.
pub const FINALIZERS: [&str; 3] = [
    finalizers::PROVISIONING_CLUSTER_REMOVE,
    finalizers::RKE_CLUSTER_REMOVE,
    finalizers::CAPI_RESOURCES_CLEANUP,
];

/// The finalizers that a cluster lacks. They are placed before anything is made that they clean up: for an imported
/// cluster that is its management half only.
pub fn missing_finalizers(cluster: &Cluster) -> Vec<&'static str> {
    if cluster.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let needed = if cluster.spec.rke_config.is_some() { &FINALIZERS[..] } else { &FINALIZERS[..1] };
    let present = present_finalizers(cluster);
    needed.iter().copied().filter(|one| !present.contains(one)).collect()
}

/// What to do about a cluster that is being deleted.
pub fn decide(facts: &Facts<'_>) -> Removal {
    let mut steps = Vec::new();
    steps.extend(management(facts));
    if let Some(capi_cluster) = facts.capi_cluster {
        if capi_cluster.document()["spec"]["paused"] == true {
            steps.push(Step::Unpause(capi_cluster.id()));
        }
        if !capi_cluster.is_deleting() {
            steps.push(Step::Delete(capi_cluster.id()));
        }
    } else {
        // Without the Cluster API cluster nobody else deletes these.
        let orphans = facts.machines.iter().chain(facts.control_plane);
        steps.extend(orphans.filter(|one| !one.is_deleting()).map(|one| Step::Delete(one.id())));
    }
    if facts.cluster.metadata.annotations.as_ref().is_some_and(|all| is_true(all.get(FORCE))) {
        steps.extend(force(facts));
    }
    let wait = wait(facts);
    if wait.is_none() {
        steps.extend(leftovers(facts).filter(|one| !one.is_deleting()).map(|one| Step::Delete(one.id())));
    }
    let wait = wait.or_else(|| leftovers(facts).next().map(|one| leftover_wait(facts, one)));
    if wait.is_none() {
        steps.extend(user(facts));
        steps.push(Step::Release(present_finalizers(facts.cluster)));
    }
    Removal { steps, wait }
}

const FORCE: &str = annotations::HERDSMAN_FORCE_REMOVE;

fn is_true(value: Option<&String>) -> bool {
    value.is_some_and(|value| value == "true")
}

/// The management cluster goes with us unless somebody moved it to another workspace.
fn management(facts: &Facts<'_>) -> Option<Step> {
    let management = facts.management.filter(|one| !one.is_deleting())?;
    let workspace = management.document()["spec"]["fleetWorkspaceName"].as_str();
    (workspace == facts.cluster.metadata.namespace.as_deref()).then(|| Step::Delete(management.id()))
}

/// What force adds: servers, etcd members and native objects are given up.
fn force<'a>(facts: &Facts<'a>) -> impl Iterator<Item = Step> + use<'a> {
    let driver = |object: &&Object| object.id().group() == machine::GROUP;
    let lacks = |object: &&Object, key| object.annotation(key) != Some("true");
    let servers = facts.infrastructure.iter().filter(driver);
    let servers = servers.filter(move |one| lacks(one, annotations::FORCE_MACHINE_REMOVE));
    let members = facts.bootstraps.iter().filter(move |one| lacks(one, annotations::ETCD_FORCE_REMOVE));
    let native = facts.infrastructure.iter().filter(move |one| !driver(one) && one.is_deleting());
    let set = |annotation| move |one: &Object| Step::Force { id: one.id(), annotation };
    servers
        .map(set(annotations::FORCE_MACHINE_REMOVE))
        .chain(members.map(set(annotations::ETCD_FORCE_REMOVE)))
        .chain(native.map(|one| Step::GiveUp(one.id())))
}

/// What is waited for while Cluster API takes the cluster down.
fn wait(facts: &Facts<'_>) -> Option<Wait> {
    let subject = identity(facts.cluster).to_string();
    let force = format!("if it cannot go, annotate the cluster with {FORCE}=true");
    if let Some(machine) = facts.machines.first() {
        let awaits = format!("waiting for machine [{}] to delete", machine.name());
        let wait = Wait::new(Code::RemovingMachine, subject, awaits, force);
        let more = facts.machines.len() - 1;
        let words = deleting_words(machine);
        return Some(match (words, more) {
            (Some(words), 0) => wait.seeing(words),
            (Some(words), more) => wait.seeing(format!("{words}; and {more} more")),
            (None, 0) => wait,
            (None, more) => wait.seeing(format!("and {more} more")),
        });
    }
    if let Some(control_plane) = facts.control_plane {
        let awaits = format!("waiting for {} to delete", control_plane.id());
        let wait = Wait::new(Code::RemovingControlPlane, subject, awaits, force);
        let found: Vec<GenericCondition> =
            serde_json::from_value(control_plane.document()["status"]["conditions"].clone())
                .unwrap_or_default();
        let removed = GenericCondition::find(&found, conditions::REMOVED);
        return Some(match removed.filter(|one| !one.message.is_empty()) {
            Some(removed) => wait.seeing(removed.message.clone()),
            None => wait,
        });
    }
    facts.capi_cluster.map(|one| {
        let awaits = format!("waiting for cluster-api cluster [{}] to delete", one.name());
        let wait = Wait::new(Code::RemovingCluster, subject, awaits, force);
        match deleting_words(one) {
            Some(words) => wait.seeing(words),
            None => wait,
        }
    })
}

/// What Cluster API says of a deletion.
fn deleting_words(object: &Object) -> Option<String> {
    let found = object.document()["status"]["conditions"].as_array()?;
    let deleting = found.iter().find(|one| one["type"] == conditions::DELETING)?;
    deleting["message"].as_str().filter(|message| !message.is_empty()).map(str::to_owned)
}

/// What names the cluster and is still there although its Cluster API cluster is not. What users made and Cluster API never
/// took is theirs.
fn leftovers<'a>(facts: &Facts<'a>) -> impl Iterator<Item = &'a Object> + use<'a> {
    let taken = |object: &&Object| {
        let owners = object.document()["metadata"]["ownerReferences"].as_array();
        let capi = |owner: &Value| owner["apiVersion"].as_str().is_some_and(|version| group(version) == CAPI);
        object.id().group().ends_with("cattle.io") || owners.is_some_and(|owners| owners.iter().any(capi))
    };
    facts.infrastructure.iter().filter(taken).chain(facts.bootstraps).chain(facts.others)
}

/// Group of Cluster API's own kinds.
const CAPI: &str = capi::Cluster::GROUP;

fn leftover_wait(facts: &Facts<'_>, one: &Object) -> Wait {
    Wait::new(
        Code::RemovingLeftovers,
        identity(facts.cluster).to_string(),
        format!("waiting for {} to delete", one.id()),
        format!("if it cannot go, annotate the cluster with {FORCE}=true"),
    )
}

/// The user that stands for the cluster.
fn user(facts: &Facts<'_>) -> Option<Step> {
    let id = identity(facts.cluster);
    let name = names::user(&names::provisioning_principal(&id.namespace, &id.name));
    facts.user_exists.then(|| {
        Step::Delete(Id {
            api_version: "management.cattle.io/v3".into(),
            kind: "User".into(),
            namespace: String::new(),
            name,
        })
    })
}

fn present_finalizers(cluster: &Cluster) -> Vec<&'static str> {
    let present = cluster.metadata.finalizers.as_deref().unwrap_or_default();
    FINALIZERS.into_iter().filter(|one| present.iter().any(|found| found == one)).collect()
}

#[cfg(test)]
#[path = "removal_tests.rs"]
mod tests;
