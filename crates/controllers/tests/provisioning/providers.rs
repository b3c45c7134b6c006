//! The real CRDs of the native providers for vSphere, AWS and Azure, with objects as their users write them. What the
//! providers' controllers would do is done by hand, in the contract that each of them keeps.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::world::{World, install, name, story};

const GROUP: &str = "infrastructure.cluster.x-k8s.io";

/// A provider and what its users write.
struct Native {
    /// The pin of its module, and where its CRDs are in it.
    pin: &'static str,
    crds: &'static str,
    /// What its kinds begin with.
    prefix: &'static str,
    /// The version in which users write, and the one in which it keeps a contract.
    version: &'static str,
    contract: &'static str,
    cluster: fn() -> Value,
    template: fn() -> Value,
}

const VSPHERE: Native = Native {
    pin: "provider-vsphere",
    crds: "config/default/crd",
    prefix: "VSphere",
    version: "v1beta1",
    contract: "v1beta2",
    cluster: || {
        json!({"spec": {
            "server": "vcenter.example.com", "thumbprint": "AA:BB",
            "identityRef": {"kind": "Secret", "name": "vcenter"},
            "controlPlaneEndpoint": {"host": "192.0.2.10", "port": 6443}
        }})
    },
    template: || {
        json!({"spec": {"template": {"spec": {
            "template": "ubuntu-2204", "cloneMode": "linkedClone", "numCPUs": 4, "memoryMiB": 8192, "diskGiB": 40,
            "datacenter": "dc0", "datastore": "ds0", "resourcePool": "pool0", "folder": "vms",
            "network": {"devices": [{"networkName": "VM Network", "dhcp4": true}]}
        }}}})
    },
};

const AWS: Native = Native {
    pin: "provider-aws",
    crds: "config/crd",
    prefix: "AWS",
    version: "v1beta2",
    contract: "v1beta1",
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
    contract: "v1beta1",
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

impl Native {
    fn kind(&self, kind: &str) -> String {
        format!("{}{kind}", self.prefix)
    }

    /// The kind as the world takes it, in a version.
    fn in_version(&self, version: &str, kind: &str) -> String {
        format!("{GROUP}/{version} {}", self.kind(kind))
    }

    /// The version that keeps the contract.
    fn contract_version(&self) -> &'static str {
        if self.pin == "provider-azure" { "v1beta1" } else { "v1beta2" }
    }

    /// Its three CRDs, as it installs them but for the conversion that only its own webhook can do.
    fn definitions(&self) -> Vec<Value> {
        let module = peers::go_module(self.pin).unwrap().join(self.crds);
        let labels = labels(&module);
        let read = |kind: &str| {
            let plural = format!("{}s", self.kind(kind).to_lowercase());
            let path = module.join(format!("bases/{GROUP}_{plural}.yaml"));
            let text = std::fs::read_to_string(&path).unwrap();
            let mut definition: Value = serde_saphyr::from_str(&text).unwrap();
            definition["metadata"]["labels"] = json!(labels);
            definition["spec"]["conversion"] = json!({"strategy": "None"});
            definition
        };
        ["Cluster", "Machine", "MachineTemplate"].map(read).to_vec()
    }

    /// A cluster of this provider, as the documentation has it.
    fn document(&self) -> Value {
        let reference = |kind: &str, name: &str| json!({"apiVersion": format!("{GROUP}/{}", self.version), "kind": self.kind(kind), "name": name});
        let mut infrastructure = reference("Cluster", "my-cluster-infra");
        infrastructure["namespace"] = json!("fleet-default");
        json!({"spec": {"kubernetesVersion": "v1.28.0+rke2r1", "rkeConfig": {
            "infrastructureRef": infrastructure,
            "machinePools": [{
                "name": "pool1", "etcdRole": true, "controlPlaneRole": true, "workerRole": true, "quantity": 3,
                "machineConfigRef": reference("MachineTemplate", "my-cluster-machines")
            }]
        }}})
    }

    fn provisioned(&self) -> Value {
        match self.contract {
            "v1beta1" => json!({"ready": true}),
            _ => json!({"initialization": {"provisioned": true}}),
        }
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

async fn way(native: Native) {
    let world = World::new(41).await;
    world.hold.store(true, Ordering::Relaxed);
    world.create("ProvisioningCluster", "my-cluster", native.document()).await;
    let waits = async |words: &str| {
        world.condition("ProvisioningCluster", "my-cluster", "Ready", "Unknown", words).await;
    };
    waits(&format!("CustomResourceDefinition of {}.{GROUP}", native.kind("Cluster"))).await;
    install(&world.client, native.definitions()).await;
    let (cluster, template) =
        (native.in_version(native.version, "Cluster"), native.in_version(native.version, "MachineTemplate"));
    waits("which spec.rkeConfig.infrastructureRef names").await;
    world.create(&cluster, "my-cluster-infra", (native.cluster)()).await;
    world.create(&template, "my-cluster-machines", (native.template)()).await;
    waits("none has ever touched it").await;
    let found = world.get("Cluster", "my-cluster").await;
    assert_eq!(
        found["spec"]["infrastructureRef"],
        json!({"apiGroup": GROUP, "kind": native.kind("Cluster"), "name": "my-cluster-infra"})
    );

    let in_contract = |kind: &str| native.in_version(native.contract_version(), kind);
    let status = async |kind: &str, name: &str, status: Value| {
        let patch = kube::api::Patch::Merge(json!({"status": status}));
        world.api(&in_contract(kind)).patch_status(name, &Default::default(), &patch).await.unwrap();
    };
    status("Cluster", "my-cluster-infra", native.provisioned()).await;
    world
        .until(120, "three machines of the provider", async || {
            match world.list(&in_contract("Machine")).await {
                found if found.len() == 3 => Ok(()),
                found => Err(json!([found, world.machines("my-cluster-pool1").await]).to_string()),
            }
        })
        .await;
    let machine = name(&world.machines("my-cluster-pool1").await[0]);
    let secret = format!("{machine}-machine-bootstrap");
    world
        .until(60, "bootstrap data", async || match world.find("Secret", &secret).await {
            Some(_) => Ok(()),
            None => Err("none".into()),
        })
        .await;
    let data = world.get("Secret", &secret).await;
    assert_eq!(data["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"], "my-cluster");
    for machine in world.list(&in_contract("Machine")).await {
        let spec = json!({"spec": {"providerID": format!("test://{}", name(&machine))}});
        world.patch(&in_contract("Machine"), &name(&machine), spec).await;
        status("Machine", &name(&machine), native.provisioned()).await;
    }
    world
        .until(120, "the Machine's own view", async || {
            let machine = world.get("Machine", &machine).await;
            let so = machine["status"]["initialization"]["infrastructureProvisioned"] == true;
            if so { Ok(()) } else { Err(machine["status"].to_string()) }
        })
        .await;
    waits("to register: its server has run").await;

    world.hold.store(false, Ordering::Relaxed);
    world.delete("ProvisioningCluster", "my-cluster").await;
    world.gone("ProvisioningCluster", "my-cluster").await;
    world.gone(&in_contract("Cluster"), "my-cluster-infra").await;
    assert!(world.list(&in_contract("Machine")).await.is_empty());
}

#[test]
#[ignore = "needs cargo xtask peers"]
fn vsphere() {
    story(|| way(VSPHERE));
}

#[test]
#[ignore = "needs cargo xtask peers"]
fn aws() {
    story(|| way(AWS));
}

#[test]
#[ignore = "needs cargo xtask peers"]
fn azure() {
    story(|| way(AZURE));
}
