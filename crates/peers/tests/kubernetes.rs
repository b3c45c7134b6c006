//! A throw-away Kubernetes starts, works and leaves nothing behind.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use peers::{Kubernetes, Peer, command};

#[test]
#[ignore = "peers: kubernetes, etcd"]
fn a_kubernetes_works_and_leaves_nothing_behind() {
    if peers::skip("kubernetes") {
        return;
    }
    let kubernetes = Kubernetes::start().unwrap();
    let ask = |arguments: &[&str]| command::run(kubernetes.kubectl().args(arguments)).unwrap();

    // Made by the controller manager: it works, and may do what it does.
    let account = ask(&["get", "serviceaccount", "default", "--namespace=default", "--output=name"]);
    assert_eq!(account.trim(), "serviceaccount/default");
    let pinned = Peer::Kubernetes.provide().unwrap().version;
    let versions: serde_json::Value = serde_json::from_str(&ask(&["version", "--output=json"])).unwrap();
    for side in ["clientVersion", "serverVersion"] {
        assert_eq!(versions[side]["gitVersion"], format!("v{pinned}"), "{versions}");
        assert_eq!(versions[side]["minor"].as_str(), pinned.split('.').nth(1), "{versions}");
    }
    let mode = kubernetes.kubeconfig_path().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(kubernetes.ca_pem().starts_with("-----BEGIN CERTIFICATE-----"));

    let processes: Vec<_> = kubernetes.processes().collect();
    let directory = kubernetes.data_dir().to_owned();
    assert_eq!(processes.len(), 3);
    for (name, id) in &processes {
        println!("{name}: {} MB resident", resident_megabytes(*id).unwrap());
    }
    kubernetes.stop();
    for (name, id) in processes {
        assert!(!Path::new(&format!("/proc/{id}")).exists(), "{name} still runs");
    }
    assert!(!directory.exists());
}

#[test]
#[ignore = "peers: kubernetes, etcd"]
fn without_a_controller_manager_nothing_acts_on_objects() {
    if peers::skip("kubernetes") {
        return;
    }
    let kubernetes = Kubernetes::options().controller_manager(false).start().unwrap();
    let accounts = command::run(kubernetes.kubectl().args(["get", "serviceaccounts", "-A", "-o", "name"]));
    assert_eq!(accounts.unwrap(), "");
}

fn resident_megabytes(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? / 1024)
}
