//! From a table's request to the wire, and from the answer to something that patterns can look at.

use std::io::Read;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use flate2::read::GzDecoder;
use http::HeaderMap;
use kubeapi::proto;
use serde_json::Value;

use super::case::{Call, Headers};
use super::variables::Variables;
use crate::client::Request;

const JSON: &str = "application/json";
pub(super) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// Answers of either server.
pub(super) const LIMITS: proto::Limits = proto::Limits::ANSWER;

/// The request that a table describes.
pub(super) fn request(call: &Call, variables: &Variables) -> Result<Request> {
    let (method, path) = call.request.split_once(' ').context("neither method nor path")?;
    let mut headers = Vec::new();
    for (name, values) in &call.headers {
        let values = match values {
            Headers::One(value) => std::slice::from_ref(value),
            Headers::Many(values) => values.as_slice(),
        };
        for value in values {
            headers.push((name.clone(), variables.text(value)?));
        }
    }
    headers.push(("accept".to_owned(), call.accept.clone().unwrap_or_else(|| JSON.to_owned())));
    let body = body(call, variables)?;
    if !body.is_empty() {
        let content_type = call.content_type.as_deref().unwrap_or(JSON);
        headers.push(("content-type".to_owned(), content_type.to_owned()));
    }
    let identity = variables.text(call.identity.as_deref().unwrap_or("admin"))?;
    let as_administrator = identify(&identity, &mut headers)?;
    Ok(Request {
        method: method.to_owned(),
        path: variables.text(path)?,
        headers,
        body,
        as_administrator,
        old: call.http1,
    })
}

fn body(call: &Call, variables: &Variables) -> Result<Bytes> {
    if let Some(raw) = &call.raw {
        return Ok(variables.text(raw)?.into());
    }
    let Some(body) = &call.body else { return Ok(Bytes::new()) };
    let body = variables.value(body)?;
    let mut bytes = match call.content_type.as_deref() {
        Some(PROTOBUF) => proto::encode(&body)?,
        _ => serde_json::to_vec(&body)?,
    };
    bytes.resize(bytes.len() + call.pad, b' ');
    Ok(bytes.into())
}

/// Headers that say who asks; whether it is, on the wire, the administrator.
fn identify(identity: &str, headers: &mut Vec<(String, String)>) -> Result<bool> {
    let mut words = identity.split(' ');
    match words.next().and_then(|word| word.split_once(':').or(Some((word, "")))) {
        Some(("admin", _)) => Ok(true),
        Some(("anonymous", _)) => Ok(false),
        Some(("token", token)) => {
            headers.push(("authorization".into(), format!("Bearer {token}")));
            Ok(false)
        }
        Some(("user", user)) => {
            headers.push(("impersonate-user".into(), user.into()));
            let groups =
                words.filter_map(|word| word.strip_prefix("groups:")).flat_map(|list| list.split(','));
            headers.extend(groups.map(|group| ("impersonate-group".into(), group.into())));
            Ok(true)
        }
        _ => bail!("nobody is {identity:?}"),
    }
}

/// A body as it was before it was compressed.
pub(super) fn uncompressed(headers: &HeaderMap, body: &Bytes) -> Result<Bytes> {
    if headers.get("content-encoding").is_none_or(|encoding| encoding != "gzip") {
        return Ok(body.clone());
    }
    let mut plain = Vec::new();
    GzDecoder::new(body.as_ref()).read_to_end(&mut plain).context("bad gzip")?;
    Ok(plain.into())
}

/// A body as JSON, whatever format it came in; none if it has none.
pub(super) fn decoded(headers: &HeaderMap, body: &[u8]) -> Result<Option<Value>> {
    let content_type = headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if content_type.starts_with(PROTOBUF) {
        let object = proto::decode_with(body, proto::DefaultKind::default(), LIMITS)?;
        return Ok(Some(object));
    }
    Ok(serde_json::from_slice(body).ok())
}
