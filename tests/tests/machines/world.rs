//! A machine with the agent on it, and the server that it belongs to.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use peers::docker::{Docker, Network};
use peers::machine::Machine;
use plan::document::{File, Instruction, OneTimeInstruction, Plan};
use plan::orchestrator::{Progress, Terms};
use suites::plans::{PlanServer, Stored, until};

use crate::server::{Offer, Server, sha256};

/// The name of the machine's plan Secret.
pub(crate) const SECRET: &str = "machine-plan";
/// The service's unit.
pub(crate) const UNIT: &str = "rancher-system-agent";
/// Where plans of these tests leave marks.
pub(crate) const MARKS: &str = "/srv/marks";

pub(crate) struct World {
    // In the order in which they go.
    pub(crate) machine: Machine,
    pub(crate) plans: PlanServer,
    pub(crate) registration: Server,
}

impl World {
    /// A machine without an agent. None if there can be no machines here.
    pub(crate) fn bare(name: &str) -> Option<Self> {
        if peers::machine::skip("machines") {
            return None;
        }
        let agent = agent();
        let docker = Docker::shared().unwrap();
        let network = Network::create(&docker, &format!("herdsman-{name}")).unwrap();
        let plans = PlanServer::start(network.gateway).unwrap();
        let connection = plans.enrol(SECRET).unwrap();
        let registration = Server::at(network.gateway, Offer { agent, connection });
        let machine = Machine::boot(&network, "node", &[]).unwrap();
        Some(World { machine, plans, registration })
    }

    /// A machine on which the agent was installed.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let world = World::bare(name)?;
        world.install();
        Some(world)
    }

    /// As a user does it.
    pub(crate) fn install(&self) -> String {
        let (url, sum) = (self.registration.url(), sha256(self.registration.ca().as_bytes()));
        self.sh(&format!(
            "curl --fail --silent --show-error --insecure {url}/system-agent-install.sh | \
             sh -s - --server {url} --token t0ken --ca-checksum {sum} --worker --node-name n1 --label a=b 2>&1"
        ))
    }

    pub(crate) fn sh(&self, script: &str) -> String {
        self.machine.sh(script).unwrap_or_else(|error| panic!("{error}\n{}", self.journal()))
    }

    /// What a file on the machine says; empty if there is none.
    pub(crate) fn read(&self, path: &str) -> String {
        self.sh(&format!("cat {path} 2>/dev/null || true"))
    }

    /// What the agent and the units of the tests have logged.
    pub(crate) fn journal(&self) -> String {
        self.machine.sh("journalctl --no-pager --lines 60").unwrap_or_default()
    }

    /// The agent's process.
    pub(crate) fn pid(&self) -> u32 {
        self.sh(&format!("systemctl show --value --property MainPID {UNIT}")).trim().parse().unwrap()
    }

    pub(crate) fn deliver(&self, plan: Plan) {
        self.plans.deliver(SECRET, plan, Terms::default()).unwrap();
    }

    pub(crate) fn until(&self, what: &str, wanted: impl FnMut(&Stored) -> bool) -> Stored {
        self.plans.until(SECRET, what, wanted).unwrap_or_else(|error| panic!("{error}\n{}", self.journal()))
    }

    pub(crate) fn until_applied(&self) -> Stored {
        self.until("applied", |stored| stored.status().progress == Progress::Applied)
    }

    /// Waits until a script on the machine succeeds.
    pub(crate) fn until_on_machine(&self, what: &str, script: &str) {
        let reached = until(what, || self.machine.sh(script).is_ok());
        reached.unwrap_or_else(|error| panic!("{error}\n{}", self.journal()));
    }
}

/// The agent, built once for all tests.
fn agent() -> Bytes {
    static AGENT: OnceLock<Bytes> = OnceLock::new();
    AGENT.get_or_init(|| std::fs::read(suites::agents::static_agent().unwrap()).unwrap().into()).clone()
}

/// A file of a plan.
pub(crate) fn file(path: &str, content: &str, permissions: &str) -> File {
    use base64::Engine as _;
    let content = base64::prelude::BASE64_STANDARD.encode(content);
    File { path: path.into(), content, permissions: permissions.into(), ..File::default() }
}

/// An instruction of a plan: a shell script.
pub(crate) fn script(name: &str, script: &str) -> OneTimeInstruction {
    let common = Instruction {
        name: name.into(),
        command: "sh".into(),
        args: vec!["-ec".into(), script.into()],
        ..Instruction::default()
    };
    OneTimeInstruction { common, save_output: true, ..OneTimeInstruction::default() }
}

/// An instruction that says when it begins, waits until it may go on, and says when it ends.
pub(crate) fn held(name: &str) -> OneTimeInstruction {
    script(
        name,
        &format!(
            "mkdir -p {MARKS}; echo begin-$CATTLE_AGENT_ATTEMPT_NUMBER >> {MARKS}/{name}; \
             until test -e {MARKS}/{name}.go; do sleep 0.1; done; echo end >> {MARKS}/{name}; echo done-{name}"
        ),
    )
}

pub(crate) fn plan_of(instructions: Vec<OneTimeInstruction>) -> Plan {
    Plan { instructions, ..Plan::default() }
}

/// An archive as `docker save` writes it, of an image with one file, `run.sh`.
pub(crate) fn image_archive(name: &str, run: &str) -> (tempfile::TempDir, PathBuf) {
    let docker: Arc<Docker> = Docker::shared().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("run.sh"), run).unwrap();
    let mut tar = std::process::Command::new("tar");
    tar.args(["--create", "--mode=0755", "--file=root.tar", "run.sh"]).current_dir(directory.path());
    peers::command::run(&mut tar).unwrap();
    let (root, archive) = (path("root.tar").display().to_string(), path("image.tar").display().to_string());
    docker.run(&["import", &root, name]).unwrap();
    docker.run(&["save", "--output", &archive, name]).unwrap();
    docker.run(&["rmi", name]).unwrap();
    let archive = path("image.tar");
    (directory, archive)
}
