//! `ipam.cluster.x-k8s.io`: how a machine asks a pool for an address, and what it gets.

pub mod v1alpha1;
pub mod v1beta1;
pub mod v1beta2;

use crate::crd::{Column, Definition, Version};

pub(crate) fn definitions() -> Vec<Definition> {
    let addresses = Definition::of::<v1beta2::IPAddress>(address(Version::of::<v1beta2::IPAddress>()))
        .also_served(address(Version::of::<v1beta1::IPAddress>()).deprecated())
        .also_served(address(Version::of::<v1alpha1::IPAddress>()));
    let claims = Definition::of::<v1beta2::IPAddressClaim>(claim(Version::of::<v1beta2::IPAddressClaim>()))
        .also_served(claim(Version::of::<v1beta1::IPAddressClaim>()).deprecated())
        .also_served(claim(Version::of::<v1alpha1::IPAddressClaim>()));
    vec![addresses.of_cluster_api(), claims.of_cluster_api()]
}

const POOL: [Column; 2] =
    [Column::string("Pool Name", ".spec.poolRef.name"), Column::string("Pool Kind", ".spec.poolRef.kind")];

fn address(version: Version) -> Version {
    let [pool_name, pool_kind] = POOL;
    let address = Column::string("Address", ".spec.address");
    version.without_status().columns([address, pool_name, pool_kind, Column::age()])
}

fn claim(version: Version) -> Version {
    let [pool_name, pool_kind] = POOL;
    version.columns([pool_name, pool_kind, Column::age()])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::wire::assert_round_trips;

    fn old_address(version: &str) -> Value {
        json!({
            "apiVersion": format!("ipam.cluster.x-k8s.io/{version}"), "kind": "IPAddress",
            "metadata": {"name": "node-1", "namespace": "fleet"},
            "spec": {
                "claimRef": {"name": "node-1"},
                "poolRef": {"apiGroup": "ipam.example.com", "kind": "Pool", "name": "rack-4"},
                "address": "192.0.2.10", "prefix": 24, "gateway": "192.0.2.1",
            },
        })
    }

    #[test]
    fn addresses_round_trip() {
        assert_round_trips::<v1alpha1::IPAddress>(old_address("v1alpha1"));
        assert_round_trips::<v1beta1::IPAddress>(old_address("v1beta1"));
        assert_round_trips::<v1beta2::IPAddress>(old_address("v1beta2"));
        let mut without_prefix = old_address("v1beta2");
        without_prefix["spec"]["prefix"] = json!(0);
        assert_round_trips::<v1beta2::IPAddress>(without_prefix);
    }

    #[test]
    fn claims_round_trip() {
        let legacy = json!([{
            "type": "Ready", "status": "False", "severity": "Error", "lastTransitionTime": "2026-01-02T03:04:05Z",
            "reason": "PoolExhausted", "message": "no address left",
        }]);
        let conditions = json!([{
            "type": "Ready", "status": "False", "lastTransitionTime": "2026-01-02T03:04:05Z",
            "reason": "PoolExhausted", "message": "no address left", "observedGeneration": 2,
        }]);
        let spec = json!({"poolRef": {"apiGroup": "ipam.example.com", "kind": "Pool", "name": "rack-4"}});
        let claim = |version: &str, spec: &Value, status: Value| {
            json!({
                "apiVersion": format!("ipam.cluster.x-k8s.io/{version}"), "kind": "IPAddressClaim",
                "metadata": {"name": "node-1", "namespace": "fleet"}, "spec": spec, "status": status,
            })
        };
        let status = json!({"addressRef": {"name": "node-1"}, "conditions": legacy});
        assert_round_trips::<v1alpha1::IPAddressClaim>(claim("v1alpha1", &spec, status.clone()));
        let mut spec = spec;
        spec["clusterName"] = json!("edge");
        let mut status = status;
        status["v1beta2"] = json!({"conditions": conditions});
        assert_round_trips::<v1beta1::IPAddressClaim>(claim("v1beta1", &spec, status));
        let status = json!({
            "addressRef": {"name": "node-1"}, "conditions": conditions,
            "deprecated": {"v1beta1": {"conditions": legacy}},
        });
        assert_round_trips::<v1beta2::IPAddressClaim>(claim("v1beta2", &spec, status));
    }

    #[test]
    fn the_newest_version_is_stored_and_every_version_served() {
        for definition in definitions() {
            let definition = definition.build();
            let versions: Vec<_> = definition
                .spec
                .versions
                .iter()
                .map(|version| (version.name.as_str(), version.served, version.storage))
                .collect();
            let expected = [("v1alpha1", true, false), ("v1beta1", true, false), ("v1beta2", true, true)];
            assert_eq!(versions, expected, "{:?}", definition.metadata.name);
        }
    }
}
