//! The audit log: which lines requests leave, and what is in them.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use apiserver::audit::{Audit, Output, Rotation};
use apiserver::http::Api;
use apiserver::store::{MemoryStore, Options};
use http::Request;
use http_body_util::{BodyExt, Full};
use kubeapi::audit::Policy;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{NOW, api_on, ask, clock, ok, request};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// A server with a log, and where the log is.
struct Audited {
    api: Api,
    directory: TempDir,
}

impl Audited {
    async fn by(rules: Value) -> Self {
        let policy = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules});
        let directory = TempDir::new().unwrap();
        let rotation = Rotation { most_bytes: 1 << 30, kept_files: 1 };
        let output = Output::File(directory.path().join("audit.log"), rotation);
        let audit = Audit::start(Policy::parse(&policy).unwrap(), &output, clock()).unwrap();
        let store = Arc::new(MemoryStore::new(Options::default(), clock()));
        Audited { api: api_on(store, Some(Arc::new(audit))).await, directory }
    }

    /// Ends the server, and gives the lines of its log but for the one that made the namespace.
    fn lines(self) -> Vec<Value> {
        drop(self.api);
        read(self.directory.path())
            .into_iter()
            .filter(|line| line["requestURI"] != "/api/v1/namespaces")
            .collect()
    }
}

fn read(directory: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(directory.join("audit.log")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The stages of the lines, with their codes.
fn stages(lines: &[Value]) -> Vec<String> {
    let shown =
        |line: &Value| format!("{} {}", line["stage"].as_str().unwrap(), line["responseStatus"]["code"]);
    lines.iter().map(shown).collect()
}

fn secret() -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "data": {"a": "c2VjcmV0"}})
}

#[tokio::test]
async fn a_request_is_told_in_upstreams_shape() {
    let audited = Audited::by(json!([{"level": "Metadata"}])).await;
    let headers = [("user-agent", "tests/1"), ("audit-id", "number-1"), ("x-forwarded-for", "192.0.2.7")];
    ask(&audited.api, "POST", &format!("{SECRETS}?dryRun=All"), &headers, secret().to_string()).await;
    let lines = audited.lines();
    assert_eq!(stages(&lines), ["RequestReceived null", "ResponseComplete 201"]);
    let time = NOW.replace('Z', ".000000Z");
    assert_eq!(
        lines[1],
        json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": "number-1",
            "stage": "ResponseComplete", "requestURI": format!("{SECRETS}?dryRun=All"), "verb": "create",
            "user": {"username": "admin", "groups": ["system:masters"]},
            "sourceIPs": ["192.0.2.7"], "userAgent": "tests/1",
            "objectRef": {"resource": "secrets", "namespace": "default", "name": "x", "apiVersion": "v1"},
            "responseStatus": {"metadata": {}, "code": 201},
            "requestReceivedTimestamp": time, "stageTimestamp": time,
            "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""},
        })
    );
}

#[tokio::test]
async fn levels_say_how_much_of_a_request_is_told() {
    for (level, sent, answered) in
        [("Metadata", false, false), ("Request", true, false), ("RequestResponse", true, true)]
    {
        let rules = json!([{"level": level, "verbs": ["create"], "omitStages": ["RequestReceived"]}]);
        let audited = Audited::by(rules).await;
        ask(&audited.api, "POST", SECRETS, &[], secret().to_string()).await;
        ask(&audited.api, "GET", &format!("{SECRETS}/x"), &[], "").await;
        let lines = audited.lines();
        assert_eq!(stages(&lines), ["ResponseComplete 201"], "{level}");
        let there = |field: &str| lines[0][field]["data"]["a"] == "c2VjcmV0";
        assert_eq!((there("requestObject"), there("responseObject")), (sent, answered), "{level}");
    }
}

#[tokio::test]
async fn tokens_are_never_told() {
    let audited = Audited::by(json!([{"level": "RequestResponse"}])).await;
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "open-sesame"},
    });
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let answer =
        ask(&audited.api, "POST", reviews, &[("authorization", "Bearer open-sesame")], review.to_string());
    assert_eq!(answer.await.code, 201);
    let lines = audited.lines();
    assert_eq!(stages(&lines), ["RequestReceived null", "ResponseComplete 201"]);
    assert!(!json!(lines).to_string().contains("open-sesame"), "{lines:?}");
    assert_eq!(lines[1]["level"], "Metadata");
}

