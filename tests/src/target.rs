//! The two servers that suites run against: a real Kubernetes and ours.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clock::{Deadline, SystemClock};
use peers::Kubernetes;
use peers::process::{Process, stop_all};
use tempfile::TempDir;

/// How long our server may take until it says that it is ready.
const READY_WITHIN: Duration = Duration::from_secs(120);
/// How long it gets to end on its own.
const GRACE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(20);

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// kube-apiserver with kube-controller-manager and etcd.
    Kubernetes,
    /// `herdsman apiserver`.
    Herdsman,
}

/// A running server. It ends with this value.
#[derive(Debug)]
pub struct Target {
    kind: Kind,
    kubeconfig: PathBuf,
    audit_log: PathBuf,
    running: Running,
}

/// What their audit logs show.
const AUDIT_POLICY: &str = include_str!("audit-policy.yaml");

#[derive(Debug)]
enum Running {
    Kubernetes { _kubernetes: Box<Kubernetes> },
    Herdsman { process: Vec<Process>, _directory: TempDir },
}

impl Target {
    /// Starts one and waits until it is ready.
    pub fn start(kind: Kind) -> Result<Self> {
        match kind {
            Kind::Kubernetes => {
                let kubernetes = Kubernetes::options().audit(AUDIT_POLICY).start()?;
                let kubeconfig = kubernetes.kubeconfig_path().to_owned();
                Ok(Target {
                    kind,
                    kubeconfig,
                    audit_log: kubernetes.audit_log(),
                    running: Running::Kubernetes { _kubernetes: Box::new(kubernetes) },
                })
            }
            Kind::Herdsman => start_herdsman(),
        }
    }

    /// Which it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Where its audit log is.
    pub fn audit_log(&self) -> &Path {
        &self.audit_log
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Running::Herdsman { process, .. } = &mut self.running {
            stop_all(process, GRACE);
        }
    }
}

fn start_herdsman() -> Result<Target> {
    let directory = TempDir::with_prefix("herdsman-apiserver-")?;
    let audit_log = directory.path().join("audit.log");
    let policy = directory.path().join("audit-policy.yaml");
    std::fs::write(&policy, AUDIT_POLICY)?;
    let (log, policy) = (audit_log.display().to_string(), policy.display().to_string());
    let audit = ["--audit-log-path", &log, "--audit-policy-file", &policy];
    let data = directory.path().join("data");
    let (process, kubeconfig) = launch_herdsman(&data, "127.0.0.1:0", &audit, directory.path())?;
    let running = Running::Herdsman { process: vec![process], _directory: directory };
    Ok(Target { kind: Kind::Herdsman, kubeconfig, audit_log, running })
}

/// Starts our server on a data directory, with its log in a directory that has none yet. Gives its administrator's
/// kubeconfig once it serves.
pub(crate) fn launch_herdsman(
    data: &Path,
    listen: &str,
    further: &[&str],
    logs: &Path,
) -> Result<(Process, PathBuf)> {
    let data = data.display().to_string();
    let arguments = ["apiserver", "--data-dir", &data, "--listen", listen];
    launch(&[&arguments, further].concat(), logs)
}

/// Starts the product with these words, with its log in a directory that has none yet. Gives its administrator's kubeconfig
/// once it serves.
pub fn launch(words: &[&str], logs: &Path) -> Result<(Process, PathBuf)> {
    let arguments: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    let mut process = Process::start("herdsman", &herdsman()?, &arguments, logs)?;
    let kubeconfig = wait_for_ready(&mut process, &logs.join("herdsman.log"))?;
    Ok((process, kubeconfig))
}

/// The kubeconfig that the line `ready url=.. kubeconfig=..` names.
fn wait_for_ready(process: &mut Process, log: &Path) -> Result<PathBuf> {
    let deadline = Deadline::after(&SystemClock, READY_WITHIN);
    loop {
        let said = std::fs::read_to_string(log).unwrap_or_default();
        // A line that is not whole yet could end in half a path.
        let ready =
            said.split_inclusive('\n').find(|line| line.starts_with("ready ") && line.ends_with('\n'));
        if let Some(ready) = ready {
            let path = ready.split_whitespace().find_map(|word| word.strip_prefix("kubeconfig="));
            return Ok(PathBuf::from(path.context("no kubeconfig in the ready line")?));
        }
        if let Some(status) = process.ended() {
            bail!("herdsman ended ({status})\n{}", process.log_tail());
        }
        ensure!(
            !deadline.passed(&SystemClock),
            "herdsman is not ready after {} s\n{}",
            READY_WITHIN.as_secs(),
            process.log_tail()
        );
        std::thread::sleep(POLL);
    }
}

/// The product: `HERDSMAN_BIN`, else what cargo builds now in the profile of this test.
pub fn herdsman() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("HERDSMAN_BIN") {
        return Ok(given.into());
    }
    let test = std::env::current_exe()?;
    let directory = test.parent().and_then(Path::parent).context("the test is in no target directory")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--package=herdsman", "--bin=herdsman"]);
    if directory.ends_with("release") {
        build.arg("--release");
    }
    build.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    peers::command::run(&mut build)?;
    Ok(directory.join("herdsman"))
}
