//! Where requests meet the audit log: their record travels with them.

use ::http::request::Parts;
use ::http::{HeaderValue, Response};
use kubeapi::request::{ResourceRequest, Verb};
use serde_json::Value;

use super::dispatch::Asked;
use super::{Api, Body};
use crate::audit::{Ending, Record};

/// The record of a request, if there is one.
pub(super) fn of(parts: &Parts) -> Option<&Record> {
    parts.extensions.get()
}

/// Notes what was sent.
pub(super) fn sent(parts: &Parts, target: &ResourceRequest, body: Option<&Value>) {
    if let (Some(record), Some(body)) = (of(parts), body) {
        record.sent(body, matches!(target.verb, Verb::Create | Verb::Update));
    }
}

/// Notes what is answered. The record of a stream ends with the stream, all others here.
pub(super) fn finish(response: Response<Body>, parts: &Parts, ending: Option<Ending>) -> Response<Body> {
    if let Some(record) = of(parts) {
        record.code(response.status().as_u16());
    }
    match ending {
        Some(ending) if response.body().is_stream() => response.map(|body| body.until_end(ending.started())),
        _ => response,
    }
}

impl Api {
    /// Begins the record of a request, if the log wants one. What is to be told at the end is told when this goes.
    pub(super) fn audited(&self, parts: &mut Parts, id: &HeaderValue, asked: &Asked) -> Option<Ending> {
        let audit = self.0.audit.as_ref()?;
        let target = asked.target.as_ref().ok()?;
        let id = String::from_utf8_lossy(id.as_bytes());
        let record = audit.begin(parts, &id, asked.user.as_ref().ok(), target)?;
        if let Err(status) = &asked.user {
            record.not_authenticated(status);
            return None;
        }
        record.received();
        parts.extensions.insert(record.clone());
        Some(record.ending())
    }
}
