//! Events, in both of their groups, and what else an update creates.

use apiserver::server::EventType;
use serde_json::{Value, json};

use crate::support::{ask, names, ok, refused, server, watch};

const CORE: &str = "/api/v1/namespaces/default/events";
const OTHER: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

fn core_event(name: &str) -> Value {
    json!({"metadata": {"name": name}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "R", "message": "m", "source": {"component": "c"}, "count": 2, "type": "Normal"})
}

#[tokio::test]
async fn both_groups_show_the_same_events() {
    let server = server().await;
    ok(&server, "POST", CORE, core_event("a")).await;
    let mut seen = ok(&server, "GET", &format!("{OTHER}/a"), Value::Null).await;
    for (field, value) in [
        ("apiVersion", json!("events.k8s.io/v1")),
        ("regarding", json!({"kind": "Pod", "name": "p", "namespace": "default"})),
        ("note", json!("m")),
        ("deprecatedSource", json!({"component": "c"})),
        ("deprecatedCount", json!(2)),
        ("involvedObject", Value::Null),
        ("message", Value::Null),
    ] {
        assert_eq!(seen[field], value, "{field}");
    }
    seen["series"] = json!({"count": 3, "lastObservedTime": "2026-01-02T03:04:05.000000Z"});
    ok(&server, "PUT", &format!("{OTHER}/a"), seen.clone()).await;
    // The newer group lets nothing else change.
    seen["metadata"]["resourceVersion"] = Value::Null;
    seen["note"] = json!("n");
    let refusal = refused(&server, "PUT", &format!("{OTHER}/a"), seen).await;
    assert!(refusal.message.contains("message: Invalid value: \"n\": field is immutable"), "{refusal}");
    let mut back = ok(&server, "GET", &format!("{CORE}/a"), Value::Null).await;
    assert_eq!((&back["message"], &back["series"]["count"]), (&json!("m"), &json!(3)));
    back["message"] = json!("n");
    ok(&server, "PUT", &format!("{CORE}/a"), back.clone()).await;
    assert_eq!((&back["apiVersion"], &back["count"]), (&json!("v1"), &json!(2)));
    let mut watching = watch(&server, &format!("{OTHER}?watch=1&resourceVersion=1")).unwrap();
    ok(&server, "DELETE", &format!("{CORE}/a"), Value::Null).await;
    for (kind, note) in [
        (EventType::Added, "m"),
        (EventType::Modified, "m"),
        (EventType::Modified, "n"),
        (EventType::Deleted, "n"),
    ] {
        let event = watching.next().await.unwrap().unwrap();
        assert_eq!((event.event, &event.object["note"]), (kind, &json!(note)));
    }
}

#[tokio::test]
async fn each_group_has_its_own_field_selectors() {
    let server = server().await;
    ok(&server, "POST", CORE, core_event("a")).await;
    let mut reported = core_event("b");
    reported["source"] = Value::Null;
    reported["reportingComponent"] = json!("r");
    ok(&server, "POST", CORE, reported).await;
    for (url, selector, wanted) in [
        (CORE, "involvedObject.name=p", vec!["a", "b"]),
        (CORE, "source=c", vec!["a"]),
        (CORE, "source=r", vec!["b"]),
        (OTHER, "regarding.name=p,regarding.kind=Pod", vec!["a", "b"]),
        (OTHER, "reportingController=r", vec!["b"]),
    ] {
        let list = ok(&server, "GET", &format!("{url}?fieldSelector={selector}"), Value::Null).await;
        assert_eq!(names(&list), wanted, "{selector}");
    }
    let wrong = format!("{OTHER}?fieldSelector=involvedObject.name=p");
    let status = refused(&server, "GET", &wrong, Value::Null).await;
    assert_eq!(
        (status.code, status.message.as_str()),
        (400, "field label not supported: involvedObject.name")
    );
}

#[tokio::test]
async fn some_kinds_are_created_by_an_update() {
    let server = server().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces";
    let lease = json!({"metadata": {"name": "a"}, "spec": {}});
    let mut revised = lease.clone();
    revised["metadata"]["resourceVersion"] = json!("999");
    let mut other = lease.clone();
    other["metadata"]["uid"] = json!("abc");
    for (url, body, code, message) in [
        (format!("{leases}/default/leases/a?dryRun=All"), lease.clone(), 201, ""),
        (
            format!("{leases}/default/leases/a"),
            other,
            409,
            "Operation cannot be fulfilled on leases.coordination.k8s.io \"a\": StorageError: invalid object, Code: 4, Key: /registry/leases/default/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: abc, UID in object meta: ",
        ),
        (format!("{leases}/nono/leases/a"), lease.clone(), 404, "namespaces \"nono\" not found"),
        (format!("{leases}/default/leases/a"), revised, 201, ""),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/a".into(),
            json!({"metadata": {"name": "a"}}),
            201,
            "",
        ),
        (format!("{CORE}/a"), core_event("a"), 201, ""),
        (format!("{CORE}/a"), core_event("a"), 200, ""),
        (
            "/api/v1/namespaces/default/configmaps/a".into(),
            json!({"metadata": {"name": "a"}}),
            404,
            "configmaps \"a\" not found",
        ),
    ] {
        let answer = ask(&server, "PUT", &url, Some(body)).await;
        let found = match &answer {
            Ok(answer) => (answer.code, ""),
            Err(status) => (status.code, status.message.as_str()),
        };
        assert_eq!(found, (code, message), "{url}");
    }
    let patched = refused(&server, "merge", &format!("{leases}/default/leases/b"), lease).await;
    assert_eq!(patched.message, "leases.coordination.k8s.io \"b\" not found");
}
