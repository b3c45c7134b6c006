//! `herdsman up` and `quickstart` as their users meet them: a cluster is made, watched, scaled, upgraded, explained and
//! deleted, all by the command line, on simulated machines.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt as _};

/// Generous: the machine may be doing something else.
const WAIT: [&str; 3] = ["--wait", "--timeout", "300"];

/// The product at work; ended with the test, whatever happens.
struct Up {
    process: Child,
    kubeconfig: PathBuf,
    url: String,
}

impl Up {
    fn start(directory: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_herdsman"));
        command.args(["up", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory);
        command.env("HERDSMAN_LOG", "warn");
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["ready", url, kubeconfig] = words[..] else { panic!("{line:?}") };
        let url = url.strip_prefix("url=").unwrap().to_owned();
        Up { process, kubeconfig: kubeconfig.strip_prefix("kubeconfig=").unwrap().into(), url }
    }

    /// Runs a command of the command line.
    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_herdsman"));
        command.args(words).env("KUBECONFIG", &self.kubeconfig).output().unwrap()
    }

    /// What a command that must succeed prints.
    fn says(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// What a command that must fail complains of.
    fn refuses(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert_eq!(output.status.code(), Some(1), "{words:?} did not fail");
        String::from_utf8(output.stderr).unwrap()
    }

    async fn client(&self) -> Client {
        client(&std::fs::read_to_string(&self.kubeconfig).unwrap()).await
    }

    /// The nodes of a cluster and their versions, through its tunnel.
    async fn nodes(&self, cluster: &str) -> Vec<(String, String)> {
        let nodes = Api::<Node>::all(client(&self.says(&["kubeconfig", cluster])).await);
        let found = nodes.list(&ListParams::default()).await.unwrap();
        let version = |node: &Node| {
            node.status.clone().unwrap_or_default().node_info.unwrap_or_default().kubelet_version
        };
        found.iter().map(|node| (node.uid().unwrap_or_default(), version(node))).collect()
    }

    fn stop(mut self) -> Option<i32> {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.process.wait().unwrap().code()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn client(kubeconfig: &str) -> Client {
    let read = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

#[test]
fn quickstart_ends_with_five_nodes() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_herdsman"));
    let output = command.args(["quickstart", "--exit"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let ready = said.lines().filter(|line| line.split_whitespace().nth(1) == Some("Ready")).count();
    assert_eq!(ready, 5, "{said}");
}

#[test]
fn quickstart_without_docker_says_what_to_do() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_herdsman"));
    command.args(["quickstart", "--exit", "--driver", "docker", "--docker-host", "unix:///does/not/exist"]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in ["--driver docker needs Docker: install it", "--docker-host", "/does/not/exist"] {
        assert!(said.contains(part), "{part} in {said}");
    }
}

#[tokio::test]
async fn a_newcomers_hour() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let up = Up::start(&data);

    // Wrong words are answered with right ones.
    assert!(up.refuses(&["get", "clutser"]).contains("did you mean \"cluster\""));
    assert!(up.refuses(&["describe", "demo"]).contains("there is no cluster \"demo\""));
    let refused = up.refuses(&["create", "cluster", "demo", "--kubernetes-version", "1.34"]);
    assert!(refused.contains("spec.kubernetesVersion"), "{refused}");

    // Create, and look.
    let pools = ["--pool", "servers:1:server", "--pool", "workers:1:worker"];
    up.says(
        &[&["create", "cluster", "demo", "--kubernetes-version", "v1.34.2+k3s1"], &pools[..], &WAIT].concat(),
    );
    assert!(up.refuses(&["create", "cluster", "demo"]).contains("already"));
    assert!(up.refuses(&["describe", "dmo"]).contains("did you mean \"demo\""));
    let first = up.nodes("demo").await;
    assert_eq!(first.len(), 2);
    let tree = up.says(&["describe", "demo"]);
    assert!(tree.starts_with("cluster demo  Ready"), "{tree}");
    assert!(up.says(&["explain", "cluster/demo", "-o", "json"]).contains("\"waits\": []"));
    assert!(up.says(&["get", "machines", "-o", "name"]).lines().count() == 2);

    // Scale; upgrade in place: nodes stay who they are.
    up.says(&[&["scale", "demo", "--pool", "workers", "--replicas", "2"], &WAIT[..]].concat());
    let scaled = up.nodes("demo").await;
    assert_eq!(scaled.len(), 3);
    up.says(&[&["upgrade", "demo", "--kubernetes-version", "v1.35.0+k3s1"], &WAIT[..]].concat());
    let upgraded = up.nodes("demo").await;
    let names = |nodes: &[(String, String)]| nodes.iter().map(|(uid, _)| uid.clone()).collect::<Vec<_>>();
    assert_eq!(names(&scaled), names(&upgraded), "machines are managed, not replaced");
    assert!(upgraded.iter().all(|(_, version)| version == "v1.35.0+k3s1"), "{upgraded:?}");

    // A second start has all of it, and nothing is done twice.
    let (url, plans) = (up.url.clone(), plans(&up).await);
    assert_eq!(up.stop(), Some(0));
    let up = Up::start(&data);
    assert_eq!(up.url, url);
    assert_eq!(up.nodes("demo").await, upgraded);
    assert_eq!(self::plans(&up).await, plans);
    up.says(&[&["scale", "demo", "--pool", "workers", "--replicas", "1"], &WAIT[..]].concat());
    assert_eq!(up.nodes("demo").await.len(), 2);

    // What helps to help opens no door.
    let bundle = directory.path().join("bundle.tar.gz");
    up.says(&["support-bundle", "--to", bundle.to_str().unwrap()]);
    let files = Command::new("tar").arg("xzOf").arg(&bundle).output().unwrap().stdout;
    let files = String::from_utf8_lossy(&files).into_owned();
    assert!(files.contains("kubernetesVersion: v1.35.0+k3s1"));
    for (key, value) in secrets(&up).await {
        assert!(!files.contains(&value), "{key} is in the bundle");
    }
    up.says(&["get", "clusters", "-A"]);
}

/// Hosts that register by their own hand, in a process of their own.
#[tokio::test]
async fn hosts_register_with_a_command() {
    let directory = tempfile::tempdir().unwrap();
    let up = Up::start(&directory.path().join("data"));
    up.says(&["create", "cluster", "pets"]);
    let command = loop {
        let output = up.run(&["node-command", "pets"]);
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
    let mut hosts = Command::new(env!("CARGO_BIN_EXE_herdsman"));
    hosts.args(["sim", "--server", &up.url, "--token", &token, "--ca-checksum", &checksum]);
    hosts.args(["--machines", "3", "--servers", "1"]).stdout(Stdio::null()).env("HERDSMAN_LOG", "warn");
    let process = hosts.spawn().unwrap();
    let _ends = Up { process, kubeconfig: PathBuf::new(), url: String::new() };
    let ready =
        |tree: &str| tree.starts_with("cluster pets  Ready") && tree.matches("Running node").count() == 3;
    while !ready(&up.says(&["describe", "pets"])) {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
    assert_eq!(up.nodes("pets").await.len(), 3);
}

/// The page for newcomers does what it says: its commands, one after the other, in one shell.
#[test]
#[ignore = "needs cargo xtask peers"]
fn the_getting_started_page_works() {
    let page = include_str!("../../../docs/getting-started.md");
    let blocks: Vec<&str> =
        page.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap()).collect();
    let (first, rest) = blocks.split_first().unwrap();
    let kubectl = peers::Peer::Kubernetes.provide().unwrap().path.join("kubectl");
    let directory = tempfile::tempdir().unwrap();
    // The server has a terminal of its own, and ends with the page. Its port is free whatever else runs here.
    let server = first.trim().replace("127.0.0.1:8443", "127.0.0.1:0");
    let script = format!(
        "set -eu\n{server} > up.out 2> up.err & up=$!\ntrap 'kill $up; wait $up' EXIT\n\
         until grep -q ready up.out; do kill -0 $up; sleep 0.2; done\nset -x\n{}",
        rest.concat()
    );
    let programs = [Path::new(env!("CARGO_BIN_EXE_herdsman")).parent().unwrap(), kubectl.parent().unwrap()];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = programs.iter().map(PathBuf::from).chain(std::env::split_paths(&path));
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).current_dir(directory.path());
    let output = command.env("PATH", std::env::join_paths(all).unwrap()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}{errors}", String::from_utf8_lossy(&output.stdout));
}

/// Every plan: whose, and its checksum.
async fn plans(up: &Up) -> Vec<(String, String)> {
    let secrets = Api::<Secret>::namespaced(up.client().await, "fleet-default");
    let found = secrets.list(&ListParams::default()).await.unwrap();
    let plan = |secret: &Secret| {
        let data = secret.data.as_ref()?.get("applied-checksum")?;
        Some((secret.name_any(), String::from_utf8_lossy(&data.0).into_owned()))
    };
    found.iter().filter_map(plan).collect()
}

/// Every value of a Secret that may open a door, with where it is.
async fn secrets(up: &Up) -> Vec<(String, String)> {
    let found = Api::<Secret>::all(up.client().await).list(&ListParams::default()).await.unwrap();
    let mut values = Vec::new();
    for secret in &found {
        for (key, value) in secret.data.clone().unwrap_or_default() {
            let text = String::from_utf8_lossy(&value.0).into_owned();
            // Names and checksums are no secrets.
            let opens = ["token", "value", "serverToken", "agentToken", "plan"].contains(&key.as_str());
            if opens && text.len() >= 16 {
                values.push((format!("{}/{key}", secret.name_any()), text));
            }
        }
    }
    assert!(values.iter().any(|(key, _)| key.ends_with("-kubeconfig/token")), "{values:?}");
    values
}
