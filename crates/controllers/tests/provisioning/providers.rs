//! The real CRDs of the native providers for vSphere, AWS and Azure, with objects as their users write them: the documentation's for
//! vSphere, to the letter. What the providers' controllers would do is done by hand, in the contract that each of them keeps, through
//! every trouble that the documentation knows.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;

use kube::api::PostParams;
use serde_json::{Value, json};

use crate::world::{World, install, name, story};

const GROUP: &str = "infrastructure.cluster.x-k8s.io";

/// The documentation's VSphereCluster, Cluster and VSphereMachineTemplate.
const DOCUMENTATION: &str = include_str!("documentation.yaml");

/// A provider and what its users write.
#[derive(Clone, Copy)]
struct Native {
    /// The pin of its module, and where its CRDs are in it.
    pin: &'static str,
    crds: &'static str,
    /// What its kinds begin with.
    prefix: &'static str,
    /// The version in which users write, the one in which it keeps a contract, and which contract.
    version: &'static str,
    kept: &'static str,
    contract: &'static str,
    /// Whether it is from before it had any other version than that.
    before: bool,
    cluster: fn() -> Value,
    template: fn() -> Value,
}

const VSPHERE: Native = Native {
    pin: "provider-vsphere",
    crds: "config/default/crd",
    prefix: "VSphere",
    version: "v1beta1",
    kept: "v1beta2",
    contract: "v1beta2",
    before: false,
    cluster: || documented(0),
    template: || documented(2),
};

/// The provider for vSphere as it was when the documentation was written.
const VSPHERE_BEFORE: Native = Native { kept: "v1beta1", contract: "v1beta1", before: true, ..VSPHERE };

const AWS: Native = Native {
    pin: "provider-aws",
    crds: "config/crd",
    prefix: "AWS",
    version: "v1beta2",
    kept: "v1beta2",
    contract: "v1beta1",
    before: false,
    cluster: || {
        json!({"spec": {
            "region": "eu-central-1", "sshKeyName": "default",
            "controlPlaneEndpoint": {"host": "lb.example.com", "port": 6443}
        }})
    },
    template: || {
        json!({"spec": {"template": {"spec": {
            "instanceType": "t3.large", "iamInstanceProfile": "nodes.cluster-api-provider-aws.sigs.k8s.io",
            "sshKeyName": "default"
        }}}})
    },
};

const AZURE: Native = Native {
    pin: "provider-azure",
    crds: "config/crd",
    prefix: "Azure",
    version: "v1beta1",
    kept: "v1beta1",
    contract: "v1beta1",
    before: false,
    cluster: || {
        json!({"spec": {
            "location": "westeurope", "resourceGroup": "herd", "subscriptionID": "00000000-0000-0000-0000-000000000000",
            "controlPlaneEndpoint": {"host": "lb.example.com", "port": 6443},
            "identityRef": {"kind": "AzureClusterIdentity", "name": "identity"}
        }})
    },
    template: || {
        json!({"spec": {"template": {"spec": {
            "vmSize": "Standard_D2s_v3", "osDisk": {"osType": "Linux", "diskSizeGB": 128}, "sshPublicKey": ""
        }}}})
    },
};

/// One of the documentation's objects.
fn documented(index: usize) -> Value {
    serde_saphyr::from_str(DOCUMENTATION.split("\n---\n").nth(index).unwrap()).unwrap()
}

impl Native {
    fn kind(&self, kind: &str) -> String {
        format!("{}{kind}", self.prefix)
    }

    /// The kind as the world takes it, in a version.
    fn in_version(&self, version: &str, kind: &str) -> String {
        format!("{GROUP}/{version} {}", self.kind(kind))
    }

    /// The kind in the version that keeps the contract.
    fn in_contract(&self, kind: &str) -> String {
        self.in_version(self.kept, kind)
    }

    /// One of its CRDs, as it installs them but for the conversion that only its own webhook can do.
    fn definition(&self, kind: &str) -> Value {
        let module = peers::go_module(self.pin).unwrap().join(self.crds);
        let plural = format!("{}s", self.kind(kind).to_lowercase());
        let path = module.join(format!("bases/{GROUP}_{plural}.yaml"));
        let text = std::fs::read_to_string(&path).unwrap();
        let mut definition: Value = serde_saphyr::from_str(&text).unwrap();
        definition["metadata"]["labels"] = json!(labels(&module));
        definition["spec"]["conversion"] = json!({"strategy": "None"});
        if self.before {
            definition["metadata"]["labels"] = json!({"cluster.x-k8s.io/v1beta1": self.kept});
            let versions = definition["spec"]["versions"].as_array_mut().unwrap();
            versions.retain(|one| one["name"] == self.kept);
            versions[0]["storage"] = json!(true);
        }
        definition
    }

