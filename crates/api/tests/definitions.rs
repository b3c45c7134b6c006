//! What the API server will hold objects against.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::collections::BTreeSet;

use api::crd;
use serde_json::{Value, json};

/// The schema of a definition's stored version.
fn schema(name: &str) -> Value {
    let definition = crd::all()
        .into_iter()
        .find(|one| one.metadata.name.as_deref() == Some(name))
        .unwrap_or_else(|| panic!("no definition {name}"));
    let version = definition.spec.versions.into_iter().find(|version| version.storage).unwrap();
    serde_json::to_value(version.schema.unwrap().open_api_v3_schema.unwrap()).unwrap()
}

/// Follows property names, `[]` for items and `{}` for values.
fn at<'a>(schema: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(schema, |schema, step| {
        let next = match step {
            "[]" => &schema["items"],
            "{}" => &schema["additionalProperties"],
            name => &schema["properties"][name],
        };
        assert!(next.is_object(), "no {step} of {path}");
        next
    })
}

#[test]
fn no_two_definitions_share_a_name() {
    let names: Vec<_> = crd::all().into_iter().map(|one| one.metadata.name.unwrap()).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
}

/// `status: null` would leave the subresource off, and status writes would be lost.
#[test]
fn a_status_subresource_is_an_empty_object() {
    let with_status: Vec<String> = crd::all()
        .into_iter()
        .filter_map(|one| {
            let version = serde_json::to_value(&one.spec.versions[0]).unwrap();
            let status = version.get("subresources")?.get("status")?;
            assert_eq!(status, &json!({}), "{:?}", one.metadata.name);
            one.metadata.name
        })
        .collect();
    assert!(with_status.contains(&"rkeclusters.rke.cattle.io".to_owned()), "{with_status:?}");
    assert!(!with_status.contains(&"rkebootstraptemplates.rke.cattle.io".to_owned()), "{with_status:?}");
}

#[test]
fn flattened_parts_stand_among_the_fields() {
    let cluster = schema("clusters.provisioning.cattle.io");
    let control_plane = schema("rkecontrolplanes.rke.cattle.io");
    let fields = |schema: &Value, path| {
        at(schema, path)["properties"].as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>()
    };
    let config = fields(&cluster, "spec.rkeConfig");
    let spec = fields(&control_plane, "spec");
    for shared in [
        "additionalManifest",
        "chartValues",
        "dataDirectories",
        "etcd",
        "machineGlobalConfig",
        "machineSelectorConfig",
        "machineSelectorFiles",
        "networking",
        "provisionGeneration",
        "registries",
        "upgradeStrategy",
    ] {
        assert!(config.contains(shared) && spec.contains(shared), "{shared}");
        let (one, other) = (
            at(&cluster, &format!("spec.rkeConfig.{shared}")),
            at(&control_plane, &format!("spec.{shared}")),
        );
        assert_eq!(one, other, "{shared}");
    }
    assert!(config.contains("machinePools") && !config.contains("configuration"));
    assert_eq!(at(&control_plane, "spec")["required"], json!(["clusterName", "managementClusterName"]));
    assert_eq!(at(&control_plane, "status.appliedSpec")["required"].as_array().unwrap().len(), 2);
    let pool = at(&cluster, "spec.rkeConfig.machinePools.[]");
    assert_eq!(pool["required"], json!(["machineConfigRef", "name"]));
    assert_eq!(pool["x-kubernetes-validations"].as_array().unwrap().len(), 4);
    assert_eq!(pool["properties"]["taints"]["items"]["required"], json!(["effect", "key"]));
    let save = schema("etcdsnapshotsaves.operation.cattle.io");
    assert_eq!(at(&save, "spec")["required"], json!(["clusterRef"]));
    assert_eq!(at(&save, "status.step")["enum"], json!(["Preflight", "Save", "Restart"]));
}

