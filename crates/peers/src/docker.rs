//! A Docker daemon of our own, for machines to run in.
//!
//! It shares nothing with a daemon that the machine may have: not its socket, not its images, not its bridge, not the
//! firewall. It runs in a process namespace, so that it and all that runs in it are gone when this process is, however
//! that ends. One at a time runs on a machine; others wait for their turn.

use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use clock::{Deadline, SystemClock};

use crate::cache::{self, Cache};
use crate::command::{self, find_program};
use crate::debian;
use crate::process::{self, Process};

/// Where the daemon's socket and what else lives as long as it are.
const DIRECTORY: &str = "/run/herdsman-peers";
/// How long the daemon may take until it answers.
const READY_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);

/// Why there is no Docker.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program failed.
    #[error(transparent)]
    Command(#[from] command::Error),
    /// A package cannot be had.
    #[error(transparent)]
    Debian(#[from] debian::Error),
    /// There is no place for images.
    #[error(transparent)]
    Cache(#[from] cache::Error),
    /// The daemon cannot be started.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// The file system refuses.
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The daemon does not answer.
    #[error("dockerd does not answer\n{log}")]
    NotReady {
        /// The end of its log.
        log: String,
    },
    /// An answer that is not understood.
    #[error("docker says {0:?}")]
    Answer(String),
}

/// A running daemon. It ends with the last holder of it.
#[derive(Debug)]
pub struct Docker {
    socket: PathBuf,
    process: Process,
    /// Freed behind the daemon.
    _turn: File,
}

/// The one of this process.
static SHARED: Mutex<Weak<Docker>> = Mutex::new(Weak::new());

impl Docker {
    /// The daemon of this process, started if it is not running. Installs what is missing. Waits while another process
    /// has one.
    pub fn shared() -> Result<Arc<Self>, Error> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = shared.upgrade() {
            return Ok(running);
        }
        let docker = Arc::new(Docker::start()?);
        *shared = Arc::downgrade(&docker);
        Ok(docker)
    }

    fn start() -> Result<Self, Error> {
        debian::install(&[("dockerd", "docker.io")])?;
        let data = Cache::from_env()?.directory("docker")?;
        let directory = Path::new(DIRECTORY);
        fs::create_dir_all(directory).map_err(at("create", directory))?;
        let turn = turn(&directory.join("lock"))?;
        // What an earlier daemon left: its process ids mean nothing any more.
        let state = directory.join("docker");
        remove(&state)?;
        fs::create_dir(&state).map_err(at("create", &state))?;
        let (socket, configuration) = (state.join("docker.sock"), configuration(&state));
        fs::write(&configuration, "{}").map_err(at("write", &configuration))?;
        let unshare = find_program("unshare").unwrap_or_else(|| "unshare".into());
        let process = Process::start("dockerd", &unshare, &arguments(&socket, &data, &state), &state)?;
        let mut docker = Docker { socket, process, _turn: turn };
        docker.wait_until_ready()?;
        docker.remove_leftovers()?;
        Ok(docker)
    }

    /// The variable `DOCKER_HOST` for clients of this daemon.
    pub fn host(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// The Docker client, told where this daemon is.
    pub fn client(&self) -> Command {
        let mut command = Command::new("docker");
        command.env("DOCKER_HOST", self.host()).env_remove("DOCKER_CONTEXT");
        command
    }

    /// Runs the client to its end and gives what it printed, without the last line's end.
    pub fn run(&self, arguments: &[&str]) -> Result<String, Error> {
        let printed = command::run(self.client().args(arguments))?;
        Ok(printed.trim_end().to_owned())
    }

    fn wait_until_ready(&mut self) -> Result<(), Error> {
        let deadline = Deadline::after(&SystemClock, READY_WITHIN);
        while self.run(&["version", "--format", "{{.Server.Version}}"]).is_err() {
            if self.process.ended().is_some() || deadline.passed(&SystemClock) {
                return Err(Error::NotReady { log: self.process.log_tail() });
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Whatever is there belongs to a process that was killed: it is our turn.
    fn remove_leftovers(&self) -> Result<(), Error> {
        let containers = self.run(&["ps", "--all", "--quiet"])?;
        for container in containers.lines() {
            self.run(&["rm", "--force", "--volumes", container])?;
        }
        self.run(&["network", "prune", "--force"])?;
        self.run(&["volume", "prune", "--force"])?;
        Ok(())
    }
}

/// A network of machines. Nothing leads out of it but to this machine's own address in it.
#[derive(Debug)]
pub struct Network {
    docker: Arc<Docker>,
    name: String,
    /// This machine's address in it.
    pub gateway: IpAddr,
}

impl Network {
    /// A new one.
    pub fn create(docker: &Arc<Docker>, name: &str) -> Result<Arc<Self>, Error> {
        docker.run(&["network", "create", "--internal", name])?;
        let format = "{{(index .IPAM.Config 0).Gateway}}";
        let gateway = docker.run(&["network", "inspect", "--format", format, name])?;
        let gateway = gateway.parse().map_err(|_| Error::Answer(gateway))?;
        Ok(Arc::new(Network { docker: docker.clone(), name: name.to_owned(), gateway }))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The daemon it belongs to.
    pub fn docker(&self) -> &Arc<Docker> {
        &self.docker
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Err(error) = self.docker.run(&["network", "rm", &self.name]) {
            eprintln!("network {} is left: {error}", self.name);
        }
    }
}

/// A process namespace, whose end is the end of everything in it, and in it the daemon.
fn arguments(socket: &Path, data: &Path, state: &Path) -> Vec<String> {
    let namespace = ["--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "dockerd"];
    let places = [
        ("--host", format!("unix://{}", socket.display())),
        ("--data-root", data.display().to_string()),
        ("--exec-root", state.join("exec").display().to_string()),
        ("--pidfile", state.join("pid").display().to_string()),
        // No configuration but this.
        ("--config-file", configuration(state).display().to_string()),
    ];
    let quiet = ["--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false"];
    let places = places.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]);
    namespace.map(str::to_owned).into_iter().chain(places).chain(quiet.map(str::to_owned)).collect()
}

fn configuration(state: &Path) -> PathBuf {
    state.join("daemon.json")
}

fn turn(path: &Path) -> Result<File, Error> {
    let file = File::create(path).map_err(at("create", path))?;
    if file.try_lock().is_err() {
        eprintln!("waiting for another process that has machines ({})", path.display());
        file.lock().map_err(at("lock", path))?;
    }
    Ok(file)
}

fn remove(directory: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at("remove", directory)(error)),
        _ => Ok(()),
    }
}

fn at(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { what, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemon_has_places_of_its_own() {
        let arguments = arguments(Path::new("/r/d.sock"), Path::new("/c/docker"), Path::new("/r"));
        let text = arguments.join(" ");
        assert!(
            text.starts_with(
                "--pid --fork --kill-child --mount --mount-proc dockerd --host unix:///r/d.sock"
            )
        );
        for part in ["--data-root /c/docker", "--exec-root /r/exec", "--pidfile /r/pid", "--iptables=false"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
