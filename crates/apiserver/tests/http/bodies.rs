//! Bodies of requests: formats, limits, and what is said of broken ones.

use kubeapi::proto;
use serde_json::{Value, json};

use crate::support::{api, ask, ok, widgets};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"k": "dg=="}})
}

#[tokio::test]
async fn bodies_are_read_in_every_format() {
    let api = api().await;
    let yaml = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: c\ndata:\n  k: dg==\n";
    for (content_type, body, name) in [
        ("", secret("a").to_string().into_bytes(), "a"),
        ("application/json; charset=utf-8", secret("b").to_string().into_bytes(), "b"),
        ("application/yaml", yaml.as_bytes().to_vec(), "c"),
        (PROTOBUF, proto::encode(&secret("d")).unwrap(), "d"),
    ] {
        let answer = ask(&api, "POST", SECRETS, &[("Content-Type", content_type)], body).await;
        assert_eq!(answer.code, 201, "{content_type}: {}", answer.text());
        let read = ok(&api, "GET", &format!("{SECRETS}/{name}"), &Value::Null).await;
        assert_eq!(read["data"]["k"], "dg==", "{content_type}");
    }
}

#[tokio::test]
async fn options_of_deletions_are_read_in_every_format() {
    let api = api().await;
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "other"}});
    let yaml = "preconditions:\n  uid: other\n";
    ok(&api, "POST", SECRETS, &secret("a")).await;
    for (content_type, body) in [
        ("application/json", options.to_string().into_bytes()),
        ("application/yaml", yaml.as_bytes().to_vec()),
        (PROTOBUF, proto::encode(&options).unwrap()),
    ] {
        let answer =
            ask(&api, "DELETE", &format!("{SECRETS}/a"), &[("Content-Type", content_type)], body).await;
        assert_eq!(answer.code, 409, "{content_type}: {}", answer.text());
    }
    ok(&api, "DELETE", &format!("{SECRETS}/a"), &Value::Null).await;
}

#[tokio::test]
async fn bodies_that_are_not_understood_are_refused() {
    let api = api().await;
    ok(&api, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &widgets()).await;
    ok(&api, "POST", SECRETS, &secret("s")).await;
    let one = "/api/v1/namespaces/default/secrets/s";
    let unrecognized =
        |why: &str| format!("the object provided is unrecognized (must be of type Secret): {why}");
    let parse = |why: &str| unrecognized(&format!("couldn't get version/kind; json parse error: {why}"));
    let merge = "application/merge-patch+json";
    for (method, url, content_type, body, code, message) in [
        ("POST", SECRETS, "", "{\"a\" 1}", 400, parse("invalid character '1' after object key ({\"a\" 1})")),
        ("POST", SECRETS, "", "{\"a\": x}", 400, parse("invalid character 'x' looking for beginning of value ({\"a\": x})")),
        ("POST", SECRETS, "", "{a", 400, parse("invalid character 'a' looking for beginning of object key string ({a)")),
        ("POST", SECRETS, "", "{} {}", 400, parse("invalid character '{' after top-level value ({} {})")),
        ("POST", SECRETS, "", "", 400, parse("unexpected end of JSON input (<empty>)")),
        ("POST", SECRETS, "", "hello", 400, parse("invalid character 'h' looking for beginning of value (68656c6c6f)")),
        ("POST", SECRETS, PROTOBUF, "hello", 400, unrecognized("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] (68656c6c6f)")),
        ("POST", SECRETS, "text/plain", "{}", 415, "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf".into()),
        ("POST", WIDGETS, PROTOBUF, "x", 415, "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf".into()),
        ("PATCH", one, "application/json", "{}", 415, "415: Unsupported Media Type".into()),
        ("PATCH", one, merge, "{", 400, "error decoding patch: unexpected end of JSON input".into()),
        ("DELETE", one, "text/plain", "{}", 415, "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf".into()),
    ] {
        let answer = ask(&api, method, url, &[("Content-Type", content_type)], body).await;
        assert_eq!((answer.code, answer.json()["message"].as_str().unwrap()), (code, &*message), "{method} {body}");
    }
    let answer = ask(&api, "POST", SECRETS, &[("Content-Encoding", "gzip")], "{}").await;
    assert_eq!(answer.code, 415);
}

#[tokio::test]
async fn bodies_have_a_limit() {
    let api = api().await;
    let answer = ask(&api, "POST", SECRETS, &[], vec![b' '; (3 << 20) + 1]).await;
    assert_eq!(answer.code, 413);
    assert_eq!(answer.json()["message"], "Request entity too large: limit is 3145728");
    let answer = ask(&api, "POST", SECRETS, &[], vec![b' '; 3 << 20]).await;
    assert_eq!(answer.code, 400);
}

