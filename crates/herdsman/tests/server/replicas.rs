//! Several processes: replicas that stand in for each other, and Cluster API's controllers in a process of their own.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use crate::balancer::{Balancer, free};
use clock::{Clock as _, SystemClock};
use jiff::SignedDuration;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::Patch;
use serde_json::json;

use crate::management::{Management, manifest, plans};
use crate::program::{HERDSMAN, Hosts, Running, client, client_of, says};

/// Starts a replica. All keep simulated machines in one directory: whoever leads gives them power.
fn replica(kubeconfig: &Path, at: SocketAddr, url: &str, data: &Path) -> Running {
    Running::start(&[
        "server",
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
        "--listen",
        &at.to_string(),
        "--server-url",
        url,
        "--data-dir",
        data.to_str().unwrap(),
    ])
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "peers: kubernetes, etcd"]
async fn another_replica_carries_on() {
    let directory = tempfile::tempdir().unwrap();
    let management = Management::start(peers::Kubernetes::options()).await;
    let (balancer, data) = (Balancer::start().await, directory.path().join("data"));
    let [first, second, third] = [free(), free(), free()];
    let start = |at: SocketAddr| replica(&management.kubeconfig, at, &balancer.url(), &data);

    // The leader dies in the middle of making machines.
    balancer.set(&[first, second]);
    let leader = start(first);
    let other = start(second);
    management.apply(&manifest(1), directory.path(), &[]);
    while management.list("batch", "v1", "jobs").await.is_empty() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    leader.kill();
    management.until_ready("demo", 2).await;
    let before = management.nodes("demo").await;

    // A replica without a tunnel reaches the cluster through the one that has it.
    let last = start(third);
    balancer.set(&[third, second]);
    management.until_ready("demo", 2).await;

    // One that is told to end hands over, and nothing is done twice.
    assert_eq!(other.stop(), Some(0));
    management.apply(&manifest(2), directory.path(), &[]);
    management.until_ready("demo", 3).await;
    let after = management.nodes("demo").await;
    for node in &before {
        assert!(after.contains(node), "{node:?} was made anew: {after:?}");
    }
    assert_eq!(last.stop(), Some(0));
}

/// How soon another replica leads after the one that did died.
const TAKES_OVER: SignedDuration = SignedDuration::from_secs(15);

/// The leader dies in the middle of an upgrade, without a word. The other one goes on, and no machine is done twice.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "peers: kubernetes, etcd"]
async fn an_upgrade_goes_on_without_its_leader() {
    let directory = tempfile::tempdir().unwrap();
    let management = Management::start(peers::Kubernetes::options()).await;
    let kubeconfig = management.kubeconfig.clone();
    let balancer = Balancer::start().await;
    let ports = [free(), free()];
    balancer.set(&[ports[1], ports[0]]);
    let start = |number: usize| {
        let data = directory.path().join(format!("data-{number}"));
        replica(&kubeconfig, ports[number], &balancer.url(), &data)
    };
    let (leader, other) = (start(0), start(1));
    says(&kubeconfig, &["create", "cluster", "pets", "--kubernetes-version", "v1.34.2+k3s1"]);
    let _hosts = Hosts::start(&kubeconfig, &balancer.url(), "pets", 5).await;
    management.until_ready("pets", 5).await;
    let (before, nodes) = (plans(&kubeconfig).await, management.nodes("pets").await);
    let leases = Api::<Lease>::namespaced(management.client.clone(), "cattle-system");
    let lease = async || leases.get("herdsman-controllers").await.unwrap().spec.unwrap();
    let led = lease().await.holder_identity;

    says(&kubeconfig, &["upgrade", "pets", "--kubernetes-version", "v1.35.0+k3s1"]);
    let mut seen = std::collections::BTreeSet::new();
    let mut look = async || {
        let applied = plans(&kubeconfig).await;
        let new = applied.into_iter().filter(|(name, sum)| !sum.is_empty() && before.get(name) != Some(sum));
        seen.extend(new);
        tokio::time::sleep(Duration::from_millis(50)).await;
        seen.len()
    };
    while look().await == 0 {}
    leader.kill();
    let died = SystemClock.now();
    assert!(look().await < 5, "that was the end of the upgrade, not its middle");
    while lease().await.holder_identity == led {
        look().await;
    }
    let took = lease().await.acquire_time.unwrap().0.duration_since(died);
    assert!(took <= TAKES_OVER, "{took}");
    while look().await < 5 {}
    management.until_ready("pets", 5).await;
    look().await;
    assert_eq!(seen.len(), 5, "one plan for each machine: {seen:?}");
    assert_eq!(management.nodes("pets").await, nodes);
    assert_eq!(other.stop(), Some(0));
}

