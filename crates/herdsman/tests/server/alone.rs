//! `herdsman server --controllers capi` as its users meet it, and what every `server` refuses.

use std::process::Command;
use std::time::Duration;

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::program::{HERDSMAN, Running, client};

struct World {
    client: Client,
    namespace: &'static str,
}

impl World {
    fn within(client: &Client, namespace: &'static str) -> Self {
        World { client: client.clone(), namespace }
    }

    /// Whether nobody has looked after a Cluster.
    async fn untouched(&self, name: &str) -> bool {
        let found = self.api("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters").get(name).await.unwrap();
        found.metadata.finalizers.is_none() && found.data["status"].is_null()
    }

    fn api(&self, group: &str, version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: group.into(),
            version: version.into(),
            api_version: format!("{group}/{version}"),
            kind: kind.into(),
            plural: plural.into(),
        };
        Api::namespaced_with(self.client.clone(), self.namespace, &resource)
    }

    async fn create(
        &self,
        version: &str,
        kind: &str,
        plural: &str,
        rest: Value,
    ) -> Result<Value, kube::Error> {
        let mut document = rest;
        document["apiVersion"] = format!("cluster.x-k8s.io/{version}").into();
        document["kind"] = kind.into();
        let api = self.api("cluster.x-k8s.io", version, kind, plural);
        let object = serde_json::from_value(document).unwrap();
        Ok(serde_json::to_value(api.create(&PostParams::default(), &object).await?).unwrap())
    }

    /// Waits until an object is as it should be.
    async fn until(&self, kind: &str, plural: &str, name: &str, so: impl Fn(&Value) -> bool) -> Value {
        let api = self.api("cluster.x-k8s.io", "v1beta2", kind, plural);
        let mut last = Value::Null;
        for _ in 0..600 {
            if let Some(found) = api.get_opt(name).await.unwrap() {
                last = serde_json::to_value(found).unwrap();
                if so(&last) {
                    return last;
                }
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("{kind} {name} never is as it should be: {last}");
    }
}

fn has(object: &Value, type_: &str, status: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|one| one["type"] == type_ && one["status"] == status)
}

fn pool(name: &str, surge: i32) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "clusterName": "c", "selector": {}, "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}}},
        "template": {"spec": {
            "clusterName": "c", "version": "1.34.1", "bootstrap": {"dataSecretName": "s"},
            "infrastructureRef": {"apiGroup": "example.com", "kind": "FooMachineTemplate", "name": "t"}
        }}
    }})
}

