//! A new authority for the server, and who follows it.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::Kubeconfig;

use crate::product::{Up, WAIT, client};

/// A new authority takes over under a running cluster: nodes follow by themselves, nothing is disturbed, and once the old one is
/// forgotten everything comes back on the new one alone.
#[tokio::test]
async fn nodes_follow_a_new_authority() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let up = Up::start(&data);
    let said = |up: &Up, words: &[&str]| {
        up.says(&[&["certificates"], words, &["--data-dir", data.to_str().unwrap()]].concat())
    };
    let pools = ["--pool", "servers:1:server", "--pool", "workers:1:worker"];
    up.says(&[&["create", "cluster", "demo"], &pools[..], &WAIT].concat());
    let (nodes, scripts) = (up.nodes("demo").await, up.says(&["node-command", "demo"]));
    let old = authorities(&up).await;
    assert_eq!(old.len(), 1);

    // Both vouch for the server; every node has it from the server itself, and says so.
    assert!(said(&up, &["rotate-ca"]).contains("before"));
    until(|| said(&up, &["status"]).contains("nodes know=2 of=2")).await;
    let both = authorities(&up).await;
    assert!(both.len() == 2 && both[1] == old[0], "{both:?}");
    assert_eq!(up.nodes("demo").await, nodes);
    let connections = connections(&data.join("sim"));
    assert_eq!(connections.len(), 2);
    assert!(connections.iter().all(|text| *text == both), "{connections:?}");
    // Whoever has only the old one comes in, too: it has signed the new one.
    let trusts_old = old[0].clone();
    assert!(answers(&up.url, &trusts_old).await);
    until(|| up.says(&["node-command", "demo"]) != scripts).await;

    // The old one is forgotten.
    said(&up, &["finish"]);
    until(|| said(&up, &["status"]).contains("nodes know=2 of=2")).await;
    assert_eq!(authorities(&up).await, both[..1]);
    assert!(!answers(&up.url, &trusts_old).await);

    // Everybody connects anew: agents, tunnel, controllers.
    assert_eq!(up.stop(), Some(0));
    let up = Up::start(&data);
    assert_eq!(up.nodes("demo").await, nodes);
    up.says(&[&["scale", "demo", "--pool", "workers", "--replicas", "2"], &WAIT[..]].concat());
    assert_eq!(up.nodes("demo").await.len(), 3);
}

/// Waits; the test has its own deadline.
async fn until(good: impl Fn() -> bool) {
    while !good() {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

/// The certificates in PEM text, one by one.
fn split(pem: &str) -> Vec<String> {
    let all = pem.split_inclusive("-----END CERTIFICATE-----\n");
    all.filter(|one| !one.trim().is_empty()).map(str::to_owned).collect()
}

/// Who vouches for the server, as its administrator has it and as `/cacerts` says.
async fn authorities(up: &Up) -> Vec<String> {
    let request = http::Request::get("/cacerts").body(Vec::new()).unwrap();
    let text = up.client().await.request_text(request).await.unwrap();
    let read = Kubeconfig::read_from(&up.kubeconfig).unwrap();
    let data = read.clusters[0].cluster.clone().unwrap().certificate_authority_data.unwrap();
    assert_eq!(ca(&data), text);
    split(&text)
}

fn ca(data: &str) -> String {
    String::from_utf8(STANDARD.decode(data).unwrap()).unwrap()
}

/// Whom the agents of simulated machines trust.
fn connections(directory: &Path) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(connections(&path));
        } else if path.ends_with("rancher2_connection_info.json") {
            let info: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            let read = Kubeconfig::from_yaml(info["kubeConfig"].as_str().unwrap()).unwrap();
            let cluster = read.clusters[0].cluster.clone().unwrap();
            found.push(split(&ca(&cluster.certificate_authority_data.unwrap())));
        }
    }
    found
}

/// Whether a server answers somebody who trusts this authority alone.
async fn answers(url: &str, pem: &str) -> bool {
    let data = STANDARD.encode(pem);
    let kubeconfig = format!(
        "{{clusters: [{{name: a, cluster: {{server: '{url}', certificate-authority-data: {data}}}}}], \
         contexts: [{{name: a, context: {{cluster: a, user: a}}}}], users: [{{name: a, user: {{}}}}], current-context: a}}"
    );
    let request = http::Request::get("/cacerts").body(Vec::new()).unwrap();
    client(&kubeconfig).await.request_text(request).await.is_ok()
}
