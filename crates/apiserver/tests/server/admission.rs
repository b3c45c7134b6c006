//! Who else has a say in what is written.

use std::sync::{Arc, Mutex};

use apiserver::server::{Admission, Attributes, Operation, Verdict};
use kubeapi::{GroupResource, Status};
use serde_json::{Value, json};

use crate::asked::Asked;
use crate::support::{ask, new_server, ok, refused};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Labels ConfigMaps, refuses those that want it, and remembers what it was asked.
#[derive(Default)]
struct Labels(Mutex<Vec<String>>);

impl Labels {
    fn note(&self, stage: &str, about: &Attributes<'_>, object: Option<&Value>) {
        let version = |object: Option<&Value>| object.map(|object| object["data"]["k"].clone());
        self.0.lock().unwrap().push(format!(
            "{stage} {:?} {}/{} {:?} {:?} dry={}",
            about.operation,
            about.resource.plural,
            about.name,
            version(about.old),
            version(object),
            about.dry_run
        ));
    }
}

impl Admission for Labels {
    fn mutate<'a>(&'a self, about: Attributes<'a>, object: &'a mut Value) -> Verdict<'a> {
        self.note("mutate", &about, Some(object));
        if about.resource.plural == "configmaps" {
            object["metadata"]["labels"]["seen"] = json!("yes");
            object["unknown"] = json!("is dropped");
        }
        Box::pin(async { Ok(vec!["labelled".into()]) })
    }

    fn validate<'a>(&'a self, about: Attributes<'a>, object: Option<&'a Value>) -> Verdict<'a> {
        self.note("validate", &about, object);
        let held = about.operation == Operation::Delete && about.old.unwrap()["data"]["k"] == "held";
        let wrong = object.is_some_and(|object| object["data"]["k"] == "no");
        Box::pin(async move {
            match held || wrong {
                true => Err(Status::forbidden(&GroupResource::new("", "configmaps"), "a", "said so")),
                false => Ok(Vec::new()),
            }
        })
    }
}

#[tokio::test]
async fn writes_are_changed_and_judged_in_order() {
    let labels = Arc::new(Labels::default());
    let server = new_server(|server| server.with_admission(labels.clone())).await;
    labels.0.lock().unwrap().clear();
    let map = |k: &str| json!({"metadata": {"name": "a"}, "data": {"k": k}});
    let created = ask(&server, "POST", MAPS, Some(map("1"))).await.unwrap();
    assert_eq!(
        (&created.body["metadata"]["labels"]["seen"], &created.body["unknown"]),
        (&json!("yes"), &Value::Null)
    );
    assert_eq!(created.warnings, ["labelled"]);
    let url = format!("{MAPS}/a");
    ok(&server, "PUT", &format!("{url}?dryRun=All"), map("2")).await;
    ok(&server, "merge", &url, json!({"data": {"k": "held"}})).await;
    for (method, body) in [("merge", json!({"data": {"k": "no"}})), ("DELETE", Value::Null)] {
        let status = refused(&server, method, &url, body).await;
        assert_eq!(status.message, "configmaps \"a\" is forbidden: said so");
    }
    // An update that creates is a creation.
    let lease = json!({"metadata": {"name": "l"}, "spec": {}});
    ok(&server, "PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/l", lease).await;
    let one = r#"Some(String("1"))"#;
    let held = r#"Some(String("held"))"#;
    assert_eq!(
        *labels.0.lock().unwrap(),
        [
            format!("mutate Create configmaps/a None {one} dry=false"),
            format!("validate Create configmaps/a None {one} dry=false"),
            format!("mutate Update configmaps/a {one} Some(String(\"2\")) dry=true"),
            format!("validate Update configmaps/a {one} Some(String(\"2\")) dry=true"),
            format!("mutate Update configmaps/a {one} {held} dry=false"),
            format!("validate Update configmaps/a {one} {held} dry=false"),
            format!("mutate Update configmaps/a {held} Some(String(\"no\")) dry=false"),
            format!("validate Update configmaps/a {held} Some(String(\"no\")) dry=false"),
            format!("validate Delete configmaps/a {held} None dry=false"),
            "mutate Create leases/l None Some(Null) dry=false".into(),
            "validate Create leases/l None Some(Null) dry=false".into(),
        ]
    );
}

/// What the webhook `deny` of the tests does, in process: at the stage that it is made for.
struct Denying(&'static str);

impl Denying {
    fn verdict(&self, stage: &str, about: &Attributes<'_>) -> Verdict<'static> {
        let denies = self.0 == stage && about.resource.plural == "configmaps";
        Box::pin(async move {
            let why = Status { reason: "Odd".into(), code: 418, ..Status::bad_request("not this one") };
            match denies {
                true => Err(kubeapi::admission::denied_with("deny.example.com", &why)),
                false => Ok(Vec::new()),
            }
        })
    }
}

impl Admission for Denying {
    fn mutate<'a>(&'a self, about: Attributes<'a>, _: &'a mut Value) -> Verdict<'a> {
        self.verdict("mutate", &about)
    }

    fn validate<'a>(&'a self, about: Attributes<'a>, _: Option<&'a Value>) -> Verdict<'a> {
        self.verdict("validate", &about)
    }
}

#[tokio::test]
async fn a_refusal_inside_looks_like_one_from_outside_and_comes_first() {
    let hook = Asked::start().await;
    let map = json!({"metadata": {"name": "a"}});
    let outside = new_server(|server| server).await;
    hook.validating(&outside, "w", &[("deny", json!({}))]).await;
    let wanted = refused(&outside, "POST", MAPS, map.clone()).await;
    assert_eq!(wanted.message, "admission webhook \"deny.example.com\" denied the request: not this one");
    hook.take();
    // Those outside are asked stage by stage, after those inside.
    for (stage, asked) in [("mutate", vec![]), ("validate", vec!["allow/m"]), ("", vec!["allow/m", "deny"])] {
        let server = new_server(|server| server.with_admission(Arc::new(Denying(stage)))).await;
        hook.mutating(&server, "m", &[("allow/m", json!({}))]).await;
        hook.validating(&server, "w", &[("deny", json!({}))]).await;
        let status = refused(&server, "POST", MAPS, map.clone()).await;
        assert_eq!(status, wanted, "{stage}");
        assert_eq!(hook.paths(), asked, "{stage}");
    }
}

/// What is valid is not judged as it came but as it will be.
#[tokio::test]
async fn what_is_invalid_after_a_change_is_judged_by_nobody() {
    let labels = Arc::new(Labels::default());
    let server = new_server(|server| server.with_admission(labels.clone())).await;
    labels.0.lock().unwrap().clear();
    let map = json!({"metadata": {"name": "a", "annotations": {"not a key!": ""}}});
    assert_eq!(refused(&server, "POST", MAPS, map).await.code, 422);
    assert_eq!(*labels.0.lock().unwrap(), ["mutate Create configmaps/a None Some(Null) dry=false"]);
}
