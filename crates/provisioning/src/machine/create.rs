//! How a server comes to be.

use api::capi::v1beta2 as capi;
use api::catalogue::{annotations, conditions, labels};
use api::machine::Machine;
use api::rke::v1::RKEMachineStatus;
use jiff::Timestamp;

use super::outcome::{self, JobState, JobView, PRE_CREATE_CHECK_FAILED, condition};
use super::retry::{self, Failures, Next, Policy};
use super::{Program, identity};
use crate::status::{Finding, set};
use crate::{Code, Wait};

/// What there is.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The infrastructure machine.
    pub infra: &'a Machine,
    /// The Machine that owns it.
    pub machine: Option<&'a capi::Machine>,
    /// The Machine's cluster.
    pub cluster: Option<&'a capi::Cluster>,
    /// Its Job.
    pub job: Option<&'a JobView>,
    /// Whether the state Secret knows of a server.
    pub state_is_empty: bool,
    /// The driver's program; nothing if there is no such driver.
    pub program: Option<&'a Program>,
    /// What is done about failures.
    pub policy: &'a Policy,
    /// The time.
    pub now: Timestamp,
}

/// What to do now.
#[derive(Clone, Debug, PartialEq)]
pub enum Create {
    /// Nothing.
    Wait(Wait),
    /// Note the Machine's name on the infrastructure machine: its deletion needs it, whatever becomes of the Machine.
    Label(String),
    /// Write the status, then look again. `failures` is the annotation to write first.
    Status {
        /// The status.
        status: Box<RKEMachineStatus>,
        /// Failures in a row, where they change.
        failures: Option<Failures>,
        /// What is waited for.
        wait: Option<Wait>,
    },
    /// Apply everything that a Job takes, delete a Job that is there, and make the Job.
    Run {
        /// A Job that cleans up after a failed one, rather than one that makes the server.
        cleans_up: bool,
    },
    /// The last try failed: the Job and its logs stay until then.
    Pause {
        /// What is waited for.
        wait: Wait,
        /// When to look again; nothing if somebody has to act.
        until: Option<Timestamp>,
    },
    /// Delete the Machine: its MachineSet makes another.
    DeleteMachine,
    /// The server is there and its node has joined: only the state Secret is needed any more.
    Settled(Box<RKEMachineStatus>),
}

impl Create {
    /// What is waited for.
    pub fn wait(&self) -> Option<&Wait> {
        match self {
            Create::Wait(wait) | Create::Pause { wait, .. } => Some(wait),
            Create::Status { wait, .. } => wait.as_ref(),
            _ => None,
        }
    }
}

/// What to do about a machine that is not being deleted.
pub fn create(facts: &Facts<'_>) -> Create {
    let wait = match ready(facts) {
        Ok(None) => return begun(facts),
        Ok(Some(step)) => return step,
        Err(wait) => wait,
    };
    // A server that is there stays ready, whatever is lacking around it.
    match is_made(facts) {
        true => Create::Pause { wait, until: None },
        false => Create::Wait(wait),
    }
}

fn is_made(facts: &Facts<'_>) -> bool {
    condition(facts.infra, conditions::CREATE_JOB).is_some_and(|one| one.status == "True")
}

/// Everything that a server needs is there; or the label is to be set first.
fn ready(facts: &Facts<'_>) -> Result<Option<Create>, Wait> {
    let soon = "nothing to do: it follows by itself";
    let Some(machine) = facts.machine else {
        return Err(wait(facts, Code::WaitingForMachine, "waiting for a Machine to own it", soon));
    };
    let name = machine.metadata.name.as_deref().unwrap_or_default();
    let own = facts.infra.metadata.labels.as_ref();
    if own.and_then(|own| own.get(labels::CAPI_MACHINE_NAME)).is_none_or(|label| label != name) {
        return Ok(Some(Create::Label(name.to_owned())));
    }
    let Some(cluster) = facts.cluster else {
        return Err(wait(
            facts,
            Code::WaitingForCluster,
            "waiting for the Cluster API cluster to exist",
            soon,
        ));
    };
    let marks = facts.infra.metadata.annotations.as_ref();
    if cluster.spec.paused == Some(true) || marks.is_some_and(|marks| marks.contains_key(annotations::PAUSED))
    {
        return Err(wait(facts, Code::Paused, "waiting: the cluster or the machine is paused", "unpause it"));
    }
    let provisioned =
        cluster.status.as_ref().and_then(|status| status.initialization.infrastructure_provisioned);
    if provisioned != Some(true) {
        return Err(wait(
            facts,
            Code::WaitingForInfrastructure,
            "waiting for the cluster's infrastructure",
            soon,
        ));
    }
    if machine.spec.bootstrap.data_secret_name.as_deref().unwrap_or_default().is_empty() {
        return Err(wait(
            facts,
            Code::WaitingForBootstrapData,
            "waiting for the machine's bootstrap data",
            soon,
        ));
    }
    if facts.program.is_none() {
        let remedy = "activate the node driver";
        return Err(wait(facts, Code::NodeDriverMissing, "waiting for the machine's node driver", remedy));
    }
    Ok(None)
}

/// By what was announced and what became of it.
fn begun(facts: &Facts<'_>) -> Create {
    match condition(facts.infra, conditions::CREATE_JOB).map(|one| one.status.as_str()) {
        None => announce(facts),
        Some("True") => made(facts),
        Some("False") => failed(facts),
        Some(_) => running(facts),
    }
}

