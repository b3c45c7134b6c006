//! One process of the distribution on one machine: a server, or an agent.

use std::convert::Infallible;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::config::Config;
use super::{Runtime, Version, join, kubelet, server};
use crate::machine::Machine;
use crate::systemd::Started;

/// What a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) runtime: Runtime,
    pub(crate) role: Role,
}

/// Whether it has anything of a control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// etcd, the API, or both.
    Server,
    /// A kubelet alone.
    Agent,
}

impl Role {
    pub(crate) fn other(self) -> Self {
        match self {
            Role::Server => Role::Agent,
            Role::Agent => Role::Server,
        }
    }
}

impl Process {
    const ALL: [Process; 4] = [
        Process { runtime: Runtime::K3s, role: Role::Server },
        Process { runtime: Runtime::K3s, role: Role::Agent },
        Process { runtime: Runtime::Rke2, role: Role::Server },
        Process { runtime: Runtime::Rke2, role: Role::Agent },
    ];

    /// The process of a unit.
    pub(crate) fn of_unit(unit: &str) -> Option<Self> {
        Process::ALL.into_iter().find(|process| process.unit() == unit)
    }

    /// Its unit.
    pub(crate) fn unit(self) -> &'static str {
        match (self.runtime, self.role) {
            (Runtime::K3s, Role::Server) => "k3s",
            (Runtime::K3s, Role::Agent) => "k3s-agent",
            (Runtime::Rke2, Role::Server) => "rke2-server",
            (Runtime::Rke2, Role::Agent) => "rke2-agent",
        }
    }

    /// The file of its unit.
    pub(crate) fn unit_file(self) -> String {
        format!("/etc/systemd/system/{}.service", self.unit())
    }
}

/// What a process has found on its machine.
pub(crate) struct Context<'a> {
    pub(crate) machine: &'a Arc<Machine>,
    pub(crate) process: Process,
    pub(crate) config: Config,
    pub(crate) version: Version,
    pub(crate) data_dir: String,
}

impl Context<'_> {
    /// What the node is called.
    pub(crate) fn node_name(&self) -> String {
        match self.config.text("node-name") {
            "" => self.machine.record().hostname().to_lowercase(),
            name => name.to_lowercase(),
        }
    }
}

/// Runs a process until it cannot go on. Says why. Whoever started it is told when it is up.
pub(crate) async fn run(
    machine: &Arc<Machine>,
    process: Process,
    started: &mut Option<oneshot::Sender<Started>>,
) -> String {
    match start(machine, process, started).await {
        Ok(never) => match never {},
        Err(why) => why,
    }
}

async fn start(
    machine: &Arc<Machine>,
    process: Process,
    started: &mut Option<oneshot::Sender<Started>>,
) -> Result<Infallible, String> {
    let runtime = process.runtime;
    let version = machine.read(runtime.binary()).ok_or_else(|| format!("{}: not found", runtime.binary()))?;
    let config = Config::read(machine, runtime)?;
    let context = Context {
        machine,
        process,
        data_dir: config.data_dir(runtime),
        config,
        version: Version::new(&version),
    };
    machine.pause(|delays| delays.start).await;
    match process.role {
        Role::Server => server::serve(&context, started).await,
        Role::Agent => {
            // An agent is up once it runs: it waits for its server by itself.
            crate::systemd::tell(started, Ok(()));
            let cluster = join::as_agent(&context).await?;
            kubelet::run(&context, &cluster).await
        }
    }
}
