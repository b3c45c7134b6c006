//! The inventory by which clusterctl knows that a management cluster has Cluster API's core, and in which version.

use api::Kind as _;
use api::catalogue::labels;
use api::clusterctl::v1alpha3::Provider;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

/// The provider that every management cluster has. Its name decides the name of its object and its labels.
pub const CORE: &str = "cluster-api";

/// Which of clusterctl's own objects this is.
const INVENTORY_LABEL: &str = "clusterctl.cluster.x-k8s.io/core";

/// What clusterctl looks for: the core provider of this version, whose controllers are at home in `namespace`.
pub fn core(namespace: &str, version: &str) -> Value {
    json!({
        "apiVersion": format!("{}/{}", Provider::GROUP, Provider::VERSION), "kind": Provider::KIND,
        "metadata": {"name": CORE, "namespace": namespace, "labels": {
            labels::CLUSTERCTL: "", labels::PROVIDER: CORE, INVENTORY_LABEL: "inventory"
        }},
        "providerName": CORE, "type": "CoreProvider", "version": version
    })
}

/// Enters the core provider into a cluster's inventory, or corrects its version. One that clusterctl has put into another
/// namespace is left alone: there is one core in a cluster.
///
/// # Errors
/// If the server refuses it: the definition of `Provider` is to be installed before.
pub async fn register(client: &Client, namespace: &str, version: &str) -> Result<(), kube::Error> {
    let resource = kit::KindId::of::<Provider>().resource();
    let everywhere: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let there = everywhere.list(&kube::api::ListParams::default()).await?;
    let elsewhere = there.items.iter().any(|provider| {
        provider.data["type"] == "CoreProvider" && provider.metadata.namespace.as_deref() != Some(namespace)
    });
    if elsewhere {
        return Ok(());
    }
    let providers: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let options = PatchParams::apply("herdsman").force();
    providers.patch(CORE, &options, &Patch::Apply(core(namespace, version))).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusterctl_can_read_it() {
        let provider: Provider = serde_json::from_value(core("here", "v1.2.3")).unwrap();
        assert_eq!((provider.provider_name.as_str(), provider.type_.as_str()), (CORE, "CoreProvider"));
        assert_eq!(provider.version, "v1.2.3");
        assert_eq!(provider.metadata.labels.unwrap()["cluster.x-k8s.io/provider"], CORE);
    }
}