/// Bodies that would overflow a stack, or a memory, if they were taken.
#[tokio::test]
async fn bodies_that_are_too_deep_or_have_too_much_are_refused() {
    let api = api().await;
    ok(&api, "POST", SECRETS, &secret("s")).await;
    let one = format!("{SECRETS}/s");
    let nested = |open: &str, close: &str, levels: usize| open.repeat(levels) + &close.repeat(levels);
    let lists = nested("[", "]", 10_000);
    let objects = format!("{{\"metadata\":{}1{}}}", "{\"a\":".repeat(10_000), "}".repeat(10_000));
    let many = format!("[{}0]", "0,".repeat(1_000_000));
    let block: String = (0..1_000).map(|level| " ".repeat(level) + "a:\n").collect();
    let schema = (0..10_000).fold(Vec::new(), |inner: Vec<u8>, _| {
        let length = inner.len() % 128;
        [&[0x0a, length as u8][..], &inner[..length]].concat()
    });
    let envelope = [&b"k8s\0"[..], &schema].concat();
    for (method, url, format, body) in [
        ("POST", SECRETS, "application/json", lists.as_bytes()),
        ("POST", SECRETS, "application/json", objects.as_bytes()),
        ("POST", SECRETS, "application/json", many.as_bytes()),
        ("POST", SECRETS, "application/yaml", lists.as_bytes()),
        ("POST", SECRETS, "application/yaml", block.as_bytes()),
        ("POST", SECRETS, PROTOBUF, &envelope),
        ("PATCH", &one, "application/json-patch+json", lists.as_bytes()),
        ("PATCH", &one, "application/merge-patch+json", objects.as_bytes()),
        ("PATCH", &one, "application/strategic-merge-patch+json", objects.as_bytes()),
        ("PATCH", &one, "application/apply-patch+yaml", block.as_bytes()),
        ("DELETE", &one, "application/json", objects.as_bytes()),
    ] {
        let query = if format.contains("apply") { "?fieldManager=x" } else { "" };
        let answer = ask(&api, method, &format!("{url}{query}"), &[("Content-Type", format)], body).await;
        assert_eq!(answer.code, 400, "{method} {format}: {}", answer.text());
    }
    let answer = ask(&api, "POST", SECRETS, &[], lists).await;
    let message = answer.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("json parse error: exceeded max depth ("), "{message}");
}

/// Each patch is small; what they make of the object together must stay readable.
#[tokio::test]
async fn patches_cannot_make_an_object_too_deep() {
    let api = api().await;
    let mut definition = widgets();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    ok(&api, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    let widget = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "a": {"b": {}},
    });
    ok(&api, "POST", WIDGETS, &widget).await;
    let one = format!("{WIDGETS}/w");
    let json = [("Content-Type", "application/json-patch+json")];
    let fold = |count| Value::Array(vec![json!({"op": "copy", "from": "/a", "path": "/a/b"}); count]);
    assert_eq!(ask(&api, "PATCH", &one, &json, fold(60).to_string()).await.code, 200);
    assert_eq!(ask(&api, "PATCH", &one, &json, fold(60).to_string()).await.code, 422);
    ok(&api, "GET", &one, &Value::Null).await;
    let many = Value::Array(vec![json!({"op": "test", "path": "/kind", "value": "Widget"}); 10_001]);
    let answer = ask(&api, "PATCH", &one, &json, many.to_string()).await;
    let said = "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001";
    assert_eq!((answer.code, answer.json()["message"].as_str().unwrap()), (413, said));
}

#[tokio::test]
async fn fields_that_are_there_twice_are_told_of() {
    let api = api().await;
    ok(&api, "POST", SECRETS, &secret("s")).await;
    let json = r#"{"metadata":{"generateName":"x-"},"type":"a","type":"b"}"#;
    let yaml = "metadata:\n  generateName: x-\ntype: a\ntype: b\n";
    let one = "/api/v1/namespaces/default/secrets/s";
    let patch = r#"{"metadata":{"labels":{"a":"1","a":"2"}}}"#;
    let cannot = "Secret in version \"v1\" cannot be handled as a Secret: strict decoding error: ";
    for (method, url, format, body, warning, refusal) in [
        ("POST", SECRETS, "application/json", json, r#"duplicate field \"type\""#, format!("{cannot}duplicate field \"type\"")),
        ("POST", SECRETS, "application/yaml", yaml, r#"line 4: key \"type\" already set in map"#, format!("{cannot}line 4: key \"type\" already set in map")),
        (
            "PATCH",
            one,
            "application/merge-patch+json",
            patch,
            r#"duplicate field \"metadata.labels.a\""#,
            r#" "" is invalid: patch: Invalid value: "{\"metadata\":{\"labels\":{\"a\":\"2\"}}}": strict decoding error: duplicate field "metadata.labels.a""#.to_owned(),
        ),
    ] {
        let header = [("Content-Type", format)];
        let warning = format!("299 - \"{warning}\"");
        for (validation, expected) in [("", &*warning), ("?fieldValidation=Warn", &*warning), ("?fieldValidation=Ignore", "")] {
            let answer = ask(&api, method, &format!("{url}{validation}"), &header, body).await;
            assert!(answer.code < 300, "{}", answer.text());
            assert_eq!(answer.header("warning"), expected, "{method} {format} {validation}");
        }
        let answer = ask(&api, method, &format!("{url}?fieldValidation=Strict"), &header, body).await;
        assert_eq!(answer.code, if method == "PATCH" { 422 } else { 400 });
        assert_eq!(answer.json()["message"], refusal.as_str());
    }
}
