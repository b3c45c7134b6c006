//! What is waited for: the chain from a cluster over its control plane and its machines to agents and their probes.

use std::sync::Arc;

use api::catalogue::conditions;
use api::provisioning::v1::Cluster;
use api::rke::v1::{RKECluster, RKEControlPlaneStatus};
use api::{GenericCondition, Kind as _};
use jiff::Timestamp;
use kit::object::Unreadable;
use kit::{Key, KindId, Object, conditions as findings, index};
use plan::orchestrator::Health;
use planner::{Subject, decide};
use provisioning::diagnose::{self, Referred};
use provisioning::graph::Source;
use serde::Serialize;

use super::gather::{Ground, Kept, Seen, gather};
use super::known::{infrastructure_kind, kinds};

/// Something that is waited for, as people and programs read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// The stable code.
    pub code: String,
    /// Which object it is about.
    pub subject: String,
    /// Since when, where it is known.
    pub since: Option<Timestamp>,
    /// What has to happen.
    pub awaits: String,
    /// What was last seen of it.
    pub evidence: Option<String>,
    /// What can be done.
    pub remedy: String,
}

impl Explained {
    /// A wait of the planner's.
    pub(crate) fn of_planner(wait: &planner::Wait, namespace: Option<(&str, &str)>) -> Self {
        let subject = match (&wait.subject, namespace) {
            (Subject::Machine(name), Some((namespace, _))) => format!("Machine {namespace}/{name}"),
            (Subject::Cluster, Some((namespace, name))) => format!("RKEControlPlane {namespace}/{name}"),
            (subject, None) => subject.to_string(),
        };
        Explained {
            code: wait.code.as_str().into(),
            subject,
            since: wait.since,
            awaits: wait.message.clone(),
            evidence: wait.evidence.clone(),
            remedy: wait.remedy().into(),
        }
    }

    fn of_provisioning(wait: &provisioning::Wait) -> Self {
        Explained {
            code: wait.code.as_str().into(),
            subject: wait.subject.clone(),
            since: None,
            awaits: wait.awaits.clone(),
            evidence: Some(wait.evidence.clone()).filter(|words| !words.is_empty()),
            remedy: wait.remedy.clone(),
        }
    }
}

/// What an explanation is asked of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// A provisioning Cluster, with everything behind it.
    Cluster(Key),
    /// A control plane and its machines.
    ControlPlane(Key),
    /// One Machine.
    Machine(Key),
}

/// Why nothing can be explained.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such object.
    #[error("there is no {kind} {key}")]
    NotFound {
        /// What was asked for.
        kind: &'static str,
        /// Which one.
        key: Key,
    },
    /// An object is not what its type says.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// What is waited for, the most basic first: what stands above explains what stands below.
///
/// # Errors
/// If the object does not exist.
pub fn explain(ground: &Ground<'_>, question: &Question) -> Result<Vec<Explained>, Error> {
    match question {
        Question::Cluster(key) => {
            let kind = KindId::of::<Cluster>();
            let object = ground.known.get(&kind, key);
            let object = object.ok_or_else(|| Error::NotFound { kind: Cluster::KIND, key: key.clone() })?;
            let mut all = cluster(ground, &object)?;
            match ground.known.get(&kinds::control_planes(), key) {
                Some(found) => all.extend(control_plane(ground, &found)?),
                None if all.is_empty() => all.extend(said(&object)?),
                None => {}
            }
            Ok(all)
        }
        Question::ControlPlane(key) => {
            let found = ground.known.get(&kinds::control_planes(), key);
            let found = found.ok_or_else(|| Error::NotFound { kind: "RKEControlPlane", key: key.clone() })?;
            control_plane(ground, &found)
        }
        Question::Machine(key) => machine(ground, key),
    }
}

fn machine(ground: &Ground<'_>, key: &Key) -> Result<Vec<Explained>, Error> {
    let found = ground.known.get(&kinds::machines(), key);
    let found = found.ok_or_else(|| Error::NotFound { kind: "Machine", key: key.clone() })?;
    let cluster = found.document()["spec"]["clusterName"].as_str().unwrap_or_default();
    let control_planes =
        ground.known.filed(&kinds::control_planes(), &index::cluster(&key.namespace, cluster));
    let Some(found) = control_planes.first() else { return Ok(Vec::new()) };
    let own = format!("Machine {key}");
    let mut all = control_plane(ground, found)?;
    // What the cluster waits for may be the reason, unless the machine has reasons of its own.
    let has_own = all.iter().any(|one| one.subject == own);
    all.retain(|one| one.subject == own || (!has_own && one.subject.starts_with("RKEControlPlane ")));
    Ok(all)
}

