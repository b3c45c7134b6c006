//! A line of the log.

use std::collections::BTreeMap;

use ::http::header::USER_AGENT;
use ::http::request::Parts;
use jiff::Timestamp;
use kubeapi::Status;
use kubeapi::audit::{Level, Stage};
use kubeapi::authn::User;
use kubeapi::meta;
use kubeapi::request::Target;
use kubeapi::status::Details;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// The most that is told of what a client calls itself, as upstream has it.
const USER_AGENT_BYTES: usize = 1024;

/// An Event of `audit.k8s.io/v1`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event {
    kind: &'static str,
    api_version: &'static str,
    level: Level,
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: Stage,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    pub(super) user: UserInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) impersonated_user: Option<UserInfo>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "Vec::is_empty")]
    source_ips: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    user_agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) object_ref: Option<ObjectReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_status: Option<ResponseStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) request_object: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_object: Option<Value>,
    #[serde(serialize_with = "micro_time")]
    pub(super) request_received_timestamp: Timestamp,
    #[serde(serialize_with = "micro_time")]
    pub(super) stage_timestamp: Timestamp,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) annotations: BTreeMap<String, String>,
}

impl Event {
    pub(super) fn new(parts: &Parts, id: &str, level: Level, verb: &str, now: Timestamp) -> Self {
        Event {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level,
            audit_id: id.into(),
            stage: Stage::RequestReceived,
            request_uri: parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
            verb: verb.into(),
            user: UserInfo::default(),
            impersonated_user: None,
            source_ips: super::source::ips(parts),
            user_agent: user_agent(parts),
            object_ref: None,
            response_status: None,
            request_object: None,
            response_object: None,
            request_received_timestamp: now,
            stage_timestamp: now,
            annotations: BTreeMap::new(),
        }
    }

    /// The line of a stage.
    pub(super) fn line(&mut self, stage: Stage) -> Vec<u8> {
        self.stage = stage;
        // What is in there came from JSON, or is ours: it can be written.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

fn micro_time<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ"))
}

fn user_agent(parts: &Parts) -> String {
    let said = parts.headers.get(USER_AGENT).map(|value| value.as_bytes()).unwrap_or_default();
    let shown = String::from_utf8_lossy(&said[..said.len().min(USER_AGENT_BYTES)]).into_owned();
    if said.len() > USER_AGENT_BYTES { shown + "...TRUNCATED" } else { shown }
}

/// A user as events have it.
#[derive(Debug, Default, Serialize)]
pub(super) struct UserInfo {
    #[serde(skip_serializing_if = "String::is_empty")]
    username: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: BTreeMap<String, Vec<String>>,
}

impl From<&User> for UserInfo {
    fn from(user: &User) -> Self {
        let User { name, uid, groups, extra } = user.clone();
        UserInfo { username: name, uid, groups, extra }
    }
}

/// What a request is about.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectReference {
    #[serde(skip_serializing_if = "String::is_empty")]
    resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    api_group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    resource_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    subresource: String,
}

impl ObjectReference {
    /// As the path says; none for what is no resource.
    pub(super) fn of(target: &Target) -> Option<Self> {
        let Target::Resource(request) = target else { return None };
        Some(ObjectReference {
            resource: request.resource.clone(),
            namespace: request.namespace.clone(),
            name: request.name.clone(),
            uid: String::new(),
            api_group: request.group_version.group.clone(),
            api_version: request.group_version.version.clone(),
            resource_version: String::new(),
            subresource: request.subresource.clone(),
        })
    }

    /// Fills in what the object itself says.
    pub(super) fn complete(&mut self, object: &Value) {
        for (field, said) in [
            (&mut self.namespace, "namespace"),
            (&mut self.name, "name"),
            (&mut self.uid, "uid"),
            (&mut self.resource_version, "resourceVersion"),
        ] {
            if field.is_empty() {
                *field = meta::text(object, said).into();
            }
        }
    }
}

/// How a request ended.
#[derive(Debug, Default, Serialize)]
pub(super) struct ResponseStatus {
    /// Always there, as upstream writes it.
    metadata: Empty,
    #[serde(skip_serializing_if = "String::is_empty")]
    status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
    pub(super) code: u32,
}

#[derive(Debug, Default, Serialize)]
struct Empty {}

impl ResponseStatus {
    pub(super) fn of(status: &Status) -> Self {
        ResponseStatus {
            status: "Failure".into(),
            message: status.message.clone(),
            reason: status.reason.clone(),
            details: status.details.clone(),
            code: status.code.into(),
            ..ResponseStatus::default()
        }
    }

    pub(super) fn closed_early() -> Self {
        let (status, message) = ("Success".into(), "Connection closed early".into());
        ResponseStatus { status, message, code: 200, ..ResponseStatus::default() }
    }

    pub(super) fn panicked() -> Self {
        ResponseStatus {
            status: "Failure".into(),
            message: "APIServer panic'd".into(),
            reason: "InternalError".into(),
            code: 500,
            ..ResponseStatus::default()
        }
    }
}
