use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;

use super::*;
use crate::management::v3::DynamicSchema;

fn amazonec2() -> [CustomResourceDefinition; 3] {
    let schema: DynamicSchema =
        serde_saphyr::from_str(include_str!("../../fixtures/management.cattle.io/dynamicschema.yaml"))
            .unwrap();
    let driver = Driver::named("amazonec2").unwrap();
    assert_eq!(schema.metadata.name.as_deref(), Some(driver.schema_name().as_str()));
    definitions(&driver, &schema.spec.resource_fields).unwrap()
}

fn schema_of(definition: &CustomResourceDefinition) -> Value {
    let props: &Option<JSONSchemaProps> =
        &definition.spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema;
    serde_json::to_value(props).unwrap()
}

#[test]
fn names_and_labels() {
    let definitions = amazonec2();
    let names: Vec<_> = definitions.iter().map(|one| one.metadata.name.as_deref().unwrap()).collect();
    assert_eq!(
        names,
        [
            "amazonec2configs.rke-machine-config.cattle.io",
            "amazonec2machinetemplates.rke-machine.cattle.io",
            "amazonec2machines.rke-machine.cattle.io"
        ]
    );
    for definition in &definitions {
        let labels = serde_json::to_value(&definition.metadata.labels).unwrap();
        assert_eq!(
            labels,
            json!({
                "cluster.x-k8s.io/v1beta1": "v1",
                "cluster.x-k8s.io/v1beta2": "v1",
                "auth.cattle.io/cluster-indexed": "true",
            })
        );
        assert_eq!(definition.spec.scope, "Namespaced");
    }
    let subresources =
        |one: &CustomResourceDefinition| serde_json::to_value(&one.spec.versions[0].subresources).unwrap();
    assert_eq!(
        definitions.each_ref().map(subresources),
        [Value::Null, Value::Null, json!({"status": {}})],
        "only machines have a status"
    );
}

#[test]
fn the_config_has_the_fields_at_the_top_and_fills_defaults() {
    let config = schema_of(&amazonec2()[0]);
    let properties = &config["properties"];
    assert_eq!(properties["region"], json!({"type": "string", "nullable": true, "default": "us-east-1"}));
    assert_eq!(properties["zone"]["default"], "a");
    assert_eq!(properties["vpcId"]["default"], "", "an empty text is a default too");
    assert_eq!(properties["monitoring"], json!({"type": "boolean", "default": false}));
    assert_eq!(properties["retries"], json!({"type": "string", "nullable": true, "default": "5"}));
    assert_eq!(
        properties["securityGroup"],
        json!({
            "type": "array", "nullable": true,
            "items": {"type": "string", "nullable": true},
            "default": ["rancher-nodes"],
        })
    );
    assert_eq!(properties["openPort"].get("default"), None, "null is no default");
    assert_eq!(properties["secretKey"]["type"], "string", "passwords are texts");
    assert_eq!(
        properties["spotCount"],
        json!({"type": "integer", "minimum": 1.0, "maximum": 9.0, "default": 2})
    );
    assert_eq!(properties["httpTokens"]["enum"], json!(["optional", "required", ""]));
    for absent in ["common", "providerID", "spec", "os"] {
        assert_eq!(properties.get(absent), None, "{absent}");
    }
}

#[test]
fn machines_have_the_common_part_and_no_defaults() {
    let [_, template, machine] = amazonec2();
    let (template, machine) = (schema_of(&template), schema_of(&machine));
    let spec = &machine["properties"]["spec"];
    assert_eq!(spec, &template["properties"]["spec"]["properties"]["template"]["properties"]["spec"]);
    assert_eq!(spec["properties"]["region"], json!({"type": "string", "nullable": true}));
    assert_eq!(spec["properties"]["providerID"]["type"], "string");
    let common = &spec["properties"]["common"]["properties"];
    assert_eq!(common["cloudCredentialSecretName"]["maxLength"], 317);
    assert_eq!(common["labels"]["additionalProperties"], json!({"type": "string"}));
    assert_eq!(common["taints"]["items"]["required"], json!(["effect", "key"]));
    let status = &machine["properties"]["status"]["properties"];
    for field in ["conditions", "jobName", "driverHash", "driverUrl", "addresses", "initialization"] {
        assert!(status.get(field).is_some(), "{field}");
    }
    assert_eq!(template["properties"].get("status"), None);
    assert_eq!(template["properties"]["spec"]["properties"]["clusterName"]["type"], "string");
}

#[test]
fn only_drivers_that_make_windows_have_an_os() {
    let driver = Driver::named("vmwarevsphere").unwrap();
    let [config, _, machine] = definitions(&driver, &BTreeMap::new()).unwrap();
    assert_eq!(schema_of(&config)["properties"]["os"], json!({"type": "string", "nullable": true}));
    assert_eq!(schema_of(&machine)["properties"]["spec"]["properties"].get("os"), None);
}

#[test]
fn a_field_of_another_type_is_refused_by_name() {
    let fields = [("disks".to_owned(), Field { type_: "map[disk]".into(), ..Default::default() })];
    let refusal = definitions(&Driver::named("odd").unwrap(), &fields.into()).unwrap_err();
    assert_eq!(refusal.field, "disks");
    assert!(refusal.to_string().contains("resourceFields.disks"), "{refusal}");
}
