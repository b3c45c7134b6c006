//! Admission webhooks, over real TLS.

use std::sync::Arc;

use apiserver::server::{Admission, Attributes, Operation, Server, Verdict};
use apiserver::store::{Expect, MemoryStore, Options, Store, Write};
use clock::{ManualClock, SeededEntropy};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::asked::{Asked, CONFIGURATIONS, patching};
use crate::support::{NOW, ask, new_server, ok, refused, server};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

/// Leaves its name in the same annotation as webhooks do.
struct Inside;

impl Admission for Inside {
    fn mutate<'a>(&'a self, about: Attributes<'a>, object: &'a mut Value) -> Verdict<'a> {
        if about.resource.plural == "configmaps" {
            let traced = object["metadata"]["annotations"]["trace"].as_str().unwrap_or_default();
            object["metadata"]["annotations"] = json!({"trace": format!("{traced}inside ")});
        }
        Box::pin(async { Ok(Vec::new()) })
    }

    fn validate<'a>(&'a self, about: Attributes<'a>, object: Option<&'a Value>) -> Verdict<'a> {
        let refused = about.operation == Operation::Create && about.name == "inside";
        Box::pin(async move {
            match refused {
                true => Err(about.forbidden(object, "it says so")),
                false => Ok(vec!["from inside".into()]),
            }
        })
    }
}

