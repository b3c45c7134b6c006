use serde_json::{Value, json};

use super::*;
use crate::{GroupVersion, Status};

fn pod(object: &Value, patch: &Value) -> Result<Value, Error> {
    apply(&GroupVersion::new("", "v1").kind("Pod"), object, patch)
}

/// A Pod's spec around a part of it.
fn spec(part: Value) -> Value {
    json!({ "spec": part })
}

fn check(name: &str, original: Value, patch: Value, wanted: Value) {
    let found = pod(&spec(original), &spec(patch)).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(found, spec(wanted), "{name}");
}

#[test]
fn objects_are_merged_field_by_field() {
    check("add", json!({"a": 1}), json!({"b": 2}), json!({"a": 1, "b": 2}));
    check("change", json!({"a": 1}), json!({"a": 2}), json!({"a": 2}));
    check("null deletes", json!({"a": 1, "b": 2}), json!({"a": null}), json!({"b": 2}));
    check("null of nothing", json!({"a": 1}), json!({"z": null}), json!({"a": 1}));
    check("nulls in what is new", json!({}), json!({"n": {"a": null, "b": 1}}), json!({"n": {"b": 1}}));
    check("another type", json!({"a": {"b": 1}}), json!({"a": "x"}), json!({"a": "x"}));
    check(
        "maps",
        json!({"nodeSelector": {"a": "1", "b": "2"}}),
        json!({"nodeSelector": {"a": null, "c": "3"}}),
        json!({"nodeSelector": {"b": "2", "c": "3"}}),
    );
}

#[test]
fn directives_replace_and_delete_objects() {
    let original = json!({"nodeSelector": {"a": "1", "b": "2"}});
    let with = |directive: &str| json!({"nodeSelector": {"$patch": directive, "c": "3"}});
    check("replace", original.clone(), with("replace"), json!({"nodeSelector": {"c": "3"}}));
    check("delete", original, with("delete"), json!({"nodeSelector": {}}));
    check("delete what is not there", json!({}), with("delete"), json!({}));
}

