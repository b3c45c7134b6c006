//! Scenario 16: clusterctl installs the controllers, describes a cluster, hands out its kubeconfig and moves it; and what
//! it lets the controllers do is enough for them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use kube::Api;
use kube::api::{DynamicObject, PostParams};
use peers::command::run;
use serde_json::{Value, json};

use crate::provider::Speaks;
use crate::site::{Management, Site, install, install_ours};
use crate::world::{World, name, resource};

const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));
const HOME: &str = "capi-system";
/// Who the controllers are where clusterctl installs them.
const ACCOUNT: &str = "system:serviceaccount:capi-system:herdsman-capi";

/// clusterctl, and a repository with our release in it.
struct Clusterctl {
    program: PathBuf,
    directory: PathBuf,
}

impl Clusterctl {
    fn with_our_release(directory: &Path) -> Self {
        let program = peers::Peer::Clusterctl.provide().unwrap().path.join("clusterctl");
        let release = directory.join("cluster-api").join(VERSION);
        std::fs::create_dir_all(&release).unwrap();
        let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/clusterctl");
        for file in ["core-components.yaml", "metadata.yaml"] {
            std::fs::copy(files.join(file), release.join(file)).unwrap();
        }
        let components = release.join("core-components.yaml");
        let provider = json!({"name": "cluster-api", "type": "CoreProvider", "url": components});
        std::fs::write(directory.join("config.yaml"), json!({"providers": [provider]}).to_string()).unwrap();
        Clusterctl { program, directory: directory.into() }
    }

    fn says(&self, kubeconfig: &Path, arguments: &[&str]) -> String {
        let mut command = Command::new(&self.program);
        command.args(arguments).arg("--kubeconfig").arg(kubeconfig);
        command.arg("--config").arg(self.directory.join("config.yaml"));
        // Neither the user's files nor the network.
        command.env("HOME", &self.directory).env("XDG_CONFIG_HOME", &self.directory);
        command.env("GOPROXY", "off").env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true");
        run(&mut command).unwrap()
    }
}

fn kubeconfig(management: &Management) -> &Path {
    let Management::Real { kubernetes, .. } = management else { panic!("it is not real") };
    kubernetes.kubeconfig_path()
}

async fn create(client: &kube::Client, group: &str, kind: &str, plural: &str, mut document: Value) {
    let resource = resource(group, "v1", kind, plural);
    document["apiVersion"] = resource.api_version.clone().into();
    document["kind"] = kind.into();
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    api.create(&PostParams::default(), &serde_json::from_value(document).unwrap()).await.unwrap();
}

/// clusterctl installs cert-manager unless its kinds are there; nothing of ours needs it.
fn certificates() -> Vec<Value> {
    let definition = |kind: &str, plural: &str| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.cert-manager.io")},
            "spec": {"group": "cert-manager.io", "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}
        })
    };
    vec![definition("Certificate", "certificates"), definition("Issuer", "issuers")]
}

/// A provider whose group is not one of Cluster API's own says itself what the controllers may do with its kinds.
async fn allow_provider(client: &kube::Client, speaks: Speaks) {
    let verbs = ["get", "list", "watch", "create", "update", "patch", "delete"];
    let metadata =
        json!({"name": speaks.group(), "labels": {"cluster.x-k8s.io/aggregate-to-manager": "true"}});
    let rules = json!([{"apiGroups": [speaks.group()], "resources": ["*"], "verbs": verbs}]);
    let role = json!({"metadata": metadata, "rules": rules});
    create(client, "rbac.authorization.k8s.io", "ClusterRole", "clusterroles", role).await;
}

