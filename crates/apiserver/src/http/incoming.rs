//! The body of a request: read within limits, and made JSON.

use std::fmt::Display;
use std::time::Duration;

use ::http::HeaderMap;
use ::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use kubeapi::limits::Limits;
use kubeapi::media::{self, Endpoint, Format, PatchType};
use kubeapi::proto::{self, DefaultKind};
use kubeapi::request::Verb;
use kubeapi::{GroupVersion, Status};
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::runtime::RuntimeFlavor;

use super::response::header;
use super::{duplicates, yaml};
use crate::registry::Resource;

/// A body of any kind of connection.
pub(super) type Incoming = UnsyncBoxBody<Bytes, String>;

pub(super) fn boxed<B>(body: B) -> Incoming
where
    B: http_body::Body + Send + 'static,
    B::Error: Display,
{
    let body = body.map_frame(|frame| frame.map_data(|mut data| data.copy_to_bytes(data.remaining())));
    body.map_err(|error| error.to_string()).boxed_unsync()
}

/// A body of so many bytes takes about a millisecond to be read.
const LARGE: usize = 256 * 1024;

/// What a body says.
#[derive(Debug)]
pub(super) struct Content {
    /// As JSON; none if there is no body.
    pub(super) value: Option<Value>,
    /// What kind of patch it is, if it is one.
    pub(super) patch: PatchType,
    /// What is said of fields that are there twice.
    pub(super) repeated: Vec<String>,
}

impl Content {
    const NONE: Content = Content { value: None, patch: PatchType::Merge, repeated: Vec::new() };
}

/// What is expected of a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected<'a> {
    pub(super) verb: Verb,
    pub(super) resource: &'a Resource,
    pub(super) subresource: &'a str,
    /// Whether it matters that fields are there twice.
    pub(super) strict: bool,
    /// How long it may take to arrive.
    pub(super) patience: Duration,
}

impl Expected<'_> {
    fn endpoint(&self) -> Endpoint {
        super::dispatch::endpoint(self.resource)
    }

    fn kind(&self) -> (String, String) {
        let sub = self.resource.subresource(self.subresource).map(|sub| sub.kind.clone());
        let gvk = sub.unwrap_or_else(|| self.resource.gvk());
        let group_version = GroupVersion::new(gvk.group, gvk.version);
        (group_version.to_string(), gvk.kind)
    }
}

/// Reads a body, if the verb has one.
///
/// # Errors
/// 415 if it is in a format that is not read here, 413 if it is too large, 400 if it is not in that format.
pub(super) async fn read(
    body: Incoming,
    headers: &HeaderMap,
    expected: Expected<'_>,
) -> Result<Content, Status> {
    let content_type = header(headers, CONTENT_TYPE);
    if let Some(encoding) = headers.get(CONTENT_ENCODING).filter(|encoding| *encoding != "identity") {
        let message = format!("the body of the request has an unsupported content encoding: {encoding:?}");
        return Err(Status { message, ..Status::unsupported_media_type(&[]) });
    }
    // One that says beforehand that it is too large is not read at all.
    let length = header(headers, CONTENT_LENGTH).parse().unwrap_or(0_usize);
    if length > Limits::REQUEST.bytes {
        return Err(too_large());
    }
    match expected.verb {
        Verb::Create | Verb::Update => {
            let format = media::content_type(content_type, expected.endpoint())?;
            let bytes = collect(body, expected.patience).await?;
            aside(bytes.len(), || {
                let value = object(&bytes, format, expected)?;
                let repeated = if expected.strict { repeated(&bytes, format) } else { Vec::new() };
                Ok(Content { value: Some(value), repeated, ..Content::NONE })
            })
        }
        Verb::Patch => {
            let patch = media::patch_type(content_type, expected.endpoint())?;
            let bytes = collect(body, expected.patience).await?;
            aside(bytes.len(), || {
                let value = Some(patched(&bytes, patch)?);
                let strict = expected.strict && patch != PatchType::Json;
                // Nearly always JSON, which is looked through much faster; what is found is told of as of YAML.
                let format = match patch {
                    PatchType::Apply if !is_plain_json(&bytes) => Format::Yaml,
                    _ => Format::Json,
                };
                let repeated = if strict { repeated(&bytes, format) } else { Vec::new() };
                Ok(Content { value, patch, repeated })
            })
        }
        Verb::Delete | Verb::DeleteCollection => {
            let bytes = collect(body, expected.patience).await?;
            if bytes.is_empty() {
                return Ok(Content::NONE);
            }
            // Its options are a built-in kind, also where the object is not.
            let format = media::content_type(content_type, Endpoint::Builtin)?;
            let default = DefaultKind { api_version: "v1", kind: "DeleteOptions" };
            let value = decode(&bytes, format, default).map_err(Status::bad_request)?;
            Ok(Content { value: Some(value), ..Content::NONE })
        }
        _ => Ok(Content::NONE),
    }
}