#[test]
fn lists_of_objects_are_merged_by_their_key() {
    let original = json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]});
    for (name, patch, wanted) in [
        (
            "change one",
            json!([{"name": "b", "image": "2"}]),
            json!([{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]),
        ),
        (
            "add one",
            json!([{"name": "c"}]),
            json!([{"name": "c"}, {"name": "a", "image": "1"}, {"name": "b", "image": "1"}]),
        ),
        ("delete one", json!([{"name": "a", "$patch": "delete"}]), json!([{"name": "b", "image": "1"}])),
        ("replace all", json!([{"$patch": "replace"}, {"name": "z"}]), json!([{"name": "z"}])),
        ("empty all", json!([{"$patch": "replace"}]), json!([])),
        (
            "null deletes",
            json!([{"name": "a", "image": null}]),
            json!([{"name": "a"}, {"name": "b", "image": "1"}]),
        ),
        ("nothing", json!([]), json!([{"name": "a", "image": "1"}, {"name": "b", "image": "1"}])),
        (
            "patch order wins",
            json!([{"name": "b"}, {"name": "a"}]),
            json!([{"name": "b", "image": "1"}, {"name": "a", "image": "1"}]),
        ),
    ] {
        check(name, original.clone(), json!({"containers": patch}), json!({"containers": wanted}));
    }
    check(
        "lists in lists",
        json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "1"}]}]}),
        json!({"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]}]}),
        json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]}]}),
    );
    check(
        "numbers as keys",
        json!({"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "x"}]}]}),
        json!({"containers": [{"name": "a", "ports": [{"containerPort": 80, "protocol": "UDP"}]}]}),
        json!({"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "x", "protocol": "UDP"}]}]}),
    );
}

#[test]
fn lists_without_a_strategy_are_replaced() {
    check(
        "scalars",
        json!({"containers": [{"name": "a", "args": ["1", "2"]}]}),
        json!({"containers": [{"name": "a", "args": ["3"]}]}),
        json!({"containers": [{"name": "a", "args": ["3"]}]}),
    );
    check(
        "objects",
        json!({"tolerations": [{"key": "a"}]}),
        json!({"tolerations": [{"key": "b"}]}),
        json!({"tolerations": [{"key": "b"}]}),
    );
}

#[test]
fn lists_of_scalars_are_merged_as_sets() {
    let finalizers = |list: Value| json!({"metadata": {"finalizers": list}});
    for (patch, wanted) in [
        (json!({"finalizers": ["c", "a"]}), json!(["c", "a", "b"])),
        (json!({"finalizers": ["a"]}), json!(["a", "b"])),
        (json!({"$deleteFromPrimitiveList/finalizers": ["a", "z"]}), json!(["b"])),
        (json!({"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}), json!(["c", "b"])),
        (json!({"$setElementOrder/finalizers": ["b", "a"]}), json!(["b", "a"])),
        (json!({"$setElementOrder/finalizers": ["c", "a"], "finalizers": ["c"]}), json!(["c", "a", "b"])),
        (
            json!({"$setElementOrder/finalizers": ["c", "b"], "$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}),
            json!(["c", "b"]),
        ),
    ] {
        let found = pod(&finalizers(json!(["a", "b"])), &json!({"metadata": patch})).unwrap();
        assert_eq!(found["metadata"]["finalizers"], wanted, "{patch}");
    }
}

#[test]
fn the_order_of_items_can_be_set() {
    let names = |list: &[&str]| Value::Array(list.iter().map(|name| json!({"name": name})).collect());
    let original = json!({"containers": names(&["a", "b", "c", "d"])});
    for (name, order, patch, wanted) in [
        ("reverse", &["d", "c", "b", "a"][..], None, &["d", "c", "b", "a"][..]),
        ("server's own between", &["c", "a"], None, &["b", "c", "a", "d"]),
        (
            "new ones",
            &["x", "a", "y"],
            Some(json!([{"name": "x"}, {"name": "y"}])),
            &["x", "a", "y", "b", "c", "d"],
        ),
        ("deleted", &["a", "d"], Some(json!([{"name": "b", "$patch": "delete"}])), &["a", "c", "d"]),
    ] {
        let mut change = json!({"$setElementOrder/containers": names(order)});
        if let Some(patch) = patch {
            change["containers"] = patch;
        }
        check(name, original.clone(), change, json!({"containers": names(wanted)}));
    }
    check(
        "nothing there before",
        json!({}),
        json!({"$setElementOrder/containers": names(&["b", "a"]), "containers": [{"name": "b"}, {"name": "a"}, {"name": "z", "$patch": "delete"}]}),
        json!({"containers": names(&["b", "a"])}),
    );
    check(
        "nothing at all",
        json!({"a": 1}),
        json!({"$setElementOrder/containers": names(&["a"])}),
        json!({"a": 1}),
    );
}

#[test]
fn some_keys_can_be_retained() {
    let volumes = |volume: Value| json!({"volumes": [volume]});
    check(
        "another source",
        volumes(json!({"name": "v", "emptyDir": {"medium": "Memory"}})),
        volumes(json!({"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}})),
        volumes(json!({"name": "v", "hostPath": {"path": "/x"}})),
    );
    check(
        "by a null",
        volumes(json!({"name": "v", "emptyDir": {}})),
        volumes(
            json!({"name": "v", "$retainKeys": ["name", "hostPath"], "emptyDir": null, "hostPath": {"path": "/x"}}),
        ),
        volumes(json!({"name": "v", "hostPath": {"path": "/x"}})),
    );
    let kind = GroupVersion::new("apps", "v1").kind("Deployment");
    let original = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    let wanted = json!({"spec": {"strategy": {"type": "Recreate"}}});
    assert_eq!(apply(&kind, &original, &patch).unwrap(), wanted);
}

#[test]
fn directives_do_not_end_up_in_objects() {
    check(
        "in a new item",
        json!({"containers": [{"name": "a"}]}),
        json!({"containers": [{"name": "b", "$setElementOrder/env": [{"name": "X"}], "env": [{"name": "X"}], "resources": {"$retainKeys": []}}]}),
        json!({"containers": [{"name": "b", "env": [{"name": "X"}], "resources": {}}, {"name": "a"}]}),
    );
    check(
        "in a new list",
        json!({}),
        json!({"containers": [{"name": "b"}, {"name": "c", "$patch": "delete"}]}),
        json!({"containers": [{"name": "b"}]}),
    );
}

#[test]
fn wrong_directives_are_told_why() {
    let original = spec(json!({"containers": [{"name": "a"}], "volumes": [{"name": "v"}]}));
    for (patch, message) in [
        (json!({"$patch": "foo"}), "unknown patch type: foo in map: map[$patch:foo]"),
        (json!({"$patch": "merge", "b": 2}), "unknown patch type: merge in map: map[$patch:merge b:2]"),
        (json!({"$retainKeys": "a"}), "invalid patch format of retainKeys"),
        (json!({"$retainKeys": ["a"], "b": 1}), "invalid patch format of retainKeys"),
        (json!({"$setElementOrder/containers": "x"}), "expected a []interface {}, but received a string"),
        (json!({"$setElementOrder": []}), "invalid patch format of setElementOrder list"),
        (json!({"$deleteFromPrimitiveList": ["x"]}), "invalid patch format of primitive list"),
        (
            json!({"containers": [{"image": "x"}]}),
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            json!({"containers": [{"$patch": "delete"}]}),
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (
            json!({"containers": [{"name": "a", "$patch": "merge"}]}),
            "merging lists cannot yet be specified in the patch",
        ),
        (
            json!({"containers": [{"name": "a", "$patch": "x"}]}),
            "unknown patch type: x in map: map[$patch:x name:a]",
        ),
        (json!({"containers": ["x"]}), "list element types are not identical: [[map[name:a]] [x]]"),
        (
            json!({"$setElementOrder/containers": [{"name": "x"}], "containers": [{"name": "y"}]}),
            "The order in patch list:\n[map[name:y]]\n doesn't match $setElementOrder list:\n[map[name:x]]\n",
        ),
    ] {
        let error = pod(&original, &spec(patch.clone())).unwrap_err();
        assert_eq!(error.to_string(), message, "{patch}");
        assert_eq!(Status::from(error).code, 400);
    }
    let lists = pod(&original, &spec(json!({"containers": [["x"]]})));
    assert_eq!(lists.unwrap_err().to_string(), "list element types are not identical: [[map[name:a]] [[x]]]");
    let status = Status::from(pod(&original, &json!([])).unwrap_err());
    assert_eq!(status.message, "json: cannot unmarshal array into Go value of type map[string]interface {}");
}

#[test]
fn kinds_merge_by_their_own_keys() {
    for (group, kind, original, patch, wanted) in [
        (
            "",
            "Service",
            json!({"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81}]}}),
            json!({"spec": {"ports": [{"port": 81, "name": "b"}]}}),
            json!({"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}}),
        ),
        (
            "",
            "ServiceAccount",
            json!({"secrets": [{"name": "a"}]}),
            json!({"secrets": [{"name": "b"}]}),
            json!({"secrets": [{"name": "b"}, {"name": "a"}]}),
        ),
        (
            "",
            "Node",
            json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
            json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
            json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
        ),
        (
            "rbac.authorization.k8s.io",
            "ClusterRole",
            json!({"rules": [{"verbs": ["get"]}]}),
            json!({"rules": [{"verbs": ["list"]}]}),
            json!({"rules": [{"verbs": ["list"]}]}),
        ),
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration",
            json!({"webhooks": [{"name": "a", "sideEffects": "None"}]}),
            json!({"webhooks": [{"name": "a", "timeoutSeconds": 5}]}),
            json!({"webhooks": [{"name": "a", "sideEffects": "None", "timeoutSeconds": 5}]}),
        ),
        (
            "",
            "Secret",
            json!({"data": {"a": "x"}, "metadata": {"ownerReferences": [{"uid": "1", "name": "a"}]}}),
            json!({"data": {"a": null, "b": "y"}, "metadata": {"ownerReferences": [{"uid": "1", "name": "b"}]}}),
            json!({"data": {"b": "y"}, "metadata": {"ownerReferences": [{"uid": "1", "name": "b"}]}}),
        ),
    ] {
        let kind = GroupVersion::new(group, "v1").kind(kind);
        assert_eq!(apply(&kind, &original, &patch).unwrap(), wanted, "{kind:?}");
    }
}
