//! Cluster API's controllers as clusterctl installs them: the account, the arguments and the Service of
//! `deploy/clusterctl/core-components.yaml`, on a real Kubernetes that asks webhooks behind that Service. Scenario 20 of the
//! specification, with providers of both contracts.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::balancer::{Balancer, free};
use crate::management::Management;
use crate::program::{Running, client};

const HOME: &str = "capi-system";
const NAME: &str = "herdsman-capi";

/// Everything that the controllers' account asks for.
const AUDIT: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, users: ['system:serviceaccount:capi-system:herdsman-capi']}
- {level: None}
";

/// A provider of one contract.
#[derive(Clone, Copy)]
struct Provider {
    group: &'static str,
    contract: &'static str,
}

const PROVIDERS: [Provider; 2] = [
    Provider { group: "old.example.com", contract: "v1beta1" },
    Provider { group: "new.example.com", contract: "v1beta2" },
];

const KINDS: [&str; 6] =
    ["FooCluster", "FooControlPlane", "FooMachine", "FooMachineTemplate", "FooConfig", "FooConfigTemplate"];

impl Provider {
    fn reference(self, kind: &str, name: &str) -> Value {
        json!({"apiGroup": self.group, "kind": kind, "name": name})
    }

    /// A status that says that something is done.
    fn done(self, old: &str, new: &str) -> Value {
        match self.contract {
            "v1beta1" => json!({old: true}),
            _ => json!({"initialization": {new: true}}),
        }
    }

    fn definitions(self) -> Vec<Value> {
        let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = |kind: &str| {
            let plural = format!("{}s", kind.to_lowercase());
            json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {
                    "name": format!("{plural}.{}", self.group),
                    "labels": {format!("cluster.x-k8s.io/{}", self.contract): "v1"}
                },
                "spec": {
                    "group": self.group, "scope": "Namespaced",
                    "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
                    "versions": [{
                        "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": any, "status": any}}}
                    }]
                }
            })
        };
        KINDS.map(definition).to_vec()
    }

    /// It says itself what the controllers may do with its kinds.
    fn role(self) -> Value {
        let verbs = ["get", "list", "watch", "create", "update", "patch", "delete"];
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": self.group, "labels": {"cluster.x-k8s.io/aggregate-to-manager": "true"}},
            "rules": [{"apiGroups": [self.group], "resources": ["*"], "verbs": verbs}]
        })
    }
}

/// A namespace of the management cluster.
struct Place {
    client: Client,
    namespace: String,
    provider: Provider,
}

impl Place {
    fn resource(&self, version: &str, kind: &str) -> ApiResource {
        let group = match kind {
            kind if kind.starts_with("Foo") => self.provider.group,
            "Secret" => "",
            _ => "cluster.x-k8s.io",
        };
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        ApiResource {
            group: group.into(),
            version: version.into(),
            api_version,
            kind: kind.into(),
            plural: format!("{}s", kind.to_lowercase()),
        }
    }

