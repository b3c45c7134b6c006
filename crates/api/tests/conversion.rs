//! Conversion loses nothing: random objects of every kind, both ways round.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use api::conversion::{ApiVersions, DATA_ANNOTATION, Error, convert};
use api::{GoDuration, Kind, capi, ipam};
use proptest::prelude::*;
use samples::cluster_api_fields;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Every provider's kind is at v1beta1.
struct Beta1;

impl ApiVersions for Beta1 {
    fn api_version(&self, group: &str, _: &str) -> Result<String, String> {
        Ok(if group.is_empty() { "v1beta1".into() } else { format!("{group}/v1beta1") })
    }
}

#[test]
fn clusters() {
    both_ways::<capi::v1beta1::Cluster, capi::v1beta2::Cluster>();
}

#[test]
fn machines() {
    both_ways::<capi::v1beta1::Machine, capi::v1beta2::Machine>();
}

#[test]
fn machine_sets() {
    both_ways::<capi::v1beta1::MachineSet, capi::v1beta2::MachineSet>();
}

#[test]
fn machine_deployments() {
    both_ways::<capi::v1beta1::MachineDeployment, capi::v1beta2::MachineDeployment>();
}

#[test]
fn machine_health_checks() {
    both_ways::<capi::v1beta1::MachineHealthCheck, capi::v1beta2::MachineHealthCheck>();
}

#[test]
fn machine_drain_rules() {
    both_ways::<capi::v1beta1::MachineDrainRule, capi::v1beta2::MachineDrainRule>();
}

#[test]
fn ip_addresses() {
    both_ways::<ipam::v1beta1::IPAddress, ipam::v1beta2::IPAddress>();
    both_ways::<ipam::v1alpha1::IPAddress, ipam::v1beta2::IPAddress>();
}

#[test]
fn ip_address_claims() {
    both_ways::<ipam::v1beta1::IPAddressClaim, ipam::v1beta2::IPAddressClaim>();
    both_ways::<ipam::v1alpha1::IPAddressClaim, ipam::v1beta2::IPAddressClaim>();
}

/// The two properties: hub -> older -> hub is exact; older -> hub -> older is exact but for what
/// `docs/conversion.md` lists.
fn both_ways<Old, Hub>()
where
    Old: Kind + Serialize + DeserializeOwned,
    Hub: Kind + Serialize + DeserializeOwned,
{
    let (old_version, hub_version) = (Old::api_version(&()), Hub::api_version(&()));
    let mut runner = samples::runner(200);
    let exact = runner.run(&objects::<Hub>(), |object| {
        let hub = typed::<Hub>(object);
        let old = convert(hub.clone(), &old_version, &Beta1).unwrap();
        prop_assert_eq!(typed::<Old>(old.clone()), old.clone(), "what comes out fits the older version");
        prop_assert_eq!(convert(old, &hub_version, &Beta1).unwrap(), hub);
        Ok(())
    });
    exact.unwrap_or_else(|failure| panic!("{} -> {} -> {0}: {failure}", hub_version, old_version));

    let listed = runner.run(&objects::<Old>(), |object| {
        let old = typed::<Old>(object);
        let hub = convert(old.clone(), &hub_version, &Beta1).unwrap();
        let mut back = convert(hub, &old_version, &Beta1).unwrap();
        if let Some(annotations) = back["metadata"]["annotations"].as_object_mut() {
            annotations.remove(DATA_ANNOTATION);
        }
        prop_assert_eq!(typed::<Old>(back), typed::<Old>(normalised(old)));
        Ok(())
    });
    let rewritten = runner.run(&(objects::<Hub>(), objects::<Hub>()), |(stored, wanted)| {
        let stored = convert(typed::<Hub>(stored), &old_version, &Beta1).unwrap();
        let wanted = convert(typed::<Hub>(wanted), &old_version, &Beta1).unwrap();
        // A client of the older version reads the one and writes what is in the other.
        let mut written = stored.clone();
        for part in ["spec", "status"] {
            match wanted.get(part) {
                Some(value) => written[part] = value.clone(),
                None => drop(written.as_object_mut().unwrap().remove(part)),
            }
        }
        let hub = convert(written.clone(), &hub_version, &Beta1).unwrap();
        let read = convert(hub, &old_version, &Beta1).unwrap();
        for part in ["spec", "status"] {
            prop_assert_eq!(read.get(part), written.get(part), "it reads what it wrote");
        }
        Ok(())
    });
    rewritten.unwrap_or_else(|failure| panic!("a client of {old_version}: {failure}"));
    listed.unwrap_or_else(|failure| panic!("{} -> {} -> {0}: {failure}", old_version, hub_version));
}