#[test]
fn limits_of_the_provisioning_cluster() {
    let cluster = schema("clusters.provisioning.cattle.io");
    let limit = |path: &str, keyword: &str| at(&cluster, path)[keyword].clone();
    let pools = at(&cluster, "spec.rkeConfig.machinePools");
    assert_eq!(pools["maxItems"], 1000);
    assert_eq!(pools["x-kubernetes-list-type"], "map");
    assert_eq!(pools["x-kubernetes-list-map-keys"], json!(["name"]));
    assert_eq!(limit("spec.cloudCredentialSecretName", "maxLength"), 317);
    assert_eq!(limit("spec.rkeConfig.machinePools.[].cloudCredentialSecretName", "maxLength"), 317);
    assert_eq!(limit("spec.rkeConfig.machinePools.[].name", "minLength"), 1);
    assert_eq!(limit("spec.rkeConfig.machinePools.[].quantity", "minimum"), 0.0);
    assert_eq!(limit("spec.rkeConfig.machinePools.[].hostnameLengthLimit", "minimum"), 10.0);
    assert_eq!(limit("spec.rkeConfig.machinePoolDefaults.hostnameLengthLimit", "maximum"), 63.0);
    assert_eq!(limit("spec.rkeConfig.etcd.s3.bucket", "maxLength"), 63);
    assert_eq!(limit("spec.rkeConfig.registries.configs.{}.caBundle", "format"), "byte");
    assert_eq!(
        limit("spec.rkeConfig.upgradeStrategy.workerConcurrency", "pattern"),
        "^((([1-9]|[1-9][0-9]|100)%)|([1-9][0-9]*|0)|)$"
    );
    assert_eq!(
        limit("spec.rkeConfig.machinePools.[].rollingUpdate.maxSurge", "x-kubernetes-int-or-string"),
        true
    );
    assert_eq!(limit("spec.rkeConfig.machineGlobalConfig", "x-kubernetes-preserve-unknown-fields"), true);
}

/// Everything that the dashboard's manifest spells as null.
#[test]
fn optional_fields_take_nulls() {
    let cluster = schema("clusters.provisioning.cattle.io");
    for path in [
        "status",
        "spec.rkeConfig",
        "spec.agentEnvVars",
        "spec.rkeConfig.chartValues",
        "spec.rkeConfig.machinePoolDefaults",
        "spec.rkeConfig.machineSelectorConfig.[].machineLabelSelector",
        "spec.rkeConfig.upgradeStrategy.workerDrainOptions",
        "spec.rkeConfig.upgradeStrategy.workerDrainOptions.preDrainHooks",
        "spec.rkeConfig.machinePools.[].taints",
        "spec.rkeConfig.machinePools.[].machineConfigRef",
        "spec.rkeConfig.machinePools.[].hostnameLengthLimit",
        "spec.rkeConfig.machineSelectorFiles.[].fileSources.[].secret.name",
    ] {
        assert_eq!(at(&cluster, path)["nullable"], true, "{path}");
    }
    assert_eq!(at(&cluster, "metadata").get("nullable"), None);
    assert_eq!(at(&cluster, "spec.rkeConfig.machinePools.[].name").get("nullable"), None);
}

#[test]
fn kinds_that_are_typed_in_part_keep_the_rest() {
    let preserve = "x-kubernetes-preserve-unknown-fields";
    for definition in crd::all().into_iter().filter(|one| one.spec.group == "management.cattle.io") {
        let name = definition.metadata.name.unwrap();
        let schema = schema(&name);
        assert_eq!(schema[preserve], true, "{name}");
        for part in ["spec", "status", "configuration"] {
            if let Some(part) = schema["properties"].get(part) {
                assert_eq!(part[preserve], true, "{name}");
            }
        }
    }
}

/// The structural dialect knows no references and no unions, and types everything that it does not leave open.
#[test]
fn every_schema_is_structural() {
    for definition in crd::all() {
        let name = definition.metadata.name.unwrap();
        for version in definition.spec.versions {
            let schema = serde_json::to_value(version.schema.unwrap().open_api_v3_schema.unwrap()).unwrap();
            assert_structural(&schema, &format!("{name} {}", version.name));
        }
    }
}

fn assert_structural(schema: &Value, path: &str) {
    let open = schema["x-kubernetes-preserve-unknown-fields"] == true
        || schema["x-kubernetes-int-or-string"] == true;
    assert!(schema["type"].is_string() || open, "{path} has no type: {schema}");
    for keyword in ["$ref", "oneOf", "allOf", "not", "definitions", "x-default"] {
        assert!(schema.get(keyword).is_none(), "{path} has {keyword}");
    }
    if let Some(required) = schema["required"].as_array() {
        for field in required.iter().filter_map(Value::as_str) {
            assert!(
                schema["properties"].get(field).is_some(),
                "{path} requires {field}, which it does not have"
            );
        }
    }
    if let Some(properties) = schema["properties"].as_object() {
        assert!(schema.get("additionalProperties").is_none(), "{path} is both a struct and a map");
        for (field, property) in properties {
            assert_structural(property, &format!("{path}.{field}"));
        }
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(inner).filter(|inner| inner.is_object()) {
            assert_structural(inner, &format!("{path}[]"));
        }
    }
}