/// Works on so many bytes. What takes milliseconds is done where nobody else's task waits behind it, if there is more
/// than one thread.
fn aside<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let runtime = tokio::runtime::Handle::try_current();
    let threads = runtime.is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    if bytes >= LARGE && threads { tokio::task::block_in_place(work) } else { work() }
}

async fn collect(body: Incoming, patience: Duration) -> Result<Bytes, Status> {
    let too_late = |_| {
        let why = "request did not complete within the allotted timeout";
        Status::timeout(why, 0)
    };
    tokio::time::timeout(patience, within_limit(body)).await.map_err(too_late)?
}

async fn within_limit(mut body: Incoming) -> Result<Bytes, Status> {
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(Status::bad_request)?.into_data() else { continue };
        if read.len() + data.len() > Limits::REQUEST.bytes {
            return Err(too_large());
        }
        read.extend_from_slice(&data);
    }
    Ok(read.freeze())
}

fn too_large() -> Status {
    Status::too_large(format!("limit is {}", Limits::REQUEST.bytes))
}

/// An object, or what upstream says of something that is none.
fn object(bytes: &[u8], format: Format, expected: Expected<'_>) -> Result<Value, Status> {
    let (api_version, kind) = expected.kind();
    let default = DefaultKind { api_version: &api_version, kind: &kind };
    decode(bytes, format, default).map_err(|why| {
        let why = match format {
            Format::Json | Format::Yaml => format!("couldn't get version/kind; json parse error: {why}"),
            Format::Protobuf => why,
        };
        let shown = summary(bytes);
        let what = "the object provided is unrecognized";
        Status::bad_request(format!("{what} (must be of type {kind}): {why} ({shown})"))
    })
}

fn patched(bytes: &[u8], patch: PatchType) -> Result<Value, Status> {
    let value = match patch {
        // Nearly always JSON, which is read much faster.
        PatchType::Apply => {
            let value = json(bytes).or_else(|_| yaml::decode(bytes));
            let value = value.map_err(|why| format!("error converting YAML to JSON: yaml: {why}"));
            value.and_then(configuration).map_err(|why| format!("error decoding YAML: {why}"))
        }
        PatchType::Json | PatchType::Merge => {
            json(bytes).map_err(|why| format!("error decoding patch: {why}"))
        }
        PatchType::Strategic => json(bytes),
    };
    value.map_err(Status::bad_request)
}

/// A configuration is an object; none at all is an empty one.
fn configuration(value: Value) -> Result<Value, String> {
    let found = match value {
        Value::Object(_) => return Ok(value),
        Value::Null => return Ok(Value::Object(serde_json::Map::new())),
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
    };
    Err(format!(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
    ))
}

/// Whether it is JSON in which no field is there twice.
fn is_plain_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(bytes).is_ok() && duplicates::find(bytes).is_empty()
}

fn decode(bytes: &[u8], format: Format, default: DefaultKind<'_>) -> Result<Value, String> {
    match format {
        Format::Json => json(bytes),
        Format::Yaml => yaml::decode(bytes),
        Format::Protobuf => {
            proto::decode_with(bytes, default, Limits::REQUEST).map_err(|error| error.to_string())
        }
    }
}

fn json(bytes: &[u8]) -> Result<Value, String> {
    Limits::REQUEST.check_json(bytes).map_err(|error| error.to_string())?;
    serde_json::from_slice(bytes).map_err(|error| go_error(bytes, &error))
}

/// What is said of fields that are there twice.
fn repeated(bytes: &[u8], format: Format) -> Vec<String> {
    match format {
        Format::Json => duplicates::find(bytes).iter().map(|path| duplicates::message(path)).collect(),
        Format::Yaml => yaml::duplicate(bytes).into_iter().collect(),
        Format::Protobuf => Vec::new(),
    }
}

/// The beginning of a body that is not understood: as text if it looks like JSON.
fn summary(bytes: &[u8]) -> String {
    const SHOWN: usize = 30;
    let shown = &bytes[..bytes.len().min(SHOWN)];
    let rest = if bytes.len() > SHOWN { " ..." } else { "" };
    match bytes.first() {
        None => "<empty>".into(),
        Some(b'{') => format!("{}{rest}", String::from_utf8_lossy(shown)),
        Some(_) => shown.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + rest,
    }
}

/// What is wrong with JSON, in the words of Go's decoder as far as the two agree on what that is.
fn go_error(bytes: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".into();
    }
    let message = error.to_string();
    let place = match message.split(" at line ").next().unwrap_or_default() {
        "expected value" => "looking for beginning of value",
        "key must be a string" => "looking for beginning of object key string",
        "expected `:`" => "after object key",
        "expected `,` or `}`" => "after object key:value pair",
        "expected `,` or `]`" => "after array element",
        "trailing characters" => "after top-level value",
        _ => return message,
    };
    let line = bytes.split(|byte| *byte == b'\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    match line.get(error.column().saturating_sub(1)) {
        Some(wrong) => format!("invalid character {:?} {place}", char::from(*wrong)),
        None => message,
    }
}