    fn api(&self, version: &str, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &self.resource(version, kind))
    }

    /// Objects in the version that is kept of their kind.
    fn kept(&self, kind: &str) -> Api<DynamicObject> {
        self.api(Self::version(kind), kind)
    }

    fn version(kind: &str) -> &'static str {
        if kind.starts_with("Foo") || kind == "Secret" { "v1" } else { "v1beta2" }
    }

    async fn create(&self, kind: &str, name: &str, mut document: Value) {
        document["metadata"]["name"] = name.into();
        document["apiVersion"] = self.resource(Self::version(kind), kind).api_version.into();
        document["kind"] = kind.into();
        let object = serde_json::from_value(document).unwrap();
        let created = self.kept(kind).create(&PostParams::default(), &object).await;
        created.unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
    }

    async fn get(&self, version: &str, kind: &str, name: &str) -> Value {
        serde_json::to_value(self.api(version, kind).get(name).await.unwrap()).unwrap()
    }

    async fn says(&self, kind: &str, name: &str, patch: Value, status: bool) {
        let (api, options, patch) = (self.kept(kind), PatchParams::default(), Patch::Merge(patch));
        match status {
            true => api.patch_status(name, &options, &patch).await.unwrap(),
            false => api.patch(name, &options, &patch).await.unwrap(),
        };
    }

    /// Waits until an object is as it should be.
    async fn until(&self, kind: &str, name: &str, so: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..600 {
            if let Some(found) = self.kept(kind).get_opt(name).await.unwrap() {
                last = serde_json::to_value(found).unwrap();
                if so(&last) {
                    return last;
                }
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("{kind} {name} never is as it should be: {last}");
    }

    /// A cluster with one worker that runs: the provider does its part here, step by step. Gives the machine's name.
    async fn cluster(&self, workload: &Running) -> String {
        let provider = self.provider;
        let kubeconfig = std::fs::read_to_string(&workload.kubeconfig).unwrap();
        let labels = json!({"cluster.x-k8s.io/cluster-name": "c"});
        let secret = json!({"metadata": {"labels": labels}, "stringData": {"value": kubeconfig}});
        self.create("Secret", "c-kubeconfig", secret).await;
        self.create(
            "FooCluster",
            "c",
            json!({"spec": {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}}}),
        )
        .await;
        self.create("FooControlPlane", "c", json!({"spec": {"version": "v1.34.1"}})).await;
        let references = json!({
            "infrastructureRef": provider.reference("FooCluster", "c"),
            "controlPlaneRef": provider.reference("FooControlPlane", "c")
        });
        self.create("Cluster", "c", json!({"spec": references})).await;
        self.says("FooCluster", "c", json!({"status": provider.done("ready", "provisioned")}), true).await;
        let mut status = provider.done("initialized", "controlPlaneInitialized");
        status["version"] = json!("v1.34.1");
        self.says("FooControlPlane", "c", json!({"status": status}), true).await;
        self.until("Cluster", "c", |cluster| cluster["status"]["phase"] == "Provisioned").await;

        for template in ["FooMachineTemplate", "FooConfigTemplate"] {
            self.create(template, "p", json!({"spec": {"template": {"spec": {"size": "small"}}}})).await;
        }
        let taint = json!({"key": "example.com/new", "effect": "NoSchedule", "propagation": "Always"});
        // What is left out (replicas, selector, strategy) is filled in at the door.
        self.create("MachineDeployment", "p", json!({"spec": {"clusterName": "c", "selector": {}, "template": {"spec": {
            "clusterName": "c", "version": "1.34.1", "deletion": {"nodeDrainTimeoutSeconds": 7}, "taints": [taint],
            "bootstrap": {"configRef": provider.reference("FooConfigTemplate", "p")},
            "infrastructureRef": provider.reference("FooMachineTemplate", "p")
        }}}}))
        .await;
        self.until("MachineDeployment", "p", |pool| pool["status"]["replicas"] == 1).await;
        let machine = self.kept("Machine").list(&Default::default()).await.unwrap().items[0].name_any();
        self.until("FooConfig", &machine, |_| true).await;
        let mut status = provider.done("ready", "dataSecretCreated");
        status["dataSecretName"] = json!("data");
        self.says("FooConfig", &machine, json!({"status": status}), true).await;
        self.until("Machine", &machine, |machine| machine["spec"]["bootstrap"]["dataSecretName"] == "data")
            .await;
        let id = format!("foo://{}/{machine}", self.namespace);
        self.says("FooMachine", &machine, json!({"spec": {"providerID": id}}), false).await;
        self.says("FooMachine", &machine, json!({"status": provider.done("ready", "provisioned")}), true)
            .await;
        join(&client(&workload.kubeconfig).await, &format!("{}-worker", self.namespace), &id).await;
        self.until("MachineDeployment", "p", |pool| {
            pool["status"]["availableReplicas"] == 1 && pool["status"]["upToDateReplicas"] == 1
        })
        .await;
        machine
    }
}