#[tokio::test]
async fn the_controllers_run_on_a_cluster_that_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().to_str().unwrap();
    let apiserver = Running::start(&["apiserver", "--listen", "127.0.0.1:0", "--data-dir", data]);
    let kubeconfig = apiserver.kubeconfig.clone();
    let mut install = Command::new(HERDSMAN);
    assert!(
        install.args(["crds", "install"]).env("KUBECONFIG", &kubeconfig).output().unwrap().status.success()
    );
    let world = World::within(&client(&kubeconfig).await, "default");

    let server =
        Running::start(&["server", "--controllers", "capi", "--capi", "own", "--kubeconfig", &kubeconfig]);
    let reference = json!({"apiGroup": "example.com", "kind": "FooCluster", "name": "c"});
    let cluster = json!({"metadata": {"name": "c"}, "spec": {"infrastructureRef": reference}});
    world.create("v1beta2", "Cluster", "clusters", cluster).await.unwrap();
    let cluster =
        world.until("Cluster", "clusters", "c", |object| has(object, "InfrastructureReady", "Unknown")).await;
    assert_eq!(cluster["metadata"]["finalizers"], json!(["cluster.cluster.x-k8s.io"]));
    assert_eq!(cluster["status"]["phase"], "Provisioning");

    // What is left out is filled in at the door, and what is wrong is refused there.
    let made =
        world.create("v1beta2", "MachineDeployment", "machinedeployments", pool("p", 2)).await.unwrap();
    assert_eq!(
        (&made["spec"]["replicas"], &made["spec"]["template"]["spec"]["version"]),
        (&json!(1), &json!("v1.34.1"))
    );
    let refused =
        world.create("v1beta2", "MachineDeployment", "machinedeployments", pool("q", 0)).await.unwrap_err();
    assert!(refused.to_string().contains("spec.rollout.strategy.rollingUpdate.maxUnavailable"), "{refused}");
    world
        .until("MachineDeployment", "machinedeployments", "p", |object| has(object, "Paused", "False"))
        .await;

    // Whoever still speaks v1beta1 meets the same rules.
    let old = json!({"metadata": {"name": "old"}, "spec": {
        "clusterName": "c", "selector": {},
        "template": {"spec": {
            "clusterName": "c", "version": "1.34.1", "bootstrap": {"dataSecretName": "s"},
            "infrastructureRef": {"apiVersion": "example.com/v1", "kind": "FooMachineTemplate", "name": "t"}
        }}
    }});
    // The kind that it refers to has no CRD, so the answer cannot be told in v1beta1: that is said, too.
    let answer = world.create("v1beta1", "MachineDeployment", "machinedeployments", old).await.unwrap_err();
    assert!(answer.to_string().contains("FooMachineTemplate"), "{answer}");
    assert_eq!(server.stop(), Some(0));

    // Somebody else is at work: two would work against each other.
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "capi-controller-manager", "namespace": "default"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "manager", "image": "i"}]}}
    }});
    let deployments = world.api("apps", "v1", "Deployment", "deployments");
    deployments.create(&PostParams::default(), &serde_json::from_value(deployment).unwrap()).await.unwrap();
    let mut second = Command::new(HERDSMAN);
    let refused = second.args(["server", "--capi", "own", "--kubeconfig", &kubeconfig]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("default/capi-controller-manager") && said.contains("--capi external"), "{said}");
    let idle = Running::start(&["server", "--controllers", "capi", "--kubeconfig", &kubeconfig]);
    assert_eq!(idle.stop(), Some(0));

    // Beside a Rancher nothing of ours runs, whoever does Cluster API's part.
    let rancher = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "rancher"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "rancher", "image": "i"}]}}
    }});
    deployments.create(&PostParams::default(), &serde_json::from_value(rancher).unwrap()).await.unwrap();
    let mut third = Command::new(HERDSMAN);
    let refused = third.args(["server", "--capi", "external", "--kubeconfig", &kubeconfig]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("a Rancher is at work") && said.contains("default/rancher"), "{said}");
    assert_eq!(apiserver.stop(), Some(0));
}

/// Several of them share a cluster: each looks after a namespace, or after what is labelled for it.
#[tokio::test]
async fn each_looks_after_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().to_str().unwrap();
    let apiserver = Running::start(&["apiserver", "--listen", "127.0.0.1:0", "--data-dir", data]);
    let kubeconfig = apiserver.kubeconfig.clone();
    let mut install = Command::new(HERDSMAN);
    assert!(
        install.args(["crds", "install"]).env("KUBECONFIG", &kubeconfig).output().unwrap().status.success()
    );
    let client = client(&kubeconfig).await;
    let (default, blue) = (World::within(&client, "default"), World::within(&client, "kube-public"));
    let cluster = |name: &str, filter: &str| {
        let labels = match filter {
            "" => json!({}),
            filter => json!({"cluster.x-k8s.io/watch-filter": filter}),
        };
        let reference = json!({"apiGroup": "example.com", "kind": "FooCluster", "name": "c"});
        json!({"metadata": {"name": name, "labels": labels}, "spec": {"infrastructureRef": reference}})
    };
    let seen = |object: &Value| has(object, "InfrastructureReady", "Unknown");
    let server = |words: &[&str]| {
        let usual = ["server", "--controllers", "capi", "--kubeconfig", &kubeconfig];
        Running::start(&[&usual[..], words].concat())
    };

    // What is not theirs comes first, so that it would have been seen by the time that theirs is.
    default.create("v1beta2", "Cluster", "clusters", cluster("theirs", "")).await.unwrap();
    blue.create("v1beta2", "Cluster", "clusters", cluster("mine", "")).await.unwrap();
    let one = server(&["--namespace", "kube-public"]);
    blue.until("Cluster", "clusters", "mine", seen).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(default.untouched("theirs").await, "it is of another namespace");
    assert_eq!(one.stop(), Some(0));

    default.create("v1beta2", "Cluster", "clusters", cluster("red", "red")).await.unwrap();
    default.create("v1beta2", "Cluster", "clusters", cluster("green", "green")).await.unwrap();
    let one = server(&["--watch-filter", "green"]);
    default.until("Cluster", "clusters", "green", seen).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(default.untouched("red").await && default.untouched("theirs").await, "they are not labelled so");
    // A label that comes later counts as well.
    let label = json!({"metadata": {"labels": {"cluster.x-k8s.io/watch-filter": "green"}}});
    let clusters = default.api("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters");
    clusters.patch("red", &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    default.until("Cluster", "clusters", "red", seen).await;
    assert_eq!(one.stop(), Some(0));
    assert_eq!(apiserver.stop(), Some(0));
}

