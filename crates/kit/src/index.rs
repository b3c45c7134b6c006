//! What objects are found by: the entries that caches file them under, of any kind.

use crate::object::{KindId, Object};
use api::Kind as _;
use api::catalogue::{annotations, labels, secrets};
use api::management::Owner;
use api::names as object_names;
use api::rke::v1::RKEBootstrap;
use serde_json::{Value, json};

/// Where references to providers' objects stand, in all kinds of ours.
const REFERENCES: [&str; 6] = [
    "/spec/infrastructureRef",
    "/spec/controlPlaneRef",
    BOOTSTRAP,
    "/spec/template/spec/infrastructureRef",
    "/spec/template/spec/bootstrap/configRef",
    "/spec/remediation/templateRef",
];

/// Where a Machine names its bootstrap object.
const BOOTSTRAP: &str = "/spec/bootstrap/configRef";

/// The kind of CustomResourceDefinitions.
pub fn definitions() -> KindId {
    KindId::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
}

/// The entry of what belongs to a cluster.
pub fn cluster(namespace: &str, name: &str) -> String {
    format!("cluster {namespace}/{name}")
}

/// The entry of what an object owns.
pub fn owner(uid: &str) -> String {
    format!("owner {uid}")
}

/// The entry of what refers to an object.
pub fn reference(namespace: &str, group: &str, kind: &str, name: &str) -> String {
    format!("reference {namespace}/{group}/{kind}/{name}")
}

/// The entry of what refers to any object of a kind.
pub fn reference_kind(group: &str, kind: &str) -> String {
    format!("reference kind {group}/{kind}")
}

/// The entry of the CRD that defines a kind.
pub fn kind(group: &str, kind: &str) -> String {
    format!("kind {group}/{kind}")
}

/// The entry of the Node with a provider's id, and of Machines with it.
pub fn provider_id(id: &str) -> String {
    format!("provider {id}")
}

/// The entry of the Machine whose node is called so.
pub fn node(namespace: &str, cluster: &str, node: &str) -> String {
    format!("node {namespace}/{cluster}/{node}")
}

/// The entry of what was made from an object, and bears its name in the bookkeeping of Rancher's apply.
pub fn made_from(namespace: &str, name: &str) -> String {
    format!("made from {namespace}/{name}")
}

/// The entry of the cluster that a management cluster stands for, and of its control plane.
pub fn managed_as(management: &str) -> String {
    format!("managed as {management}")
}

/// The entry of the cluster whose pools, infrastructure or credentials are objects called so, of whatever kind, and of the machine whose
/// credential is.
pub fn names(name: &str) -> String {
    format!("names {name}")
}

/// The entry of Machines whose plan Secret is called so.
pub fn plan(namespace: &str, secret: &str) -> String {
    format!("plan {namespace}/{secret}")
}

/// The entry of Secrets in which hosts ask to become machines.
pub fn requests() -> String {
    "requests".into()
}

/// The entry of whoever names an object by this value. A credential of everybody has its namespace before the name.
fn naming(value: &Value) -> Option<String> {
    value.as_str()?.rsplit(':').next().filter(|name| !name.is_empty()).map(names)
}

/// What the spec of a provisioning cluster names.
fn named(spec: &Value) -> Vec<String> {
    let config = &spec["rkeConfig"];
    let pools = config["machinePools"].as_array().into_iter().flatten();
    let mut all = vec![&config["infrastructureRef"]["name"], &spec["cloudCredentialSecretName"]];
    all.extend(
        pools.flat_map(|pool| [&pool["machineConfigRef"]["name"], &pool["cloudCredentialSecretName"]]),
    );
    let mut all: Vec<String> = all.into_iter().filter_map(naming).collect();
    all.sort();
    all.dedup();
    all
}

