//! A running cluster moves from the embedded server to a real Kubernetes and back, and does not notice.

use std::path::Path;

use serde_json::Value;

use crate::management::{Management, nodes, nodes_by, plans, until_ready};
use crate::program::{Hosts, Running, herdsman, says};

const COUNT: usize = 3;

fn carry(from: &Path, to: &Path) {
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    says(from, &["move", "--from-kubeconfig", &path(from), "--to-kubeconfig", &path(to)]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "peers: kubernetes, etcd"]
async fn there_and_back_again() {
    let directory = tempfile::tempdir().unwrap();
    let data = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let management = Management::start(peers::Kubernetes::options()).await;
    let there = management.kubeconfig.clone();
    let up = Running::start(&["up", "--listen", "127.0.0.1:0", "--data-dir", &data("up")]);
    let here = Path::new(&up.kubeconfig).to_owned();
    let server = Running::start(&[
        "server",
        "--kubeconfig",
        there.to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        &data("server"),
    ]);

    says(&here, &["create", "cluster", "pets", "--kubernetes-version", "v1.34.2+k3s1"]);
    let _hosts = Hosts::start(&here, &up.url, "pets", COUNT).await;
    until_ready(&here, "pets", COUNT).await;
    let (before, delivered) = (nodes(&here, "pets").await, plans(&here).await);
    let users = says(&here, &["kubeconfig", "pets"]);
    assert_eq!(delivered.len(), COUNT);

    // To the real Kubernetes: the same nodes, and nothing to be done to them.
    carry(&here, &there);
    until_ready(&there, "pets", COUNT).await;
    assert_eq!(nodes(&there, "pets").await, before);
    let file = directory.path().join("pets.yaml");
    std::fs::write(&file, says(&there, &["get", "cluster", "pets", "-o", "yaml"])).unwrap();
    let planned = herdsman(&there, &["plan", "-f", file.to_str().unwrap()]);
    assert_eq!(planned.status.code(), Some(0), "{}", String::from_utf8_lossy(&planned.stdout));
    // What users have is as good as before; only the server is elsewhere.
    let theirs = says(&there, &["kubeconfig", "pets"]);
    let token =
        |text: &str| serde_json::from_str::<Value>(text).unwrap()["users"][0]["user"]["token"].clone();
    assert!(token(&users).is_string() && token(&theirs) == token(&users));
    assert_eq!(says(&here, &["get", "clusters", "-o", "name"]), "");

    // And back: what was delivered before is what is delivered now, and the first kubeconfig works as it is.
    carry(&there, &here);
    assert_eq!(server.stop(), Some(0));
    until_ready(&here, "pets", COUNT).await;
    assert_eq!(nodes_by(&users).await, before);
    assert_eq!(plans(&here).await, delivered);
    assert_eq!(up.stop(), Some(0));
}
