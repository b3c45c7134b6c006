//! The product at work, and a Docker that its machines are in.

use std::io::{BufRead as _, BufReader, Lines};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clock::{Deadline, SystemClock};
use peers::archive::{Entry, Image};
use peers::docker::{Docker, Network};
use peers::process::Process;
use peers::{Peer, command, fleet};
use serde_json::Value;
use suites::{agents, target};
use tempfile::TempDir;

/// What the cluster is called, and where it is.
pub(crate) const CLUSTER: &str = "real";
pub(crate) const NAMESPACE: &str = "fleet-default";
/// An image that machines have, with busybox and nothing else.
pub(crate) const POD_IMAGE: &str = "herdsman.test/busybox:v1";
/// What Docker calls the machines' image.
const MACHINE_IMAGE: &str = "herdsman-node-k3s:suite";

/// Long: K3s starts on a machine that does other things as well.
const PATIENCE: Duration = Duration::from_secs(900);
const POLL: Duration = Duration::from_secs(1);

pub(crate) struct World {
    // In the order in which they go.
    process: Process,
    network: Arc<Network>,
    docker: Arc<Docker>,
    program: PathBuf,
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    directory: TempDir,
}

impl World {
    /// The product, with nothing in it. None if there can be no machines here.
    pub(crate) fn start() -> Option<Self> {
        if peers::machine::skip("real-k3s") {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let assets = agents::static_agent().unwrap();
        let docker = Docker::shared().unwrap();
        let archives = [agents::cluster_agent_image().unwrap(), busybox(directory.path())];
        fleet::load(|| docker.client(), MACHINE_IMAGE, &[&archives[0], &archives[1]]).unwrap();
        let network = Network::create(&docker, "herdsman-real-k3s").unwrap();
        let listen = format!("{}:0", network.gateway);
        let (data, logs) = (directory.path().join("data"), directory.path().join("logs"));
        std::fs::create_dir(&logs).unwrap();
        let (data, assets) = (data.display().to_string(), assets.parent().unwrap().display().to_string());
        let host = docker.host();
        let mut words = vec!["up", "--listen", &listen, "--data-dir", &data, "--assets", &assets];
        words.extend(["--enable-driver", "docker", "--docker-host", &host]);
        let (process, kubeconfig) = target::launch(&words, &logs).unwrap();
        let kubectl = Peer::Kubectl.provide().unwrap().path.join("usr/bin/kubectl");
        let program = target::herdsman().unwrap();
        Some(World { process, network, docker, program, kubectl, kubeconfig, directory })
    }

    /// Creates the cluster and waits until it is as asked for.
    pub(crate) fn create(&self, version: &str, pools: &[&str]) {
        let options = [format!("image={MACHINE_IMAGE}"), format!("network={}", self.network.name())];
        let mut words =
            vec!["create", "cluster", CLUSTER, "--driver=docker", "--kubernetes-version", version];
        words.extend(options.iter().flat_map(|option| ["--driver-option", option]));
        words.extend(pools);
        words.extend(["--wait", "--timeout", "900"]);
        self.herdsman(&words);
        std::fs::write(self.inner(), self.herdsman(&["kubeconfig", CLUSTER])).unwrap();
    }

    /// A command of the product's.
    pub(crate) fn herdsman(&self, words: &[&str]) -> String {
        self.done(Command::new(&self.program).args(words).env("KUBECONFIG", &self.kubeconfig))
    }

    /// kubectl on the product.
    pub(crate) fn admin(&self, words: &[&str]) -> String {
        self.done(self.kubectl(&self.kubeconfig).args(words))
    }

    /// kubectl on the cluster, through its tunnel.
    pub(crate) fn inside(&self, words: &[&str]) -> String {
        self.done(self.kubectl(&self.inner()).args(words))
    }

    pub(crate) fn admin_json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.admin(&[words, &["-o", "json"]].concat())).unwrap()
    }

    /// Asked again while the cluster's API restarts.
    pub(crate) fn inside_json(&self, words: &[&str]) -> Value {
        let deadline = Deadline::after(&SystemClock, PATIENCE);
        loop {
            match command::run(self.kubectl(&self.inner()).args(words).args(["-o", "json"])) {
                Ok(text) => return serde_json::from_str(&text).unwrap(),
                Err(error) if deadline.passed(&SystemClock) => panic!("{error}\n{}", self.diagnosis()),
                Err(_) => std::thread::sleep(POLL),
            }
        }
    }

    /// Whether a command of kubectl's on the cluster that does not end by itself says such a line.
    pub(crate) fn watch(&self, words: &[&str], so: impl Fn(&str) -> bool) -> bool {
        let (mut process, lines) = self.lasting(words);
        let found = lines.map_while(Result::ok).any(|line| so(&line));
        let _ = process.kill();
        let _ = process.wait();
        found
    }

    /// The first line that a pod says to who comes by a forwarded port.
    pub(crate) fn forwarded(&self, pod: &str, port: u16) -> String {
        let (mut process, mut lines) =
            self.lasting(&["port-forward", &format!("pod/{pod}"), &format!(":{port}")]);
        let line = lines.next().unwrap().unwrap();
        let address = line.split_whitespace().find(|word| word.starts_with("127.0.0.1:"));
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        let mut said = String::new();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        BufReader::new(stream).read_line(&mut said).unwrap();
        let _ = process.kill();
        let _ = process.wait();
        said
    }

    /// Starts kubectl on the cluster, and reads what it says.
    fn lasting(&self, words: &[&str]) -> (Child, Lines<BufReader<ChildStdout>>) {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(self.inner()).args(words).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        (process, lines)
    }

    /// Waits until something is so.
    pub(crate) fn until(&self, what: &str, so: impl Fn() -> bool) {
        let deadline = Deadline::after(&SystemClock, PATIENCE);
        while !so() {
            assert!(!deadline.passed(&SystemClock), "never came: {what}\n{}", self.diagnosis());
            std::thread::sleep(POLL);
        }
    }

    /// How many tunnels there are.
    pub(crate) fn tunnels(&self) -> usize {
        let metrics = self.admin(&["get", "--raw", "/metrics"]);
        let count = metrics.lines().find_map(|line| line.strip_prefix("herdsman_tunnel_sessions "));
        count.and_then(|count| count.parse().ok()).unwrap_or_default()
    }

    /// Everything of a deleted cluster that is still there, in Docker and in the product.
    pub(crate) fn left(&self) -> Vec<String> {
        let lines = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let mut all = lines(self.docker.run(&["ps", "--all", "--format", "container {{.Names}}"]).unwrap());
        all.extend(lines(self.docker.run(&["volume", "ls", "--format", "volume {{.Name}}"]).unwrap()));
        for kind in [
            "clusters.management.cattle.io",
            "clusters.cluster.x-k8s.io",
            "machines.cluster.x-k8s.io",
            "rkecontrolplanes.rke.cattle.io",
            "rkebootstraps.rke.cattle.io",
            "dockermachines.rke-machine.cattle.io",
            "jobs",
        ] {
            all.extend(lines(self.admin(&["get", kind, "--all-namespaces", "-o", "name"])));
        }
        all
    }

    /// What helps to see why something did not happen.
    pub(crate) fn diagnosis(&self) -> String {
        let explain = self.try_run(
            Command::new(&self.program)
                .args(["explain", &format!("cluster/{CLUSTER}")])
                .env("KUBECONFIG", &self.kubeconfig),
        );
        let pods = self.try_run(self.kubectl(&self.inner()).args([
            "get",
            "pods,nodes",
            "--all-namespaces",
            "-o",
            "wide",
        ]));
        let mut all = format!("{explain}\n{pods}\n{}", self.process.log_tail());
        let names = self.docker.run(&["ps", "--format", "{{.Names}}"]).unwrap_or_default();
        for name in names.lines() {
            let journal = ["exec", name, "journalctl", "--no-pager", "--lines=60", "--output=cat"];
            all += &format!("\n--- {name} ---\n{}", self.docker.run(&journal).unwrap_or_default());
        }
        all
    }

    fn try_run(&self, command: &mut Command) -> String {
        command::run(command).unwrap_or_else(|error| error.to_string())
    }

    fn done(&self, command: &mut Command) -> String {
        command::run(command).unwrap_or_else(|error| panic!("{error}\n{}", self.diagnosis()))
    }

    fn kubectl(&self, kubeconfig: &Path) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(kubeconfig).args(["--request-timeout=60s"]);
        command
    }

    fn inner(&self) -> PathBuf {
        self.directory.path().join("inner.yaml")
    }
}

/// An archive of an image with busybox in it.
fn busybox(directory: &Path) -> PathBuf {
    let program = Peer::Busybox.provide().unwrap().path.join("bin/busybox");
    let archive = directory.join("busybox.tar");
    let files = [Entry { path: "busybox", from: &program, mode: 0o755 }];
    Image { name: POD_IMAGE, entrypoint: &["/busybox"], files: &files }.write(&archive).unwrap();
    archive
}