    /// A cluster of this provider, as the documentation has it.
    fn document(&self) -> Value {
        let mut cluster = documented(1);
        let config = &mut cluster["spec"]["rkeConfig"];
        let name = |reference: &mut Value, kind: &str| {
            reference["apiVersion"] = json!(format!("{GROUP}/{}", self.version));
            reference["kind"] = json!(self.kind(kind));
        };
        name(&mut config["infrastructureRef"], "Cluster");
        name(&mut config["machinePools"][0]["machineConfigRef"], "MachineTemplate");
        cluster
    }

    fn provisioned(&self) -> Value {
        match self.contract {
            "v1beta1" => json!({"ready": true, "conditions": null}),
            _ => json!({"initialization": {"provisioned": true}, "conditions": null}),
        }
    }

    /// What the provider says that is wrong, as its contract has it.
    fn complaint(&self, type_: &str, reason: &str, message: &str) -> Value {
        let mut condition = json!({
            "type": type_, "status": "False", "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z"
        });
        if self.contract == "v1beta1" {
            condition["severity"] = json!("Error");
        }
        json!({"conditions": [condition]})
    }
}

/// The labels that a provider's kustomization puts on its CRDs. That of Azure has them in
/// patches, one for each.
fn labels(module: &Path) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(module.join("kustomization.yaml")).unwrap();
    let kustomization: Value = serde_saphyr::from_str(&text).unwrap();
    let found: BTreeMap<String, String> =
        serde_json::from_value(kustomization["commonLabels"].clone()).unwrap_or_default();
    match found.is_empty() {
        true => [("cluster.x-k8s.io/v1beta1".to_owned(), "v1beta1".to_owned())].into(),
        false => found,
    }
}

/// A provider at work, as far as a test goes.
struct Stage {
    world: World,
    native: Native,
}

impl Stage {
    /// Waits until the cluster waits for something, by code and words.
    async fn waits(&self, code: &str, words: &str) {
        self.world.condition("ProvisioningCluster", "my-cluster", "Ready", "Unknown", words).await;
        self.world
            .until(60, &format!("the code {code}"), async || {
                let now = self.world.waits.counts();
                if now.contains_key(code) { Ok(()) } else { Err(format!("{now:?}")) }
            })
            .await;
    }

    async fn create(&self, kind: &str, name: &str, rest: Value) {
        self.world.create(&self.native.in_version(self.native.version, kind), name, rest).await;
    }

    async fn says(&self, kind: &str, name: &str, status: Value) {
        let patch = kube::api::Patch::Merge(json!({"status": status}));
        let api = self.world.api(&self.native.in_contract(kind));
        api.patch_status(name, &Default::default(), &patch).await.unwrap();
    }

    /// From nothing to infrastructure that is ready.
    async fn infrastructure(&self) {
        let native = &self.native;
        let of_cluster = format!("CustomResourceDefinition of {}.{GROUP}", native.kind("Cluster"));
        self.waits("InfrastructureCRDMissing", &of_cluster).await;
        install(&self.world.client, vec![native.definition("Cluster")]).await;
        self.waits("InfrastructureClusterMissing", "which spec.rkeConfig.infrastructureRef names").await;
        self.create("Cluster", "my-cluster-infra", (native.cluster)()).await;
        self.waits("InfrastructureProviderSilent", "none has ever touched it").await;
        let found = self.world.get("Cluster", "my-cluster").await;
        assert_eq!(
            found["spec"]["infrastructureRef"],
            json!({"apiGroup": GROUP, "kind": native.kind("Cluster"), "name": "my-cluster-infra"})
        );
        let words =
            "cannot login: ServerFaultCode: Cannot complete login due to an incorrect user name or password.";
        let complaint = native.complaint("VCenterAvailable", "VCenterUnreachable", words);
        self.says("Cluster", "my-cluster-infra", complaint).await;
        self.waits("InfrastructureClusterNotReady", "VCenterUnreachable: cannot login").await;
        self.says("Cluster", "my-cluster-infra", native.provisioned()).await;
    }

    /// From there to three servers.
    async fn machines(&self) -> Vec<String> {
        let (world, native) = (&self.world, &self.native);
        let of_template = format!("CustomResourceDefinition of {}.{GROUP}", native.kind("MachineTemplate"));
        self.waits("MachineTemplateCRDMissing", &of_template).await;
        install(&world.client, vec![native.definition("MachineTemplate")]).await;
        self.waits("MachineTemplateMissing", "my-cluster-machines of pool pool1 to exist").await;
        self.create("MachineTemplate", "my-cluster-machines", (native.template)()).await;
        // Machines cannot be cloned from it: the provider is half installed.
        self.waits("MachineTemplateInvalid", "cannot make machines from its template").await;
        install(&world.client, vec![native.definition("Machine")]).await;
        world
            .until(900, "three machines of the provider", async || {
                match world.list(&native.in_contract("Machine")).await {
                    found if found.len() == 3 => Ok(()),
                    found => Err(json!([found, world.machines("my-cluster-pool1").await]).to_string()),
                }
            })
            .await;
        let warning = json!({"deprecated": {"v1beta1": {"conditions": [{
            "type": "QuotaAvailable", "status": "False", "severity": "Warning", "reason": "QuotaExceeded",
            "message": "pool1 would take more than the quota", "lastTransitionTime": "2026-01-01T00:00:00Z"
        }]}}});
        let deployments = world.api("MachineDeployment");
        let told = kube::api::Patch::Merge(json!({"status": warning}));
        deployments.patch_status("my-cluster-pool1", &Default::default(), &told).await.unwrap();
        self.waits("MachineDeploymentWarning", "QuotaExceeded: pool1 would take more than the quota").await;
        let told =
            kube::api::Patch::Merge(json!({"status": {"deprecated": {"v1beta1": {"conditions": []}}}}));
        deployments.patch_status("my-cluster-pool1", &Default::default(), &told).await.unwrap();
        world.list(&native.in_contract("Machine")).await.iter().map(name).collect()
    }