fn traced(object: &Value) -> &str {
    object["metadata"]["annotations"]["trace"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn those_inside_come_first_and_configurations_go_by_name() {
    let hook = Asked::start().await;
    let server = new_server(|server| server.with_admission(Arc::new(Inside))).await;
    hook.mutating(&server, "b", &[("trace/b", json!({}))]).await;
    hook.mutating(&server, "a", &[("trace/z", json!({})), ("trace/y", json!({}))]).await;
    hook.validating(&server, "v", &[("allow", json!({})), ("warn/x", json!({}))]).await;
    let answer = ask(&server, "POST", MAPS, Some(map("m"))).await.unwrap();
    // A webhook changed something, so that the one inside is asked again. The webhooks did not want to be.
    assert_eq!(traced(&answer.body), "inside z y b inside ");
    assert_eq!(answer.warnings, ["from inside", "careful x"]);
    let asked = hook.take();
    assert_eq!(
        asked[..3].iter().map(|(path, _)| &**path).collect::<Vec<_>>(),
        ["trace/z", "trace/y", "trace/b"]
    );
    // Who judges sees what will be stored.
    for (path, request) in &asked[3..] {
        assert_eq!(traced(&request["object"]), "inside z y b inside ", "{path}");
        assert_eq!(request["object"]["metadata"]["uid"], answer.body["metadata"]["uid"], "{path}");
    }
    // Nobody outside is asked whether to do what is refused inside.
    let status = refused(&server, "POST", MAPS, map("inside")).await;
    assert_eq!(status.message, "configmaps \"inside\" is forbidden: it says so");
    assert!(hook.paths().iter().all(|path| path.starts_with("trace/")));
}

#[tokio::test]
async fn those_who_want_it_are_asked_again() {
    let hook = Asked::start().await;
    let server = server().await;
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    for (name, webhooks, wanted) in [
        // Nothing changes after the one that wants to be asked again.
        ("last", vec![("trace/a", json!({})), ("again/b", again.clone())], vec!["trace/a", "again/b"]),
        (
            "first",
            vec![("again/a", again.clone()), ("trace/b", json!({}))],
            vec!["again/a", "trace/b", "again/a"],
        ),
        // There is no third round, whatever changes in the second.
        (
            "both",
            vec![("trace/a", again.clone()), ("trace/b", again.clone())],
            vec!["trace/a", "trace/b", "trace/a", "trace/b"],
        ),
        ("none", vec![("allow", again.clone()), ("allow/x", again)], vec!["allow", "allow/x"]),
    ] {
        hook.mutating(&server, name, &webhooks).await;
        ok(&server, "POST", MAPS, map(name)).await;
        let asked = hook.paths();
        match name {
            // The second one that is changed by the first: it was asked before that change, too.
            "both" => assert_eq!(asked[..3], wanted[..3], "{name}"),
            _ => assert_eq!(asked, wanted, "{name}"),
        }
        ok(&server, "DELETE", &format!("{CONFIGURATIONS}/mutatingwebhookconfigurations/{name}"), Value::Null)
            .await;
    }
}

#[tokio::test]
async fn what_goes_wrong_is_told_or_ignored() {
    let hook = Asked::start().await;
    let server = server().await;
    let closed = json!({"clientConfig": {"url": "https://127.0.0.1:1/x"}});
    let untrusted = |more: Value| {
        let mut config = hook.webhook("allow", json!({}))["clientConfig"].clone();
        config.as_object_mut().unwrap().remove("caBundle");
        let mut more = more;
        more["clientConfig"] = config;
        more
    };
    let url = |path: &str, seconds: u32| {
        let url = hook.webhook(path, json!({}))["clientConfig"]["url"].as_str().unwrap().to_owned();
        format!("Post \"{url}?timeout={seconds}s\"")
    };
    for (path, more, wanted) in [
        (
            "deny",
            json!({}),
            "admission webhook \"deny.example.com\" denied the request: not this one".to_owned(),
        ),
        (
            "silent",
            json!({}),
            "admission webhook \"silent.example.com\" denied the request without explanation".to_owned(),
        ),
        (
            "closed",
            closed,
            failing(
                "closed",
                "failed to call webhook: Post \"https://127.0.0.1:1/x?timeout=10s\": dial tcp 127.0.0.1:1: connect: connection refused",
            ),
        ),
        (
            "allow",
            untrusted(json!({})),
            failing(
                "allow",
                &format!(
                    "failed to call webhook: {}: tls: failed to verify certificate: x509: certificate signed by unknown authority",
                    url("allow", 10)
                ),
            ),
        ),
        (
            "never",
            json!({"timeoutSeconds": 1}),
            failing(
                "never",
                &format!("failed to call webhook: {}: context deadline exceeded", url("never", 1)),
            ),
        ),
        (
            "broken",
            json!({}),
            failing(
                "broken",
                "failed to call webhook: an error on the server (\"out of order\") has prevented the request from succeeding",
            ),
        ),
        (
            "nonsense",
            json!({}),
            failing("nonsense", "failed to call webhook: couldn't get version/kind; json parse error: "),
        ),
        ("uid", json!({}), failing("uid", "received invalid webhook response: expected response.uid=")),
    ] {
        hook.validating(&server, "w", &[(path, more.clone())]).await;
        let status = refused(&server, "POST", MAPS, map("m")).await;
        assert!(status.message.starts_with(&wanted), "{path}: {}", status.message);
        let delete = format!("{CONFIGURATIONS}/validatingwebhookconfigurations/w");
        ok(&server, "DELETE", &delete, Value::Null).await;
        let mut ignoring = more;
        ignoring["failurePolicy"] = json!("Ignore");
        hook.validating(&server, "w", &[(path, ignoring)]).await;
        let answer = ask(&server, "POST", &format!("{MAPS}?dryRun=All"), Some(map("m"))).await;
        // A refusal is an answer, not a failure.
        assert_eq!(answer.is_err(), matches!(path, "deny" | "silent"), "{path}: {answer:?}");
        ok(&server, "DELETE", &delete, Value::Null).await;
    }
}

fn failing(name: &str, why: &str) -> String {
    format!("Internal error occurred: failed calling webhook \"{name}.example.com\": {why}")
}

#[tokio::test]
async fn denials_keep_code_reason_and_warnings() {
    let hook = Asked::start().await;
    let server = server().await;
    hook.validating(&server, "w", &[("deny", json!({}))]).await;
    let status = refused(&server, "POST", MAPS, map("m")).await;
    assert_eq!((status.code, status.reason.as_str(), status.status.as_str()), (418, "Odd", "Failure"));
    hook.mutating(&server, "m", &[("warn/deny", json!({}))]).await;
    let mut warnings = Vec::new();
    let request = crate::support::request("POST", MAPS, Some(map("m")));
    server.serve_warning(&request, &mut warnings).await.unwrap_err();
    assert_eq!(warnings, ["careful deny"]);
}

#[tokio::test]
async fn only_those_who_are_meant_are_asked() {
    let hook = Asked::start().await;
    let server = server().await;
    let namespace = json!({"metadata": {"name": "dark", "labels": {"light": "off"}}});
    ok(&server, "POST", "/api/v1/namespaces", namespace).await;
    let rule = |change: Value| {
        let mut rule =
            json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]});
        change.as_object().unwrap().iter().for_each(|(field, value)| rule[field] = value.clone());
        json!({"rules": [rule]})
    };
    let selected = |field: &str, selector: Value| {
        let mut webhook = rule(json!({}));
        webhook[field] = selector;
        webhook
    };
    let off = json!({"matchLabels": {"light": "off"}});
    let asked_if = |expression: &str| json!({"matchConditions": [{"name": "c", "expression": expression}]});
    hook.validating(
        &server,
        "w",
        &[
            ("allow/all", rule(json!({}))),
            ("allow/parts", rule(json!({"resources": ["*/*"]}))),
            ("allow/cluster", rule(json!({"scope": "Cluster"}))),
            ("allow/updates", rule(json!({"operations": ["UPDATE"]}))),
            ("allow/dark", selected("namespaceSelector", off.clone())),
            ("allow/labelled", selected("objectSelector", off.clone())),
            (
                "allow/conditions",
                asked_if("object.metadata.name.startsWith('c') && request.operation == 'CREATE'"),
            ),
        ],
    )
    .await;
    let labelled = |name: &str| json!({"metadata": {"name": name, "labels": {"light": "off"}}});
    let status = json!({"status": {"phase": "Active"}});
    for (method, url, body, wanted) in [
        ("POST", MAPS, map("a"), vec!["all", "parts"]),
        ("POST", MAPS, map("c"), vec!["all", "parts", "conditions"]),
        ("POST", MAPS, labelled("b"), vec!["all", "parts", "labelled"]),
        (
            "PUT",
            "/api/v1/namespaces/default/configmaps/b",
            map("b"),
            vec!["all", "parts", "updates", "labelled"],
        ),
        ("POST", "/api/v1/namespaces/dark/configmaps", map("a"), vec!["all", "parts", "dark"]),
        // A cluster's object is in every namespace.
        ("POST", "/api/v1/nodes", map("n"), vec!["all", "parts", "cluster", "dark"]),
        ("POST", "/api/v1/namespaces", labelled("deep"), vec!["all", "parts", "cluster", "dark", "labelled"]),
        ("POST", "/api/v1/namespaces", map("lit"), vec!["all", "parts", "cluster"]),
        ("merge", "/api/v1/namespaces/lit/status", status, vec!["parts"]),
        ("DELETE", "/api/v1/namespaces/dark/configmaps/a", Value::Null, vec!["all", "parts", "dark"]),
        ("DELETE", MAPS, Value::Null, vec!["all", "parts", "all", "parts", "all", "parts"]),
        // Whoever configures webhooks is never asked about.
        ("POST", &format!("{CONFIGURATIONS}/validatingwebhookconfigurations"), map("x"), vec![]),
    ] {
        ok(&server, method, url, body).await;
        let mut asked = hook.paths();
        // They are asked all at once.
        let order = |path: &String| wanted.iter().position(|one| path.ends_with(one));
        if method != "DELETE" {
            asked.sort_by_key(order);
        }
        let asked: Vec<&str> = asked.iter().filter_map(|path| path.strip_prefix("allow/")).collect();
        match url == MAPS && method == "DELETE" {
            true => assert_eq!(asked.len(), wanted.len(), "{method} {url}"),
            false => {
                let mut sorted = asked.clone();
                sorted.sort_by_key(|path| wanted.iter().position(|one| one == path));
                assert_eq!(sorted, wanted, "{method} {url}");
            }
        }
    }
}

