//! A real Kubernetes of one's own: etcd, kube-apiserver and kube-controller-manager on free loopback ports.
//!
//! No nodes, no scheduler, no network: objects, controllers and garbage collection are real, pods never run.

mod certificates;
mod directory;
mod files;
mod flags;

use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clock::{Deadline, SystemClock};

use crate::catalog::{self, Peer};
use crate::command;
use crate::process::{self, Process, stop_all};
use directory::DataDirectory;
use files::Files;
use flags::Ports;

pub use certificates::Error as CertificateError;

/// How often readiness is asked for.
const POLL: Duration = Duration::from_millis(100);

/// How long the processes get to end on their own. Their data is thrown away, so there is little to wait for.
const GRACE: Duration = Duration::from_secs(5);

/// Why there is no Kubernetes.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its programs are not on this machine.
    #[error(transparent)]
    Peer(#[from] catalog::Error),
    /// Its certificates could not be made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The operating system refuses a file or a port.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the operating system says.
        source: io::Error,
    },
    /// A process could not be started.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// A process ended while the others were waited for.
    #[error("{name} ended ({status})\n{log}")]
    Died {
        /// Which one.
        name: &'static str,
        /// How.
        status: std::process::ExitStatus,
        /// The end of its log.
        log: String,
    },
    /// It did not become ready.
    #[error("still waiting for {awaited} after {} s: {last}\n{logs}", within.as_secs())]
    NotReady {
        /// What has not happened.
        awaited: &'static str,
        /// How long it had.
        within: Duration,
        /// The last answer.
        last: String,
        /// The ends of all logs.
        logs: String,
    },
}

impl Error {
    /// Another program took one of the ports between choosing and using it.
    fn is_port_clash(&self) -> bool {
        matches!(self, Error::Died { log, .. } if log.contains("address already in use"))
    }
}

/// How a Kubernetes is to be.
#[derive(Clone, Debug)]
pub struct Options {
    controller_manager: bool,
    durable: bool,
    audit_policy: Option<String>,
    ready_within: Duration,
}

impl Options {
    /// Whether kube-controller-manager runs. Without it there are no default ServiceAccounts, no garbage collection,
    /// and namespaces never go away; but nothing changes objects behind a test's back either.
    pub fn controller_manager(self, runs: bool) -> Self {
        Options { controller_manager: runs, ..self }
    }

    /// Whether what it has acknowledged survives a power cut, as in production; not unless set.
    pub fn durable(self, survives: bool) -> Self {
        Options { durable: survives, ..self }
    }

    /// Has it write an audit log, and says what is in it: a `Policy` as YAML.
    pub fn audit(self, policy: &str) -> Self {
        Options { audit_policy: Some(policy.to_owned()), ..self }
    }

    /// How long it may take until it is ready; a minute unless set.
    pub fn ready_within(self, within: Duration) -> Self {
        Options { ready_within: within, ..self }
    }

    /// Starts it and waits until it is ready. Builds and fetches what is not on this machine yet: minutes, once.
    pub fn start(&self) -> Result<Kubernetes, Error> {
        let programs = Programs::provide()?;
        match self.launch(&programs) {
            Err(error) if error.is_port_clash() => self.launch(&programs),
            result => result,
        }
    }

    /// Makes what it needs and starts nothing: [`Kubernetes::restart`] does, for who measures how long that takes.
    pub fn prepare(&self) -> Result<Kubernetes, Error> {
        self.stopped(&Programs::provide()?)
    }

    fn stopped(&self, programs: &Programs) -> Result<Kubernetes, Error> {
        let ports = free_ports().map_err(system("find free ports"))?;
        let directory = DataDirectory::create().map_err(system("create a data directory"))?;
        let files = Files::write(&directory, &ports.url())?;
        let (durable, audited, programs) = (self.durable, self.audit_policy.is_some(), programs.clone());
        if let Some(policy) = &self.audit_policy {
            let file = directory.path().join(flags::AUDIT_POLICY);
            std::fs::write(file, policy).map_err(system("write the audit policy"))?;
        }
        Ok(Kubernetes { processes: Vec::new(), files, directory, ports, durable, audited, programs })
    }

    fn launch(&self, programs: &Programs) -> Result<Kubernetes, Error> {
        let mut kubernetes = self.stopped(programs)?;
        let deadline = Deadline::after(&SystemClock, self.ready_within);
        kubernetes.restart()?;
        kubernetes.wait_for("/readyz", &["get", "--raw", "/readyz"], self.ready_within, deadline)?;
        if self.controller_manager {
            let program = &programs.kube_controller_manager;
            kubernetes.start_process("kube-controller-manager", program, flags::kube_controller_manager)?;
            let ask = ["get", "serviceaccount", "default", "--namespace=default"];
            kubernetes.wait_for("the default ServiceAccount", &ask, self.ready_within, deadline)?;
        }
        Ok(kubernetes)
    }
}

/// A running Kubernetes. It ends with this value.
#[derive(Debug)]
pub struct Kubernetes {
    /// First, so that they have ended before their directory goes.
    processes: Vec<Process>,
    directory: DataDirectory,
    files: Files,
    ports: Ports,
    durable: bool,
    audited: bool,
    programs: Programs,
}

impl Kubernetes {
    /// Starts one with a controller manager, and waits until it answers and its controllers work.
    pub fn start() -> Result<Self, Error> {
        Self::options().start()
    }