/// Cluster API's controllers are somebody else's: here, of a process that runs nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn cluster_api_may_be_somebody_elses() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let apiserver = Running::start(&["apiserver", "--listen", "127.0.0.1:0", "--data-dir", &path("api")]);
    let kubeconfig = apiserver.kubeconfig.clone();
    // What they have installed is theirs.
    says(Path::new(&kubeconfig), &["crds", "install"]);
    let definitions = Api::<CustomResourceDefinition>::all(client(&kubeconfig).await);
    let converter = json!({"url": "https://theirs.example.com/convert", "service": null, "caBundle": null});
    let theirs = json!({"spec": {"conversion": {"webhook": {"clientConfig": converter}},
        "names": {"categories": ["theirs"]}}});
    let name = "machines.cluster.x-k8s.io";
    let changed = definitions.patch(name, &Default::default(), &Patch::Merge(theirs)).await.unwrap();
    let server = Running::start(&[
        "server",
        "--kubeconfig",
        &kubeconfig,
        "--capi",
        "external",
        "--listen",
        "127.0.0.1:0",
        "--webhook-listen",
        "127.0.0.1:0",
        "--data-dir",
        &path("server"),
    ]);
    let core = Running::start(&["server", "--kubeconfig", &kubeconfig, "--controllers", "capi"]);
    let words = ["create", "cluster", "demo", "--kubernetes-version", "v1.34.2+k3s1"];
    let more = ["--pool", "all:1:all", "--wait", "--timeout", "300"];
    says(Path::new(&kubeconfig), &[&words[..], &more].concat());
    let cluster = client_of(&says(Path::new(&kubeconfig), &["kubeconfig", "demo"])).await;
    let nodes = Api::<k8s_openapi::api::core::v1::Node>::all(cluster);
    assert_eq!(nodes.list(&Default::default()).await.unwrap().items.len(), 1);
    assert_eq!(definitions.get(name).await.unwrap().spec, changed.spec);
    let asked = Api::<ValidatingWebhookConfiguration>::all(client(&kubeconfig).await);
    let asked = asked.list(&Default::default()).await.unwrap();
    let asked: Vec<String> = asked.iter().filter_map(|one| one.metadata.name.clone()).collect();
    assert_eq!(asked, ["herdsman"], "not about their kinds");
    let leases = Api::<Lease>::namespaced(client(&kubeconfig).await, "cattle-system");
    let mut holders = Vec::new();
    for name in ["herdsman-controllers", "herdsman-capi"] {
        holders.push(leases.get(name).await.unwrap().spec.unwrap().holder_identity);
    }
    assert!(holders[0].is_some() && holders[1].is_some() && holders[0] != holders[1], "{holders:?}");
    assert_eq!((core.stop(), server.stop()), (Some(0), Some(0)));

    // What is wrong is said at once.
    for (words, complaint) in [
        (&["--controllers", "capi", "--capi", "external"][..], "leaves nothing to do"),
        (&["--controllers", "provisioning"], "--server-url is needed"),
        (&["--server-url", "http://h"], "--server-url"),
        (&["--namespace", "x"], "--controllers capi"),
        (&["--webhook-listen", "127.0.0.1:0", "--webhook-url", "h"], "--webhook-url"),
    ] {
        let mut command = std::process::Command::new(HERDSMAN);
        let output = command.args(["server", "--kubeconfig", &kubeconfig]).args(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains(complaint), "{words:?}: {said}");
    }
    assert_eq!(apiserver.stop(), Some(0));
}