/// On a real Kubernetes the same rules are webhooks, and v1beta1 is served by conversion.
#[tokio::test]
#[ignore = "peers: kubernetes, etcd"]
async fn a_real_kubernetes_asks_the_webhooks() {
    let kubernetes = peers::Kubernetes::start().unwrap();
    let kubeconfig = kubernetes.kubeconfig_path().to_str().unwrap().to_owned();
    let mut install = Command::new(HERDSMAN);
    let installed = install.args(["crds", "install"]).env("KUBECONFIG", &kubeconfig).output().unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    let world = World::within(&client(&kubeconfig).await, "default");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foomachinetemplates.example.com", "labels": {"cluster.x-k8s.io/v1beta1": "v1"}},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": "FooMachineTemplate", "plural": "foomachinetemplates", "listKind": "FooMachineTemplateList", "singular": "foomachinetemplate"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}
    });
    let resource = ApiResource {
        group: "apiextensions.k8s.io".into(),
        version: "v1".into(),
        api_version: "apiextensions.k8s.io/v1".into(),
        kind: "CustomResourceDefinition".into(),
        plural: "customresourcedefinitions".into(),
    };
    let definitions: Api<DynamicObject> = Api::all_with(world.client.clone(), &resource);
    definitions.create(&PostParams::default(), &serde_json::from_value(definition).unwrap()).await.unwrap();

    let server = Running::start(&[
        "server",
        "--controllers",
        "capi",
        "--capi",
        "own",
        "--kubeconfig",
        &kubeconfig,
        "--webhook-listen",
        "127.0.0.1:0",
    ]);
    let reference = json!({"apiGroup": "example.com", "kind": "FooCluster", "name": "c"});
    let cluster = json!({"metadata": {"name": "c"}, "spec": {"infrastructureRef": reference}});
    world.create("v1beta2", "Cluster", "clusters", cluster).await.unwrap();
    world.until("Cluster", "clusters", "c", |object| has(object, "InfrastructureReady", "Unknown")).await;

    // Once the API server asks: what is left out is filled in, also for v1beta1.
    let old = |name: &str, surge: i32| {
        json!({"metadata": {"name": name}, "spec": {
            "clusterName": "c", "selector": {}, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}},
            "template": {"spec": {
                "clusterName": "c", "version": "1.34.1", "bootstrap": {"dataSecretName": "s"},
                "infrastructureRef": {"apiVersion": "example.com/v1", "kind": "FooMachineTemplate", "name": "t"}
            }}
        }})
    };
    let mut made = Err("never tried".to_owned());
    for attempt in 0..60 {
        let name = format!("old-{attempt}");
        made = world
            .create("v1beta1", "MachineDeployment", "machinedeployments", old(&name, 1))
            .await
            .map_err(|error| error.to_string());
        if made.as_ref().is_ok_and(|made| made["spec"]["replicas"] == 1) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let made = made.unwrap();
    assert_eq!(made["spec"]["template"]["spec"]["version"], "v1.34.1");
    assert_eq!(made["spec"]["template"]["spec"]["infrastructureRef"]["apiVersion"], "example.com/v1");
    let refused =
        world.create("v1beta1", "MachineDeployment", "machinedeployments", old("bad", 0)).await.unwrap_err();
    assert!(refused.to_string().contains("spec.rollout.strategy.rollingUpdate.maxUnavailable"), "{refused}");
    // Our own kinds are somebody else's business: nobody would look after them.
    let told =
        kubernetes.kubectl().args(["get", "validatingwebhookconfigurations", "-o", "name"]).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    assert_eq!(told.trim(), "validatingwebhookconfiguration.admissionregistration.k8s.io/herdsman-capi");
    assert_eq!(server.stop(), Some(0));
}
