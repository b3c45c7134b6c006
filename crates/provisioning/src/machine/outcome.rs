//! How a Job went, and what its machine says of it.

use api::GenericCondition;
use api::catalogue::{conditions, labels, reasons};
use api::machine::Machine;
use api::rke::v1::{MachineInitialization, RKEMachineStatus};
use jiff::Timestamp;

use super::{Program, identity};
use crate::status::{Finding, set};

/// A Job of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobView {
    /// Its name: all Jobs of a machine have the same.
    pub name: String,
    /// Its UID, which tells them apart.
    pub uid: String,
    /// Whether it deletes the server.
    pub deletes: bool,
    /// How it goes.
    pub state: JobState,
}

/// How a Job goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    /// Not yet ended.
    Running,
    /// Ended well.
    Complete,
    /// Ended badly.
    Failed {
        /// When.
        at: Timestamp,
        /// The program's exit code, if a pod is left to tell it.
        exit_code: Option<i32>,
        /// The program's last words.
        message: String,
    },
}

/// Exit code of a server that could not be made because a check before found a reason: there is nothing to clean up.
pub const PRE_CREATE_CHECK_FAILED: i32 = 3;

/// Status of a machine before a Job is made: it says that something may exist from now on.
pub(super) fn announced(status: &RKEMachineStatus, deletes: bool, now: &str) -> RKEMachineStatus {
    let mut status = status.clone();
    let (type_, words) = match deletes {
        true => (conditions::DELETE_JOB, "creating machine deletion job"),
        false => (conditions::CREATE_JOB, "creating machine provision job"),
    };
    let finding = Finding { status: "Unknown".into(), message: words.into(), ..Default::default() };
    set(&mut status.conditions, type_, finding, now);
    status
}

/// Status of a machine with what its Job says folded in.
pub(super) fn folded(machine: &Machine, job: &JobView, now: &str) -> RKEMachineStatus {
    let mut status = machine.status.clone().unwrap_or_default();
    status.job_name = job.name.clone();
    let type_ = if job.deletes { conditions::DELETE_JOB } else { conditions::CREATE_JOB };
    // The words of the last create would hide those of the delete.
    if job.deletes && status.failure_reason == reasons::CREATE_ERROR {
        status.failure_reason.clear();
        status.failure_message.clear();
    }
    match &job.state {
        JobState::Running => {
            let finding =
                Finding { status: "False".into(), message: executing(machine, job), ..Default::default() };
            set(&mut status.conditions, conditions::READY, finding, now);
            // A new try after one that failed.
            if !job.deletes {
                status = announced(&status, false, now);
            }
        }
        JobState::Complete => {
            set(&mut status.conditions, type_, Finding::yes(), now);
            if !job.deletes {
                set(&mut status.conditions, conditions::READY, Finding::yes(), now);
                status.failure_reason.clear();
                status.failure_message.clear();
            }
        }
        JobState::Failed { message, .. } => {
            let reason = if job.deletes { reasons::DELETE_ERROR } else { reasons::CREATE_ERROR };
            let words = format!("failed {}: {reason}: {}", executing(machine, job), message.trim());
            let finding = Finding { status: "False".into(), reason: reason.into(), message: words };
            set(&mut status.conditions, type_, finding.clone(), now);
            set(&mut status.conditions, conditions::READY, finding, now);
            status.failure_reason = reason.into();
            status.failure_message = message.trim().into();
        }
    }
    status
}

/// Status of a machine with what is known beside its Jobs.
pub(super) fn noted(status: RKEMachineStatus, machine: &Machine, program: &Program) -> RKEMachineStatus {
    let credential = match machine.spec.common.cloud_credential_secret_name.as_str() {
        // What made the server also deletes it.
        "" => status.cloud_credential_secret_name.clone(),
        named => named.to_owned(),
    };
    let provisioned = !machine.spec.provider_id.is_empty();
    RKEMachineStatus {
        // The older contract's word for the same.
        ready: provisioned,
        initialization: Some(MachineInitialization { provisioned: Some(provisioned) }),
        driver_hash: program.hash.clone(),
        driver_url: program.url.clone(),
        cloud_credential_secret_name: credential,
        ..status
    }
}

/// What a Job is doing, in the words that others look for.
fn executing(machine: &Machine, job: &JobView) -> String {
    let id = identity(machine);
    let own = machine.metadata.labels.as_ref();
    let capi_machine = own.and_then(|own| own.get(labels::CAPI_MACHINE_NAME)).cloned().unwrap_or_default();
    format!(
        "{} server [{}/{}] of kind ({}) for machine {capi_machine} in infrastructure provider",
        if job.deletes { "deleting" } else { "creating" },
        id.namespace,
        id.name,
        id.kind,
    )
}

/// A condition of a machine.
pub(super) fn condition<'a>(machine: &'a Machine, type_: &str) -> Option<&'a GenericCondition> {
    GenericCondition::find(&machine.status.as_ref()?.conditions, type_)
}
