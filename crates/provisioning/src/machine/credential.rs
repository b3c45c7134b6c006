//! A cloud credential becomes a driver's environment.

use std::collections::BTreeMap;

use api::machine::Driver;
use api::provisioning::v1::Cluster;

use super::arguments::separated;

/// What a driver's variables begin with, where it is not the driver's own name.
const PREFIXES: [(&str, &str); 6] = [
    ("amazonec2", "AWS"),
    ("rackspace", "OS"),
    ("openstack", "OS"),
    ("vmwarevsphere", "VSPHERE"),
    ("vmwarefusion", "FUSION"),
    ("vmwarevcloudair", "VCLOUDAIR"),
];

/// Whether a machine may use a credential of `cattle-global-data`: only if the Cluster that it belongs to names it. Whoever wrote the
/// Cluster was asked whether they may read it; a machine is written by anybody who may write machines.
pub fn granted(cluster: Option<&Cluster>, name: &str) -> bool {
    let Some(spec) = cluster.map(|cluster| &cluster.spec) else { return false };
    let pools = spec.rke_config.iter().flat_map(|config| &config.machine_pools);
    let mut named = pools
        .map(|pool| &pool.common.cloud_credential_secret_name)
        .chain([&spec.cloud_credential_secret_name]);
    named.any(|one| one == name)
}

/// The environment of a driver: the server's own variables that may be passed on, and the credential.
///
/// `amazonec2credentialConfig-accessKey` is `AWS_ACCESS_KEY`.
pub fn environment(
    driver: &Driver,
    passed_on: &BTreeMap<String, String>,
    credential: &BTreeMap<String, Vec<u8>>,
) -> BTreeMap<String, Vec<u8>> {
    let name = driver.name();
    let prefix =
        PREFIXES.into_iter().find(|(driver, _)| *driver == name).map_or(name.as_str(), |(_, prefix)| prefix);
    let mut all: BTreeMap<String, Vec<u8>> =
        passed_on.iter().map(|(name, value)| (name.clone(), value.clone().into_bytes())).collect();
    all.extend(credential.iter().map(|(key, value)| {
        let field = key.rsplit_once('-').map_or(key.as_str(), |(_, field)| field);
        (format!("{prefix}_{}", separated(field, '_')).to_uppercase(), value.clone())
    }));
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_cluster_grants() {
        let cluster: Cluster = serde_json::from_value(json!({
            "apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster", "metadata": {"name": "c"},
            "spec": {
                "cloudCredentialSecretName": "cattle-global-data:all",
                "rkeConfig": {"machinePools": [{"name": "p", "cloudCredentialSecretName": "cattle-global-data:pool"}]},
            },
        }))
        .unwrap();
        assert!(granted(Some(&cluster), "cattle-global-data:all"));
        assert!(granted(Some(&cluster), "cattle-global-data:pool"));
        assert!(!granted(Some(&cluster), "cattle-global-data:other"));
        assert!(!granted(None, "cattle-global-data:all"));
    }
}
