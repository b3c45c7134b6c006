use serde_json::json;

use super::*;

fn owner() -> Owner {
    let object = Id {
        api_version: "provisioning.cattle.io/v1".into(),
        kind: "Cluster".into(),
        namespace: "ns".into(),
        name: "prod".into(),
    };
    Owner { set: applied::CLUSTER_SET, object }
}

fn object(kind: &str, name: &str, spec: Value) -> Object {
    Object::from_document(json!({
        "apiVersion": "rke.cattle.io/v1", "kind": kind,
        "metadata": {"name": name, "namespace": "ns"}, "spec": spec,
    }))
}

fn steps(wanted: &[Object], existing: &[Object]) -> Vec<Change> {
    difference(&owner(), wanted, Existing { objects: existing, referred: &BTreeSet::new() }).unwrap()
}

/// Existing as `spec` became it, then changed by others, then wanted anew: what the spec is afterwards.
fn spec_after(applied: Value, others: impl FnOnce(&mut Value), wanted: Value) -> Value {
    let mut existing = owner().stamp(&object("A", "a", applied), None);
    others(&mut existing.document_mut()["spec"]);
    let changes = steps(&[object("A", "a", wanted)], std::slice::from_ref(&existing));
    let after = changes.first().map_or(existing.clone(), |change| after(change, Some(&existing)).unwrap());
    assert_eq!(
        steps(
            &[object("A", "a", applied::last(&after).unwrap()["spec"].clone())],
            std::slice::from_ref(&after)
        ),
        []
    );
    after.document()["spec"].clone()
}

