//! Many machines that register by hand, as custom nodes: `herdsman sim`.

use std::time::Duration;

use crate::bootstrap::Registration;
use crate::machines::CreateOptions;
use crate::settings::Delays;
use crate::world::{Error, World};

/// Which machines register where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    /// URL of the server.
    pub server: String,
    /// A cluster's registration token.
    pub token: String,
    /// SHA-256 of what `/cacerts` answers, in hex; empty if the system vouches for the server.
    pub ca_checksum: String,
    /// How many machines there are to be.
    pub machines: u32,
    /// So many of them are servers with all roles of a control plane; the others are workers.
    pub servers: u32,
    /// What their names begin with.
    pub prefix: String,
}

/// Sees to it that the machines are there; those that were there before are left as they are. Gives how many are new.
///
/// # Errors
/// If a machine cannot be made.
pub async fn muster(world: &World, fleet: &Fleet) -> Result<u32, Error> {
    let machines = world.machines();
    let mut made = 0;
    for number in 1..=fleet.machines {
        let name = name(fleet, number);
        if machines.addresses(&name).is_some() {
            continue;
        }
        let script = registration(fleet, number, &name).script();
        // Nobody provisions them: they are just there.
        let delays = Delays { create: Duration::ZERO, ..world.0.ground.settings.delays };
        let options =
            CreateOptions { script: Some(script), delays: Some(delays), ..CreateOptions::default() };
        machines.create(&name, options).await?;
        made += 1;
    }
    Ok(made)
}

fn name(fleet: &Fleet, number: u32) -> String {
    let prefix = if fleet.prefix.is_empty() { "sim" } else { &fleet.prefix };
    format!("{prefix}-{number}")
}

fn registration(fleet: &Fleet, number: u32, name: &str) -> Registration {
    let server = number <= fleet.servers;
    Registration {
        server: fleet.server.clone(),
        token: fleet.token.clone(),
        ca_checksum: fleet.ca_checksum.clone(),
        etcd: server,
        control_plane: server,
        worker: !server || fleet.machines == fleet.servers,
        node_name: name.to_owned(),
        labels: "cattle.io/os=linux".into(),
        ..Registration::default()
    }
}
