//! `herdsman apiserver` as its users meet it: one line when it serves, all state kept, a clean end.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt as _};

fn herdsman() -> Command {
    Command::new(env!("CARGO_BIN_EXE_herdsman"))
}

/// A server at work; ended with the test, whatever happens.
struct Running {
    process: Child,
    url: String,
    kubeconfig: String,
}

impl Running {
    fn start(directory: &Path) -> Self {
        let mut command = herdsman();
        command.args(["apiserver", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["ready", url, kubeconfig] = words[..] else { panic!("{line:?}") };
        let (url, kubeconfig) = (
            url.strip_prefix("url=").unwrap().into(),
            kubeconfig.strip_prefix("kubeconfig=").unwrap().into(),
        );
        Running { process, url, kubeconfig }
    }

    async fn client(&self) -> Client {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        assert!(config.cluster_url.to_string().starts_with(&self.url));
        Client::try_from(config).unwrap()
    }

    /// Asks it to end, and gives its exit code.
    fn stop(mut self) -> Option<i32> {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.process.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn a_second_start_has_all_state() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let first = Running::start(&data);
    let maps = Api::<ConfigMap>::namespaced(first.client().await, "fleet-default");
    let map = serde_json::json!({"metadata": {"name": "kept"}, "data": {"a": "1"}});
    let made = maps.create(&Default::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    let authority = std::fs::read(data.join("pki/ca.crt")).unwrap();
    assert_eq!(first.stop(), Some(0));

    let second = Running::start(&data);
    let maps = Api::<ConfigMap>::namespaced(second.client().await, "fleet-default");
    let found = maps.get("kept").await.unwrap();
    assert_eq!(found.metadata.uid, made.metadata.uid);
    assert_eq!(found.metadata.resource_version, made.metadata.resource_version);
    assert_eq!(std::fs::read(data.join("pki/ca.crt")).unwrap(), authority);
    for file in ["admin.kubeconfig", "pki/ca.key", "pki/sa.key", "herdsman.db"] {
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(data.join(file)).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    assert_eq!(second.stop(), Some(0));
}

#[test]
fn what_cannot_be_started_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let running = Running::start(directory.path());
    let taken = running.url.trim_start_matches("https://");
    let other = tempfile::tempdir().unwrap();
    for (data, listen, code, why) in [
        (directory.path(), "127.0.0.1:0", 1, "in use"),
        (other.path(), taken, 1, "cannot listen on"),
        (other.path(), "nowhere", 2, "--listen"),
    ] {
        let mut command = herdsman();
        command.args(["apiserver", "--listen", listen, "--data-dir"]).arg(data);
        let mut process = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(process.wait().unwrap().code(), Some(code), "{said}");
        assert!(said.contains(why), "{said}");
    }
    assert_eq!(running.stop(), Some(0));
}

#[tokio::test]
async fn the_definitions_install_and_installing_again_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let running = Running::start(directory.path());
    let definitions = Api::<CustomResourceDefinition>::all(running.client().await);
    let mut revisions = Vec::new();
    for _ in 0..2 {
        let mut command = herdsman();
        let installed =
            command.args(["crds", "install"]).env("KUBECONFIG", &running.kubeconfig).output().unwrap();
        assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
        assert_eq!(installed.stdout.iter().filter(|byte| **byte == b'\n').count(), api::crd::all().len());
        let list = definitions.list(&ListParams::default()).await.unwrap();
        revisions.push(list.items.iter().map(|one| one.resource_version().unwrap()).collect::<Vec<_>>());
    }
    assert_eq!(revisions[0].len(), api::crd::all().len());
    assert_eq!(revisions[0], revisions[1]);
    assert_eq!(running.stop(), Some(0));
}