/// A management cluster that has our kinds without clusterctl, and is in its inventory all the same.
async fn second_site(clock: &Arc<dyn Clock>) -> Arc<Site> {
    let management = Management::real(None).await;
    let client = management.client("test");
    install_ours(&client).await;
    let inventory = |crd: &Value| crd["spec"]["group"] == "clusterctl.cluster.x-k8s.io";
    install(&client, api::crd::all().iter().map(|crd| json!(crd)).filter(inventory).collect()).await;
    create(&client, "", "Namespace", "namespaces", json!({"metadata": {"name": HOME}})).await;
    for _ in 0..2 {
        capi::inventory::register(&client, HOME, VERSION).await.unwrap();
    }
    Site::prepare(management, clock.clone(), 2, &[Speaks::V1Beta2]).await
}

/// A cluster with a server and two workers. The server belongs to the control plane, as providers have it.
async fn cluster(world: &World) -> Vec<String> {
    world.cluster("c").await;
    let owner = world.get("TestControlPlane", "c").await;
    let owner = json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": "c", "uid": owner["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true
    });
    world.patch("Machine", "c-server", json!({"metadata": {"ownerReferences": [owner]}})).await;
    world.pool("c", "p", 2, json!({})).await;
    world.pool_ready("p", 2).await;
    world.condition("Cluster", "c", "Available", "True", "Available").await;
    world.list("Machine").await.iter().map(name).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "peers: kubernetes, etcd, clusterctl"]
async fn clusterctl_gets_along() {
    if peers::skip("clusterctl") {
        return;
    }
    let clock: Arc<dyn Clock> = Arc::new(clock::SystemClock);
    let management = Management::real(Some(ACCOUNT)).await;
    let client = management.client("test");
    let (first, directory) =
        (kubeconfig(&management).to_owned(), kubeconfig(&management).with_extension("d"));
    let clusterctl =
        tokio::task::spawn_blocking(move || Clusterctl::with_our_release(&directory)).await.unwrap();

    install(&client, certificates()).await;
    let core = format!("cluster-api:{VERSION}");
    clusterctl.says(&first, &["init", "--core", &core, "--bootstrap", "-", "--control-plane", "-"]);
    let site = Site::prepare(management, clock.clone(), 1, &[Speaks::V1Beta2]).await;
    allow_provider(&client, Speaks::V1Beta2).await;
    let tempo = Duration::from_millis(300);
    site.open(&[Speaks::V1Beta2], tempo);
    let world = World::within(&site, Speaks::V1Beta2, "home").await;
    let machines = cluster(&world).await;

    let told = clusterctl.says(&first, &["describe", "cluster", "c", "--namespace", "home", "--color=false"]);
    let clusters = ["Cluster", "TestCluster", "TestControlPlane"].map(|kind| format!("{kind} home/c"));
    let machines_told = ["Machine home/c-server", "MachineDeployment home/p"].map(String::from);
    for line in clusters.iter().chain(&machines_told) {
        assert!(told.contains(line), "{line}: {told}");
    }
    let told = clusterctl.says(&first, &["get", "kubeconfig", "c", "--namespace", "home"]);
    assert!(told.contains("https://10.0.0.1:6443"), "{told}");

    let other = second_site(&clock).await;
    let second = kubeconfig(&other.management).to_str().unwrap().to_owned();
    clusterctl.says(&first, &["move", "--namespace", "home", "--to-kubeconfig", &second]);
    for kind in ["Cluster", "Machine", "MachineSet", "MachineDeployment", "TestMachine"] {
        assert_eq!(world.list(kind).await, Vec::<Value>::new(), "{kind}");
    }
    for machine in &machines {
        assert!(world.remote("Node").get_opt(machine).await.unwrap().is_some(), "{machine} is not touched");
    }
    // Everything is made out anew from what was moved.
    other.open(&[Speaks::V1Beta2], tempo);
    let moved = World::at(&other, Speaks::V1Beta2, "home", world.place.clone());
    moved.condition("Cluster", "c", "Available", "True", "Available").await;
    moved.pool_ready("p", 2).await;
    assert_eq!(moved.list("Machine").await.iter().map(name).collect::<Vec<_>>(), machines);
}
