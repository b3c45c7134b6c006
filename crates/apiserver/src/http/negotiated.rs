//! Objects in the format and shape that the client asked for.

use ::http::Response;
use ::http::header::{ACCEPT, USER_AGENT};
use ::http::request::Parts;
use jiff::Timestamp;
use kubeapi::Status;
use kubeapi::media::{self, Accepted, Endpoint, Format, Shape};
use kubeapi::request::{IncludeObject, Query, TableOptions, Verb, pretty};
use kubeapi::{meta, proto, table};
use serde_json::Value;

use super::response::{header, retry_after, with_body};
use super::{Body, compression};
use crate::registry::Resource;
use crate::server::{Answer, Given};

/// How an answer is to be given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    accepted: Accepted,
    include: IncludeObject,
    pretty: bool,
    gzip: bool,
}

impl Wanted {
    /// What the headers and the query ask for.
    ///
    /// # Errors
    /// 406 if it cannot be given, 400 if the query makes no sense.
    pub(super) fn of_answer(
        parts: &Parts,
        query: &Query,
        endpoint: Endpoint,
        verb: Verb,
    ) -> Result<Self, Status> {
        let accept = if verb == Verb::List { media::accept_list } else { media::accept };
        Wanted::new(parts, query, accept(header(&parts.headers, ACCEPT), endpoint)?)
    }

    /// The same for a watch.
    pub(super) fn of_watch(parts: &Parts, query: &Query, endpoint: Endpoint) -> Result<Self, Status> {
        let accepted = media::accept_watch(header(&parts.headers, ACCEPT), endpoint)?;
        Wanted::new(parts, query, accepted)
    }

    fn new(parts: &Parts, query: &Query, accepted: Accepted) -> Result<Self, Status> {
        let include = match accepted.shape {
            Shape::Table(_) => TableOptions::parse(query)?.include_object,
            _ => IncludeObject::default(),
        };
        let pretty = accepted.pretty || pretty(query, header(&parts.headers, USER_AGENT));
        Ok(Wanted { accepted, include, pretty, gzip: compression::is_wanted(&parts.headers) })
    }

    pub(super) fn format(&self) -> Format {
        self.accepted.format
    }

    /// Whether objects are wanted as they are, in JSON.
    pub(super) fn is_plain_json(&self) -> bool {
        let Accepted { format, shape, .. } = self.accepted;
        matches!((format, shape), (Format::Json, Shape::Plain)) && !self.pretty
    }

    /// The object in its shape. `headers` says whether a Table describes its columns.
    ///
    /// # Errors
    /// 406 if the object does not have that shape.
    pub(super) fn shape(
        &self,
        object: Value,
        resource: &Resource,
        headers: bool,
        now: Timestamp,
    ) -> Result<Value, Status> {
        if object["kind"] == "Status" && object["apiVersion"] == "v1" {
            return Ok(object);
        }
        match self.accepted.shape {
            Shape::Plain => Ok(as_typed(object, resource)),
            Shape::Metadata(version) => meta::partial(&object, version),
            Shape::MetadataList(version) => meta::partial_list(&object, version),
            Shape::Table(version) => {
                let format = table::Format { include: self.include, version, headers };
                Ok(resource.printer.table(&object, format, now))
            }
        }
    }

    /// A good answer.
    ///
    /// # Errors
    /// 406 if it does not have the shape that is asked for.
    pub(super) fn answer(&self, answer: Answer, now: Timestamp) -> Result<Response<Body>, Status> {
        let object = self.shape(answer.body, &answer.resource, true, now)?;
        let (format, bytes) = encode(&object, self.accepted.format, self.pretty)?;
        let mut response = compression::with_bytes(answer.code, format.media_type(), bytes.into(), self.gzip);
        super::response::warn(&mut response, &answer.warnings);
        Ok(response)
    }

    /// A good answer that is JSON already.
    pub(super) fn given(&self, given: Given) -> Response<Body> {
        let warnings = given.warnings.clone();
        let mut response = compression::with_pieces(Format::Json.media_type(), given, self.gzip);
        super::response::warn(&mut response, &warnings);
        response
    }
}

/// The items of a built-in kind's list do not say what they are: the list does.
fn as_typed(mut object: Value, resource: &Resource) -> Value {
    let items = object.get_mut("items").and_then(Value::as_array_mut);
    if let (Some(items), None) = (items, resource.as_custom()) {
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.remove("apiVersion");
            item.remove("kind");
        }
    }
    object
}

/// A failure. It is always said, in JSON if need be.
pub(super) fn failure(parts: &Parts, query: &Query, status: &Status) -> Response<Body> {
    let object = serde_json::to_value(status).unwrap_or_default();
    let accepted = media::accept(header(&parts.headers, ACCEPT), Endpoint::Builtin);
    let encoded = match accepted {
        Ok(accepted) => {
            let pretty = accepted.pretty || pretty(query, header(&parts.headers, USER_AGENT));
            encode(&object, accepted.format, pretty)
        }
        Err(_) => indented(&object).map(|bytes| (Format::Json, bytes)),
    };
    let mut response = match encoded {
        Ok((format, bytes)) => with_body(status.code, format.media_type(), Body::full(bytes)),
        Err(_) => super::response::text(status.code, format!("{}: {}", status.reason, status.message)),
    };
    retry_after(&mut response, status.details.as_ref().map_or(0, |details| details.retry_after_seconds));
    response
}

/// The bytes of an object, and the format they came out in: JSON where there is no protobuf of a kind.
fn encode(object: &Value, format: Format, pretty: bool) -> Result<(Format, Vec<u8>), Status> {
    match format {
        Format::Protobuf => match proto::encode(object) {
            Ok(bytes) => Ok((format, bytes)),
            Err(proto::Error::UnknownKind { .. }) => Ok((Format::Json, json(object, pretty)?)),
            Err(error) => Err(Status::internal(error)),
        },
        Format::Json => Ok((format, json(object, pretty)?)),
        Format::Yaml => {
            let text = serde_saphyr::to_string(object).map_err(Status::internal)?;
            Ok((format, text.into_bytes()))
        }
    }
}

fn json(object: &Value, pretty: bool) -> Result<Vec<u8>, Status> {
    let bytes = if pretty { serde_json::to_vec_pretty(object) } else { serde_json::to_vec(object) };
    let mut bytes = bytes.map_err(Status::internal)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// JSON for who did not say how, without a line end, as upstream has it there.
pub(super) fn indented(object: &Value) -> Result<Vec<u8>, Status> {
    serde_json::to_vec_pretty(object).map_err(Status::internal)
}
