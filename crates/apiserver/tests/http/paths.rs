//! What is no resource: health, version, metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use apiserver::auth::Auth;
use apiserver::http::{Api, Check};

use crate::support::{api, ask};

#[tokio::test]
async fn health_is_told_in_upstreams_layout() {
    let plain = api().await;
    let ready = Arc::new(AtomicBool::new(false));
    let flag = ready.clone();
    let check = Check::new("controllers", move || match flag.load(Ordering::SeqCst) {
        true => Ok(()),
        false => Err("not yet".into()),
    });
    let server = plain.server().clone();
    let api = Api::with_checks(server.clone(), Arc::new(Auth::new(server)), vec![check]);
    let failed = "[+]ping ok\n[+]log ok\n[+]store ok\n[-]controllers failed: reason withheld\n";
    let well = "[+]ping ok\n[+]log ok\n[+]store ok\n";
    for (url, code, text) in [
        ("/livez", 200, "ok".to_owned()),
        ("/livez?verbose", 200, format!("{well}livez check passed\n")),
        ("/livez/store", 200, "ok".to_owned()),
        ("/readyz", 500, format!("{failed}[+]shutdown ok\nreadyz check failed\n")),
        ("/readyz?exclude=controllers", 200, "ok".to_owned()),
        ("/readyz/ping", 200, "ok".to_owned()),
        ("/readyz/controllers", 500, "internal server error: not yet\n".to_owned()),
        ("/healthz", 500, format!("{failed}healthz check failed\n")),
    ] {
        let answer = ask(&api, "GET", url, &[], "").await;
        assert_eq!((answer.code, answer.text()), (code, text), "{url}");
        assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8", "{url}");
    }
    ready.store(true, Ordering::SeqCst);
    assert_eq!(ask(&api, "GET", "/readyz", &[], "").await.text(), "ok");
    api.close();
    assert_eq!(ask(&api, "GET", "/livez", &[], "").await.code, 200);
    let answer = ask(&api, "GET", "/readyz/shutdown", &[], "").await;
    assert_eq!(answer.text(), "internal server error: process is shutting down\n");
}

#[tokio::test]
async fn clients_learn_the_version() {
    let answer = ask(&api().await, "GET", "/version", &[], "").await;
    let version = answer.json();
    assert_eq!((&version["major"], &version["minor"]), (&"1".into(), &"34".into()));
    assert!(version["gitVersion"].as_str().unwrap().starts_with("v1.34."));
    assert_eq!(answer.header("content-type"), "application/json");
}

#[tokio::test]
async fn requests_are_counted() {
    let api = api().await;
    for url in ["/api/v1/secrets", "/api/v1/secrets", "/api/v1/stranger", "/nowhere"] {
        ask(&api, "GET", url, &[], "").await;
    }
    let watch = api.handle(crate::support::request("GET", "/api/v1/secrets?watch=1", &[], "")).await;
    let metrics = ask(&api, "GET", "/metrics", &[], "").await;
    assert_eq!(metrics.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let open =
        ask(&api, "GET", "/metrics", &[("Accept", "application/openmetrics-text;q=0.9,*/*;q=0.1")], "").await;
    assert!(open.header("content-type").starts_with("application/openmetrics-text"));
    let text = metrics.text();
    for line in [
        r#"herdsman_apiserver_request_seconds_count{verb="list",resource="secrets",code="200"} 2"#,
        r#"herdsman_apiserver_request_seconds_count{verb="list",resource="",code="404"} 1"#,
        r#"herdsman_apiserver_request_seconds_count{verb="path",resource="",code="404"} 1"#,
        r#"herdsman_apiserver_request_seconds_count{verb="watch",resource="secrets",code="200"} 1"#,
        "herdsman_apiserver_inflight_requests 1",
        "herdsman_apiserver_watches 1",
        "herdsman_apiserver_store_revision 1",
        "herdsman_apiserver_store_objects 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    drop(watch);
    assert!(ask(&api, "GET", "/metrics", &[], "").await.text().contains("herdsman_apiserver_watches 0\n"));
}
