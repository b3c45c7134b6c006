//! What is in the way of a cluster: every case in which users of native providers are left alone elsewhere has a code,
//! the provider's own words, and a next step.

mod evidence;
mod machines;

use jiff::Timestamp;

use api::provisioning::v1::Cluster;

use crate::graph::source::{self, Source};
use crate::{Code, Object, Wait};

use evidence::{age, is_provisioned, is_touched, problem};

/// How long a provider may take to touch an object that is given to it. Providers watch: seconds are usual.
const PROVIDER_PATIENCE: i64 = 60;

/// How long a server may take from its first sign of life to its agent's first call: boot, cloud-init, download.
const REGISTRATION_PATIENCE: i64 = 600;

/// An object that something refers to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Referred<'a> {
    /// The API does not know the kind.
    UnknownKind,
    /// There is no such object.
    Missing,
    /// Here it is.
    Found(&'a Object),
}

/// A pool's machine template.
#[derive(Clone, Copy, Debug)]
pub struct Template<'a> {
    /// Name of the pool.
    pub pool: &'a str,
    /// The template that its machines are made from.
    pub template: Referred<'a>,
}

/// A machine with what the provider made of it.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// The Cluster API Machine.
    pub machine: &'a Object,
    /// Its infrastructure machine.
    pub infrastructure: Referred<'a>,
}

/// What there is to look at.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Its infrastructure cluster, the user's or ours.
    pub infrastructure: Referred<'a>,
    /// The templates of native pools.
    pub templates: &'a [Template<'a>],
    /// MachineDeployments and MachineSets.
    pub deployments: &'a [Object],
    /// Machines.
    pub machines: &'a [Machine<'a>],
    /// The time.
    pub now: Timestamp,
}

/// What is in the way, the most basic first: what is below explains what is above it.
pub fn waits(facts: &Facts<'_>) -> Vec<Wait> {
    let mut waits = Vec::new();
    waits.extend(infrastructure(facts));
    waits.extend(facts.templates.iter().filter_map(|one| template(facts, one)));
    let templates_are_there = waits
        .iter()
        .all(|wait| !matches!(wait.code, Code::MachineTemplateMissing | Code::MachineTemplateCRDMissing));
    if templates_are_there {
        waits.extend(machines::deployments(facts.deployments));
    }
    waits.extend(facts.machines.iter().filter_map(|one| machines::machine(one, facts.now)));
    waits
}

/// In how many seconds time alone may bring something into the way, if nothing is now.
pub fn due_in(facts: &Facts<'_>) -> Option<u64> {
    let waits = facts.machines.iter().filter(|one| !machines::needs_nothing(one));
    let left = waits.filter_map(|one| machines::patience_left(one, facts.now)).min()?;
    // What is over is said already, and is late by a second at most.
    Some(u64::try_from(left).unwrap_or_default() + 1)
}

/// The infrastructure cluster.
fn infrastructure(facts: &Facts<'_>) -> Option<Wait> {
    let config = facts.cluster.spec.rke_config.as_ref()?;
    let reference = source::infrastructure(facts.cluster, config).ok()?;
    let namespace = facts.cluster.metadata.namespace.as_deref().unwrap_or_default();
    let subject = format!("{} {namespace}/{}", reference.kind, reference.name);
    let found = match facts.infrastructure {
        Referred::UnknownKind => {
            return Some(crd_missing(Code::InfrastructureCRDMissing, subject, &reference.group_kind()));
        }
        Referred::Missing => {
            return Some(Wait::new(
                Code::InfrastructureClusterMissing,
                subject.clone(),
                format!("waiting for {subject}, which spec.rkeConfig.infrastructureRef names, to exist"),
                "create it in the cluster's namespace, or correct the reference",
            ));
        }
        Referred::Found(found) => found,
    };
    if is_provisioned(found) {
        return None;
    }
    let silent = !is_touched(found) && age(found, facts.now).is_some_and(|age| age > PROVIDER_PATIENCE);
    if silent {
        return Some(silence(Code::InfrastructureProviderSilent, &subject, &reference.api_group));
    }
    let words = problem(found).unwrap_or_else(|| "it has not said anything yet".into());
    Some(
        Wait::new(
            Code::InfrastructureClusterNotReady,
            subject.clone(),
            format!("waiting for {subject} to be provisioned"),
            format!(
                "look at its status: kubectl -n {namespace} describe {} {}",
                reference.kind, reference.name
            ),
        )
        .seeing(words),
    )
}

/// A native pool's template.
fn template(facts: &Facts<'_>, one: &Template<'_>) -> Option<Wait> {
    let config = facts.cluster.spec.rke_config.as_ref()?;
    let pool = config.machine_pools.iter().find(|pool| pool.name == one.pool)?;
    let Source::Native(reference) = pool.machine_config_ref.as_ref().map(Source::of)? else { return None };
    let namespace = facts.cluster.metadata.namespace.as_deref().unwrap_or_default();
    let subject = format!("{} {namespace}/{}", reference.kind, reference.name);
    match one.template {
        Referred::Found(_) => None,
        Referred::UnknownKind => {
            Some(crd_missing(Code::MachineTemplateCRDMissing, subject, &reference.group_kind()))
        }
        Referred::Missing => Some(Wait::new(
            Code::MachineTemplateMissing,
            subject.clone(),
            format!("waiting for {subject} of pool {} to exist", one.pool),
            "create it in the cluster's namespace, or correct the pool's machineConfigRef",
        )),
    }
}

fn crd_missing(code: Code, subject: String, group_kind: &str) -> Wait {
    Wait::new(
        code,
        subject,
        format!("waiting for a CustomResourceDefinition of {group_kind}"),
        "is the Cluster API provider installed? Install it, for instance with clusterctl",
    )
}

/// Nobody has ever written to an object that a provider should look after.
fn silence(code: Code, subject: &str, group: &str) -> Wait {
    Wait::new(
        code,
        subject,
        format!("waiting for a controller of {group} to take up {subject}: none has ever touched it"),
        "is the provider running? Look at the pods of its namespace and at their logs",
    )
}

#[cfg(test)]
#[path = "diagnose/tests.rs"]
mod tests;