/// Files an object of any kind.
pub fn entries(object: &Object) -> Vec<String> {
    let document = object.document();
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let namespace = object.namespace();
    let mut entries: Vec<String> = object.owners().iter().map(|one| owner(&one.uid)).collect();
    let named = text(&document["spec"]["clusterName"]);
    let named = named.or_else(|| object.label(labels::CAPI_CLUSTER_NAME).map(str::to_owned));
    if let Some(name) = &named {
        entries.push(cluster(namespace, name));
        if let Some(found) = text(&document["status"]["nodeRef"]["name"]) {
            entries.push(node(namespace, name, &found));
        }
    }
    if document["spec"].get("rkeConfig").is_some() {
        entries.extend(self::named(&document["spec"]));
    }
    entries.extend(naming(&document["spec"]["common"]["cloudCredentialSecretName"]));
    if document["type"] == secrets::types::MACHINE_REQUEST {
        entries.push(requests());
    }
    entries.extend(text(&document["spec"]["providerID"]).map(|id| provider_id(&id)));
    let management = [&document["status"]["clusterName"], &document["spec"]["managementClusterName"]];
    entries.extend(management.into_iter().filter_map(text).map(|name| managed_as(&name)));
    for pointer in REFERENCES {
        let Some(found) = document.pointer(pointer) else { continue };
        let part = |field: &str| text(&found[field]);
        // A health check's reference has a version, too.
        let group = part("apiGroup")
            .or_else(|| Some(part("apiVersion")?.split_once('/').map_or("", |(group, _)| group).to_owned()));
        if let (Some(group), Some(kind), Some(name)) = (group, part("kind"), part("name")) {
            if pointer == BOOTSTRAP && group == RKEBootstrap::GROUP && kind == RKEBootstrap::KIND {
                entries.push(plan(namespace, &object_names::plan_secret(object_names::Bootstrap(&name))));
            }
            entries.push(reference(namespace, &group, &kind, &name));
            entries.push(reference_kind(&group, &kind));
        }
    }
    let mark = |key| object.annotation(key).filter(|text| !text.is_empty());
    if let Some(name) = mark(annotations::OBJECTSET_OWNER_NAME) {
        let from = mark(annotations::OBJECTSET_OWNER_NAMESPACE).unwrap_or_default();
        entries.push(made_from(from, name));
    }
    // Whoever believes it asks for the UID, too.
    if let Some(owner) = Owner::of(|key| object.annotation(key)) {
        let made = made_from(&owner.namespace, &owner.name);
        if !entries.contains(&made) {
            entries.push(made);
        }
    }
    if document["kind"] == "CustomResourceDefinition" {
        let spec = &document["spec"];
        if let (Some(group), Some(name)) = (text(&spec["group"]), text(&spec["names"]["kind"])) {
            entries.push(kind(&group, &name));
        }
    }
    entries
}