#[tokio::test]
async fn conditions_that_fail_follow_the_failure_policy() {
    let hook = Asked::start().await;
    let server = server().await;
    let asked_if = |policy: &str| json!({"failurePolicy": policy, "matchConditions": [{"name": "c", "expression": "object.none.at.all"}, {"name": "d", "expression": "true"}]});
    for (policy, wanted) in [
        (
            "Fail",
            Some(
                "configmaps \"m\" is forbidden: expression 'object.none.at.all == 1' resulted in error: no such key: none",
            ),
        ),
        ("Ignore", None),
    ] {
        let mut more = asked_if(policy);
        more["matchConditions"][0]["expression"] = json!("object.none.at.all == 1");
        hook.validating(&server, "w", &[("deny", more)]).await;
        let answer = ask(&server, "POST", MAPS, Some(map("m"))).await;
        assert_eq!(answer.err().map(|status| status.message).as_deref(), wanted, "{policy}");
        ok(&server, "DELETE", &format!("{CONFIGURATIONS}/validatingwebhookconfigurations/w"), Value::Null)
            .await;
    }
    assert!(hook.paths().is_empty());
    let url = format!("{CONFIGURATIONS}/validatingwebhookconfigurations");
    for (expression, wanted) in [
        (
            "authorizer.group('').resource('pods').check('get').allowed()",
            "undeclared reference to 'authorizer'",
        ),
        ("object.spec.on", "must evaluate to bool but got dyn"),
        ("params.a == 1", "undeclared reference to 'params'"),
        (" ", "webhooks[0].matchConditions[0].expression: Required value"),
    ] {
        let webhook =
            hook.webhook("allow", json!({"matchConditions": [{"name": "c", "expression": expression}]}));
        let body = json!({"metadata": {"name": "x"}, "webhooks": [webhook]});
        let status = refused(&server, "POST", &url, body).await;
        assert!(status.code == 422 && status.message.contains(wanted), "{expression}: {}", status.message);
    }
}

