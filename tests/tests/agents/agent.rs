//! An agent as a process of this machine: ours, or one of Rancher's.

use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use peers::Peer;
use peers::process::Process;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// Ours.
    Herdsman,
    /// Rancher's, with `plan-state`.
    Rancher,
    /// Rancher's, from before `plan-state`.
    RancherLegacy,
}

impl Which {
    pub(crate) const ALL: [Which; 3] = [Which::Herdsman, Which::Rancher, Which::RancherLegacy];

    pub(crate) fn program(self) -> PathBuf {
        match self {
            Which::Herdsman => suites::agents::static_agent().unwrap(),
            Which::Rancher => Peer::SystemAgent.provide().unwrap().path.join("system-agent"),
            Which::RancherLegacy => Peer::SystemAgentLegacy.provide().unwrap().path.join("system-agent"),
        }
    }
}

/// A running agent, with all that it touches below one directory.
pub(crate) struct Agent {
    program: PathBuf,
    directory: PathBuf,
    process: Option<Process>,
}

impl Agent {
    pub(crate) fn start(program: &Path, directory: &Path, connection: &str) -> Self {
        let at = |name: &str| directory.join(name).display().to_string();
        private(&directory.join("connection.json"), connection);
        let config = format!(
            "remoteEnabled: true\nconnectionInfoFile: {}\nworkDirectory: {}\nappliedPlanDirectory: {}\n\
             interlockDirectory: {}\nimagesDirectory: {}\nagentRegistriesFile: {}\n",
            at("connection.json"),
            at("work"),
            at("applied"),
            at("interlock"),
            at("images"),
            at("registries.yaml"),
        );
        private(&directory.join("config.yaml"), &config);
        std::fs::create_dir(directory.join("interlock")).unwrap();
        let mut agent = Agent { program: program.into(), directory: directory.into(), process: None };
        agent.supervise();
        agent
    }

    /// Starts it if it is not running, as systemd does: Rancher's agents end on purpose when a write fails.
    pub(crate) fn supervise(&mut self) {
        if self.process.as_mut().is_some_and(|process| process.ended().is_none()) {
            return;
        }
        let config = format!("CATTLE_AGENT_CONFIG={}", self.directory.join("config.yaml").display());
        let arguments = [config, self.program.display().to_string(), "sentinel".into()];
        let process = Process::start("agent", Path::new("/usr/bin/env"), &arguments, &self.directory);
        self.process = Some(process.unwrap());
    }

    /// `kill -9`, and a start.
    pub(crate) fn restart(&mut self) {
        self.process = None;
        self.supervise();
    }

    pub(crate) fn log(&self) -> String {
        self.process.as_ref().map(Process::log_tail).unwrap_or_default()
    }
}

fn private(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

/// Something to probe that is always well. It answers as long as the test runs.
pub(crate) fn healthy_server() -> String {
    use std::io::{BufRead as _, BufReader, Write as _};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/healthz", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().filter_map(Result::ok) {
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            // A client that is gone is the client's business.
            let _ =
                (&stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        }
    });
    url
}