/// What is left of a document after its type has read and written it.
fn typed<K: Serialize + DeserializeOwned>(object: Value) -> Value {
    serde_json::to_value(serde_json::from_value::<K>(object).unwrap()).unwrap()
}

/// Objects that fit the schema of a served version.
fn objects<K: Kind>() -> impl Strategy<Value = Value> {
    let name = format!("{}.{}", K::PLURAL, K::GROUP);
    let crds = api::crd::all().into_iter().map(|crd| serde_json::to_value(crd).unwrap());
    let crd = crds.into_iter().find(|crd| crd["metadata"]["name"] == name).unwrap();
    samples::custom_objects(&crd, K::VERSION, cluster_api_fields).unwrap()
}

/// A v1beta1 document as `docs/conversion.md` says it comes back.
fn normalised(mut object: Value) -> Value {
    let spec = object["spec"].as_object_mut().unwrap();
    for dropped in ["revisionHistoryLimit", "progressDeadlineSeconds"] {
        spec.remove(dropped);
    }
    if let Some(topology) = spec.get_mut("topology").and_then(Value::as_object_mut) {
        topology.remove("rolloutAfter");
    }
    if let Some(node) = object.pointer_mut("/status/nodeRef") {
        *node = json!({"apiVersion": "v1", "kind": "Node", "name": node["name"]});
    }
    normalise_fields(&mut object);
    object
}

fn normalise_fields(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(normalise_fields),
        Value::Object(fields) => {
            fields.remove("definitionFrom");
            for (name, field) in fields.iter_mut() {
                match name.as_str() {
                    "controlPlaneRef" | "infrastructureRef" | "configRef" => reference(field, true),
                    "remediationTemplate" => reference(field, false),
                    name if cluster_api_fields(name).is_some() && name != "apiVersion" => {
                        whole_seconds(field)
                    }
                    // Free-form: nothing in it means anything to us.
                    "value" => {}
                    _ => normalise_fields(field),
                }
            }
        }
        _ => {}
    }
}

