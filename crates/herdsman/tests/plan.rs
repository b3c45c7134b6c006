//! `herdsman plan` and `herdsman explain` as scripts meet them, on `herdsman apiserver`. What they say of running clusters is
//! tested beside the controllers.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};

use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

/// A server at work; ended with the test, whatever happens.
struct Server {
    process: Child,
    kubeconfig: String,
}

impl Server {
    fn start(directory: &std::path::Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_herdsman"));
        command.args(["apiserver", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (_, kubeconfig) = line.trim().split_once(" kubeconfig=").unwrap_or_else(|| panic!("{line:?}"));
        Server { process, kubeconfig: kubeconfig.into() }
    }

    fn herdsman(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_herdsman"));
        command.args(arguments).env("KUBECONFIG", &self.kubeconfig).output().unwrap()
    }

    async fn client(&self) -> kube::Client {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).unwrap();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        kube::Client::try_from(config.unwrap()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn they_keep_their_exit_codes_and_their_json() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"));
    assert!(server.herdsman(&["crds", "install"]).status.success());
    let cluster = json!({
        "apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
        "metadata": {"name": "first", "namespace": "fleet-default"},
        "spec": {"kubernetesVersion": "v1.34.2+k3s1", "rkeConfig": {"machineGlobalConfig": {}}}
    });
    let file = directory.path().join("cluster.yaml");
    std::fs::write(&file, cluster.to_string()).unwrap();
    let file = file.to_str().unwrap();

    let made = server.herdsman(&["plan", "-f", file]);
    assert_eq!(made.status.code(), Some(2), "{}", text(&made.stderr));
    assert!(text(&made.stdout).contains("would be made"), "{}", text(&made.stdout));
    let missing = server.herdsman(&["plan", "-f", "/no/such/file"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("cannot read /no/such/file"), "{}", text(&missing.stderr));
    let unknown = server.herdsman(&["explain", "cluster/first"]);
    assert_eq!(unknown.status.code(), Some(1));
    let words = text(&unknown.stderr);
    assert!(words.contains("there is no cluster \"first\" in namespace fleet-default"), "{words}");
    assert_eq!(server.herdsman(&["explain", "pod/first"]).status.code(), Some(1));

    let kind = ApiResource {
        group: "provisioning.cattle.io".into(),
        version: "v1".into(),
        api_version: "provisioning.cattle.io/v1".into(),
        kind: "Cluster".into(),
        plural: "clusters".into(),
    };
    let clusters: Api<DynamicObject> = Api::namespaced_with(server.client().await, "fleet-default", &kind);
    clusters.create(&PostParams::default(), &serde_json::from_value(cluster).unwrap()).await.unwrap();
    let same = server.herdsman(&["plan", "-f", file, "-o", "json"]);
    let document: Value = serde_json::from_slice(&same.stdout).unwrap();
    assert_eq!((same.status.code(), &document["change"]), (Some(0), &json!("none")), "{document}");
    let explained = server.herdsman(&["explain", "cluster/first", "-o", "json"]);
    assert!(explained.status.success(), "{}", text(&explained.stderr));
    let document: Value = serde_json::from_slice(&explained.stdout).unwrap();
    let wait = &document["waits"][0];
    // Nobody has made the infrastructure cluster: no controller runs here.
    assert_eq!(wait["code"], "InfrastructureClusterMissing", "{document}");
    for field in ["code", "subject", "since", "awaits", "evidence", "remedy"] {
        assert!(wait.get(field).is_some(), "{field}: {wait}");
    }
}
