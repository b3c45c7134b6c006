use serde_json::{Value, json};

use super::*;
use crate::builtin::resources;

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

const FORMAT: Format = Format { include: IncludeObject::Metadata, version: MetaVersion::V1, headers: true };

/// The cells of an object that was made an hour ago.
fn cells(group: &str, kind: &str, mut object: Value) -> Value {
    object["metadata"]["name"] = "x".into();
    object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    let table = Printer::builtin(&GroupKind::new(group, kind)).table(&object, FORMAT, now());
    let columns = table["columnDefinitions"].as_array().unwrap().len();
    assert_eq!(table["rows"][0]["cells"].as_array().unwrap().len(), columns, "{kind}");
    table["rows"][0]["cells"].clone()
}

#[test]
fn rows_fit_their_columns() {
    for resource in resources() {
        cells(resource.group, resource.kind, json!({}));
    }
}

#[test]
fn simple_kinds_have_a_few_cells() {
    let crb = json!({"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [
        {"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}, {"kind": "Group", "name": "h"},
        {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
    ]});
    for (group, kind, object, wanted) in [
        ("", "Namespace", json!({"status": {"phase": "Active"}}), json!(["x", "Active", "60m"])),
        ("", "Secret", json!({"type": "t", "data": {"a": "", "b": ""}}), json!(["x", "t", 2, "60m"])),
        ("", "ConfigMap", json!({"data": {"a": ""}, "binaryData": {"b": ""}}), json!(["x", 2, "60m"])),
        ("", "ServiceAccount", json!({"secrets": [{}]}), json!(["x", 1, "60m"])),
        ("coordination.k8s.io", "Lease", json!({"spec": {"holderIdentity": "h"}}), json!(["x", "h", "60m"])),
        ("rbac.authorization.k8s.io", "Role", json!({}), json!(["x", "2026-01-01T00:00:00Z"])),
        (
            "rbac.authorization.k8s.io",
            "ClusterRoleBinding",
            crb,
            json!(["x", "ClusterRole/r", "60m", "u", "g, h", "n/s"]),
        ),
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration",
            json!({"webhooks": [{}, {}]}),
            json!(["x", 2, "60m"]),
        ),
        (
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicy",
            json!({"spec": {"validations": [{}], "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}}),
            json!(["x", 1, "v1/ConfigMap", "60m"]),
        ),
        (
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicyBinding",
            json!({"spec": {"policyName": "p", "paramRef": {"name": "m"}}}),
            json!(["x", "p", "*/m", "60m"]),
        ),
        (
            "policy",
            "PodDisruptionBudget",
            json!({"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 1}}),
            json!(["x", "50%", "N/A", 1, "60m"]),
        ),
        (
            "policy",
            "PodDisruptionBudget",
            json!({"spec": {"maxUnavailable": 1}}),
            json!(["x", "N/A", "1", 0, "60m"]),
        ),
        (
            "storage.k8s.io",
            "VolumeAttachment",
            json!({"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}}, "status": {"attached": true}}),
            json!(["x", "a", "p", "n", true, "60m"]),
        ),
    ] {
        assert_eq!(cells(group, kind, object), wanted, "{kind}");
    }
}

#[test]
fn nodes_show_status_and_roles() {
    for (node, wanted) in [
        (json!({}), ["Unknown", "<none>"]),
        (json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}), ["Ready", "<none>"]),
        (json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}), ["NotReady", "<none>"]),
        (
            json!({"metadata": {"labels": {"node-role.kubernetes.io/etcd": "", "node-role.kubernetes.io/control-plane": "true", "kubernetes.io/role": "a"}},
                "spec": {"unschedulable": true}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
            ["Ready,SchedulingDisabled", "a,control-plane,etcd"],
        ),
    ] {
        let found = cells("", "Node", node);
        assert_eq!([&found[1], &found[2]], wanted);
    }
    let wide = cells(
        "",
        "Node",
        json!({"status": {
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1", "osImage": "Linux"},
        }}),
    );
    assert_eq!(
        wide,
        json!([
            "x",
            "Unknown",
            "<none>",
            "60m",
            "v1",
            "10.0.0.1",
            "<none>",
            "Linux",
            "<unknown>",
            "<unknown>"
        ])
    );
}

#[test]
fn workloads_show_their_progress() {
    let template =
        json!({"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "j"}]}});
    let deployment = json!({"spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template},
        "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1}});
    assert_eq!(
        cells("apps", "Deployment", deployment),
        json!(["x", "1/3", 2, 1, "60m", "a,b", "i,j", "a=b"])
    );
    let daemons = json!({"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}, "status": {"desiredNumberScheduled": 2, "numberReady": 1}});
    assert_eq!(
        cells("apps", "DaemonSet", daemons),
        json!(["x", 2, 0, 1, 0, 0, "a=b", "60m", "", "", "<none>"])
    );
    for (job, wanted) in [
        (json!({}), json!(["Running", "0/1", ""])),
        (
            json!({"spec": {"completions": 2}, "status": {"succeeded": 1, "startTime": "2026-01-01T00:58:00Z"}}),
            json!(["Running", "1/2", "2m"]),
        ),
        (
            json!({"status": {"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:05Z", "conditions": [{"type": "Complete", "status": "True"}]}}),
            json!(["Complete", "0/1", "5s"]),
        ),
        (
            json!({"spec": {"parallelism": 2}, "metadata": {"deletionTimestamp": "x"}}),
            json!(["Terminating", "0/1 of 2", ""]),
        ),
    ] {
        let found = cells("batch", "Job", job);
        assert_eq!(json!([found[1], found[2], found[3]]), wanted);
    }
}

#[test]
fn services_show_where_they_are() {
    let ports = json!([{"port": 80, "protocol": "TCP"}, {"port": 53, "nodePort": 30053, "protocol": "UDP"}]);
    for (spec, status, wanted) in [
        (
            json!({"type": "ClusterIP", "clusterIPs": ["10.0.0.1"], "ports": ports}),
            json!({}),
            json!(["ClusterIP", "10.0.0.1", "<none>", "80/TCP,53:30053/UDP"]),
        ),
        (
            json!({"type": "ClusterIP", "clusterIPs": ["None"]}),
            json!({}),
            json!(["ClusterIP", "None", "<none>", "<none>"]),
        ),
        (
            json!({"type": "LoadBalancer"}),
            json!({}),
            json!(["LoadBalancer", "<none>", "<pending>", "<none>"]),
        ),
        (
            json!({"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]}),
            json!({"loadBalancer": {"ingress": [{"hostname": "h"}, {"ip": "1.1.1.1"}]}}),
            json!(["LoadBalancer", "<none>", "1.1.1.1,h,9.9.9.9", "<none>"]),
        ),
        (
            json!({"type": "ExternalName", "externalName": "e"}),
            json!({}),
            json!(["ExternalName", "<none>", "e", "<none>"]),
        ),
    ] {
        let found = cells("", "Service", json!({"spec": spec, "status": status}));
        assert_eq!(json!([found[1], found[2], found[3], found[4]]), wanted);
    }
    let addresses = json!([{"ip": "1.1.1.1"}, {"ip": "::1"}]);
    let endpoints = json!({"subsets": [{"addresses": addresses, "ports": [{"port": 1}, {"port": 2}]}]});
    assert_eq!(cells("", "Endpoints", endpoints)[1], "1.1.1.1:1,[::1]:1,1.1.1.1:2 + 1 more...");
    assert_eq!(cells("", "Endpoints", json!({}))[1], "<none>");
    let slice = json!({"addressType": "IPv4", "ports": [{"port": 80}, {"name": "n"}, {}], "endpoints": [{"addresses": ["a"]}]});
    assert_eq!(cells("discovery.k8s.io", "EndpointSlice", slice), json!(["x", "IPv4", "80,n,*", "a", "60m"]));
}

#[test]
fn events_of_both_groups_look_alike() {
    let core = json!({
        "type": "Normal", "reason": "R", "message": " m\n", "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "f"},
        "source": {"component": "c", "host": "h"}, "firstTimestamp": "2026-01-01T00:59:00Z", "lastTimestamp": "2026-01-01T00:59:30Z", "count": 4,
    });
    let wanted = json!(["30s", "Normal", "R", "pod/p", "f", "c, h", "m", "60s", 4, "x"]);
    assert_eq!(cells("", "Event", core), wanted);
    let new = json!({
        "type": "Normal", "reason": "R", "note": "m", "regarding": {"kind": "Pod", "name": "p", "fieldPath": "f"},
        "reportingController": "c", "reportingInstance": "h", "eventTime": "2026-01-01T00:59:00.000000Z",
        "series": {"count": 4, "lastObservedTime": "2026-01-01T00:59:30.000000Z"},
    });
    assert_eq!(cells("events.k8s.io", "Event", new), wanted);
}

#[test]
fn volumes_show_what_binds_them() {
    let volume = json!({"spec": {"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Delete",
        "claimRef": {"namespace": "n", "name": "c"}, "storageClassName": "s", "volumeMode": "Block"}, "status": {"phase": "Bound"}});
    assert_eq!(
        cells("", "PersistentVolume", volume),
        json!(["x", "5Gi", "RWO,RWX", "Delete", "Bound", "n/c", "s", "<unset>", "", "60m", "Block"])
    );
    let claim = json!({"spec": {"volumeName": "v"}, "status": {"phase": "Bound", "accessModes": ["ReadWriteOncePod"], "capacity": {"storage": "1Gi"}}});
    assert_eq!(
        cells("", "PersistentVolumeClaim", claim),
        json!(["x", "Bound", "v", "1Gi", "RWOP", "", "<unset>", "60m", "<unset>"])
    );
    let pending = json!({"metadata": {"deletionTimestamp": "d"}, "status": {"phase": "Pending"}});
    assert_eq!(cells("", "PersistentVolumeClaim", pending)[1], "Terminating");
}

#[test]
fn pods_are_told_in_a_word() {
    let running = json!({"ready": true, "restartCount": 1, "state": {"running": {}}, "lastState": {"terminated": {"finishedAt": "2026-01-01T00:59:00Z"}}});
    let waiting = |reason: &str| json!({"state": {"waiting": {"reason": reason}}});
    let ended = |state: Value| json!({"state": {"terminated": state}});
    let two = json!({"containers": [{}, {}]});
    let ready = json!([{"type": "Ready", "status": "True"}]);
    for (spec, status, wanted) in [
        (json!({"containers": [{}]}), json!({"phase": "Pending"}), ["0/1", "Pending", "0"]),
        (
            json!({"containers": [{}]}),
            json!({"phase": "Running", "containerStatuses": [running]}),
            ["1/1", "Running", "1 (60s ago)"],
        ),
        (
            two.clone(),
            json!({"phase": "Running", "containerStatuses": [running, waiting("CrashLoopBackOff")]}),
            ["1/2", "CrashLoopBackOff", "1 (60s ago)"],
        ),
        (
            two.clone(),
            json!({"phase": "Running", "containerStatuses": [ended(json!({"reason": "Completed"})), running], "conditions": ready}),
            ["1/2", "Running", "1 (60s ago)"],
        ),
        (
            two.clone(),
            json!({"phase": "Running", "containerStatuses": [ended(json!({"reason": "Completed"})), running]}),
            ["1/2", "NotReady", "1 (60s ago)"],
        ),
        (two.clone(), json!({"phase": "Failed", "reason": "Evicted"}), ["0/2", "Evicted", "0"]),
        (
            two.clone(),
            json!({"phase": "Failed", "containerStatuses": [ended(json!({"exitCode": 3})), ended(json!({"signal": 9}))]}),
            ["0/2", "ExitCode:3", "0"],
        ),
        (
            json!({"containers": [{}], "initContainers": [{"name": "i"}, {"name": "j"}]}),
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "i"}, {"name": "j"}]}),
            ["0/1", "Init:0/2", "0"],
        ),
        (
            json!({"containers": [{}], "initContainers": [{"name": "i"}]}),
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "restartCount": 2, "state": {"waiting": {"reason": "Bad"}}}]}),
            ["0/1", "Init:Bad", "2"],
        ),
        (
            json!({"containers": [{}], "initContainers": [{"name": "i", "restartPolicy": "Always"}]}),
            json!({"phase": "Running", "initContainerStatuses": [{"name": "i", "started": true, "ready": true}], "containerStatuses": [running]}),
            ["2/2", "Running", "1 (60s ago)"],
        ),
        (
            json!({"containers": [{}]}),
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
            ["0/1", "SchedulingGated", "0"],
        ),
    ] {
        let found = cells("", "Pod", json!({"spec": spec, "status": status}));
        assert_eq!([&found[1], &found[2], &found[3]], wanted, "{status}");
    }
    let going = json!({"metadata": {"deletionTimestamp": "d"}, "status": {"phase": "Running"}});
    assert_eq!(cells("", "Pod", going)[2], "Terminating");
    let wide = cells(
        "",
        "Pod",
        json!({"spec": {"nodeName": "n", "readinessGates": [{"conditionType": "g"}]}, "status": {"podIPs": [{"ip": "1.1.1.1"}]}}),
    );
    assert_eq!(json!([wide[5], wide[6], wide[7], wide[8]]), json!(["1.1.1.1", "n", "<none>", "0/1"]));
}

#[test]
fn finished_pods_are_marked() {
    let pod = json!({"metadata": {"name": "x"}, "status": {"phase": "Succeeded"}});
    let table = Printer::builtin(&GroupKind::new("", "Pod")).table(&pod, FORMAT, now());
    assert_eq!(table["rows"][0]["conditions"][0]["reason"], "Succeeded");
}

#[test]
fn custom_columns_show_what_paths_find() {
    let columns = json!([
        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
        {"name": "N", "type": "integer", "jsonPath": ".spec.n", "priority": 1, "description": "d"},
        {"name": "D", "type": "date", "jsonPath": ".spec.when"},
        {"name": "L", "type": "string", "jsonPath": ".spec.list[*].a"},
        {"name": "B", "type": "boolean", "jsonPath": ".spec.b"},
        {"name": "Obj", "type": "string", "jsonPath": ".spec.obj"},
        {"name": "F", "type": "number", "jsonPath": ".spec.f"},
        {"name": "Wrong", "type": "integer", "jsonPath": ".metadata.name"},
    ]);
    let object = json!({
        "metadata": {"name": "x", "resourceVersion": "5", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"n": 5.9, "when": "2020-01-01T00:00:00Z", "list": [{"a": 1}, {"a": "q"}], "b": true, "obj": {"x": [1, "a"]}, "f": 1.5},
    });
    let printer = Printer::custom(&columns).unwrap();
    let table = printer.table(&object, FORMAT, now());
    assert_eq!(
        table["rows"][0]["cells"],
        json!(["x", null, 5, "6y2d", "1", true, r#"{"x":[1,"a"]}"#, 1.5, null])
    );
    assert_eq!(table["columnDefinitions"][0]["format"], "name");
    let described = "Custom resource definition column (in JSONPath format): .spec.when";
    assert_eq!(table["columnDefinitions"][3]["description"], described);
    assert_eq!(
        table["columnDefinitions"][2],
        json!({"name": "N", "type": "integer", "format": "", "description": "d", "priority": 1})
    );
    let plain = Printer::custom(&Value::Null).unwrap().table(&object, FORMAT, now());
    assert_eq!(plain["rows"][0]["cells"], json!(["x", "60m"]));
    let wrong = Printer::custom(&json!([{"name": "a", "type": "string", "jsonPath": ".a["}])).unwrap_err();
    assert_eq!(wrong.to_string(), "unrecognized column definition \".a[\"");
}

#[test]
fn tables_carry_what_is_asked_for() {
    let list = json!({
        "kind": "NamespaceList", "metadata": {"resourceVersion": "7", "continue": "c", "remainingItemCount": 3},
        "items": [{"metadata": {"name": "a"}, "spec": {}}, {"metadata": {"name": "b"}}],
    });
    let printer = Printer::builtin(&GroupKind::new("", "Namespace"));
    let table = printer.table(&list, FORMAT, now());
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert_eq!(table["metadata"], json!({"resourceVersion": "7", "continue": "c", "remainingItemCount": 3}));
    assert_eq!(
        table["rows"][0]["object"],
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a"}})
    );
    assert_eq!(table["rows"][1]["cells"], json!(["b", "", "<unknown>"]));
    let whole = Format { include: IncludeObject::Object, ..FORMAT };
    assert_eq!(printer.table(&list, whole, now())["rows"][0]["object"], list["items"][0]);
    let bare = Format { include: IncludeObject::None, headers: false, ..FORMAT };
    let bare = printer.table(&list["items"][0], bare, now());
    assert_eq!((&bare["rows"][0]["object"], &bare["columnDefinitions"]), (&Value::Null, &Value::Null));
    assert_eq!(bare["metadata"], json!({}));
}