fn reference(reference: &mut Value, version_is_looked_up: bool) {
    let Some(fields) = reference.as_object_mut() else { return };
    fields.retain(|name, _| ["apiVersion", "kind", "name"].contains(&name.as_str()));
    if fields.is_empty() {
        return;
    }
    fields.insert("namespace".into(), "fleet-default".into());
    if version_is_looked_up {
        let api_version = fields.get("apiVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        fields.insert("apiVersion".into(), Beta1.api_version(group, "").unwrap().into());
    }
}

fn whole_seconds(duration: &mut Value) {
    let parsed: GoDuration = serde_json::from_value(duration.clone()).unwrap();
    *duration = GoDuration::from_seconds(parsed.seconds().min(i64::from(i32::MAX))).to_string().into();
}

const V1BETA1: &str = "cluster.x-k8s.io/v1beta1";
const V1BETA2: &str = "cluster.x-k8s.io/v1beta2";

fn machine() -> Value {
    json!({
        "apiVersion": V1BETA2, "kind": "Machine",
        "metadata": {"name": "m", "namespace": "fleet-default", "annotations": {"mine": "kept"}},
        "spec": {
            "clusterName": "c", "minReadySeconds": 30, "version": "v1.33.5",
            "bootstrap": {"dataSecretName": "data"},
            "infrastructureRef": {"apiGroup": "rke-machine.cattle.io", "kind": "PodMachine", "name": "m"},
        },
        "status": {"phase": "Updating", "nodeRef": {"name": "node"}, "initialization": {"infrastructureProvisioned": false}},
    })
}

#[test]
fn a_client_of_v1beta1_changes_what_it_changes_and_nothing_else() {
    let mut old = convert(machine(), V1BETA1, &Beta1).unwrap();
    assert_eq!(old["status"]["phase"], "Running");
    assert_eq!(old["metadata"]["annotations"]["mine"], "kept");
    old["spec"]["version"] = "v1.34.0".into();
    old["spec"]["nodeDrainTimeout"] = "5m".into();
    old["status"]["bootstrapReady"] = true.into();
    old["metadata"]["labels"] = json!({"new": "label"});

    let hub = convert(old, V1BETA2, &Beta1).unwrap();
    let mut expected = machine();
    expected["status"]["initialization"]["bootstrapDataSecretCreated"] = true.into();
    expected["spec"]["version"] = "v1.34.0".into();
    expected["spec"]["deletion"] = json!({"nodeDrainTimeoutSeconds": 300});
    expected["metadata"]["labels"] = json!({"new": "label"});
    assert_eq!(hub, expected);
}

#[test]
fn only_objects_that_need_it_carry_the_hub_with_them() {
    let annotation = |object: Value| {
        let old = convert(object, V1BETA1, &Beta1).unwrap();
        old["metadata"]["annotations"].get(DATA_ANNOTATION).cloned()
    };
    assert!(annotation(machine()).is_some());
    let mut plain = machine();
    plain["spec"].as_object_mut().unwrap().remove("minReadySeconds");
    plain["status"] = json!({"phase": "Running", "nodeRef": {"name": "node"}});
    assert_eq!(annotation(plain), None);
}

#[test]
fn what_cannot_be_converted_is_said() {
    struct Unlabelled;
    impl ApiVersions for Unlabelled {
        fn api_version(&self, group: &str, kind: &str) -> Result<String, String> {
            Err(format!("the CRD of {kind}.{group} has no contract label"))
        }
    }
    let error = convert(machine(), V1BETA1, &Unlabelled).unwrap_err();
    assert_eq!(
        error.to_string(),
        "spec.infrastructureRef: the CRD of PodMachine.rke-machine.cattle.io has no contract label"
    );

    let mut old = convert(machine(), V1BETA1, &Beta1).unwrap();
    old["metadata"]["annotations"][DATA_ANNOTATION] = "{broken".into();
    for data in ["{broken", "\"text\"", "1", "[]", "null", r#"{"spec": {"version": []}}"#] {
        old["metadata"]["annotations"][DATA_ANNOTATION] = data.into();
        let error = convert(old.clone(), V1BETA2, &Beta1).unwrap_err();
        assert!(
            matches!(error, Error::Annotation(_)) && error.to_string().contains("remove it"),
            "{data}: {error}"
        );
    }
    old["metadata"]["annotations"][DATA_ANNOTATION] = "{}".into();
    let restored = convert(old.clone(), V1BETA2, &Beta1).unwrap();
    assert_eq!((&restored["apiVersion"], &restored["kind"]), (&json!(V1BETA2), &json!("Machine")));

    old["metadata"]["annotations"] = json!({});
    old["spec"]["infrastructureRef"]["apiVersion"] = "a/b/c".into();
    let error = convert(old.clone(), V1BETA2, &Beta1).unwrap_err().to_string();
    assert!(error.contains("infrastructureRef") && error.contains("a/b/c"), "{error}");

    old["spec"]["version"] = json!(["not", "a", "string"]);
    let error = convert(old, V1BETA2, &Beta1).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the object is not a Machine of cluster.x-k8s.io/v1beta1: invalid type"),
        "{error}"
    );

    let to = |version: &str| convert(machine(), version, &Beta1).unwrap_err().to_string();
    assert_eq!(
        to("cluster.x-k8s.io/v1alpha3"),
        "Machine cannot be converted from cluster.x-k8s.io/v1beta2 to cluster.x-k8s.io/v1alpha3"
    );
    assert!(to("other.io/v1beta1").contains("cannot be converted"));
    assert!(to("v1").contains("cannot be converted"));
}