#[tokio::test]
async fn a_dry_run_is_not_for_those_with_side_effects() {
    let hook = Asked::start().await;
    let clock = Arc::new(ManualClock::at(NOW.parse::<Timestamp>().unwrap()));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Options::default(), clock.clone()));
    // Such a webhook can only come from older times.
    let effects = hook
        .webhook("allow", json!({"sideEffects": "Unknown", "namespaceSelector": {}, "objectSelector": {}}));
    let stored = json!({"metadata": {"name": "w"}, "webhooks": [effects]}).to_string();
    let key = "/registry/admissionregistration.k8s.io/validatingwebhookconfigurations/w";
    store.write(vec![Write::create(key.to_owned(), stored.into_bytes())]).await.unwrap();
    let server = Server::new(store.clone(), clock, Box::new(SeededEntropy::new(1)));
    ok(&server, "POST", "/api/v1/namespaces", map("default")).await;
    let status = refused(&server, "POST", &format!("{MAPS}?dryRun=All"), map("m")).await;
    assert_eq!(
        (status.code, status.message.as_str()),
        (400, "admission webhook \"allow.example.com\" does not support dry run")
    );
    assert!(hook.paths().is_empty());
    ok(&server, "POST", MAPS, map("m")).await;
    assert_eq!(hook.paths(), ["allow"]);
    store.write(vec![Write::delete(key.to_owned(), Expect::Present)]).await.unwrap();
    hook.validating(&server, "v", &[("allow/none", json!({"sideEffects": "NoneOnDryRun"}))]).await;
    ok(&server, "DELETE", &format!("{MAPS}/m?dryRun=All"), Value::Null).await;
    let asked = hook.take();
    assert_eq!((asked[0].0.as_str(), &asked[0].1["dryRun"]), ("allow/none", &json!(true)));
}