fn announce(facts: &Facts<'_>) -> Create {
    let status = facts.infra.status.clone().unwrap_or_default();
    write(facts, outcome::announced(&status, false, &facts.now.to_string()), None, None)
}

fn running(facts: &Facts<'_>) -> Create {
    let Some(job) = facts.job else { return Create::Run { cleans_up: false } };
    match (&job.state, job.deletes) {
        // The clean-up before this try is still there.
        (JobState::Running, true) => Create::Wait(cleaning(facts)),
        (_, true) => Create::Run { cleans_up: false },
        (state, false) => {
            let status = outcome::folded(facts.infra, job, &facts.now.to_string());
            let before = failures(facts.infra);
            let (failures, wait) = match state {
                JobState::Running => (None, Some(creating(facts))),
                JobState::Complete => (Some(Failures::default()).filter(|_| before.count > 0), None),
                JobState::Failed { .. } => {
                    (Some(before.and(&job.uid)).filter(|_| before.last != job.uid), None)
                }
            };
            write(facts, status, failures, wait)
        }
    }
}

/// The server is there; its node may not be.
fn made(facts: &Facts<'_>) -> Create {
    let mut status = facts.infra.status.clone().unwrap_or_default();
    set(&mut status.conditions, conditions::READY, Finding::yes(), &facts.now.to_string());
    if !facts.infra.spec.provider_id.is_empty() {
        return Create::Settled(Box::new(note(facts, status)));
    }
    let wait = wait(
        facts,
        Code::WaitingForNode,
        "waiting for the server to become a node",
        "on the server: what does journalctl -u rancher-system-agent say?",
    );
    write(facts, status, None, Some(wait))
}

/// The server could not be made. Another try replaces the Job of the last one, and its logs.
fn failed(facts: &Facts<'_>) -> Create {
    let before = failures(facts.infra);
    let (failed_at, exit_code, words) = match facts.job {
        Some(JobView { state: JobState::Running, deletes: true, .. }) => {
            return Create::Wait(cleaning(facts));
        }
        Some(JobView { state: JobState::Complete, deletes: true, .. }) => {
            return Create::Run { cleans_up: false };
        }
        Some(JobView { state: JobState::Failed { at, exit_code, message }, deletes, uid, .. })
            if *deletes || *uid == before.last =>
        {
            (*at, *exit_code, message.clone())
        }
        // Another try, which is not folded in yet.
        Some(_) => return running(facts),
        None => (since(facts), None, String::new()),
    };
    let cleans_up = !facts.state_is_empty && exit_code != Some(PRE_CREATE_CHECK_FAILED);
    match retry::next(facts.policy, before.count.max(1), failed_at, facts.now) {
        Next::Retry => Create::Run { cleans_up },
        Next::DeleteMachine => Create::DeleteMachine,
        Next::At(until) => pause(facts, Code::CreateFailed, words, Some(until)),
        Next::GivenUp => pause(facts, Code::CreateGivenUp, words, None),
    }
}

fn pause(facts: &Facts<'_>, code: Code, words: String, until: Option<Timestamp>) -> Create {
    let count = failures(facts.infra).count.max(1);
    let awaits = match until {
        Some(until) => format!("the server could not be made ({count} times in a row), next try at {until}"),
        None => format!("the server could not be made {count} times in a row, nothing more is tried"),
    };
    let remedy = "act on the driver's words; a change of the machine config replaces the machine, deleting the \
                  Machine tries with a new one";
    let words = match words.is_empty() {
        true => facts.infra.status.as_ref().map(|status| status.failure_message.clone()).unwrap_or_default(),
        false => words.trim().to_owned(),
    };
    Create::Pause { wait: wait(facts, code, &awaits, remedy).seeing(words), until }
}

fn write(
    facts: &Facts<'_>,
    status: RKEMachineStatus,
    failures: Option<Failures>,
    wait: Option<Wait>,
) -> Create {
    Create::Status { status: Box::new(note(facts, status)), failures, wait }
}

fn note(facts: &Facts<'_>, status: RKEMachineStatus) -> RKEMachineStatus {
    outcome::noted(status, facts.infra, &facts.program.cloned().unwrap_or_default())
}

fn failures(machine: &Machine) -> Failures {
    let marks = machine.metadata.annotations.as_ref();
    let text = marks.and_then(|marks| marks.get(annotations::HERDSMAN_CREATE_FAILURES));
    Failures::read(text.map(String::as_str))
}

/// When the condition says that the server could not be made.
fn since(facts: &Facts<'_>) -> Timestamp {
    let time = condition(facts.infra, conditions::CREATE_JOB).map(|one| one.last_transition_time.as_str());
    time.and_then(|time| time.parse().ok()).unwrap_or(facts.now)
}

fn creating(facts: &Facts<'_>) -> Wait {
    wait(
        facts,
        Code::CreatingServer,
        "waiting for the server to be made",
        "nothing to do: the driver's Job runs",
    )
}

fn cleaning(facts: &Facts<'_>) -> Wait {
    let awaits = "waiting for what is left of the last try to be deleted";
    wait(facts, Code::DeletingServer, awaits, "nothing to do: the driver's Job runs")
}

fn wait(facts: &Facts<'_>, code: Code, awaits: &str, remedy: &str) -> Wait {
    Wait::new(code, identity(facts.infra).to_string(), awaits, remedy)
}