    /// For one that is not the usual one.
    pub fn options() -> Options {
        Options {
            controller_manager: true,
            durable: false,
            audit_policy: None,
            ready_within: Duration::from_secs(60),
        }
    }

    /// Where its API is.
    pub fn url(&self) -> String {
        self.ports.url()
    }

    /// A kubeconfig of its administrator, certificates included.
    pub fn kubeconfig_path(&self) -> &Path {
        &self.files.admin_kubeconfig
    }

    /// The certificate authority of its API server and of its clients.
    pub fn ca_pem(&self) -> &str {
        &self.files.ca_pem
    }

    /// Where its data and its logs (`<program>.log`) are.
    pub fn data_dir(&self) -> &Path {
        self.directory.path()
    }

    /// Where its audit log is, if it writes one.
    pub fn audit_log(&self) -> PathBuf {
        self.data_dir().join(flags::AUDIT_LOG)
    }

    /// Its processes, by program name and process id.
    pub fn processes(&self) -> impl Iterator<Item = (&'static str, u32)> {
        self.processes.iter().map(|process| (process.name(), process.id()))
    }

    /// kubectl of the same version, as administrator.
    pub fn kubectl(&self) -> Command {
        let mut kubectl = Command::new(&self.programs.kubectl);
        kubectl.env("KUBECONFIG", self.kubeconfig_path());
        // Neither the user's cache nor the user's preferences.
        kubectl.env("KUBECACHEDIR", self.data_dir().join("kubectl")).env("KUBERC", "off");
        kubectl
    }

    /// Ends it now.
    pub fn stop(mut self) {
        self.end();
    }

    /// Starts etcd and kube-apiserver, on what they kept if they ran before, and does not wait until they answer.
    /// There is no controller manager then.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.end();
        let Programs { etcd, kube_apiserver, .. } = self.programs.clone();
        let store = if self.durable { flags::etcd } else { flags::etcd_without_sync };
        self.start_process("etcd", &etcd, store)?;
        let api = if self.audited { flags::kube_apiserver_audited } else { flags::kube_apiserver };
        self.start_process("kube-apiserver", &kube_apiserver, api)
    }

    /// Ends its processes and keeps their data, for [`Kubernetes::restart`].
    pub fn end(&mut self) {
        stop_all(&mut self.processes, GRACE);
    }

    fn start_process(
        &mut self,
        name: &'static str,
        program: &Path,
        flags: fn(&Files, Ports, &Path) -> Vec<String>,
    ) -> Result<(), Error> {
        let flags = flags(&self.files, self.ports, self.data_dir());
        self.processes.push(Process::start(name, program, &flags, self.data_dir())?);
        Ok(())
    }

    /// Repeats a kubectl command until it succeeds.
    fn wait_for(
        &mut self,
        awaited: &'static str,
        ask: &[&str],
        within: Duration,
        deadline: Deadline,
    ) -> Result<(), Error> {
        loop {
            let Err(answer) = command::run(self.kubectl().arg("--request-timeout=5s").args(ask)) else {
                return Ok(());
            };
            self.check_alive()?;
            if deadline.passed(&SystemClock) {
                let logs = self.processes.iter().map(Process::log_tail).collect::<Vec<_>>().join("\n");
                return Err(Error::NotReady { awaited, within, last: answer.to_string(), logs });
            }
            std::thread::sleep(POLL);
        }
    }

    fn check_alive(&mut self) -> Result<(), Error> {
        for process in &mut self.processes {
            if let Some(status) = process.ended() {
                return Err(Error::Died { name: process.name(), status, log: process.log_tail() });
            }
        }
        Ok(())
    }
}

impl Drop for Kubernetes {
    fn drop(&mut self) {
        self.end();
    }
}

#[derive(Clone, Debug)]
struct Programs {
    etcd: PathBuf,
    kube_apiserver: PathBuf,
    kube_controller_manager: PathBuf,
    kubectl: PathBuf,
}

impl Programs {
    fn provide() -> Result<Self, catalog::Error> {
        let kubernetes = Peer::Kubernetes.provide()?.path;
        Ok(Programs {
            etcd: Peer::Etcd.provide()?.path.join("usr/bin/etcd"),
            kube_apiserver: kubernetes.join("kube-apiserver"),
            kube_controller_manager: kubernetes.join("kube-controller-manager"),
            kubectl: kubernetes.join("kubectl"),
        })
    }
}

/// Ports that were free a moment ago, each another one.
fn free_ports() -> io::Result<Ports> {
    let listen = || TcpListener::bind(("127.0.0.1", 0));
    let listeners = [listen()?, listen()?, listen()?];
    let port = |index: usize| listeners[index].local_addr().map(|address| address.port());
    Ok(Ports { etcd_clients: port(0)?, etcd_peers: port(1)?, api: port(2)? })
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::System { what, source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn free_ports_differ() {
        let ports = free_ports().unwrap();
        assert!(ports.api != ports.etcd_clients && ports.api != ports.etcd_peers);
        assert_ne!(ports.etcd_clients, ports.etcd_peers);
    }

    #[test]
    fn only_a_port_clash_is_worth_another_try() {
        let died = |log: &str| Error::Died {
            name: "etcd",
            status: std::process::ExitStatus::from_raw(256),
            log: log.into(),
        };
        assert!(died("listen tcp 127.0.0.1:1: bind: address already in use").is_port_clash());
        assert!(!died("disk full").is_port_clash());
    }
}