/// A node joins.
async fn join(workload: &Client, name: &str, id: &str) {
    use k8s_openapi::api::core::v1::Node;
    let nodes = Api::<Node>::all(workload.clone());
    let node: Node =
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"providerID": id}})).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let at = "2026-01-01T00:00:00Z";
    let condition = |(type_, status): (&str, &str)| json!({"type": type_, "status": status, "lastHeartbeatTime": at, "lastTransitionTime": at});
    let all =
        [("Ready", "True"), ("MemoryPressure", "False"), ("DiskPressure", "False"), ("PIDPressure", "False")];
    let info = json!({
        "architecture": "amd64", "bootID": "b", "containerRuntimeVersion": "c", "kernelVersion": "k",
        "kubeProxyVersion": "", "kubeletVersion": "v1.34.1", "machineID": "m", "operatingSystem": "linux",
        "osImage": "o", "systemUUID": "s"
    });
    let status = json!({"status": {"conditions": all.map(condition), "nodeInfo": info}});
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

/// What clusterctl would apply, as the API server stores it.
fn installed(management: &Management, directory: &Path) {
    let components = include_str!("../../../../deploy/clusterctl/core-components.yaml");
    management.apply(components, directory, &["--server-side"]);
    for provider in PROVIDERS {
        for document in provider.definitions().into_iter().chain([provider.role()]) {
            management.apply(&document.to_string(), directory, &[]);
        }
    }
}

/// The arguments of the Deployment, as its pod would get them: but for where it listens, and for the port of the Service,
/// which has no pods behind it here.
fn arguments(management: &Management, at: SocketAddr, service: u16) -> Vec<String> {
    let path = "jsonpath={.spec.template.spec.containers[0].args}";
    let told = management.kubectl(&["get", "deployment", NAME, "-n", HOME, "-o", path]);
    let words: Vec<String> = serde_json::from_str(&told).unwrap();
    let adapt = |word: String| {
        let word = word.replace("$(POD_NAMESPACE)", HOME).replace("0.0.0.0:9443", &at.to_string());
        word.replace(".svc:443", &format!(".svc:{service}"))
    };
    words.into_iter().map(adapt).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "peers: kubernetes, etcd"]