/// Keeps of a CRD what contracts are resolved by. Schemas are large, and there are hundreds of CRDs.
pub fn trim_definition(document: &mut Value) {
    let spec = &document["spec"];
    let spec = json!({"group": spec["group"], "names": spec["names"], "scope": spec["scope"]});
    let mut metadata = document["metadata"].take();
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.remove("managedFields");
        metadata.remove("annotations");
    }
    *document = json!({"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": metadata, "spec": spec});
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_finds_who_waits() {
        let filed = |document: Value| entries(&Object::from_document(document).unwrap());
        let machine = |credential: &str| {
            let spec = json!({"common": {"cloudCredentialSecretName": credential}});
            json!({"kind": "FooMachine", "metadata": {"namespace": "n", "name": "m"}, "spec": spec})
        };
        assert_eq!(filed(machine("cattle-global-data:cc-1")), [names("cc-1")]);
        assert_eq!(filed(machine("mine")), [names("mine")]);
        assert!(filed(machine("")).is_empty());
        let secret =
            |of: &str| json!({"kind": "Secret", "metadata": {"namespace": "n", "name": "s"}, "type": of});
        assert_eq!(filed(secret(secrets::types::MACHINE_REQUEST)), [requests()]);
        assert!(filed(secret(secrets::types::MACHINE_PLAN)).is_empty());
    }

    #[test]
    fn objects_are_filed() {
        let machine = json!({
            "kind": "Machine",
            "metadata": {"namespace": "n", "name": "m", "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u"}]},
            "spec": {"clusterName": "c", "providerID": "p://1",
                "infrastructureRef": {"apiGroup": "i", "kind": "FooMachine", "name": "m"},
                "bootstrap": {"configRef": {"apiGroup": "b", "kind": "FooConfig", "name": "m"}}},
            "status": {"nodeRef": {"name": "node"}}
        });
        let object = Object::from_document(machine).unwrap();
        assert_eq!(
            entries(&object),
            [
                owner("u"),
                cluster("n", "c"),
                node("n", "c", "node"),
                provider_id("p://1"),
                reference("n", "i", "FooMachine", "m"),
                reference_kind("i", "FooMachine"),
                reference("n", "b", "FooConfig", "m"),
                reference_kind("b", "FooConfig"),
            ]
        );
    }

    #[test]
    fn a_machine_is_found_by_the_plan_that_its_bootstrap_object_has() {
        let filed = |group: &str, kind: &str| {
            let reference = json!({"apiGroup": group, "kind": kind, "name": "b"});
            let spec = json!({"bootstrap": {"configRef": reference}});
            let machine =
                json!({"kind": "Machine", "metadata": {"namespace": "n", "name": "m"}, "spec": spec});
            entries(&Object::from_document(machine).unwrap()).contains(&plan("n", "b-machine-plan"))
        };
        assert!(filed("rke.cattle.io", "RKEBootstrap"));
        assert!(!filed("rke.cattle.io", "KubeadmConfig"));
        assert!(!filed("evil.io", "RKEBootstrap"));
    }

    #[test]
    fn health_checks_refer_with_a_version() {
        let template = json!({"apiVersion": "i/v1", "kind": "FooTemplate", "name": "t"});
        let check =
            json!({"metadata": {"namespace": "n"}, "spec": {"remediation": {"templateRef": template}}});
        let object = Object::from_document(check).unwrap();
        assert_eq!(
            entries(&object),
            [reference("n", "i", "FooTemplate", "t"), reference_kind("i", "FooTemplate")]
        );
    }

    #[test]
    fn what_was_made_from_an_object_is_found_by_it() {
        let mark = |key: &str| format!("objectset.rio.cattle.io/{key}");
        let marks = json!({mark("owner-name"): "prod", mark("owner-namespace"): "fleet-default"});
        let document = json!({"kind": "Namespace", "metadata": {"name": "c-m-x", "annotations": marks}});
        let object = Object::from_document(document).unwrap();
        assert_eq!(entries(&object), [made_from("fleet-default", "prod")]);
        let both = json!({mark("owner-name"): "prod", mark("owner-namespace"): "fleet-default", "herdsman.io/owner": "fleet-default/prod/u"});
        for annotations in [both, json!({"herdsman.io/owner": "fleet-default/prod/u"})] {
            let document =
                json!({"kind": "Namespace", "metadata": {"name": "c-m-x", "annotations": annotations}});
            let object = Object::from_document(document).unwrap();
            assert_eq!(entries(&object), [made_from("fleet-default", "prod")]);
        }
    }

    #[test]
    fn clusters_are_found_by_what_they_name() {
        let pool = |config: &str, credential: &str| json!({"machineConfigRef": {"kind": "FooConfig", "name": config}, "cloudCredentialSecretName": credential});
        let document = json!({
            "kind": "Cluster", "metadata": {"namespace": "n", "name": "c"},
            "spec": {
                "cloudCredentialSecretName": "cattle-global-data:cc-1",
                "rkeConfig": {
                    "infrastructureRef": {"kind": "FooCluster", "name": "infra"},
                    "machinePools": [pool("a", ""), pool("b", "mine"), pool("b", "mine")],
                },
            },
        });
        let object = Object::from_document(document).unwrap();
        assert_eq!(entries(&object), ["a", "b", "cc-1", "infra", "mine"].map(names));
    }

    #[test]
    fn definitions_lose_their_schemas_only() {
        let mut document = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "foos.i", "labels": {"cluster.x-k8s.io/v1beta2": "v1"}, "managedFields": []},
            "spec": {"group": "i", "names": {"kind": "Foo", "plural": "foos"}, "scope": "Namespaced", "versions": [{"schema": {}}]}
        });
        trim_definition(&mut document);
        assert!(document["spec"].get("versions").is_none());
        let object = Object::from_document(document).unwrap();
        assert_eq!(entries(&object), [kind("i", "Foo")]);
        assert_eq!(object.label("cluster.x-k8s.io/v1beta2"), Some("v1"));
    }
}