#[test]
fn fields_have_owners() {
    type Case = (&'static str, Value, fn(&mut Value), Value, Value);
    let cases: [Case; 9] = [
        ("nothing new", json!({"a": 1}), |_| {}, json!({"a": 1}), json!({"a": 1})),
        ("a new value", json!({"a": 1}), |_| {}, json!({"a": 2}), json!({"a": 2})),
        ("drift goes back", json!({"a": 1}), |spec| spec["a"] = json!(9), json!({"a": 1}), json!({"a": 1})),
        (
            "others' fields stay",
            json!({"a": 1, "m": {"x": 1}}),
            |spec| {
                spec["b"] = json!(2);
                spec["m"]["y"] = json!(2);
            },
            json!({"a": 3, "m": {"x": 1}}),
            json!({"a": 3, "b": 2, "m": {"x": 1, "y": 2}}),
        ),
        ("what we no longer want goes", json!({"a": 1, "b": 2}), |_| {}, json!({"a": 1}), json!({"a": 1})),
        (
            "others' part of it stays",
            json!({"m": {"x": 1}, "gone": {"x": 1}}),
            |spec| spec["m"]["y"] = json!(2),
            json!({}),
            json!({"m": {"y": 2}}),
        ),
        (
            "lists are ours, fields that the API filled into their items stay",
            json!({"l": [{"name": "a", "v": 1}, {"name": "b", "v": 2}]}),
            |spec| {
                spec["l"][1]["default"] = json!("d");
                let items = spec["l"].as_array_mut().unwrap();
                items.push(json!({"name": "foreign"}));
            },
            json!({"l": [{"name": "b", "v": 3}]}),
            json!({"l": [{"name": "b", "v": 3, "default": "d"}]}),
        ),
        (
            "items without a name are matched by place",
            json!({"l": [{"v": 1}, {"v": 2}]}),
            |spec| spec["l"][0]["default"] = json!("d"),
            json!({"l": [{"v": 5}]}),
            json!({"l": [{"v": 5, "default": "d"}]}),
        ),
        ("another type", json!({"a": {"x": 1}}), |_| {}, json!({"a": [1]}), json!({"a": [1]})),
    ];
    for (name, applied, others, wanted, expected) in cases {
        assert_eq!(spec_after(applied, others, wanted), expected, "{name}");
    }
}

#[test]
fn a_field_that_others_set_is_not_ours_to_remove() {
    let after = spec_after(json!({}), |spec| spec["replicas"] = json!(5), json!({}));
    assert_eq!(after, json!({"replicas": 5}));
}

#[test]
fn owner_references_are_shared() {
    let with = |uids: &[&str]| {
        let mut one = object("A", "a", json!({}));
        one.document_mut()["metadata"]["ownerReferences"] =
            uids.iter().map(|uid| json!({"uid": uid, "name": "n"})).collect();
        one
    };
    let mut existing = owner().stamp(&with(&["ours"]), None);
    existing.document_mut()["metadata"]["ownerReferences"]
        .as_array_mut()
        .unwrap()
        .push(json!({"uid": "capi"}));
    assert_eq!(steps(&[with(&["ours"])], &[existing.clone()]), []);
    let changes = steps(&[with(&["new"])], &[existing.clone()]);
    let changed = after(&changes[0], Some(&existing)).unwrap();
    let references = changed.document()["metadata"]["ownerReferences"].as_array().unwrap();
    let uids: Vec<&str> = references.iter().map(|one| one["uid"].as_str().unwrap()).collect();
    assert_eq!(uids, ["capi", "new"]);
}

#[test]
fn only_what_is_ours_and_unreferred_goes() {
    let stamped = |object: &Object| owner().stamp(object, None);
    let mut kept = object("AMachineTemplate", "kept", json!({}));
    kept.document_mut()["metadata"]["labels"] = json!({"objectset.rio.cattle.io/prune": "false"});
    let mut going = stamped(&object("MachineDeployment", "going", json!({})));
    going.document_mut()["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut other = owner();
    other.object.name = "other".into();
    let existing = [
        object("RKEBootstrapTemplate", "users", json!({})),
        other.stamp(&object("MachineDeployment", "others", json!({})), None),
        stamped(&kept),
        going,
        stamped(&object("RKEBootstrapTemplate", "old", json!({}))),
        stamped(&object("RKEBootstrapTemplate", "in-use", json!({}))),
        stamped(&object("MachineDeployment", "pool", json!({}))),
        stamped(&object("MachineHealthCheck", "pool", json!({}))),
    ];
    let referred = BTreeSet::from([ContractVersionedObjectReference {
        api_group: "rke.cattle.io".into(),
        kind: "RKEBootstrapTemplate".into(),
        name: "in-use".into(),
    }]);
    let changes = difference(&owner(), &[], Existing { objects: &existing, referred: &referred }).unwrap();
    let gone: Vec<String> = changes.iter().map(|change| change.id().to_string()).collect();
    assert_eq!(
        gone,
        ["MachineHealthCheck ns/pool", "MachineDeployment ns/pool", "RKEBootstrapTemplate ns/old"]
    );
}

#[test]
fn others_objects_are_not_taken_and_nobodys_are() {
    let mut other = owner();
    other.object.name = "other".into();
    let taken = other.stamp(&object("A", "a", json!({})), None);
    let existing = Existing { objects: std::slice::from_ref(&taken), referred: &BTreeSet::new() };
    let conflict = difference(&owner(), &[object("A", "a", json!({}))], existing).unwrap_err();
    assert!(conflict.to_string().starts_with("A ns/a belongs to another"), "{conflict}");

    let nobodys = object("A", "a", json!({"b": 1}));
    assert!(matches!(&steps(&[object("A", "a", json!({}))], &[nobodys])[..], [Change::Update { .. }]));
}

#[test]
fn a_patch_names_the_version_that_was_looked_at() {
    let mut existing = owner().stamp(&object("A", "a", json!({"x": 1})), None);
    existing.document_mut()["metadata"]["resourceVersion"] = json!("7");
    let changes = steps(&[object("A", "a", json!({"x": 2}))], &[existing]);
    let [Change::Update { patch, .. }] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!(patch["metadata"]["resourceVersion"], "7");
    assert_eq!(patch["spec"], json!({"x": 2}));
}

#[test]
fn an_object_of_another_version_is_the_same_object() {
    let mut existing = owner().stamp(&object("A", "a", json!({"x": 1})), None);
    existing.document_mut()["apiVersion"] = json!("rke.cattle.io/v2");
    let changes = steps(&[object("A", "a", json!({"x": 1}))], &[existing]);
    assert!(
        !changes.iter().any(|change| matches!(change, Change::Create(_) | Change::Delete(_))),
        "{changes:?}"
    );
}

#[test]
fn an_object_that_rancher_applied_keeps_what_the_server_gave_it() {
    let mut existing = owner().stamp(&object("A", "a", json!({"x": 1})), None);
    let applied = json!({
        "apiVersion": "rke.cattle.io/v1", "kind": "A",
        "metadata": {"name": "a", "namespace": "ns", "creationTimestamp": null},
        "spec": {"x": 1, "old": true}, "status": {},
    });
    existing.annotate(annotations_applied(), applied.to_string());
    existing.document_mut()["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    existing.document_mut()["spec"]["old"] = json!(true);
    existing.document_mut()["status"] = json!({"ready": true});
    let changes = steps(&[object("A", "a", json!({"x": 1}))], std::slice::from_ref(&existing));
    let changed = after(&changes[0], Some(&existing)).unwrap();
    assert_eq!(changed.document()["metadata"]["creationTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(changed.document()["status"], json!({"ready": true}));
    assert_eq!(changed.document()["spec"], json!({"x": 1}));
}

fn annotations_applied() -> &'static str {
    api::catalogue::annotations::OBJECTSET_APPLIED
}
