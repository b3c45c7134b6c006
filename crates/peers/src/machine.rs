//! Throw-away machines: Debian with a real systemd, on a network that leads nowhere.
//!
//! ```no_run
//! use peers::docker::{Docker, Network};
//! use peers::machine::Machine;
//!
//! let network = Network::create(&Docker::shared()?, "my-test")?;
//! let machine = Machine::boot(&network, "one", &[])?;
//! machine.sh("systemctl status")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A machine and its network are removed when they are dropped.

mod image;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clock::{Deadline, SystemClock};

use crate::availability::{self, Unavailable};
use crate::catalog;
use crate::command::{self, find_program};
use crate::docker::{self, Docker, Network};

pub use image::Image;
pub(crate) use image::{SUITE, build, build_cloud};

/// How long a machine may take until all of its services are up.
const BOOTED_WITHIN: Duration = Duration::from_secs(120);
/// How long a machine gets to shut down before it is cut off.
const SHUTDOWN_SECONDS: &str = "60";
const POLL: Duration = Duration::from_millis(100);

/// What systemd wants to be allowed. Some machines have not all there is to give, so that `--privileged` fails on them.
const CAPABILITIES: [&str; 10] = [
    "SYS_ADMIN",
    "NET_ADMIN",
    "SYS_PTRACE",
    "MKNOD",
    "NET_RAW",
    "SYS_MODULE",
    "SYS_BOOT",
    "IPC_LOCK",
    "SYSLOG",
    "DAC_READ_SEARCH",
];

/// What a machine needs beside its capabilities: systemd's own cgroups, no filters, and memory for what a boot forgets.
const FLAGS: [&str; 14] = [
    "--security-opt=seccomp=unconfined",
    "--security-opt=apparmor=unconfined",
    "--security-opt=systempaths=unconfined",
    "--cgroupns=host",
    "--volume=/sys/fs/cgroup:/sys/fs/cgroup:rw",
    "--volume=/lib/modules:/lib/modules:ro",
    "--tmpfs=/run",
    "--tmpfs=/tmp",
    "--volume=/var/lib/kubelet",
    "--volume=/var/lib/rancher",
    "--env=container=docker",
    "--stop-signal=SIGRTMIN+3",
    "--tty",
    "--detach",
];