#[tokio::test]
async fn patches_are_applied_and_read_again() {
    let hook = Asked::start().await;
    let server = server().await;
    let add = |path: &str, value: Value| json!([{"op": "add", "path": path, "value": value}]);
    let message = |why: &str| Err(format!("Internal error occurred: {why}"));
    for (operations, wanted) in [
        (add("/data", json!({"k": "v"})), Ok(json!({"k": "v"}))),
        (add("/unknown", json!(1)), Ok(Value::Null)),
        (add("/kind", json!("Secret")), Ok(Value::Null)),
        (
            add("/data", json!({"k": 1})),
            message("json: cannot unmarshal number into Go struct field ConfigMap.data of type string"),
        ),
        (
            add("/data", json!({"a b": "v"})),
            Err("ConfigMap \"m\" is invalid: data[a b]: Invalid value: \"a b\"".to_owned()),
        ),
        (
            add("/metadata/namespace", json!("other")),
            Err("the namespace of the provided object does not match the namespace sent on the request"
                .to_owned()),
        ),
    ] {
        let webhook = json!({"name": "patch.example.com"});
        hook.mutating(&server, "p", &[(patching(&operations).as_str(), webhook)]).await;
        let answer = ask(&server, "POST", MAPS, Some(map("m"))).await;
        match (&answer, &wanted) {
            (Ok(answer), Ok(data)) => assert_eq!(answer.body["data"], *data, "{operations}"),
            (Err(status), Err(wanted)) => {
                assert!(status.message.starts_with(wanted), "{operations}: {}", status.message);
            }
            other => panic!("{operations}: {other:?}"),
        }
        ok(&server, "DELETE", &format!("{CONFIGURATIONS}/mutatingwebhookconfigurations/p"), Value::Null)
            .await;
        ask(&server, "DELETE", &format!("{MAPS}/m"), None).await.ok();
    }
    ok(&server, "POST", MAPS, map("m")).await;
    let path = patching(&add("/data", json!({})));
    hook.mutating(&server, "p", &[(path.as_str(), json!({"name": "patch.example.com"}))]).await;
    let status = refused(&server, "DELETE", &format!("{MAPS}/m"), Value::Null).await;
    assert_eq!(
        status.message,
        "Internal error occurred: admission webhook \"patch.example.com\" attempted to modify the object, which is not supported for this operation"
    );
}

