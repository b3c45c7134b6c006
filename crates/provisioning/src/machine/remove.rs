//! How a server goes.

use api::catalogue::{annotations, conditions, reasons};
use api::machine::Machine;
use api::rke::v1::RKEMachineStatus;
use jiff::Timestamp;

use super::identity;
use super::outcome::{self, JobState, JobView, condition};
use super::retry::Policy;
use crate::{Code, Wait};

/// What there is.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The infrastructure machine, which is being deleted.
    pub infra: &'a Machine,
    /// Whether its namespace goes too.
    pub namespace_goes: bool,
    /// Whether its owner is still a MachineSet: no Machine has ever taken it.
    pub owned_by_set: bool,
    /// Its Job.
    pub job: Option<&'a JobView>,
    /// Whether the state Secret knows of a server.
    pub state_is_empty: bool,
    /// Pauses between tries.
    pub policy: &'a Policy,
    /// The time.
    pub now: Timestamp,
}

/// What to do now.
#[derive(Clone, Debug, PartialEq)]
pub enum Remove {
    /// Take the finalizer off.
    Release,
    /// Delete every object of the machine, then take the finalizer off.
    Prune,
    /// Write the status, then look again.
    Status {
        /// The status.
        status: Box<RKEMachineStatus>,
        /// What is waited for.
        wait: Option<Wait>,
    },
    /// Apply everything that a Job takes, delete a Job that is there, and make the Job that deletes the server.
    Run,
    /// The last try failed: the Job and its logs stay until then.
    Pause {
        /// What is waited for.
        wait: Wait,
        /// When to look again.
        until: Timestamp,
    },
}

impl Remove {
    /// What is waited for.
    pub fn wait(&self) -> Option<&Wait> {
        match self {
            Remove::Pause { wait, .. } => Some(wait),
            Remove::Status { wait, .. } => wait.as_ref(),
            _ => None,
        }
    }
}

/// What to do about a machine that is being deleted.
pub fn remove(facts: &Facts<'_>) -> Remove {
    if facts.namespace_goes || facts.owned_by_set {
        return Remove::Release;
    }
    let created = condition(facts.infra, conditions::CREATE_JOB);
    let Some(created) = created else {
        // Announced before it is made: nothing was.
        return Remove::Release;
    };
    if created.status == "Unknown" {
        match facts.job {
            // Announced and never begun; or its Job was taken away, and what it left is known.
            None if facts.state_is_empty => return Remove::Prune,
            Some(job) if !job.deletes => return unfinished(facts, job),
            _ => {}
        }
    }
    match condition(facts.infra, conditions::DELETE_JOB).map(|one| one.status.as_str()) {
        None => announce(facts),
        Some("True") => Remove::Prune,
        Some(_) => deletion(facts, created.reason == reasons::CREATE_ERROR && facts.state_is_empty),
    }
}

/// A server that is being made cannot be deleted: its driver does not know all of it yet.
fn unfinished(facts: &Facts<'_>, job: &JobView) -> Remove {
    let wait = (job.state == JobState::Running).then(|| {
        wait(
            facts,
            Code::CreateUnfinished,
            "cannot delete the server because its create job has not finished",
            "nothing to do: the driver's Job ends by itself",
        )
    });
    Remove::Status { status: Box::new(outcome::folded(facts.infra, job, &facts.now.to_string())), wait }
}

fn announce(facts: &Facts<'_>) -> Remove {
    let status = facts.infra.status.clone().unwrap_or_default();
    let status = outcome::announced(&status, true, &facts.now.to_string());
    Remove::Status { status: Box::new(status), wait: None }
}

fn deletion(facts: &Facts<'_>, never_made: bool) -> Remove {
    let Some(job) = facts.job.filter(|job| job.deletes) else { return Remove::Run };
    match &job.state {
        JobState::Complete => Remove::Prune,
        JobState::Running => {
            let status = outcome::folded(facts.infra, job, &facts.now.to_string());
            let nothing = "nothing to do: the driver's Job runs";
            let wait = wait(facts, Code::DeletingServer, "waiting for the server to be deleted", nothing);
            Remove::Status { status: Box::new(status), wait: Some(wait) }
        }
        // Of what was never made the driver knows nothing, and says that it cannot delete it.
        JobState::Failed { .. } if never_made || is_forced(facts.infra) => Remove::Prune,
        JobState::Failed { at, message, .. } => retry(facts, job, *at, message),
    }
}

/// It is tried again after as long as it has been failing, within limits.
fn retry(facts: &Facts<'_>, job: &JobView, failed_at: Timestamp, words: &str) -> Remove {
    let known = condition(facts.infra, conditions::DELETE_JOB).filter(|one| one.status == "False");
    let Some(known) = known else {
        let status = outcome::folded(facts.infra, job, &facts.now.to_string());
        return Remove::Status { status: Box::new(status), wait: None };
    };
    let since: Timestamp = known.last_transition_time.parse().unwrap_or(failed_at);
    let pause = failed_at.duration_since(since).clamp(facts.policy.first, facts.policy.longest);
    let until = failed_at.saturating_add(pause).unwrap_or(failed_at);
    if facts.now >= until {
        return Remove::Run;
    }
    let wait = wait(
        facts,
        Code::DeleteFailed,
        &format!("the server could not be deleted, next try at {until}"),
        &format!(
            "act on the driver's words; if the server is gone, annotate the machine with {}=true",
            FORCE
        ),
    );
    Remove::Pause { wait: wait.seeing(words.trim()), until }
}

const FORCE: &str = annotations::FORCE_MACHINE_REMOVE;

fn is_forced(machine: &Machine) -> bool {
    let marks = machine.metadata.annotations.as_ref();
    marks.and_then(|marks| marks.get(FORCE)).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

fn wait(facts: &Facts<'_>, code: Code, awaits: &str, remedy: &str) -> Wait {
    Wait::new(code, identity(facts.infra).to_string(), awaits, remedy)
}
