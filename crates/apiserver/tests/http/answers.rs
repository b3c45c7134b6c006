//! Headers, formats and shapes of answers.

use std::io::Read;

use kubeapi::proto;
use serde_json::{Value, json};

use crate::support::{Answer, api, ask, ok, widgets};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The body, whatever its format.
fn decoded(answer: &Answer) -> Value {
    match answer.header("content-type").as_str() {
        PROTOBUF => proto::decode(&answer.body).unwrap(),
        "application/yaml" => serde_saphyr::from_slice(&answer.body).unwrap(),
        "application/json" => answer.json(),
        other => panic!("{other}: {}", answer.text()),
    }
}

#[tokio::test]
async fn every_answer_has_the_usual_headers() {
    let api = api().await;
    for (url, code) in [(SECRETS, 200), ("/api/v1/foos", 404), ("/nowhere", 404), ("/healthz", 200)] {
        let answer = ask(&api, "GET", url, &[], "").await;
        assert_eq!(answer.code, code, "{url}");
        assert_eq!(answer.header("cache-control"), "no-cache, private", "{url}");
        assert_eq!(answer.header("audit-id").len(), 36, "{url}");
    }
    let answer = ask(&api, "GET", SECRETS, &[("Audit-ID", "mine")], "").await;
    assert_eq!(answer.header("audit-id"), "mine");
}

#[tokio::test]
async fn objects_come_in_the_format_that_is_asked_for() {
    let api = api().await;
    ok(&api, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &widgets()).await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    ok(&api, "POST", WIDGETS, &widget).await;
    let secret = json!({"metadata": {"name": "s", "labels": {"a": "true", "b": "1"}}, "data": {"k": "dg=="}});
    ok(&api, "POST", SECRETS, &secret).await;
    for (url, accept, format) in [
        ("secrets/s", "", "application/json"),
        ("secrets/s", "application/yaml", "application/yaml"),
        ("secrets/s", PROTOBUF, PROTOBUF),
        ("secrets", PROTOBUF, PROTOBUF),
        ("secrets", "application/yaml", "application/yaml"),
        ("secrets/s", "text/html,*/*;q=0.8", "application/json"),
        ("widgets/w", "application/vnd.kubernetes.protobuf,application/json", "application/json"),
        ("widgets/w", "application/yaml", "application/yaml"),
        ("secrets/missing", PROTOBUF, PROTOBUF),
        ("secrets/missing", "application/yaml", "application/yaml"),
        ("widgets/missing", "application/vnd.kubernetes.protobuf,application/json", PROTOBUF),
    ] {
        let base = if url.starts_with("widgets") { WIDGETS } else { SECRETS };
        let url = format!("{}/{url}", base.rsplit_once('/').unwrap().0);
        let plain = ask(&api, "GET", &url, &[], "").await;
        let answer = ask(&api, "GET", &url, &[("Accept", accept)], "").await;
        assert_eq!(answer.header("content-type"), format, "{url} {accept}");
        assert_eq!(decoded(&answer), plain.json(), "{url} {accept}");
    }
}

#[tokio::test]
async fn what_cannot_be_given_is_refused() {
    let api = api().await;
    ok(&api, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &widgets()).await;
    for (url, accept, code) in [
        (SECRETS, "text/html", 406),
        (WIDGETS, PROTOBUF, 406),
        (SECRETS, "application/json;as=Chair;v=v1;g=meta.k8s.io", 406),
        (SECRETS, "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", 406),
        (
            "/api/v1/namespaces/default/secrets?includeObject=x",
            "application/json;as=Table;v=v1;g=meta.k8s.io",
            400,
        ),
    ] {
        let answer = ask(&api, "GET", url, &[("Accept", accept)], "").await;
        assert_eq!(
            (answer.code, decoded(&answer)["kind"].as_str()),
            (code, Some("Status")),
            "{url} {accept}"
        );
    }
}

#[tokio::test]
async fn people_get_indentation() {
    let api = api().await;
    let url = "/api/v1/namespaces/default";
    for (query, agent, indented) in [
        ("", "kubectl", false),
        ("?pretty=true", "kubectl", true),
        ("", "curl/8.0", true),
        ("?pretty=0", "curl/8.0", false),
    ] {
        let answer = ask(&api, "GET", &format!("{url}{query}"), &[("User-Agent", agent)], "").await;
        assert_eq!(answer.text().starts_with("{\n  \""), indented, "{query} {agent}");
        assert!(answer.text().ends_with("}\n"));
    }
}

