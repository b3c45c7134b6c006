mod api;
mod machine;
mod tls;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent::apply::Applier;
use agent::client::Client;
use agent::config::Config;
use agent::journal::Journal;
use agent::machine::Machine;
use agent::remote::{Observer, Remote, Unobserved};
use agent::watch::Place;
use plan::PlanSecret;
use plan::document::{Document, Instruction, OneTimeInstruction, Plan};
use plan::secret::Data;
use tokio::task::JoinHandle;

pub(crate) use api::Server;
pub(crate) use machine::{Said, Script, machine};
pub(crate) use tls::{Authority, listen};

/// A server, and a machine whose agent may be running.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) root: tempfile::TempDir,
    pub(crate) script: Arc<Script>,
    agent: Option<JoinHandle<()>>,
}

impl World {
    pub(crate) async fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        World { server: Server::new().await, root, script: Arc::default(), agent: None }
    }

    pub(crate) fn machine(&self) -> Machine {
        machine(self.root.path(), self.script.clone())
    }

    /// Starts the agent.
    pub(crate) fn start(&mut self) {
        let machine = self.machine();
        self.start_on(machine);
    }

    pub(crate) fn start_on(&mut self, machine: Machine) {
        self.start_observed(machine, Arc::new(Unobserved));
    }

    pub(crate) fn start_observed(&mut self, machine: Machine, observer: Arc<dyn Observer>) {
        let config = config();
        let journal = Journal::open(&machine.root, &config.state_directory).unwrap();
        let address = "http://server".parse().unwrap();
        let remote = Remote {
            client: Client::new(Arc::new(self.server.clone()), &address, None).unwrap(),
            place: Place::new("default", "plan").unwrap(),
            applier: Arc::new(Applier::new(machine, &config)),
            journal,
            observer,
            authority: None,
        };
        self.agent = Some(tokio::spawn(remote.run()));
    }

    /// Ends the agent wherever it is, as `kill -9` does.
    pub(crate) async fn kill(&mut self) {
        let agent = self.agent.take().unwrap();
        agent.abort();
        let _ = agent.await;
    }

    /// Until it ends by itself.
    pub(crate) async fn ended(&mut self) {
        self.agent.take().unwrap().await.unwrap();
    }

    pub(crate) async fn restart(&mut self) {
        self.kill().await;
        self.start();
    }

    /// Waits until the Secret is as it should be.
    pub(crate) async fn until(&self, what: &str, good: impl Fn(&PlanSecret) -> bool) -> PlanSecret {
        for _ in 0..20_000 {
            let secret = PlanSecret::read(&self.server.data().await);
            if good(&secret) {
                return secret;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("not {what}: {:?}", PlanSecret::read(&self.server.data().await));
    }

    pub(crate) async fn until_runs(&self, runs: usize) {
        for _ in 0..20_000 {
            if self.script.runs().len() >= runs {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{:?}", self.script.runs());
    }

    pub(crate) fn path(&self, path: &str) -> std::path::PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    pub(crate) fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.path(path)).ok()
    }
}

pub(crate) fn config() -> Config {
    Config {
        work_directory: "/var/agent/work".into(),
        preserve_work_directory: false,
        local_enabled: false,
        local_plan_directory: "/var/agent/plans".into(),
        applied_plan_directory: Some("/var/agent/applied".into()),
        remote_enabled: true,
        connection_info_file: "/etc/agent/connection.json".into(),
        images_directory: "/var/agent/images".into(),
        agent_registries_file: "/etc/agent/registries.yaml".into(),
        credential_provider_config: "/none".into(),
        credential_provider_directory: "/none".into(),
        interlock_directory: Some("/var/agent/interlock".into()),
        state_directory: "/var/agent/state".into(),
    }
}

/// A plan that runs commands, saves their output, and nothing else.
pub(crate) fn commands(commands: &[&str]) -> Plan {
    let instruction = |command: &&str| OneTimeInstruction {
        common: Instruction {
            name: (*command).to_owned(),
            command: (*command).to_owned(),
            ..Instruction::default()
        },
        save_output: true,
        ..OneTimeInstruction::default()
    };
    Plan { instructions: commands.iter().map(instruction).collect(), ..Plan::default() }
}

/// The Secret's keys that deliver a plan.
pub(crate) fn delivery(plan: Plan, state: Option<&str>) -> Data {
    let mut data = Data::from([("plan".to_owned(), Document::encode(plan).bytes().to_vec())]);
    data.extend(state.map(|state| ("plan-state".to_owned(), state.as_bytes().to_vec())));
    data
}

/// All files below a directory, with what is in them.
pub(crate) fn tree(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let Ok(entries) = std::fs::read_dir(directory) else { return files };
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        match path.is_dir() {
            true => {
                files.extend(tree(&path).into_iter().map(|(below, bytes)| (format!("{name}/{below}"), bytes)))
            }
            false => {
                files.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    files
}
