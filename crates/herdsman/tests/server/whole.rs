//! The whole product on a real Kubernetes, with exactly the rights that `deploy/` gives it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::management::{Management, manifest};
use crate::program::{Running, client};

/// Everything that our account asks for.
const AUDIT: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, users: ['system:serviceaccount:cattle-system:herdsman']}
- {level: None}
";

/// A kubeconfig of the account that `deploy/kubernetes/herdsman.yaml` makes.
fn account(management: &Management, directory: &Path) -> PathBuf {
    management.kubectl(&["create", "namespace", "cattle-system"]);
    management.apply(include_str!("../../../../deploy/kubernetes/herdsman.yaml"), directory, &[]);
    let token = management.kubectl(&["create", "token", "herdsman", "-n", "cattle-system", "--duration=2h"]);
    let (url, ca) = (management.kubernetes.url(), management.kubernetes.ca_pem());
    let file = directory.join("account.kubeconfig");
    std::fs::write(&file, gateway::admin::kubeconfig(&url, ca, token.trim())).unwrap();
    file
}

/// What was refused, and for lack of which right.
fn forbidden(audit: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(audit).unwrap();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    // A namespace that goes takes nothing new: that is no lack of rights.
    let goes = |event: &Value| event["responseStatus"]["message"].to_string().contains("being terminated");
    let refused = events.filter(|event| event["responseStatus"]["code"] == 403 && !goes(event));
    refused.map(|event| format!("{} {}", event["verb"], event["requestURI"])).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs cargo xtask peers"]
async fn a_cluster_lives_and_dies_by_the_rights_of_the_deployed_account() {
    let directory = tempfile::tempdir().unwrap();
    let management = Management::start(peers::Kubernetes::options().audit(AUDIT)).await;
    let account = account(&management, directory.path());
    let data = directory.path().join("data");
    let server = Running::start(&[
        "server",
        "--kubeconfig",
        account.to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
        "--webhook-listen",
        "127.0.0.1:0",
        "--data-dir",
        data.to_str().unwrap(),
    ]);

    management.apply(&manifest(1), directory.path(), &[]);
    management.until_ready("demo", 2).await;
    // Whoever still speaks v1beta1 is answered by conversion.
    let old = management.list("cluster.x-k8s.io", "v1beta1", "machines").await;
    assert_eq!(old.len(), 2);
    management.apply(&manifest(2), directory.path(), &[]);
    management.until_ready("demo", 3).await;
    speaks(&management, &server).await;
    changes(&management, directory.path()).await;

    management.delete("demo").await;
    assert_eq!(server.stop(), Some(0));
    let refused = forbidden(&management.kubernetes.audit_log());
    assert!(refused.is_empty(), "deploy/chart/templates/rbac.yaml lacks: {refused:#?}");
}

/// A label reaches the machines that are there, a field of the driver makes others; a pool shrinks.
async fn changes(management: &Management, directory: &Path) {
    let before = management.machines("demo").await;
    let labelled = manifest(2)
        .replace("{name: workers, quantity: 2,", "{name: workers, quantity: 2, labels: {zone: a},");
    management.apply(&labelled, directory, &[]);
    let zone = async || {
        let machines = management.list("cluster.x-k8s.io", "v1beta2", "machines").await;
        let labels = machines.iter().filter_map(|one| one.metadata.labels.as_ref()?.get("zone"));
        labels.filter(|zone| *zone == "a").count()
    };
    for second in 0.. {
        if zone().await == 2 {
            break;
        }
        assert!(second < 120, "the label does not reach the machines");
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    management.until_ready("demo", 3).await;
    assert_eq!(management.machines("demo").await, before, "a label replaces nobody");

    management.apply(&labelled.replace("2048", "4096"), directory, &[]);
    for second in 0.. {
        if management.machines("demo").await.is_disjoint(&before) {
            break;
        }
        assert!(second < 300, "the driver's field does not make other machines");
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    management.until_ready("demo", 3).await;
    let fewer = labelled.replace("2048", "4096").replace("quantity: 2", "quantity: 1");
    management.apply(&fewer, directory, &[]);
    management.until_ready("demo", 2).await;
}

/// The one port answers as documented: by the rights of whoever asks.
async fn speaks(management: &Management, server: &Running) {
    let ask = |path: &str, token: Option<&str>| {
        let mut curl = std::process::Command::new("curl");
        curl.args(["-sk", "-w", "\n%{http_code}"]).arg(format!("{}{path}", server.url));
        if let Some(token) = token {
            curl.arg("-H").arg(format!("authorization: Bearer {token}"));
        }
        let output = curl.output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let (body, code) = said.rsplit_once('\n').unwrap();
        (code.to_owned(), body.to_owned())
    };
    for path in ["/healthz", "/livez", "/readyz", "/version", "/cacerts", "/system-agent-install.sh"] {
        assert_eq!(ask(path, None).0, "200", "{path}");
    }
    assert_eq!(ask("/metrics", None).0, "401");
    management.kubectl(&["create", "serviceaccount", "reader", "-n", "cattle-system"]);
    let reader = management.kubectl(&["create", "token", "reader", "-n", "cattle-system"]);
    assert_eq!(ask("/metrics", Some(reader.trim())).0, "403");
    management.kubectl(&["create", "clusterrole", "metrics", "--verb=get", "--non-resource-url=/metrics"]);
    let to = "--serviceaccount=cattle-system:reader";
    management.kubectl(&["create", "clusterrolebinding", "metrics", "--clusterrole=metrics", to]);
    let (code, metrics) = ask("/metrics", Some(reader.trim()));
    assert_eq!(code, "200");
    assert!(metrics.contains("herdsman_tunnel_sessions") && !metrics.contains("apiserver_request_total"));
    // The Kubernetes API itself, as whoever asks.
    assert_eq!(ask("/api/v1/namespaces/fleet-default/secrets", Some(reader.trim())).0, "403");
    let cluster = management.get("provisioning.cattle.io", "v1", "clusters", "demo").await.unwrap();
    let id = cluster["status"]["clusterName"].as_str().unwrap();
    assert_eq!(ask(&format!("/k8s/clusters/{id}/api/v1/nodes"), Some(reader.trim())).0, "403");
    let owner = ["create", "clusterrole", "owner", "--verb=own", "--resource=clusters.management.cattle.io"];
    management.kubectl(&owner);
    management.kubectl(&["create", "clusterrolebinding", "owner", "--clusterrole=owner", to]);
    let (code, nodes) = ask(&format!("/k8s/clusters/{id}/api/v1/nodes"), Some(reader.trim()));
    assert_eq!(code, "200", "{nodes}");
    assert!(client(&management.kubeconfig).await.apiserver_version().await.is_ok());
}
