//! `clusterctl.cluster.x-k8s.io/v1alpha3`.

use crate::crd::{Column, Definition, Version};

kind! {
    /// A provider that is installed, and in which version. clusterctl knows of no other.
    pub struct Provider: "clusterctl.cluster.x-k8s.io" / "v1alpha3" providers Namespaced {
        /// Name of the provider within its type, such as `cluster-api` or `rke2`.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub provider_name: String,
        /// What it provides: `CoreProvider`, `BootstrapProvider`, `ControlPlaneProvider`, `InfrastructureProvider`,
        /// `IPAMProvider`, `RuntimeExtensionProvider` or `AddonProvider`.
        #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
        pub type_: String,
        /// Version installed.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub version: String,
        /// Deprecated: the only namespace that the provider watches. Providers watch all of them.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub watched_namespace: String,
    }
}

pub(crate) fn definitions() -> Vec<Definition> {
    let version = Version::of::<Provider>().without_status().columns([
        Column::age(),
        Column::string("Type", ".type"),
        Column::string("Provider", ".providerName"),
        Column::string("Version", ".version"),
    ]);
    vec![Definition::of::<Provider>(version).categories(["cluster-api"])]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Provider;
    use crate::wire::assert_round_trips;

    #[test]
    fn providers_round_trip() {
        assert_round_trips::<Provider>(json!({
            "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Provider",
            "metadata": {"name": "infrastructure-docker", "namespace": "capd-system"},
            "providerName": "docker", "type": "InfrastructureProvider", "version": "v1.14.0",
            "watchedNamespace": "fleet",
        }));
    }
}