#[tokio::test]
async fn the_question_says_everything() {
    let hook = Asked::start().await;
    let server = server().await;
    hook.validating(
        &server,
        "w",
        &[("allow", json!({"rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]}))],
    )
    .await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let kind = |group: &str, kind: &str| json!({"group": group, "version": "v1", "kind": kind});
    let (whole, scale) = (kind("apps", "Deployment"), kind("autoscaling", "Scale"));
    for (method, url, body, operation, part, kind, name, options) in [
        ("POST", pods.to_owned(), pod, "CREATE", "", kind("", "Pod"), json!("p"), "CreateOptions"),
        (
            "POST",
            format!("{pods}/p/binding"),
            json!({"metadata": {"name": "p"}, "target": {"name": "n"}}),
            "CREATE",
            "binding",
            kind("", "Binding"),
            json!("p"),
            "CreateOptions",
        ),
        (
            "POST",
            format!("{pods}/p/eviction"),
            json!({"metadata": {"name": "p"}}),
            "CREATE",
            "eviction",
            kind("policy", "Eviction"),
            json!("p"),
            "CreateOptions",
        ),
        (
            "POST",
            deployments.to_owned(),
            deployment,
            "CREATE",
            "",
            whole.clone(),
            json!("d"),
            "CreateOptions",
        ),
        (
            "merge",
            format!("{deployments}/d/scale"),
            json!({"spec": {"replicas": 2}}),
            "UPDATE",
            "scale",
            scale,
            json!("d"),
            "UpdateOptions",
        ),
        (
            "merge",
            format!("{deployments}/d/status"),
            json!({"status": {"replicas": 1}}),
            "UPDATE",
            "status",
            whole.clone(),
            json!("d"),
            "UpdateOptions",
        ),
        (
            "DELETE",
            format!("{deployments}/d"),
            json!({"propagationPolicy": "Background"}),
            "DELETE",
            "",
            whole,
            json!("d"),
            "DeleteOptions",
        ),
        (
            "POST",
            MAPS.to_owned(),
            json!({"metadata": {"generateName": "g-"}}),
            "CREATE",
            "",
            kind("", "ConfigMap"),
            Value::Null,
            "CreateOptions",
        ),
    ] {
        ok(&server, method, &url, body).await;
        let asked = hook.take();
        assert_eq!(asked.len(), 1, "{method} {url}: {asked:?}");
        let request = &asked[0].1;
        let part = if part.is_empty() { Value::Null } else { json!(part) };
        if name.is_null() {
            // By then it was made up, but who asked did not say it.
            assert!(request["object"]["metadata"]["name"].as_str().unwrap().starts_with("g-"));
        } else {
            assert_eq!(request["name"], name, "{method} {url}");
        }
        assert_eq!(
            (&request["operation"], &request["subResource"], &request["kind"], &request["requestKind"]),
            (&json!(operation), &part, &kind, &kind),
            "{method} {url}"
        );
        assert_eq!(
            (&request["namespace"], &request["userInfo"]["username"], &request["dryRun"]),
            (&json!("default"), &json!("admin"), &json!(false)),
        );
        assert_eq!(request["options"]["kind"], options, "{method} {url}");
        assert_eq!(request["object"].is_null(), operation == "DELETE", "{method} {url}");
        assert_eq!(request["oldObject"].is_null(), operation == "CREATE", "{method} {url}");
        if operation != "DELETE" {
            assert_eq!(request["object"]["kind"], kind["kind"], "{method} {url}");
        }
    }
}

#[tokio::test]
async fn other_versions_are_seen_in_the_version_that_is_meant() {
    let hook = Asked::start().await;
    let server = server().await;
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string", "default": "filled"}}}}}});
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": schema});
    let definition = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [version("v1", false), version("v2", true)]},
    });
    ok(&server, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    let meant = |policy: &str| json!({"matchPolicy": policy, "rules": [{"operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["v2"], "resources": ["things"]}]});
    let patch = patching(&json!([
        {"op": "test", "path": "/apiVersion", "value": "example.com/v2"},
        {"op": "replace", "path": "/spec", "value": {"a": "patched", "c": "unknown"}},
    ]));
    let mut patched = meant("Equivalent");
    patched["name"] = json!("patch.example.com");
    hook.mutating(&server, "m", &[(patch.as_str(), patched)]).await;
    hook.validating(&server, "v", &[("allow/equal", meant("Equivalent")), ("deny", meant("Exact"))]).await;
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"a": "x"}});
    let url = "/apis/example.com/v1/namespaces/default/things";
    let created = ok(&server, "POST", url, thing).await;
    assert_eq!(created["spec"], json!({"a": "patched", "b": "filled"}));
    assert_eq!(created["apiVersion"], "example.com/v1");
    let asked = hook.take();
    assert_eq!(asked.len(), 2);
    for (_, request) in asked {
        assert_eq!(
            (
                &request["kind"]["version"],
                &request["requestKind"]["version"],
                &request["object"]["apiVersion"]
            ),
            (&json!("v2"), &json!("v1"), &json!("example.com/v2"))
        );
        assert_eq!(request["resource"]["version"], "v2");
    }
}

#[tokio::test]
async fn older_reviews_promise_less() {
    let hook = Asked::start().await;
    let server = server().await;
    hook.mutating(&server, "m", &[("old", json!({"admissionReviewVersions": ["v1beta1", "v1"]}))]).await;
    ok(&server, "POST", MAPS, map("m")).await;
    assert_eq!(hook.paths(), ["old"]);
}
