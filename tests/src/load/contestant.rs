//! A server that is measured: started, stopped and weighed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clock::{Clock, Deadline, SystemClock};
use peers::Kubernetes;
use peers::process::{Process, stop_all};
use tempfile::TempDir;

use super::objects::Kind;
use crate::client::{Answer, Request, Server, Session};
use crate::kubeconfig::Kubeconfig;

/// How long a server may take to give its first answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is asked.
const POLL: Duration = Duration::from_millis(1);
/// How long it gets to end on its own.
const GRACE: Duration = Duration::from_secs(10);

/// A server with a data directory of its own, that can run more than once.
#[derive(Debug)]
pub(super) enum Contestant {
    Herdsman { program: PathBuf, processes: Vec<Process>, directory: TempDir },
    Kubernetes(Box<Kubernetes>),
}

impl Contestant {
    /// Ours, in an empty directory.
    pub(super) fn herdsman(program: &Path) -> Result<Self> {
        let directory = TempDir::with_prefix("herdsman-load-")?;
        Ok(Contestant::Herdsman { program: program.to_owned(), processes: Vec::new(), directory })
    }

    /// etcd, which syncs what it has acknowledged as ours does, and kube-apiserver.
    pub(super) fn kubernetes() -> Result<Self> {
        let options = Kubernetes::options().controller_manager(false).durable(true);
        Ok(Contestant::Kubernetes(Box::new(options.prepare()?)))
    }

    /// Ends it if it runs, starts it, and gives how to reach it and the seconds until it answered a list.
    pub(super) async fn start(&mut self) -> Result<(Server, f64)> {
        self.stop();
        let begin = SystemClock.monotonic();
        self.execute()?;
        let deadline = Deadline::after(&SystemClock, PATIENCE);
        loop {
            let failed = match self.ask().await {
                Ok(server) => return Ok((server, SystemClock.monotonic().since(begin).as_secs_f64())),
                Err(error) => error,
            };
            ensure!(!deadline.passed(&SystemClock), "no answer: {failed:#}\n{}", self.log_tail());
            tokio::time::sleep(POLL).await;
        }
    }

    /// Ends it.
    pub(super) fn stop(&mut self) {
        match self {
            Contestant::Herdsman { processes, .. } => stop_all(processes, GRACE),
            Contestant::Kubernetes(kubernetes) => kubernetes.end(),
        }
    }

    fn execute(&mut self) -> Result<()> {
        match self {
            Contestant::Kubernetes(kubernetes) => kubernetes.restart()?,
            Contestant::Herdsman { program, processes, directory } => {
                let data = directory.path().join("data").display().to_string();
                let words = ["apiserver", "--data-dir", &data, "--listen", "127.0.0.1:0"].map(str::to_owned);
                processes.push(Process::start("herdsman", program, &words, directory.path())?);
            }
        }
        Ok(())
    }

    /// Asks for a list once.
    async fn ask(&self) -> Result<Server> {
        let path = match self {
            Contestant::Kubernetes(kubernetes) => kubernetes.kubeconfig_path().to_owned(),
            Contestant::Herdsman { directory, .. } => directory.path().join("data/admin.kubeconfig"),
        };
        let server = Server::new(&Kubeconfig::read(&path)?)?;
        let path = format!("{}?limit=1", Kind::ConfigMap.path("default"));
        good(&Session::new(server.clone()).send(&get(&path)).await?)?;
        Ok(server)
    }

    /// Memory that its processes take, in MB.
    pub(super) fn resident(&self) -> Result<f64> {
        let ids: Vec<u32> = match self {
            Contestant::Herdsman { processes, .. } => processes.iter().map(Process::id).collect(),
            Contestant::Kubernetes(kubernetes) => kubernetes.processes().map(|(_, id)| id).collect(),
        };
        ids.into_iter().map(resident).sum()
    }

    fn log_tail(&self) -> String {
        match self {
            Contestant::Herdsman { processes, .. } => processes.iter().map(Process::log_tail).collect(),
            Contestant::Kubernetes(kubernetes) => kubernetes.data_dir().display().to_string(),
        }
    }
}

impl Drop for Contestant {
    fn drop(&mut self) {
        self.stop();
    }
}

fn resident(id: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes / 1024.0)
}

/// A request as the administrator.
pub(super) fn request(method: &str, path: &str, body: bytes::Bytes) -> Request {
    let json = |name: &str| (name.to_owned(), "application/json".to_owned());
    Request {
        method: method.to_owned(),
        path: path.to_owned(),
        headers: vec![json("accept"), json("content-type")],
        body,
        as_administrator: true,
        old: false,
    }
}

pub(super) fn get(path: &str) -> Request {
    request("GET", path, bytes::Bytes::new())
}

/// Refuses what is no success.
pub(super) fn good(answer: &Answer) -> Result<()> {
    let said = || String::from_utf8_lossy(&answer.body[..answer.body.len().min(500)]).into_owned();
    ensure!((200..300).contains(&answer.status), "{}: {}", answer.status, said());
    Ok(())
}
