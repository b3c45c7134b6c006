//! Floods and failures of one client, and the others.

use std::sync::Arc;
use std::time::Duration;

use apiserver::http::{Api, Bounds, Settings};
use apiserver::server::{Admission, Attributes, Verdict};
use apiserver::store::Options;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::support::{api_of, ask, grant_everything, ok, request_of};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Holds writes of who is called `slow` until it is told to let them go; panics at the name `panic`.
struct Hook(Arc<Semaphore>);

impl Admission for Hook {
    fn mutate<'a>(&'a self, about: Attributes<'a>, object: &'a mut Value) -> Verdict<'a> {
        assert!(object["metadata"]["name"] != "panic", "the hook does not like this");
        Box::pin(async move {
            if about.user.name == "slow" {
                self.0.acquire().await.unwrap().forget();
            }
            assert!(object["metadata"]["name"] != "panic-later", "nor this");
            Ok(Vec::new())
        })
    }
}

async fn api(workload: Bounds) -> (Api, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let hook = Arc::new(Hook(gate.clone()));
    let settings = Settings { workload, ..Settings::default() };
    let api = api_of(Options::default(), settings, |server| server.with_admission(hook)).await;
    grant_everything(&api).await;
    (api, gate)
}

fn map(name: &str) -> String {
    json!({"metadata": {"name": name}}).to_string()
}

async fn code(api: &Api, user: &str, method: &str, url: &str, body: &str) -> u16 {
    api.handle(request_of(user, method, url, body)).await.status().as_u16()
}

/// A flood of requests that never end takes its own seats and its own queue; everybody else is served.
#[tokio::test(start_paused = true)]
async fn a_flood_holds_up_nobody_else() {
    let bounds = Bounds { seats: 4, flow_seats: 2, flow_queue: 3, queue: 10 };
    let (api, gate) = api(bounds).await;
    let flood: Vec<_> = (0..20)
        .map(|number| {
            let (api, map) = (api.clone(), map(&format!("m{number}")));
            tokio::spawn(async move { code(&api, "slow", "POST", MAPS, &map).await })
        })
        .collect();
    tokio::task::yield_now().await;
    for number in 0..50 {
        let name = format!("good{number}");
        assert_eq!(code(&api, "good", "POST", MAPS, &map(&name)).await, 201);
        assert_eq!(code(&api, "good", "GET", &format!("{MAPS}/{name}"), "").await, 200);
    }
    for path in ["/livez", "/readyz", "/healthz/ping"] {
        assert_eq!(code(&api, "slow", "GET", path, "").await, 200, "{path}");
    }
    assert_eq!(code(&api, "slow", "GET", MAPS, "").await, 429, "its own queue is full");
    let metrics = ask(&api, "GET", "/metrics", &[], "").await.text();
    for line in [
        "seats_in_use{level=\"workload\"} 2",
        "waiting_requests{level=\"workload\"} 3",
        "rejected_requests_total{level=\"workload\"} 16",
    ] {
        assert!(metrics.contains(&format!("herdsman_apiserver_{line}\n")), "{line} in {metrics}");
    }
    gate.add_permits(100);
    let mut codes = Vec::new();
    for one in flood {
        codes.push(one.await.unwrap());
    }
    codes.sort_unstable();
    assert_eq!(codes, [vec![201; 5], vec![429; 15]].concat());
}

#[tokio::test(start_paused = true)]
async fn who_waits_too_long_is_told_to_come_back() {
    let (api, _gate) = api(Bounds { seats: 1, flow_seats: 1, flow_queue: 5, queue: 5 }).await;
    let held = tokio::spawn({
        let api = api.clone();
        async move { code(&api, "slow", "POST", MAPS, &map("m")).await }
    });
    tokio::time::sleep(Duration::from_millis(1)).await;
    let answer = api.handle(request_of("good", "GET", MAPS, "")).await;
    assert_eq!((answer.status().as_u16(), answer.headers()["retry-after"].to_str().unwrap()), (429, "1"));
    // A client that hangs up gives its seat back.
    held.abort();
    let _ = held.await;
    assert_eq!(code(&api, "good", "GET", MAPS, "").await, 200);
}

/// A list counts for the objects that it looks at: one, if it asks for one by name.
#[tokio::test(start_paused = true)]
async fn a_list_takes_seats_by_what_it_looks_at() {
    let (api, _gate) = api(Bounds { seats: 3, flow_seats: 3, flow_queue: 5, queue: 5 }).await;
    for number in 0..250 {
        ok(&api, "POST", MAPS, &json!({"metadata": {"name": format!("m{number}")}})).await;
    }
    let _held = tokio::spawn({
        let api = api.clone();
        async move { code(&api, "slow", "POST", MAPS, &map("m")).await }
    });
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(code(&api, "good", "GET", MAPS, "").await, 429, "two seats are not enough for 250 objects");
    let one = format!("{MAPS}?fieldSelector=metadata.name%3Dm7");
    assert_eq!(code(&api, "good", "GET", &one, "").await, 200);
    assert_eq!(code(&api, "good", "GET", &format!("{MAPS}?limit=50"), "").await, 200);
}

/// A watch waits its turn, and then goes on without a seat.
#[tokio::test(start_paused = true)]
async fn watches_hold_no_seats() {
    let (api, _gate) = api(Bounds { seats: 1, flow_seats: 1, flow_queue: 5, queue: 5 }).await;
    let url = format!("{MAPS}?watch=1&resourceVersion={}", api.server().store().view().head());
    let mut watch = api.handle(request_of("good", "GET", &url, "")).await.into_body();
    assert_eq!(code(&api, "good", "POST", MAPS, &map("m")).await, 201);
    assert!(watch.frame().await.unwrap().unwrap().into_data().unwrap().starts_with(b"{"));
}

#[tokio::test]
async fn a_panic_fails_its_own_request_only() {
    let (api, _gate) = api(Settings::default().workload).await;
    for name in ["panic", "panic-later", "panic"] {
        let answer = api.handle(request_of("good", "POST", MAPS, &map(name))).await;
        assert_eq!(answer.status(), 500, "{name}");
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let status: Value = serde_json::from_slice(&body).unwrap();
        let said = "This request caused apiserver to panic. Look in the logs for details.";
        assert_eq!((&status["reason"], &status["message"]), (&json!("InternalError"), &json!(said)));
    }
    ok(&api, "POST", MAPS, &json!({"metadata": {"name": "fine"}})).await;
    assert_eq!(code(&api, "good", "GET", &format!("{MAPS}/fine"), "").await, 200);
    let metrics = ask(&api, "GET", "/metrics", &[], "").await.text();
    assert!(metrics.contains("seats_in_use{level=\"workload\"} 0\n"), "{metrics}");
    // The one that asks for the metrics is being answered.
    assert!(metrics.contains("herdsman_apiserver_inflight_requests 1\n"), "{metrics}");
}
