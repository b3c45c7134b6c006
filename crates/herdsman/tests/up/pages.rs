//! What users type, as scripts in one shell: the page for newcomers, and the same hour by kubectl alone.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The page for newcomers does what it says: its commands, one after the other, in one shell.
#[test]
#[ignore = "default: kubectl"]
fn the_getting_started_page_works() {
    let page = include_str!("../../../../docs/getting-started.md");
    let blocks: Vec<&str> =
        page.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap()).collect();
    let (first, rest) = blocks.split_first().unwrap();
    // The server has a terminal of its own; its port is free whatever else runs here.
    run(&first.trim().replace("127.0.0.1:8443", "127.0.0.1:0"), &rest.concat());
}

/// Everything that the command line does works through plain kubectl on the objects.
#[test]
#[ignore = "default: kubectl"]
fn an_hour_with_kubectl() {
    run(
        "herdsman up --data-dir ./herd --listen 127.0.0.1:0",
        r#"
export KUBECONFIG=$PWD/herd/admin.kubeconfig
k() { kubectl -n fleet-default "$@"; }
herdsman create cluster demo --pool servers:1:server --pool workers:1:worker --dry-run > demo.yaml
kubectl apply -f demo.yaml
k wait --for=condition=Ready cluster.provisioning.cattle.io/demo --timeout=300s
k get clusters.provisioning.cattle.io,machines
k get secret demo-kubeconfig -o jsonpath='{.data.value}' | base64 -d > demo.kubeconfig
kubectl --kubeconfig demo.kubeconfig get nodes -o name | sort > before
test "$(wc -l < before)" -eq 2

# Wrong input is refused with the field and what to do.
! k patch cluster.provisioning.cattle.io demo --type merge -p '{"spec":{"kubernetesVersion":"1.35"}}' 2> refused
grep -q spec.kubernetesVersion refused

# What a change would do, before it is done.
sed 's/v1.34.2+k3s1/v1.35.0+k3s1/' demo.yaml > next.yaml
kubectl apply --dry-run=server -f next.yaml 2>&1 | grep -qi 'restart'
kubectl apply -f next.yaml
upgraded() {
    kubectl --kubeconfig demo.kubeconfig get nodes -o jsonpath='{.items[*].status.nodeInfo.kubeletVersion}'
}
for i in $(seq 300); do test "$(upgraded)" = "v1.35.0+k3s1 v1.35.0+k3s1" && break; sleep 1; done
test "$(upgraded)" = "v1.35.0+k3s1 v1.35.0+k3s1"
kubectl --kubeconfig demo.kubeconfig get nodes -o name | sort | diff before -

# A machine is lost, and another comes.
lost=$(k get machines -o name | grep workers)
k delete "$lost" --timeout=300s
k wait --for=condition=Ready machines --all --timeout=300s
k wait --for=condition=Ready cluster.provisioning.cattle.io/demo --timeout=300s
test "$(k get machines -o name | grep workers)" != "$lost"

k delete cluster.provisioning.cattle.io demo --timeout=300s
test -z "$(k get machines -o name)"
"#,
    );
}

/// Runs a server, and a script that ends with it.
fn run(server: &str, script: &str) {
    let kubectl = peers::Peer::Kubectl.provide().unwrap().path.join("usr/bin/kubectl");
    let directory = tempfile::tempdir().unwrap();
    let script = format!(
        "set -eu\n{server} > up.out 2> up.err & up=$!\ntrap 'kill $up; wait $up' EXIT\n\
         until grep -q ready up.out; do kill -0 $up; sleep 0.2; done\nset -x\n{script}"
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
