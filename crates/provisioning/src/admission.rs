//! What is refused, warned of and filled in at the door.
//!
//! Nothing is looked up here: [`questions`] says what a request needs to know, the caller finds the [`Answers`],
//! [`validate`] and [`mutate`] decide. Checks run in Rancher's order; all of them run, so that a user sees everything
//! that is wrong at once, and the first refusal gives the answer's status code.
//!
//! Where we do otherwise than Rancher: access to credentials of pools and of snapshots is checked like the cluster's;
//! versions, roles, references, generations, drain hooks and overlapping operations are checked at all.

mod agent;
mod agents;
mod answers;
mod credentials;
mod directories;
mod drivers;
mod findings;
mod mutation;
mod name;
mod operations;
mod others;
mod pod_security;
mod pools;
mod version;

use api::provisioning::v1::{Cluster, RKEConfig};

pub use agent::{agent_change, is_agent_of};
pub use answers::{Answers, Question, SecretRef, questions};
pub use drivers::{driver_checksum, machine_secrets, operators_fields};
pub use findings::{Findings, Refusal, Verdict};
pub use mutation::mutate;
pub use others::{creator_of, driver_in_use, plan_secret};
pub use pod_security::{
    SET as POD_SECURITY_SET, is_delivered as delivers_pod_security, secret as pod_security_secret,
};
pub use version::Version;

/// What is done to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It is made.
    Create,
    /// It changes.
    Update,
    /// It is deleted.
    Delete,
}

/// A request to make, change or delete a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What is done.
    pub operation: Operation,
    /// Who does it.
    pub user: &'a str,
    /// Whether the user may do everything, as who moves or restores objects does (`system:masters`).
    pub master: bool,
    /// The cluster before; there is none on creation.
    pub old: Option<&'a Cluster>,
    /// The cluster after; the one that goes, on deletion.
    pub new: &'a Cluster,
    /// Nothing is really done.
    pub dry_run: bool,
}

impl<'a> Request<'a> {
    fn config(&self) -> Option<&'a RKEConfig> {
        self.new.spec.rke_config.as_ref()
    }

    fn old_config(&self) -> Option<&'a RKEConfig> {
        self.old?.spec.rke_config.as_ref()
    }

    fn is_local(&self) -> bool {
        self.new.metadata.name.as_deref() == Some(name::LOCAL)
    }

    /// Whether a part of the cluster differs from what it was; everything does on creation.
    fn changed<T: PartialEq>(&self, part: impl Fn(&'a Cluster) -> T) -> bool {
        self.old.is_none_or(|old| part(old) != part(self.new))
    }
}

/// A check of clusters.
type Check = fn(&Request<'_>, &Answers<'_>, &mut Findings);

/// In Rancher's order (the numbers are those of its documentation), then ours.
const CHECKS: &[Check] = &[
    name::name,                  // 1
    name::kept_kind,             // 2
    name::pool_names,            // 3
    name::creator,               // 4
    agents::direct_access,       // 5
    agents::agents,              // 6
    agents::webhook,             // 7
    credentials::access,         // 8
    directories::no_proxy,       // 9
    directories::directories,    // 10
    agents::disruption_budgets,  // 11
    agents::priority_classes,    // 12
    credentials::snapshot_store, // 13
    operations::restore,         // 14
    pod_security::template,      // 15
    name::management_name,
    version::version,
    pools::references,
    pools::roles,
    pools::providers,
    pools::user_data,
    operations::generations,
    operations::overlapping,
    operations::drain_hooks,
    operations::known_keys,
];

/// Whether the request is admitted, and with which warnings.
pub fn validate(request: &Request<'_>, answers: &Answers<'_>) -> Verdict {
    let mut findings = Findings::default();
    if request.operation == Operation::Delete {
        name::deletion(request, &mut findings);
        return findings.verdict();
    }
    // A cluster that goes only loses finalizers.
    if request.new.metadata.deletion_timestamp.is_none() {
        for check in CHECKS {
            check(request, answers, &mut findings);
        }
    }
    findings.verdict()
}

#[cfg(test)]
#[path = "admission/tests.rs"]
mod tests;
