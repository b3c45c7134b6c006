//! An admission webhook that does what its path says, and remembers what it was asked.

use std::sync::{Arc, Mutex};

use apiserver::server::Server;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use serde_json::{Value, json};

use crate::hook::Hook;
use crate::support::ok;

pub(crate) const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";

/// A webhook, and what was asked of it: path and request.
pub(crate) struct Asked {
    hook: Hook,
    log: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Asked {
    pub(crate) async fn start() -> Self {
        let log = Arc::<Mutex<Vec<(String, Value)>>>::default();
        let seen = log.clone();
        let hook = Hook::answering(move |url, review| {
            let path = url.split('?').next().unwrap_or_default().trim_start_matches('/').to_owned();
            seen.lock().unwrap().push((path.clone(), review["request"].clone()));
            answer(&path, review)
        })
        .await;
        Asked { hook, log }
    }

    /// What was asked since the last time, and of whom.
    pub(crate) fn take(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    /// The paths that were asked since the last time.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.take().into_iter().map(|(path, _)| path).collect()
    }

    /// A webhook of this path, for all writes of ConfigMaps; `more` goes over that.
    pub(crate) fn webhook(&self, path: &str, more: Value) -> Value {
        let mut webhook = json!({
            "name": format!("{}.example.com", path.replace('/', "-")),
            "clientConfig": {
                "url": format!("https://127.0.0.1:{}/{path}", self.hook.port), "caBundle": self.hook.ca_bundle(),
            },
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"]}],
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            webhook[field] = value.clone();
        }
        webhook
    }

    pub(crate) async fn mutating(&self, server: &Server, name: &str, webhooks: &[(&str, Value)]) {
        self.configure(server, "mutatingwebhookconfigurations", name, webhooks).await;
    }

    pub(crate) async fn validating(&self, server: &Server, name: &str, webhooks: &[(&str, Value)]) {
        self.configure(server, "validatingwebhookconfigurations", name, webhooks).await;
    }

    async fn configure(&self, server: &Server, plural: &str, name: &str, webhooks: &[(&str, Value)]) {
        let webhooks: Vec<Value> =
            webhooks.iter().map(|(path, more)| self.webhook(path, more.clone())).collect();
        let body = json!({"metadata": {"name": name}, "webhooks": webhooks});
        ok(server, "POST", &format!("{CONFIGURATIONS}/{plural}"), body).await;
    }
}

fn patched(operations: &Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}

/// The paths: `allow`, `deny`, `silent`, `warn`, `trace/..` and `again/..` (leave their name in an annotation; the
/// latter only once), `patch/..` (the operation is in the path), `never`, `broken`, `nonsense`, `uid`, `old`.
fn answer(path: &str, review: &Value) -> Option<Response<Full<Bytes>>> {
    let request = &review["request"];
    let (kind, detail) = path.split_once('/').unwrap_or((path, ""));
    let with = |code: u16, body: String| {
        Some(Response::builder().status(code).body(Full::new(Bytes::from(body))).unwrap())
    };
    let mut version = review["apiVersion"].clone();
    let mut response = match kind {
        "allow" => json!({"allowed": true}),
        "deny" => {
            json!({"allowed": false, "status": {"message": "not this one", "reason": "Odd", "code": 418}})
        }
        "silent" => json!({"allowed": false}),
        "warn" => json!({"allowed": detail != "deny", "warnings": [format!("careful {detail}")]}),
        "trace" | "again" => {
            let traced = request["object"]["metadata"]["annotations"]["trace"].as_str().unwrap_or_default();
            match kind == "again" && traced.contains(detail) {
                true => json!({"allowed": true}),
                false => {
                    let value = format!("{traced}{detail} ");
                    let path = "/metadata/annotations";
                    patched(&json!([{"op": "add", "path": path, "value": {"trace": value}}]))
                }
            }
        }
        "patch" => patched(&serde_json::from_slice(&STANDARD.decode(detail).unwrap()).unwrap()),
        "never" => return None,
        "broken" => return with(500, "out of order\n".into()),
        "nonsense" => return with(200, "<html>".into()),
        "uid" => json!({"allowed": true, "uid": "another"}),
        "old" => {
            version = json!("");
            json!({"allowed": true, "uid": "another", "patch": STANDARD.encode("[]")})
        }
        other => panic!("nothing is known of {other}"),
    };
    if response["uid"].is_null() {
        response["uid"] = request["uid"].clone();
    }
    with(200, json!({"kind": "AdmissionReview", "apiVersion": version, "response": response}).to_string())
}

/// A path that answers with this patch.
pub(crate) fn patching(operations: &Value) -> String {
    format!("patch/{}", STANDARD.encode(operations.to_string()))
}