#[tokio::test]
async fn refusals_are_told_with_their_reason() {
    let audited = Audited::by(json!([{"level": "Metadata", "omitStages": ["RequestReceived"]}])).await;
    ask(&audited.api, "GET", &format!("{SECRETS}/none"), &[], "").await;
    let stranger = |headers: &[(&str, &str)]| {
        let mut request = Request::builder().uri(SECRETS);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Full::<bytes::Bytes>::default()).unwrap()
    };
    audited.api.handle(stranger(&[])).await;
    audited.api.handle(stranger(&[("authorization", "Bearer wrong")])).await;
    let other = [("impersonate-user", "eve"), ("impersonate-group", "gardeners")];
    ask(&audited.api, "GET", SECRETS, &other, "").await;
    let lines = audited.lines();
    assert_eq!(
        stages(&lines),
        ["ResponseComplete 404", "ResponseComplete 403", "ResponseStarted 401", "ResponseComplete 403"]
    );
    assert_eq!(
        lines[0]["responseStatus"],
        json!({
            "metadata": {}, "status": "Failure", "message": "secrets \"none\" not found", "reason": "NotFound",
            "details": {"name": "none", "kind": "secrets"}, "code": 404,
        })
    );
    assert_eq!(lines[1]["user"]["username"], "system:anonymous");
    assert_eq!(lines[1]["annotations"]["authorization.k8s.io/decision"], "forbid");
    assert_eq!(
        (&lines[2]["user"], &lines[2]["responseStatus"]["reason"]),
        (&json!({}), &json!("Unauthorized"))
    );
    assert_eq!(lines[3]["user"]["username"], "admin");
    assert_eq!(lines[3]["impersonatedUser"]["username"], "eve");
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_told_when_it_begins_and_when_it_ends() {
    let audited = Audited::by(json!([{"level": "Metadata"}])).await;
    let watch = format!("{SECRETS}?watch=true&timeoutSeconds=1");
    let response = audited.api.handle(request("GET", &watch, &[], "")).await;
    drop(response.into_body().collect().await.unwrap());
    let lines = audited.lines();
    assert_eq!(stages(&lines), ["RequestReceived null", "ResponseStarted 200", "ResponseComplete 200"]);
    assert_eq!(lines[2]["verb"], "watch");
}

/// A body that does what `poll` does.
fn body(
    poll: impl FnMut(&mut std::task::Context<'_>) -> std::task::Poll<Option<Frame>> + Send + 'static,
) -> impl http_body::Body<Data = bytes::Bytes, Error = Infallible> + Send + 'static {
    http_body_util::StreamBody::new(futures_util::stream::poll_fn(poll))
}

type Frame = Result<http_body::Frame<bytes::Bytes>, Infallible>;

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_is_told_too() {
    let audited = Audited::by(json!([{"level": "Metadata", "omitStages": ["RequestReceived"]}])).await;
    let never = body(|_| std::task::Poll::Pending);
    let request = request("POST", SECRETS, &[], "").map(|_| never);
    let answer = tokio::time::timeout(Duration::from_secs(1), audited.api.handle(request));
    assert!(answer.await.is_err());
    let lines = audited.lines();
    assert_eq!(stages(&lines), ["ResponseComplete 200"]);
    assert_eq!(lines[0]["responseStatus"]["message"], "Connection closed early");
}

#[tokio::test]
async fn a_failure_in_the_middle_is_told() {
    let audited = Audited::by(json!([{"level": "Metadata", "omitStages": ["RequestReceived"]}])).await;
    let failing = body(|_| panic!("on purpose"));
    let answer = audited.api.handle(request("POST", SECRETS, &[], "").map(|_| failing)).await;
    assert_eq!(answer.status(), 500);
    let lines = audited.lines();
    assert_eq!(stages(&lines), ["Panic 500"]);
}

#[tokio::test]
async fn requests_do_not_care_whether_the_log_can_be_written() {
    let full = Output::File("/dev/full".into(), Rotation { most_bytes: 1 << 30, kept_files: 1 });
    let policy = Policy::everything(kubeapi::audit::Level::Metadata);
    let audit = Arc::new(Audit::start(policy, &full, clock()).unwrap());
    let store = Arc::new(MemoryStore::new(Options::default(), clock()));
    let api = api_on(store, Some(audit.clone())).await;
    assert_eq!(ask(&api, "POST", SECRETS, &[], secret().to_string()).await.code, 201);
    // The namespace that every server here begins with, and the Secret. The log is written by another thread.
    while audit.dropped() < 2 {
        std::thread::yield_now();
    }
    let metrics = ask(&api, "GET", "/metrics", &[], "").await.text();
    assert!(metrics.contains("herdsman_apiserver_audit_events_dropped_total 2"), "{metrics}");
}

#[tokio::test]
async fn policies_note_what_they_have_to_say() {
    let audited = Audited::by(json!([{"level": "Metadata", "omitStages": ["RequestReceived"]}])).await;
    let group = "/apis/admissionregistration.k8s.io/v1";
    let rule =
        json!({"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"]});
    let spec = json!({
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "object.metadata.name != 'x'", "message": "a < b"}],
        "auditAnnotations": [{"key": "name", "valueExpression": "string(object.metadata.name)"}],
    });
    let policy = json!({"metadata": {"name": "p"}, "spec": spec});
    ok(&audited.api, "POST", &format!("{group}/validatingadmissionpolicies"), &policy).await;
    let spec = json!({"policyName": "p", "validationActions": ["Audit"]});
    let binding = json!({"metadata": {"name": "b"}, "spec": spec});
    ok(&audited.api, "POST", &format!("{group}/validatingadmissionpolicybindings"), &binding).await;
    ok(&audited.api, "POST", SECRETS, &secret()).await;
    let lines = audited.lines();
    let noted = &lines.last().unwrap()["annotations"];
    assert_eq!(noted["p/name"], "x", "{lines:?}");
    let failure = r#"[{"message":"a \u003c b","policy":"p","binding":"b","expressionIndex":0,"validationActions":["Audit"]}]"#;
    assert_eq!(noted["validation.policy.admission.k8s.io/validation_failure"], failure);
}
