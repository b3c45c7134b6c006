//! The product as a process, and what is asked of it.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use api::capi::v1beta2::Cluster as Capi;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt as _};

/// Generous: the machine may be doing something else.
pub(crate) const WAIT: [&str; 3] = ["--wait", "--timeout", "300"];

/// The product at work; ended with the test, whatever happens.
pub(crate) struct Up {
    process: Child,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) url: String,
}

impl Up {
    pub(crate) fn start(directory: &Path) -> Self {
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
    pub(crate) fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_herdsman"));
        command.args(words).env("KUBECONFIG", &self.kubeconfig).output().unwrap()
    }

    /// What a command that must succeed prints.
    pub(crate) fn says(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// What a command that must fail complains of.
    pub(crate) fn refuses(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert_eq!(output.status.code(), Some(1), "{words:?} did not fail");
        String::from_utf8(output.stderr).unwrap()
    }

    pub(crate) async fn client(&self) -> Client {
        client(&std::fs::read_to_string(&self.kubeconfig).unwrap()).await
    }

    /// The nodes of a cluster and their versions, through its tunnel.
    pub(crate) async fn nodes(&self, cluster: &str) -> Vec<(String, String)> {
        let nodes = Api::<Node>::all(client(&self.says(&["kubeconfig", cluster])).await);
        let found = nodes.list(&ListParams::default()).await.unwrap();
        let version = |node: &Node| {
            node.status.clone().unwrap_or_default().node_info.unwrap_or_default().kubelet_version
        };
        found.iter().map(|node| (node.uid().unwrap_or_default(), version(node))).collect()
    }

    /// What it counts.
    pub(crate) async fn metrics(&self) -> String {
        let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
        self.client().await.request_text(request).await.unwrap()
    }

    /// Stops controllers from touching a cluster, or lets them go on.
    pub(crate) async fn pause(&self, cluster: &str, paused: bool) {
        let clusters: Api<Capi> = Api::namespaced(self.client().await, "fleet-default");
        let patch = Patch::Merge(serde_json::json!({"spec": {"paused": paused}}));
        clusters.patch(cluster, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Every plan: whose, and its checksum.
    pub(crate) async fn plans(&self) -> Vec<(String, String)> {
        let secrets = Api::<Secret>::namespaced(self.client().await, "fleet-default");
        let found = secrets.list(&ListParams::default()).await.unwrap();
        let plan = |secret: &Secret| {
            let data = secret.data.as_ref()?.get("applied-checksum")?;
            Some((secret.name_any(), String::from_utf8_lossy(&data.0).into_owned()))
        };
        found.iter().filter_map(plan).collect()
    }

    /// Hosts in a process of their own, which register with a cluster; the first is its server.
    pub(crate) async fn hosts(&self, cluster: &str, count: usize) -> Up {
        let command = loop {
            let output = self.run(&["node-command", cluster]);
            if output.status.success() {
                break String::from_utf8(output.stdout).unwrap();
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        let after = |flag: &str| {
            let mut words = command.split_whitespace();
            words.find(|word| *word == flag).and_then(|_| words.next()).unwrap().to_owned()
        };
        let (token, checksum) = (after("--token"), after("--ca-checksum"));
        let mut hosts = Command::new(env!("CARGO_BIN_EXE_herdsman"));
        hosts.args(["sim", "--server", &self.url, "--token", &token, "--ca-checksum", &checksum]);
        hosts.args(["--machines", &count.to_string(), "--servers", "1"]).stdout(Stdio::null());
        let process = hosts.env("HERDSMAN_LOG", "warn").spawn().unwrap();
        Up { process, kubeconfig: PathBuf::new(), url: String::new() }
    }

    /// Until a cluster is ready, with all its machines.
    pub(crate) async fn wait_for_nodes(&self, cluster: &str, count: usize) {
        let ready = |tree: &str| {
            tree.starts_with(&format!("cluster {cluster}  Ready"))
                && tree.matches("Running node").count() == count
        };
        for _ in 0..600 {
            if ready(&self.says(&["describe", cluster])) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        panic!(
            "{}{}",
            self.says(&["describe", cluster]),
            self.says(&["explain", &format!("cluster/{cluster}")])
        );
    }

    pub(crate) fn stop(mut self) -> Option<i32> {
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

pub(crate) async fn client(kubeconfig: &str) -> Client {
    let read = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}
