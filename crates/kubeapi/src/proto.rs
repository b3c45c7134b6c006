//! Kubernetes' protobuf format for built-in kinds, both ways, driven by a table of facts about their messages.
//!
//! JSON is what the server thinks in. [`decode`] gives the JSON that kube-apiserver would show for the same bytes;
//! [`encode`] gives the bytes that Go's types would: fields in the order of their numbers, zero values written.
//! Fields that the table does not have are left out, as Go's types leave them out.

mod decode;
mod encode;
mod special;
mod table;
pub(crate) mod wire;

use serde_json::Value;

use table::Table;

pub use crate::limits::Limits;

/// The media type of an enveloped object.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The media type of a watch: frames, each a length and an event.
pub const WATCH_MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// What an envelope starts with.
const MAGIC: &[u8] = b"k8s\0";

/// What is wrong with bytes, or with an object that is to become bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not an envelope.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NotEnveloped,
    /// The bytes end too early.
    #[error("unexpected EOF")]
    Truncated,
    /// The bytes are no message.
    #[error("malformed protobuf: bad {0}")]
    Malformed(&'static str),
    /// A [`Limits`] is passed.
    #[error("protobuf message is too large: too many {0}")]
    TooLarge(&'static str),
    /// A kind that the table does not have.
    #[error("no protobuf format is known for kind {kind:?} in version {api_version:?}")]
    UnknownKind {
        /// As in the envelope or object.
        api_version: String,
        /// As in the envelope or object.
        kind: String,
    },
    /// An envelope around something that is neither protobuf nor JSON.
    #[error("unsupported content in protobuf envelope: {0:?}")]
    UnknownContent(String),
    /// A value that its field cannot hold.
    #[error("{path}: {problem}")]
    Value {
        /// Where, as `spec.ports[0].name`.
        path: String,
        /// What would be right.
        problem: String,
    },
}

impl Error {
    fn value(problem: impl Into<String>) -> Self {
        Error::Value { path: String::new(), problem: problem.into() }
    }

    /// The same error, seen from one level further out.
    fn within(self, segment: &str) -> Self {
        match self {
            Error::Value { path, problem } if path.is_empty() => {
                Error::Value { path: segment.into(), problem }
            }
            Error::Value { path, problem } if path.starts_with('[') => {
                Error::Value { path: format!("{segment}{path}"), problem }
            }
            Error::Value { path, problem } => Error::Value { path: format!("{segment}.{path}"), problem },
            other => other,
        }
    }
}

/// The API version and kind that an envelope without them is taken to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefaultKind<'a> {
    /// Such as `apps/v1`.
    pub api_version: &'a str,
    /// Such as `Deployment`.
    pub kind: &'a str,
}

/// Whether there is a protobuf format for this kind.
pub fn knows(api_version: &str, kind: &str) -> bool {
    Table::get().message_of(api_version, kind).is_some()
}

/// The object in an envelope, as JSON, within [`Limits::REQUEST`].
pub fn decode(bytes: &[u8]) -> Result<Value, Error> {
    decode_with(bytes, DefaultKind::default(), Limits::REQUEST)
}

/// The object in an envelope, as JSON.
pub fn decode_with(bytes: &[u8], default: DefaultKind<'_>, limits: Limits) -> Result<Value, Error> {
    let object = decode::Decoder::new(bytes, limits)?.envelope(bytes, default)?;
    // A message in a list is one level to the decoder, and two in JSON.
    limits.check(&object).map_err(|_| Error::TooLarge("levels"))?;
    Ok(object)
}

/// The object in an envelope. It has to have `apiVersion` and `kind`.
pub fn encode(object: &Value) -> Result<Vec<u8>, Error> {
    encode::envelope(object)
}

/// One event of a watch as a frame: its length in four bytes, the event, in it the enveloped object.
pub fn encode_watch_frame(event: &str, object: &Value) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    wire::put_bytes(&mut body, 1, event.as_bytes());
    let mut extension = Vec::new();
    wire::put_bytes(&mut extension, 1, &encode(object)?);
    wire::put_bytes(&mut body, 2, &extension);
    let length = u32::try_from(body.len()).map_err(|_| Error::TooLarge("bytes"))?;
    Ok([&length.to_be_bytes(), body.as_slice()].concat())
}

/// The event in a frame, and what follows the frame.
pub type SplitFrame<'a> = (&'a [u8], &'a [u8]);

/// Splits the first whole frame off a stream. `None`: more bytes have to come.
pub fn split_watch_frame(stream: &[u8], limits: Limits) -> Result<Option<SplitFrame<'_>>, Error> {
    let Some((length, rest)) = stream.split_first_chunk::<4>() else { return Ok(None) };
    let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| Error::TooLarge("bytes"))?;
    if length > limits.bytes {
        return Err(Error::TooLarge("bytes"));
    }
    Ok(rest.split_at_checked(length))
}

/// The event in a frame: its type, such as `ADDED`, and the object.
pub fn decode_watch_event(frame: &[u8], limits: Limits) -> Result<(String, Value), Error> {
    decode::Decoder::new(frame, limits)?.watch_event(frame)
}
