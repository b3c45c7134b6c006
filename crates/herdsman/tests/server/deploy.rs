//! What is under `deploy/`: the chart, and the manifests that are made from it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::management::Management;

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

/// What Helm makes of the chart with these values, or what it complains of.
fn template(values: &[&str]) -> Result<String, String> {
    let helm = peers::Peer::Helm.provide().unwrap().path.join("helm");
    let mut command = Command::new(helm);
    command
        .args(["template", "herdsman", "--namespace", "cattle-system", "--kube-version", "1.34"])
        .arg(deploy().join("chart"));
    for value in values {
        command.args(["--set", value]);
    }
    let output = command.output().unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap()),
        false => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

#[tokio::test]
#[ignore = "peers: kubernetes, etcd, helm"]
async fn a_kubernetes_takes_the_chart() {
    let usual = template(&["serverURL=https://herdsman.example.com"]).unwrap();
    let file = deploy().join("kubernetes/herdsman.yaml");
    let header = "# Made from deploy/chart by `helm template`; set --server-url before you apply it.\n";
    let made = format!("{header}{usual}");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap();
    assert!(
        kept == made,
        "deploy/kubernetes/herdsman.yaml is not what the chart makes: run with UPDATE_GOLDEN=1"
    );

    // What is missing is said in the chart's own words.
    assert!(template(&[]).unwrap_err().contains("serverURL is needed"));
    let other = [
        "serverURL=https://h:8443",
        "replicas=1",
        "capi=external",
        "jobs=local",
        "tls.secretName=own",
        "tls.privateCA=true",
        "service.type=LoadBalancer",
        "image.pullSecrets={pull}",
        "nodeSelector.role=infra",
        "extraArgs={--assets=/agents}",
    ];
    let other = template(&other).unwrap();
    for part in
        ["--tls-ca=/etc/herdsman/tls/ca.crt", "--capi=external", "--assets=/agents", "type: LoadBalancer"]
    {
        assert!(other.contains(part), "{part}");
    }
    assert!(!other.contains("PodDisruptionBudget"), "one replica could never be moved");

    let directory = tempfile::tempdir().unwrap();
    let management = Management::start(peers::Kubernetes::options()).await;
    management.kubectl(&["create", "namespace", "cattle-system"]);
    for manifests in [&usual, &other] {
        management.apply(manifests, directory.path(), &["--dry-run=server", "--validate=strict"]);
    }
    let helm = peers::Peer::Helm.provide().unwrap().path.join("helm");
    let mut install = Command::new(helm);
    install
        .args(["install", "herdsman", "-n", "cattle-system", "--dry-run=server"])
        .arg(deploy().join("chart"));
    install.args(["--set", "serverURL=https://h"]).env("KUBECONFIG", &management.kubeconfig);
    let output = install.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