/// Why there is no machine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Docker.
    #[error(transparent)]
    Docker(#[from] docker::Error),
    /// Its image.
    #[error(transparent)]
    Image(#[from] catalog::Error),
    /// A program in it, or a copy into it.
    #[error(transparent)]
    Command(#[from] command::Error),
    /// It did not come up.
    #[error("machine {name} is {state} after {} s; failed units:\n{failed}\n{log}", BOOTED_WITHIN.as_secs())]
    NotUp {
        /// Which.
        name: String,
        /// What systemd says.
        state: String,
        /// Units that failed.
        failed: String,
        /// What it printed on its console.
        log: String,
    },
}

/// Whether this machine can have others inside of it.
pub fn available() -> Result<(), Unavailable> {
    availability::available()?;
    if !rustix::process::geteuid().is_root() {
        return Err(Unavailable::NotRoot);
    }
    match find_program("unshare") {
        Some(_) => Ok(()),
        None => Err(Unavailable::Missing { program: "unshare", purpose: "holds Docker together" }),
    }
}

/// Whether a test is to be skipped because there can be no machines. If so, a line says it and why.
///
/// # Panics
/// On a CI machine (`CI=true`), where nothing may be skipped.
pub fn skip(suite: &str) -> bool {
    availability::skip_because(suite, available())
}

/// What Docker calls the image that machines are made from, for those who make machines by other means.
pub fn image(docker: &Docker) -> Result<String, Error> {
    Image::Plain.load(docker)
}

/// A running machine.
#[derive(Debug)]
pub struct Machine {
    network: Arc<Network>,
    name: String,
}

impl Machine {
    /// Boots one and waits until all of its services are up. `flags` are further ones of `docker run`.
    pub fn boot(network: &Arc<Network>, name: &str, flags: &[&str]) -> Result<Self, Error> {
        Machine::boot_from(Image::Plain, network, name, flags)
    }

    /// The same from another image.
    pub fn boot_from(
        image: Image,
        network: &Arc<Network>,
        name: &str,
        flags: &[&str],
    ) -> Result<Self, Error> {
        let docker = network.docker();
        let image = image.load(docker)?;
        let name = format!("{}-{name}", network.name());
        let mut run = docker.client();
        run.args(["run", "--name", &name, "--hostname", &name, "--network", network.name()]);
        run.args(CAPABILITIES.map(|capability| format!("--cap-add={capability}")));
        run.args(FLAGS).args(flags).arg(image).arg("/lib/systemd/systemd");
        let machine = Machine { network: network.clone(), name };
        command::run(&mut run)?;
        machine.isolate()?;
        machine.wait_until_up()?;
        Ok(machine)
    }

    /// Its name, which is its host name too.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A command in it that is to be run.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.docker().client();
        command.args(["exec", &self.name]).args(arguments);
        command
    }

    /// Runs a shell script in it, up to its first failing command, and gives what it printed.
    pub fn sh(&self, script: &str) -> Result<String, Error> {
        Ok(command::run(&mut self.command(&["sh", "-ec", script]))?)
    }

    /// Copies a file of this machine into it.
    pub fn copy_in(&self, from: &Path, to: &str) -> Result<(), Error> {
        let mut copy = self.docker().client();
        copy.arg("cp").arg(from).arg(format!("{}:{to}", self.name));
        command::run(copy.stdout(Stdio::null()))?;
        Ok(())
    }

    /// Shuts it down in order and boots it again. What is in memory is forgotten, disks stay.
    pub fn reboot(&self) -> Result<(), Error> {
        self.docker().run(&["stop", "-t", SHUTDOWN_SECONDS, &self.name])?;
        self.start()
    }

    /// Pulls the plug and boots it again.
    pub fn power_cycle(&self) -> Result<(), Error> {
        self.docker().run(&["kill", "--signal", "KILL", &self.name])?;
        self.docker().run(&["wait", &self.name])?;
        self.start()
    }

    /// Takes it off its network.
    pub fn unplug(&self) -> Result<(), Error> {
        self.docker().run(&["network", "disconnect", self.network.name(), &self.name])?;
        Ok(())
    }

    /// Puts it on its network again.
    pub fn plug(&self) -> Result<(), Error> {
        self.docker().run(&["network", "connect", self.network.name(), &self.name])?;
        self.isolate()
    }

    /// Older Dockers give machines on an internal network a route out, and count on the firewall.
    fn isolate(&self) -> Result<(), Error> {
        self.sh("ip route flush default; ip -6 route flush default")?;
        Ok(())
    }

    fn start(&self) -> Result<(), Error> {
        self.docker().run(&["start", &self.name])?;
        self.isolate()?;
        self.wait_until_up()
    }

    fn wait_until_up(&self) -> Result<(), Error> {
        let deadline = Deadline::after(&SystemClock, BOOTED_WITHIN);
        loop {
            // Fails until the manager listens, and for every state but one.
            let output = self.command(&["systemctl", "is-system-running"]).output();
            let state = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
            let state = state.unwrap_or_default();
            if state == "running" {
                return Ok(());
            }
            if state == "degraded" || deadline.passed(&SystemClock) {
                return Err(self.not_up(state));
            }
            std::thread::sleep(POLL);
        }
    }

    fn not_up(&self, state: String) -> Error {
        let failed = self.sh("systemctl --failed --no-legend --plain").unwrap_or_default();
        let log = self.docker().run(&["logs", "--tail", "25", &self.name]).unwrap_or_default();
        Error::NotUp { name: self.name.clone(), state, failed, log }
    }

    fn docker(&self) -> &Docker {
        self.network.docker()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Err(error) = self.docker().run(&["rm", "--force", "--volumes", &self.name]) {
            eprintln!("machine {} is left: {error}", self.name);
        }
    }
}
