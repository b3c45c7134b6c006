//! Programs at work.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// The program under test.
pub(crate) const HERDSMAN: &str = env!("CARGO_BIN_EXE_herdsman");

/// A program at work; ended with the test, whatever happens.
pub(crate) struct Running {
    process: Child,
    pub(crate) url: String,
    pub(crate) kubeconfig: String,
}

impl Running {
    /// Starts it, and waits until it says that it serves.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(HERDSMAN);
        command.args(arguments).env("HERDSMAN_LOG", "warn,herdsman=info");
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let words: Vec<&str> = line.trim_end().split(' ').collect();
        let ["ready", url, kubeconfig] = words[..] else { panic!("{line:?}") };
        let url = url.strip_prefix("url=").unwrap().to_owned();
        assert!(url.starts_with("https://"), "{line}");
        Running { process, url, kubeconfig: kubeconfig.strip_prefix("kubeconfig=").unwrap().into() }
    }

    /// Asks it to end, and gives its exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.process.wait().unwrap().code()
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a command of the command line.
pub(crate) fn herdsman(kubeconfig: &Path, words: &[&str]) -> Output {
    Command::new(HERDSMAN).args(words).env("KUBECONFIG", kubeconfig).output().unwrap()
}

/// What a command that must succeed prints.
pub(crate) fn says(kubeconfig: &Path, words: &[&str]) -> String {
    let output = herdsman(kubeconfig, words);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) async fn client(kubeconfig: impl AsRef<Path>) -> Client {
    of(Kubeconfig::read_from(kubeconfig).unwrap()).await
}

pub(crate) async fn client_of(kubeconfig: &str) -> Client {
    of(Kubeconfig::from_yaml(kubeconfig).unwrap()).await
}

pub(crate) async fn of(kubeconfig: Kubeconfig) -> Client {
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// Simulated hosts in a process of their own, which register with a cluster; the first is its server.
pub(crate) struct Hosts(Child);

impl Hosts {
    pub(crate) async fn start(kubeconfig: &Path, url: &str, cluster: &str, count: usize) -> Self {
        let command = loop {
            let output = herdsman(kubeconfig, &["node-command", cluster]);
            if output.status.success() {
                break String::from_utf8(output.stdout).unwrap();
            }
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        };
        let after = |flag: &str| {
            let mut words = command.split_whitespace();
            words.find(|word| *word == flag).and_then(|_| words.next()).unwrap().to_owned()
        };
        let (token, checksum) = (after("--token"), after("--ca-checksum"));
        let mut hosts = Command::new(HERDSMAN);
        hosts.args(["sim", "--server", url, "--token", &token, "--ca-checksum", &checksum]);
        hosts.args(["--machines", &count.to_string(), "--servers", "1"]).stdout(Stdio::null());
        Hosts(hosts.env("HERDSMAN_LOG", "warn").spawn().unwrap())
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
