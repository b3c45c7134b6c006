//! Deployments, and machines one by one.

use api::catalogue::{conditions as types, labels, reasons};
use jiff::Timestamp;

use super::evidence::{
    Condition, age, changed, condition, conditions, is_provisioned, is_touched, problem, since,
};
use super::{Machine, PROVIDER_PATIENCE, REGISTRATION_PATIENCE, Referred, silence};
use crate::{Code, Object, Wait};

/// What MachineDeployments and MachineSets complain of, each complaint once.
pub(super) fn deployments(objects: &[Object]) -> Vec<Wait> {
    let mut waits: Vec<Wait> = Vec::new();
    for object in objects {
        let mut complaints: Vec<_> =
            conditions(object).filter_map(|one| Some((one, complaint(one)?))).collect();
        // A template that cannot be cloned is why everything else is not as it should be.
        complaints.sort_by_key(|(_, code)| *code != Code::MachineTemplateInvalid);
        let Some((found, code)) = complaints.into_iter().next() else { continue };
        let words = found.words();
        if waits.iter().any(|wait| wait.evidence == words) {
            continue;
        }
        let id = object.id();
        let awaits = match code {
            Code::MachineTemplateInvalid => format!("{id} cannot make machines from its template"),
            _ => format!("{id} reports a problem"),
        };
        let remedy = match code {
            Code::MachineTemplateInvalid => {
                "correct the template under a new name and let the pool's machineConfigRef name it"
            }
            _ => "the words are the provider's or Cluster API's: act on them",
        };
        waits.push(Wait::new(code, id.to_string(), awaits, remedy).seeing(words));
    }
    waits
}

/// Whether a condition of a deployment or set is a complaint, and which.
fn complaint(one: Condition<'_>) -> Option<Code> {
    let cloning =
        [reasons::INFRASTRUCTURE_TEMPLATE_CLONING_FAILED, reasons::BOOTSTRAP_TEMPLATE_CLONING_FAILED];
    if one.status() != "True" && cloning.contains(&one.reason()) {
        return Some(Code::MachineTemplateInvalid);
    }
    // Deployments and sets say this, as a warning, whenever machines are on their way.
    let on_their_way = [reasons::WAITING_FOR_AVAILABLE_MACHINES, reasons::SCALING_UP, reasons::SCALING_DOWN]
        .contains(&one.reason());
    let loud = one.status() == "False" && matches!(one.severity(), "Warning" | "Error") && !on_their_way;
    let blocked = one.type_() == types::SCALING_UP
        && one.status() == "True"
        && ["blocked", "failed", "error"].iter().any(|word| one.message().to_lowercase().contains(word));
    (loud || blocked).then_some(Code::MachineDeploymentWarning)
}

/// What is in the way of one machine.
pub(super) fn machine(one: &Machine<'_>, now: Timestamp) -> Option<Wait> {
    if needs_nothing(one) {
        return None;
    }
    let Referred::Found(found) = one.infrastructure else { return None };
    let subject = found.id().to_string();
    let ready = is_ready(found);
    if ready && !is_registered(one) {
        return registration(one.machine, found, now);
    }
    if ready {
        return None;
    }
    if !is_touched(found) {
        let late = age(found, now).is_some_and(|age| age > PROVIDER_PATIENCE);
        return late.then(|| silence(Code::MachineProviderSilent, &subject, found.id().group()));
    }
    if found.id().group() == api::machine::GROUP {
        return driver(found, subject);
    }
    let loud = conditions(found).any(|one| one.status() == "False" && one.severity() != "Info")
        || found.document()["status"]["failureMessage"].is_string();
    let words = problem(found).filter(|_| loud)?;
    Some(
        Wait::new(
            Code::InfrastructureMachineError,
            subject.clone(),
            format!("waiting for {subject} to be provisioned"),
            "the words are the provider's: credentials, network and quota are its own settings",
        )
        .seeing(words),
    )
}

/// A server of a node driver: our own controller looks after it, and says what it waits for. What passes by itself is in nobody's way.
fn driver(found: &Object, subject: String) -> Option<Wait> {
    let failure = found.document()["status"]["failureMessage"].as_str().filter(|words| !words.is_empty());
    if let Some(words) = failure {
        let awaits = format!("waiting for {subject} to be made: the driver could not");
        let remedy = "the words are the driver's: act on them; its machine config and credential are yours";
        return Some(Wait::new(Code::CreateFailed, subject, awaits, remedy).seeing(words));
    }
    let needs_somebody = [
        (Code::CredentialMissing, "create the cloud credential, or correct its name"),
        (Code::NodeDriverMissing, "activate the node driver: kubectl get nodedrivers"),
        (Code::Paused, "unpause the cluster or the machine"),
    ];
    let said = condition(found, types::READY).filter(|one| one.status() == "False")?;
    let (code, remedy) = needs_somebody.into_iter().find(|(code, _)| code.as_str() == said.reason())?;
    Some(Wait::new(code, subject, said.message(), remedy))
}

/// Whether it is there, or on its way out.
pub(super) fn needs_nothing(one: &Machine<'_>) -> bool {
    one.machine.is_deleting() || one.machine.document()["status"]["nodeRef"]["name"].is_string()
}

/// For how many seconds a server has run.
fn running(machine: &Object, infrastructure: &Object, now: Timestamp) -> Option<i64> {
    let ready = condition(machine, types::INFRASTRUCTURE_READY).or(condition(infrastructure, types::READY));
    ready.map(changed).and_then(|time| since(time, now)).or_else(|| age(infrastructure, now))
}

/// In how many seconds a machine that nothing is said of would have been waited for long enough, if nothing changes but the time.
pub(super) fn patience_left(one: &Machine<'_>, now: Timestamp) -> Option<i64> {
    let Referred::Found(found) = one.infrastructure else { return None };
    match is_ready(found) {
        true if is_registered(one) => None,
        true => Some(REGISTRATION_PATIENCE - running(one.machine, found, now)?),
        false if is_touched(found) => None,
        false => Some(PROVIDER_PATIENCE - age(found, now)?),
    }
}

fn is_registered(one: &Machine<'_>) -> bool {
    one.machine.label(labels::MACHINE_ID).is_some()
}

fn is_ready(infrastructure: &Object) -> bool {
    is_provisioned(infrastructure)
        || condition(infrastructure, types::READY).is_some_and(|one| one.status() == "True")
}

/// The server runs; its agent should have called.
fn registration(machine: &Object, infrastructure: &Object, now: Timestamp) -> Option<Wait> {
    let waited = running(machine, infrastructure, now)?;
    (waited > REGISTRATION_PATIENCE).then(|| {
        Wait::new(
            Code::NodeNotRegistered,
            machine.id().to_string(),
            format!(
                "waiting for {} to register: its server has run for {} minutes",
                machine.id(),
                waited / 60
            ),
            "on the server: does it reach the server URL, and what do /var/log/cloud-init-output.log and \
             journalctl -u rancher-system-agent say?",
        )
    })
}