    /// From there to servers that run and never call.
    async fn servers(&self, machines: &[String]) {
        let (world, native) = (&self.world, &self.native);
        self.waits("MachineProviderSilent", "none has ever touched it").await;
        for machine in machines {
            let words = "dial tcp 192.0.2.1:443: connect: no route to host";
            self.says("Machine", machine, native.complaint("VMProvisioned", "CloningFailed", words)).await;
        }
        self.waits("InfrastructureMachineError", "CloningFailed: dial tcp 192.0.2.1:443").await;
        for machine in machines {
            let spec = json!({"spec": {"providerID": format!("test://{machine}")}});
            world.patch(&native.in_contract("Machine"), machine, spec).await;
            let mut status = native.provisioned();
            status["addresses"] = json!([{"type": "InternalIP", "address": "10.0.0.7"}]);
            self.says("Machine", machine, status).await;
        }
        for machine in world.machines("my-cluster-pool1").await.iter().map(name) {
            world
                .until(120, "the Machine's own view", async || {
                    let machine = world.get("Machine", &machine).await;
                    let status = &machine["status"];
                    let so = status["initialization"]["infrastructureProvisioned"] == true
                        && status["addresses"][0]["address"] == "10.0.0.7";
                    if so { Ok(()) } else { Err(status.to_string()) }
                })
                .await;
        }
        self.waits("NodeNotRegistered", "to register: its server has run").await;
    }
}

async fn way(native: Native) {
    let stage = Stage { world: World::new(41).await, native };
    let world = &stage.world;
    world.hold.store(true, Ordering::Relaxed);
    let cluster = serde_json::from_value(native.document()).unwrap();
    world.api("ProvisioningCluster").create(&PostParams::default(), &cluster).await.unwrap();
    stage.infrastructure().await;
    let machines = stage.machines().await;
    let first = name(&world.machines("my-cluster-pool1").await[0]);
    let data = world.get("Secret", &format!("{first}-machine-bootstrap")).await;
    assert_eq!(data["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"], "my-cluster");
    stage.servers(&machines).await;
    let kept = world.get(&native.in_version(native.version, "MachineTemplate"), "my-cluster-machines").await;
    assert_eq!(kept["metadata"]["generation"], 1, "the user's template is as it was made");
    let owners = kept["metadata"]["ownerReferences"].as_array().unwrap();
    assert!(
        owners.len() == 1 && owners[0]["kind"] == "Cluster",
        "Cluster API's own mark, and no other: {owners:?}"
    );
    assert!(kept["metadata"]["annotations"].get("objectset.rio.cattle.io/id").is_none(), "{kept}");

    // Their agents call at last.
    for machine in world.machines("my-cluster-pool1").await.iter().map(name) {
        let id = json!({"metadata": {"labels": {"rke.cattle.io/machine-id": "0123abc"}}});
        world.patch("Machine", &machine, id).await;
    }
    world
        .until(120, "nothing is in the way", async || {
            let now = world.waits.counts();
            if now.contains_key("NodeNotRegistered") { Err(format!("{now:?}")) } else { Ok(()) }
        })
        .await;

    world.hold.store(false, Ordering::Relaxed);
    world.delete("ProvisioningCluster", "my-cluster").await;
    world.gone("ProvisioningCluster", "my-cluster").await;
    world.gone(&native.in_contract("Cluster"), "my-cluster-infra").await;
    assert!(world.list(&native.in_contract("Machine")).await.is_empty());
}

#[test]
#[ignore = "default: cluster-api, provider-vsphere, provider-aws, provider-azure"]
fn vsphere() {
    story(|| way(VSPHERE));
}

#[test]
#[ignore = "default: cluster-api, provider-vsphere, provider-aws, provider-azure"]
fn vsphere_of_the_contract_before() {
    story(|| way(VSPHERE_BEFORE));
}

#[test]
#[ignore = "default: cluster-api, provider-vsphere, provider-aws, provider-azure"]
fn aws() {
    story(|| way(AWS));
}

#[test]
#[ignore = "default: cluster-api, provider-vsphere, provider-aws, provider-azure"]
fn azure() {
    story(|| way(AZURE));
}
