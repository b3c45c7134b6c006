//! `herdsman up` and `quickstart` as their users meet them: a cluster is made, watched, scaled, upgraded, explained and
//! deleted, all by the command line, on simulated machines.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod authority;
mod canaries;
mod moving;
mod pages;
mod product;

use std::process::Command;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, ResourceExt as _};
use product::{Up, WAIT};

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

    // Whoever comes with controllers of their own finds that the work is done already.
    for lease in ["herdsman-controllers", "herdsman-capi"] {
        let leases: Api<Lease> = Api::namespaced(up.client().await, "cattle-system");
        let spec = leases.get(lease).await.unwrap().spec.unwrap();
        assert_eq!(spec.holder_identity.as_deref(), Some("herdsman-up"), "{lease}");
    }

    // A driver whose containers reach into this host is the operator's to enable.
    let drivers = up.says(&["get", "drivers", "-o", "name"]);
    assert!(drivers.contains("ssh") && !drivers.contains("docker"), "{drivers}");

    // Wrong words are answered with right ones.
    assert!(up.refuses(&["get", "clutser"]).contains("did you mean \"cluster\""));
    assert!(up.refuses(&["describe", "demo"]).contains("there is no cluster \"demo\""));
    let refused = up.refuses(&["create", "cluster", "demo", "--kubernetes-version", "1.34"]);
    assert!(refused.contains("spec.kubernetesVersion"), "{refused}");
    let pools = ["--pool", "all:1:all"];
    up.refuses(&[&["create", "cluster", "demo", "--kubernetes-version", "1.34"], &pools[..]].concat());
    let configs = Api::<DynamicObject>::all_with(up.client().await, &sim_configs());
    assert!(configs.list(&ListParams::default()).await.unwrap().items.is_empty(), "nothing is left behind");
    assert!(up.refuses(&["explain", "cluster/demo"]).contains("there is no cluster \"demo\""));

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
    let machines = up.says(&["get", "machines", "-o", "name"]);
    assert_eq!(machines.lines().count(), 2);
    let reported = up.says(&["logs", machines.lines().next().unwrap()]);
    assert!(
        reported.starts_with("plan succeeded") && reported.contains("probe kubelet healthy"),
        "{reported}"
    );

    dashboard_is_served(&up.metrics().await);

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
    let (url, plans) = (up.url.clone(), up.plans().await);
    assert_eq!(up.stop(), Some(0));
    let up = Up::start(&data);
    assert_eq!(up.url, url);
    assert_eq!(up.nodes("demo").await, upgraded);
    assert_eq!(up.plans().await, plans);
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

    // A machine is lost, and comes back as another; then everything goes.
    let machines = up.says(&["get", "machines", "-o", "name"]);
    let worker = machines.lines().find(|name| name.contains("workers")).unwrap();
    up.says(&[&["delete", worker], &WAIT[..]].concat());
    up.wait_for_nodes("demo", 2).await;
    assert!(!up.says(&["get", "machines", "-o", "name"]).contains(worker));
    // What cannot go on says why, and what to do.
    up.pause("demo", true).await;
    up.says(&["scale", "demo", "--pool", "workers", "--replicas", "2"]);
    let waits = up.says(&["explain", "cluster/demo", "-o", "json"]);
    assert!(waits.contains("paused"), "{waits}");
    up.pause("demo", false).await;
    up.wait_for_nodes("demo", 3).await;
    up.says(&[&["delete", "cluster", "demo"], &WAIT[..]].concat());
    assert_eq!(up.says(&["get", "machines", "-A", "-o", "name"]), "");
    assert_eq!(up.says(&["get", "clusters", "-A", "-o", "name"]), "");
}

fn sim_configs() -> ApiResource {
    ApiResource {
        group: "rke-machine-config.cattle.io".into(),
        version: "v1".into(),
        api_version: "rke-machine-config.cattle.io/v1".into(),
        kind: "SimConfig".into(),
        plural: "simconfigs".into(),
    }
}

/// Hosts that register by their own hand, in a process of their own.
#[tokio::test]
async fn hosts_register_with_a_command() {
    let directory = tempfile::tempdir().unwrap();
    let up = Up::start(&directory.path().join("data"));
    up.says(&["create", "cluster", "pets"]);
    let _hosts = up.hosts("pets", 3).await;
    up.wait_for_nodes("pets", 3).await;
    assert_eq!(up.nodes("pets").await.len(), 3);
}

/// Every number on the dashboard is one that the server has.
fn dashboard_is_served(metrics: &str) {
    let dashboard = include_str!("../../../../deploy/grafana/herdsman.json");
    let word =
        |text: &str| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap().to_owned();
    let names = dashboard.split("herdsman_").skip(1).map(|text| word(&format!("herdsman_{text}")));
    for name in names {
        let family = ["_bucket", "_count", "_total"]
            .iter()
            .fold(name.as_str(), |name, end| name.strip_suffix(end).unwrap_or(name));
        assert!(metrics.contains(&format!("# TYPE {family} ")), "{name} is not served");
    }
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