/// What stands in the way of a cluster below its control plane.
fn cluster(ground: &Ground<'_>, object: &Arc<Object>) -> Result<Vec<Explained>, Error> {
    let view = object.view::<Cluster>()?;
    let Some(config) = &view.spec.rke_config else { return Ok(Vec::new()) };
    let namespace = object.namespace();
    let entry = index::cluster(namespace, object.name());
    let copied = |object: &Arc<Object>| provisioning::Object::from_document(object.document().clone());
    let find = |group: &str, kind: &str, name: &str| match infrastructure_kind(ground.known, group, kind) {
        None => Looked::UnknownKind,
        Some(kind) => match ground.known.get(&kind, &Key::new(namespace, name)) {
            Some(found) => Looked::Found(copied(&found)),
            None => Looked::Missing,
        },
    };
    let infrastructure = match config.infrastructure_ref.as_ref().map(Source::of) {
        Some(Source::Native(found)) => find(&found.api_group, &found.kind, &found.name),
        _ => find(RKECluster::GROUP, RKECluster::KIND, object.name()),
    };
    let templates: Vec<(&str, Looked)> = config
        .machine_pools
        .iter()
        .filter_map(|pool| match pool.machine_config_ref.as_ref().map(Source::of)? {
            Source::Native(found) => {
                Some((pool.name.as_str(), find(&found.api_group, &found.kind, &found.name)))
            }
            Source::Driver(_) => None,
        })
        .collect();
    let templates: Vec<_> = templates
        .iter()
        .map(|(pool, found)| diagnose::Template { pool, template: found.referred() })
        .collect();
    let deployments = ground.known.filed(&kinds::deployments(), &entry);
    let sets = ground.known.filed(&kinds::sets(), &entry);
    let deployments: Vec<_> = deployments.iter().chain(&sets).map(copied).collect();
    let machines: Vec<_> = ground
        .known
        .filed(&kinds::machines(), &entry)
        .iter()
        .map(|machine| {
            let reference = &machine.document()["spec"]["infrastructureRef"];
            let part = |field: &str| reference[field].as_str().unwrap_or_default();
            (copied(machine), find(part("apiGroup"), part("kind"), part("name")))
        })
        .collect();
    let machines: Vec<_> = machines
        .iter()
        .map(|(machine, found)| diagnose::Machine { machine, infrastructure: found.referred() })
        .collect();
    let facts = diagnose::Facts {
        cluster: &view,
        infrastructure: infrastructure.referred(),
        templates: &templates,
        deployments: &deployments,
        machines: &machines,
        now: ground.now,
    };
    Ok(diagnose::waits(&facts).iter().map(Explained::of_provisioning).collect())
}

/// What became of a reference.
enum Looked {
    UnknownKind,
    Missing,
    Found(provisioning::Object),
}

impl Looked {
    fn referred(&self) -> Referred<'_> {
        match self {
            Looked::UnknownKind => Referred::UnknownKind,
            Looked::Missing => Referred::Missing,
            Looked::Found(object) => Referred::Found(object),
        }
    }
}

/// What a cluster without a control plane says of itself.
fn said(object: &Arc<Object>) -> Result<Option<Explained>, Error> {
    let view = object.view::<Cluster>()?;
    let listed = view.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
    let told = [conditions::REMOVED, conditions::RKE_CLUSTER, conditions::READY];
    let found = told.iter().find_map(|type_| {
        GenericCondition::find(&listed, type_).filter(|one| !one.is_true() && !one.message.is_empty())
    });
    Ok(found.map(|found| Explained {
        code: Some(found.reason.clone())
            .filter(|reason| !reason.is_empty())
            .unwrap_or_else(|| "Waiting".into()),
        subject: format!("Cluster {}", object.key()),
        since: found.last_transition_time.parse().ok(),
        awaits: found.message.clone(),
        evidence: None,
        remedy: "see the conditions of the Cluster".into(),
    }))
}

/// What a control plane and its machines wait for, by the decision that would be made now.
fn control_plane(ground: &Ground<'_>, object: &Arc<Object>) -> Result<Vec<Explained>, Error> {
    let seen = gather(ground, object, &mut Kept::default())?;
    let mut snapshot = seen.snapshot.clone();
    // Whether the cluster is reached is the server's to know, and it said so.
    let status: RKEControlPlaneStatus = seen.view.status.clone().unwrap_or_default();
    snapshot.state.agent_connected |= status.agent_connected;
    let decision = decide(&snapshot);
    let place = (object.namespace(), object.name());
    let explained = decision.waits.iter().map(|wait| {
        let mut one = Explained::of_planner(wait, Some(place));
        one.since = one.since.or_else(|| since(&seen, &status, wait));
        one.evidence = one.evidence.take().or_else(|| evidence(&seen, wait));
        one
    });
    Ok(explained.collect())
}

/// Since when the conditions that show a wait say what they say.
fn since(seen: &Seen, status: &RKEControlPlaneStatus, wait: &planner::Wait) -> Option<Timestamp> {
    match &wait.subject {
        Subject::Cluster => {
            let found = GenericCondition::find(&status.conditions, conditions::READY)?;
            let time = if found.message == wait.message { &found.last_update_time } else { return None };
            time.parse().ok()
        }
        Subject::Machine(name) => {
            let machine = &seen.machines.get(name)?.object;
            let machine = machine.view::<api::capi::v1beta2::Machine>().ok()?;
            let found = findings::find(&machine.status.as_ref()?.conditions, conditions::RECONCILED)?;
            (found.message == wait.message).then_some(found.last_transition_time.0)
        }
    }
}

/// What the agent last reported: its run, and its probes.
fn evidence(seen: &Seen, wait: &planner::Wait) -> Option<String> {
    let Subject::Machine(name) = &wait.subject else { return None };
    let plan = &seen.snapshot.machines.get(name)?.plan;
    if !plan.has_plan {
        return None;
    }
    let mut words = Vec::new();
    words.extend(plan.delivered_at.map(|time| format!("plan delivered at {time}")));
    words.push(match plan.last_apply {
        Some(time) => format!("agent last ran a plan at {time}"),
        None => "agent has not run a plan yet".into(),
    });
    match &plan.health {
        Health::Healthy => words.push("all probes are well".into()),
        Health::Unknown => words.push("no word of probes yet".into()),
        Health::Unhealthy(names) => words.push(format!("probes that fail: {}", names.join(", "))),
    }
    Some(words.join("; "))
}
