//! What makes one machine a node: its accounts, its plan Secret, and the data that its server runs first.
//!
//! Where we do otherwise than Rancher: values in scripts are quoted whatever they are; the bootstrap Secret carries the
//! label that Cluster API's contract asks for, and it loses the installer once the machine has a node; bookkeeping of an
//! apply is not copied to the plan Secret.

pub mod cloud_config;
pub mod hook;
mod objects;
pub mod repair;
pub mod script;
pub mod token;

use api::capi::v1beta2::values::machine_phase;
use api::capi::v1beta2::{Cluster, Machine};
use api::catalogue::{annotations, labels};
use api::machine::GROUP as MACHINE_GROUP;
use api::rke::v1::{
    CustomMachine, RKEBootstrap, RKEBootstrapInitialization, RKEBootstrapStatus, RKEControlPlane,
};
use api::{Kind as _, names};

pub use objects::plan_labels;
pub use script::Server;

use crate::object::Id;
use crate::{Code, Object, Wait};

/// Infrastructure groups whose machines take the script as it is: their own ways bring it to the server.
const SCRIPT_GROUPS: [&str; 3] = [MACHINE_GROUP, RKEBootstrap::GROUP, "elemental.cattle.io"];

/// Stands for the installer where no server will run it. It is as long as everything else of a machine together.
const NO_INSTALLER: &str =
    "# The installer is left out, as the machine runs: the server has it at /system-agent-install.sh.";

/// What there is.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The bootstrap object.
    pub bootstrap: &'a RKEBootstrap,
    /// The Machine that owns it.
    pub machine: Option<&'a Machine>,
    /// The Machine's cluster.
    pub cluster: Option<&'a Cluster>,
    /// The cluster's control plane.
    pub control_plane: Option<&'a RKEControlPlane>,
    /// What the server introduces itself with; nothing until the bootstrap account has a token.
    pub token: Option<&'a str>,
    /// Our own end.
    pub server: &'a Server<'a>,
}

/// What should be there for a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Every object. What is there of them and not here any more is to be deleted.
    pub objects: Vec<Object>,
    /// The bootstrap object's status.
    pub status: RKEBootstrapStatus,
    /// What the rest waits for.
    pub wait: Option<Wait>,
}

/// Why there is no bootstrap data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No native provider boots Windows with cloud-config.
    #[error("windows is not supported with native Cluster API infrastructure: use a node driver's pool")]
    Windows,
    /// The user data cannot be merged.
    #[error(transparent)]
    Userdata(#[from] cloud_config::Error),
}

/// Why nothing is made.
#[derive(Clone, Debug, PartialEq)]
pub enum Hold {
    /// Something is missing that will come.
    Waiting(Wait),
    /// It cannot be.
    Refused(Refusal),
}

impl From<Wait> for Hold {
    fn from(wait: Wait) -> Self {
        Hold::Waiting(wait)
    }
}

/// What should be there for the machine of a bootstrap object.
///
/// # Errors
/// [`Hold`], and then nothing may be made, changed or deleted.
pub fn decide(facts: &Facts<'_>) -> Result<Outcome, Hold> {
    let (machine, cluster) = ready(facts)?;
    let owner = objects::Owner::of(facts.bootstrap);
    let mut outcome = Outcome {
        objects: objects::plan(&owner, facts.bootstrap, machine, facts.server.ca_checksum),
        status: facts.bootstrap.status.clone().unwrap_or_default(),
        wait: None,
    };
    let ours = cluster.spec.control_plane_ref.as_ref().is_some_and(|one| one.kind == RKEControlPlane::KIND);
    if !ours || !takes_data(machine) {
        return Ok(outcome);
    }
    let Some(control_plane) = facts.control_plane else {
        return Err(wait(facts, Code::WaitingForCluster, "waiting for the control plane to exist").into());
    };
    outcome.objects.push(objects::bootstrap_account(&owner, facts.bootstrap, machine));
    let Some(token) = facts.token else {
        outcome.wait = Some(wait(facts, Code::WaitingForToken, "waiting for the bootstrap account's token"));
        return Ok(outcome);
    };
    let value = data(facts, machine, control_plane, token).map_err(Hold::Refused)?;
    let name = names::bootstrap_secret(names::Bootstrap(&owner.id.name));
    outcome.objects.push(objects::bootstrap_secret(&owner, &name, &machine.spec.cluster_name, value));
    // Written once: the Machine has copied it, and nothing reads it twice.
    if outcome.status.data_secret_name.is_none() {
        outcome.status.data_secret_name = Some(name);
        outcome.status.initialization = Some(RKEBootstrapInitialization { data_secret_created: Some(true) });
    }
    Ok(outcome)
}

