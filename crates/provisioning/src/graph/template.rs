//! The machine template of a driver's pool.

use std::collections::BTreeMap;

use api::catalogue::{annotations, labels};
use api::machine::{
    CONFIG_GROUP, Driver, GROUP, MachineConfig, MachineSpec, MachineTemplate, MachineTemplateResource,
    MachineTemplateSpec, VERSION,
};
use api::management::v3::DynamicSchemaSpec;
use api::names;
use api::provisioning::v1::{Cluster, MachinePool};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use plan::gojson;
use serde_json::Value;

use super::source::ConfigRef;

/// The template of a pool. Its name says what its machines are: other fields of the driver, another name.
///
/// Labels, taints and credential are no part of the name, so they change in place. Neither are fields that the driver
/// has got since the pool was made: `schema` is frozen in the pool.
pub(super) fn render(
    cluster: &Cluster,
    pool: &MachinePool,
    deployment: &str,
    (driver, reference, config): (&Driver, &ConfigRef, &MachineConfig),
    schema: &DynamicSchemaSpec,
) -> MachineTemplate {
    let fields: BTreeMap<String, Value> = config
        .fields
        .iter()
        .filter(|(name, _)| schema.resource_fields.contains_key(*name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let hash = content_hash(deployment, &fields);
    let mut common = pool.common.clone();
    common.cloud_credential_secret_name = credential(cluster, pool).to_owned();
    MachineTemplate {
        api_version: format!("{GROUP}/{VERSION}"),
        kind: driver.template_kind(),
        metadata: ObjectMeta {
            name: Some(names::machine_template(names::MachineDeployment(deployment), &hash)),
            namespace: cluster.metadata.namespace.clone(),
            labels: Some(BTreeMap::from([
                (labels::OBJECTSET_PRUNE.to_owned(), "false".to_owned()),
                (labels::MACHINE_TEMPLATE_HASH.to_owned(), hash),
            ])),
            annotations: Some(BTreeMap::from([
                (annotations::CLONED_FROM_GROUP_VERSION.to_owned(), format!("{CONFIG_GROUP}/{VERSION}")),
                (annotations::CLONED_FROM_KIND.to_owned(), reference.kind.clone()),
                (annotations::CLONED_FROM_NAME.to_owned(), reference.name.clone()),
            ])),
            ..Default::default()
        },
        spec: MachineTemplateSpec {
            cluster_name: cluster.metadata.name.clone().unwrap_or_default(),
            template: MachineTemplateResource {
                spec: MachineSpec { common, provider_id: String::new(), fields },
            },
        },
    }
}

/// The credential that a pool's driver uses: its own, else the cluster's.
pub(super) fn credential<'a>(cluster: &'a Cluster, pool: &'a MachinePool) -> &'a str {
    match pool.common.cloud_credential_secret_name.as_str() {
        "" => &cluster.spec.cloud_credential_secret_name,
        own => own,
    }
}

/// The first 8 hex digits of the hash over the deployment's name and the JSON of the fields that say something.
fn content_hash(deployment: &str, fields: &BTreeMap<String, Value>) -> String {
    let telling: BTreeMap<&String, &Value> =
        fields.iter().filter(|(name, value)| !is_empty(value) && *name != "common").collect();
    let mut bytes = deployment.as_bytes().to_vec();
    bytes.extend(gojson::to_vec(&telling));
    let mut hash = names::plan_hash(&bytes);
    hash.truncate(8);
    hash
}

/// Null, the empty text and the empty list say nothing; `false`, 0 and the empty map do.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Computed with Go: sha256 over the name and `json.Marshal` of the map, first 8 digits.
    #[test]
    fn hashes_are_those_of_go() {
        let cases = [
            (json!({}), "1ce0a963"),
            (json!({"region": "us-east-1", "zone": "a"}), "8d8cc732"),
            (
                json!({"region": "us-east-1", "zone": "a", "vpcId": "", "tags": null, "openPort": []}),
                "8d8cc732",
            ),
            (json!({"monitoring": false, "rootSize": "16", "count": 3}), "45df23b4"),
            (json!({"userdata": "#!/bin/sh\necho <a> & b > c\n", "list": ["x", "y"]}), "712a35dd"),
        ];
        for (fields, hash) in cases {
            let fields: BTreeMap<String, Value> = serde_json::from_value(fields).unwrap();
            assert_eq!(content_hash("prod-workers", &fields), hash, "{fields:?}");
        }
    }
}