async fn whoever_speaks_v1beta1_loses_nothing_behind_a_service() {
    let directory = tempfile::tempdir().unwrap();
    let management = Management::start(peers::Kubernetes::options().audit(AUDIT)).await;
    installed(&management, directory.path());
    // There is no network between the API server and pods here: the Service leads to a balancer on this machine.
    let balancer = Balancer::start().await;
    management.kubectl(&["delete", "service", NAME, "-n", HOME]);
    management.kubectl(&[
        "create",
        "service",
        "externalname",
        NAME,
        "-n",
        HOME,
        "--external-name",
        "localhost",
    ]);
    let account = management.account(HOME, NAME, directory.path());
    let [first, second] = [free(), free()];
    let replica = |at: SocketAddr| {
        let words = arguments(&management, at, balancer.address.port());
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        words.extend(["--kubeconfig", account.to_str().unwrap()]);
        Running::start(&words)
    };
    let leader = replica(first);
    balancer.set(&[first]);
    let data = directory.path().join("workload");
    let workload =
        Running::start(&["apiserver", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()]);
    until_asked(&management).await;
    let mut places = Vec::new();
    for provider in PROVIDERS {
        let namespace = provider.contract.to_owned();
        management.kubectl(&["create", "namespace", &namespace]);
        let place = Place { client: management.client.clone(), namespace, provider };
        let machine = place.cluster(&workload).await;
        round_trip(&place, &machine).await;
        places.push(place);
    }

    // Another replica answers from the moment on that it runs, by the same authority: nobody has to be told.
    let other = replica(second);
    balancer.set(&[second, first]);
    leader.kill();
    for place in &places {
        let pools = place.get("v1beta1", "MachineDeployment", "p").await;
        assert_eq!(pools["spec"]["template"]["spec"]["nodeDrainTimeout"], "9s");
        let (old, patch) =
            (place.api("v1beta1", "MachineDeployment"), json!({"spec": {"clusterName": "other"}}));
        let refused = old.patch("p", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap_err();
        assert!(refused.to_string().contains("spec.clusterName"), "{refused}");
    }
    assert_eq!(other.stop(), Some(0));
    let refused = management.forbidden();
    assert!(refused.is_empty(), "deploy/clusterctl/core-components.yaml lacks: {refused:#?}");
}

/// Waits until the API server has been told whom to ask.
async fn until_asked(management: &Management) {
    for _ in 0..240 {
        let told = management.kubectl(&[
            "get",
            "validatingwebhookconfigurations",
            "-o",
            "jsonpath={.items[*].webhooks[0].clientConfig.service.name}",
        ]);
        let mut old = management.kubernetes.kubectl();
        old.args(["get", "machines.v1beta1.cluster.x-k8s.io", "-A"]);
        if told == NAME && old.output().unwrap().status.success() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    panic!("the API server never asks");
}

/// Reads, replaces and patches by the old version.
async fn round_trip(place: &Place, machine: &str) {
    let conditions = |object: &Value, type_: &str| {
        let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        all.iter().any(|one| one["type"] == type_ && one["status"] == "True")
    };
    place.until("Cluster", "c", |cluster| conditions(cluster, "Available")).await;
    tokio::time::sleep(Duration::from_secs(5)).await;

    // Providers of the old contract go by these.
    let cluster = place.get("v1beta1", "Cluster", "c").await;
    let status = &cluster["status"];
    assert_eq!((&status["infrastructureReady"], &status["controlPlaneReady"]), (&json!(true), &json!(true)));
    assert!(conditions(&cluster, "ControlPlaneInitialized"), "{status}");
    let pool = place.get("v1beta1", "MachineDeployment", "p").await;
    let spec = &pool["spec"]["template"]["spec"];
    assert_eq!((&spec["nodeDrainTimeout"], &spec["version"]), (&json!("7s"), &json!("v1.34.1")));
    assert_eq!(spec["infrastructureRef"]["apiVersion"], format!("{}/v1", place.provider.group));
    assert_eq!((&pool["spec"]["replicas"], &pool["status"]["updatedReplicas"]), (&json!(1), &json!(1)));

    // Read and written back whole: nothing changes, and nothing is left over.
    for (kind, name) in [("Cluster", "c"), ("MachineDeployment", "p"), ("Machine", machine)] {
        let before = place.get("v1beta2", kind, name).await;
        let old = place.api("v1beta1", kind);
        let object = old.get(name).await.unwrap();
        old.replace(name, &PostParams::default(), &object).await.unwrap();
        let after = place.get("v1beta2", kind, name).await;
        assert_eq!((&after["spec"], &after["status"]), (&before["spec"], &before["status"]), "{kind}");
        let notes = &after["metadata"]["annotations"]["cluster.x-k8s.io/conversion-data"];
        assert!(notes.is_null(), "{kind}: {notes}");
    }

    // A change is one change, and no rollout.
    let mut wanted = place.get("v1beta2", "MachineDeployment", "p").await["spec"].clone();
    wanted["template"]["spec"]["deletion"]["nodeDrainTimeoutSeconds"] = json!(9);
    let patch = Patch::Merge(json!({"spec": {"template": {"spec": {"nodeDrainTimeout": "9s"}}}}));
    place.api("v1beta1", "MachineDeployment").patch("p", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(place.get("v1beta2", "MachineDeployment", "p").await["spec"], wanted);
    place.until("Machine", machine, |one| one["spec"]["deletion"]["nodeDrainTimeoutSeconds"] == 9).await;
    assert_eq!(place.kept("MachineSet").list(&Default::default()).await.unwrap().items.len(), 1);
}