/// Whether the machine may still boot. The data goes with a machine that goes: it opens a door.
fn takes_data(machine: &Machine) -> bool {
    let phase = machine.status.as_ref().map(|status| status.phase.as_str()).unwrap_or_default();
    ![machine_phase::DELETING, machine_phase::DELETED, machine_phase::FAILED].contains(&phase)
}

/// Whether a server is yet to run the data: it has no node, and it did not register by hand, which is what makes a
/// CustomMachine.
fn is_to_boot(machine: &Machine) -> bool {
    let node = machine.status.as_ref().and_then(|status| status.node_ref.as_ref());
    node.is_none() && machine.spec.infrastructure_ref.kind != CustomMachine::KIND
}

fn ready<'a>(facts: &Facts<'a>) -> Result<(&'a Machine, &'a Cluster), Wait> {
    let Some(machine) = facts.machine else {
        return Err(wait(facts, Code::WaitingForMachine, "waiting for a Machine to own it"));
    };
    let Some(cluster) = facts.cluster else {
        return Err(wait(facts, Code::WaitingForCluster, "waiting for the Cluster API cluster to exist"));
    };
    let marks = facts.bootstrap.metadata.annotations.as_ref();
    let paused = cluster.spec.paused == Some(true)
        || marks.is_some_and(|marks| marks.contains_key(annotations::PAUSED));
    if paused {
        return Err(wait(facts, Code::Paused, "waiting: the cluster or the bootstrap object is paused"));
    }
    let provisioned =
        cluster.status.as_ref().and_then(|status| status.initialization.infrastructure_provisioned);
    if provisioned != Some(true) {
        return Err(wait(facts, Code::WaitingForInfrastructure, "waiting for the cluster's infrastructure"));
    }
    Ok((machine, cluster))
}

/// What the server runs first.
fn data(
    facts: &Facts<'_>,
    machine: &Machine,
    control_plane: &RKEControlPlane,
    token: &str,
) -> Result<String, Refusal> {
    let os = machine.metadata.labels.as_ref().and_then(|all| all.get(labels::OS)).map(String::as_str);
    let windows = os == Some("windows");
    let native = !SCRIPT_GROUPS.contains(&machine.spec.infrastructure_ref.api_group.as_str());
    let server = match is_to_boot(machine) {
        true => *facts.server,
        false => Server { installer: NO_INSTALLER, windows_installer: NO_INSTALLER, ..*facts.server },
    };
    match (windows, native) {
        (true, true) => Err(Refusal::Windows),
        (true, false) => Ok(script::windows(&server, &control_plane.spec, token)),
        (false, false) => Ok(script::linux(&server, &control_plane.spec, token)),
        (false, true) => {
            let install = script::linux(&server, &control_plane.spec, token);
            let userdata = facts.bootstrap.spec.userdata.as_ref();
            let userdata = userdata.map(|one| one.inline_userdata.as_str()).unwrap_or_default();
            Ok(cloud_config::merge(userdata, &install)?)
        }
    }
}

fn wait(facts: &Facts<'_>, code: Code, awaits: &str) -> Wait {
    let subject = objects::Owner::of(facts.bootstrap).id.to_string();
    let remedy = match code {
        Code::Paused => "unpause the cluster",
        _ => "nothing to do: it follows by itself",
    };
    Wait::new(code, subject, awaits, remedy)
}

/// Which object a bootstrap object is.
pub fn identity(bootstrap: &RKEBootstrap) -> Id {
    objects::Owner::of(bootstrap).id
}

#[cfg(test)]
#[path = "bootstrap/tests.rs"]
mod tests;