#[tokio::test]
async fn long_answers_are_compressed_for_who_asks() {
    let api = api().await;
    for (name, size) in [("small", 10_000), ("large", 200_000)] {
        let object = json!({"metadata": {"name": name}, "data": {"k": "x".repeat(size)}});
        ok(&api, "POST", "/api/v1/namespaces/default/configmaps", &object).await;
    }
    for (name, encoding, compressed) in [
        ("small", "gzip", false),
        ("large", "gzip", true),
        ("large", "deflate, gzip", true),
        ("large", "br", false),
    ] {
        let url = format!("/api/v1/namespaces/default/configmaps/{name}");
        let plain = ask(&api, "GET", &url, &[], "").await;
        let answer = ask(&api, "GET", &url, &[("Accept-Encoding", encoding)], "").await;
        let expected = if compressed { ("gzip", "Accept-Encoding") } else { ("", "") };
        assert_eq!(
            (&*answer.header("content-encoding"), &*answer.header("vary")),
            expected,
            "{name} {encoding}"
        );
        let mut bytes = answer.body.clone();
        if compressed {
            bytes.clear();
            flate2::read::GzDecoder::new(&*answer.body).read_to_end(&mut bytes).unwrap();
        }
        assert!(bytes == plain.body, "{name} {encoding}");
    }
}

#[tokio::test]
async fn tables_and_metadata_are_made_of_objects_and_lists() {
    let api = api().await;
    ok(&api, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &widgets()).await;
    let widget = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 3},
    });
    ok(&api, "POST", WIDGETS, &widget).await;
    let shape = |kind: &str| format!("application/json;as={kind};v=v1;g=meta.k8s.io,application/json");
    let get = async |url: &str, kind: &str| {
        let answer = ask(&api, "GET", url, &[("Accept", &shape(kind))], "").await;
        assert_eq!((answer.code, &*answer.header("content-type")), (200, "application/json"));
        answer.json()
    };

    let table = get(WIDGETS, "Table").await;
    let columns = table["columnDefinitions"].as_array().unwrap().iter();
    assert_eq!(columns.map(|column| column["name"].as_str().unwrap()).collect::<Vec<_>>(), ["Name", "Size"]);
    assert_eq!(table["rows"][0]["cells"], json!(["w", 3]));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let one = get(&format!("{WIDGETS}/w?includeObject=Object"), "Table").await;
    assert_eq!(one["rows"][0]["object"]["spec"]["size"], 3);

    let metadata = get(&format!("{WIDGETS}/w"), "PartialObjectMetadata").await;
    assert_eq!(
        (&metadata["kind"], &metadata["metadata"]["name"]),
        (&json!("PartialObjectMetadata"), &json!("w"))
    );
    assert_eq!(metadata.get("spec"), None);
    let list = get(WIDGETS, "PartialObjectMetadataList").await;
    assert_eq!(list["items"][0]["metadata"]["name"], "w");

    // The Status of a deletion stays what it is.
    let answer = ask(&api, "DELETE", &format!("{WIDGETS}/w"), &[("Accept", &shape("Table"))], "").await;
    assert_eq!(answer.json()["kind"], "Status");

    let accept = format!("{PROTOBUF};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io");
    let answer = ask(&api, "GET", WIDGETS, &[("Accept", &accept)], "").await;
    assert_eq!(decoded(&answer)["kind"], "PartialObjectMetadataList");
    assert_eq!(answer.header("content-type"), PROTOBUF);
}

#[tokio::test]
async fn methods_that_a_place_does_not_have_are_refused() {
    let api = api().await;
    for (method, url, code) in [
        ("HEAD", SECRETS, 405),
        ("OPTIONS", SECRETS, 405),
        ("PUT", SECRETS, 405),
        ("PATCH", SECRETS, 405),
        ("POST", "/api/v1/namespaces/default/secrets/s", 405),
        ("POST", "/version", 405),
        ("POST", "/api/v1/secrets", 405),
        ("DELETE", "/api/v1/secrets", 405),
        ("PUT", "/api/v1/namespaces/default/secrets/s/unknown", 404),
        ("PUT", "/api/v1/namespaces/default/status/more", 404),
        ("GET", "/api/v1/namespaces/default/foos", 404),
        ("GET", "/apis/apps/v7/deployments", 404),
    ] {
        let answer = ask(&api, method, url, &[("Content-Type", "application/json")], "").await;
        assert_eq!((answer.code, answer.json()["kind"].as_str()), (code, Some("Status")), "{method} {url}");
    }
}

#[tokio::test]
async fn what_is_no_place_at_all_is_said_as_text() {
    let api = api().await;
    for url in ["/nowhere", "/apis/unknown.example.com/v1/things", "/healthz/unknown", "/readyz/"] {
        let answer = ask(&api, "GET", url, &[], "").await;
        assert_eq!((answer.code, &*answer.text()), (404, "404 page not found\n"), "{url}");
        assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8", "{url}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{url}");
    }
}
