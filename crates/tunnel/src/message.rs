//! What travels: one message is one binary message of the websocket. No IO.
//!
//! ```text
//! message := number stream type [deadline] body        all but the body are varints
//! ```
//!
//! The number is for logs. The deadline is there for `Data` and `Connect` only and means nothing any more. Types that
//! we do not know are skipped by every implementation, which is how the protocol grew.

use bytes::{Buf as _, BufMut, Bytes, BytesMut};

use crate::names::{ClientKey, SessionKey, StreamId, Target};
use crate::varint;

/// What old receivers take for milliseconds.
const DEADLINE: i64 = 15_000;
/// No header is longer: number, stream, type, deadline.
pub(crate) const LONGEST_HEADER: usize = 2 * varint::LONGEST + 1 + 3;
/// Receivers read no more of a reason than this.
const LONGEST_REASON: usize = 100;
/// Receivers read no more of an announcement than this.
const LONGEST_ANNOUNCEMENT: usize = 100;
/// The reason that is none.
const EOF: &str = "EOF";

const DATA: i64 = 1;
const CONNECT: i64 = 2;
const ERROR: i64 = 3;
const ADD_CLIENT: i64 = 4;
const REMOVE_CLIENT: i64 = 5;
const PAUSE: i64 = 6;
const RESUME: i64 = 7;
const SYNC: i64 = 8;

/// Why a stream ended.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub enum Reason {
    /// All is said.
    Eof,
    /// Something went wrong, in the words of who noticed.
    Failed(String),
}

impl Reason {
    /// A failure, cut to what receivers read.
    pub fn failed(text: impl Into<String>) -> Self {
        let text = truncate(text.into(), LONGEST_REASON);
        // That word alone would be taken for a good end.
        if text == EOF { Reason::Failed("unexpected EOF".into()) } else { Reason::Failed(text) }
    }

    fn text(&self) -> &str {
        match self {
            Reason::Eof => EOF,
            Reason::Failed(text) => text,
        }
    }
}

/// A session of a client that a peer has, or has no more.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Announcement {
    /// Whose.
    pub client: ClientKey,
    /// Which.
    pub session: SessionKey,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Bytes of a stream.
    Data(StreamId, Bytes),
    /// A new stream is wanted.
    Connect(StreamId, Target),
    /// A stream has ended.
    Error(StreamId, Reason),
    /// A peer has this session.
    AddClient(Announcement),
    /// A peer has it no more.
    RemoveClient(Announcement),
    /// No more bytes of this stream for now, please.
    Pause(StreamId),
    /// More bytes of this stream, please.
    Resume(StreamId),
    /// All streams that the sender has.
    Sync(Vec<StreamId>),
    /// Something newer than we are.
    Unknown(i64),
}

/// A message that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It ends too early, or has a number that is none.
    #[error("a message without a whole header")]
    Header,
    /// Nothing that could be dialled.
    #[error("a Connect that does not say <protocol>/<address>")]
    Target,
    /// Nobody that could be known.
    #[error("an announcement that does not say <client>/<session>")]
    Announcement,
    /// Half a number.
    #[error("a list of streams with {0} bytes, which is no multiple of 8")]
    Sync(usize),
}

impl Message {
    /// Reads a message; the body of `Data` stays where it is in `bytes`.
    ///
    /// # Errors
    /// If the bytes are not a message. The other side cannot be understood any more.
    pub fn decode(mut bytes: Bytes) -> Result<Self, Error> {
        let mut number = || varint::take(&mut bytes).ok_or(Error::Header);
        let (_, stream, kind) = (number()?, StreamId(number()?), number()?);
        if matches!(kind, DATA | CONNECT) {
            number()?;
        }
        Ok(match kind {
            DATA => Message::Data(stream, bytes),
            CONNECT => Message::Connect(stream, target(&bytes)?),
            ERROR => Message::Error(stream, reason(&bytes)),
            ADD_CLIENT => Message::AddClient(announcement(&bytes)?),
            REMOVE_CLIENT => Message::RemoveClient(announcement(&bytes)?),
            PAUSE => Message::Pause(stream),
            RESUME => Message::Resume(stream),
            SYNC => Message::Sync(streams(bytes)?),
            other => Message::Unknown(other),
        })
    }

    /// The bytes of the message of this number.
    pub fn encode(&self, number: i64) -> Bytes {
        let mut to = BytesMut::with_capacity(LONGEST_HEADER + self.body_length());
        match self {
            Message::Data(stream, bytes) => {
                header(&mut to, number, *stream, DATA);
                to.put_slice(bytes);
            }
            Message::Connect(stream, target) => {
                header(&mut to, number, *stream, CONNECT);
                text(&mut to, &[&target.proto, "/", &target.address]);
            }
            Message::Error(stream, reason) => {
                header(&mut to, number, *stream, ERROR);
                text(&mut to, &[reason.text()]);
            }
            Message::AddClient(announced) => {
                header(&mut to, number, StreamId(0), ADD_CLIENT);
                text(&mut to, &[announced.client.as_str(), "/", &announced.session.to_string()]);
            }
            Message::RemoveClient(announced) => {
                header(&mut to, number, StreamId(0), REMOVE_CLIENT);
                text(&mut to, &[announced.client.as_str(), "/", &announced.session.to_string()]);
            }
            Message::Pause(stream) => header(&mut to, number, *stream, PAUSE),
            Message::Resume(stream) => header(&mut to, number, *stream, RESUME),
            Message::Sync(streams) => {
                header(&mut to, number, StreamId(0), SYNC);
                streams.iter().for_each(|stream| to.put_i64_le(stream.0));
            }
            Message::Unknown(kind) => header(&mut to, number, StreamId(0), *kind),
        }
        to.freeze()
    }

    /// About how long the body is.
    fn body_length(&self) -> usize {
        match self {
            Message::Data(_, bytes) => bytes.len(),
            Message::Sync(streams) => 8 * streams.len(),
            _ => LONGEST_REASON,
        }
    }
}

/// The beginning of a `Data` message; the stream's bytes follow.
pub(crate) fn begin_data(to: &mut BytesMut, number: i64, stream: StreamId) {
    header(to, number, stream, DATA);
}

fn header(to: &mut BytesMut, number: i64, stream: StreamId, kind: i64) {
    varint::put(to, number);
    varint::put(to, stream.0);
    varint::put(to, kind);
    if matches!(kind, DATA | CONNECT) {
        varint::put(to, DEADLINE);
    }
}

fn text(to: &mut BytesMut, parts: &[&str]) {
    parts.iter().for_each(|part| to.put_slice(part.as_bytes()));
}

/// The beginning of what may be longer, as text.
fn cut(bytes: &[u8], most: usize) -> String {
    truncate(String::from_utf8_lossy(&bytes[..bytes.len().min(most)]).into_owned(), most)
}

fn truncate(mut text: String, most: usize) -> String {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

fn target(body: &[u8]) -> Result<Target, Error> {
    let text = cut(body, Target::LONGEST);
    let (proto, address) = text.split_once('/').ok_or(Error::Target)?;
    Ok(Target { proto: proto.to_owned(), address: address.to_owned() })
}

fn reason(body: &[u8]) -> Reason {
    match cut(body, LONGEST_REASON) {
        text if text == EOF => Reason::Eof,
        text => Reason::Failed(text),
    }
}

fn announcement(body: &[u8]) -> Result<Announcement, Error> {
    let text = cut(body, LONGEST_ANNOUNCEMENT);
    let (client, session) = text.split_once('/').ok_or(Error::Announcement)?;
    let session = session.parse().map_err(|_| Error::Announcement)?;
    let client = ClientKey::new(client).map_err(|_| Error::Announcement)?;
    Ok(Announcement { client, session: SessionKey(session) })
}

fn streams(mut body: Bytes) -> Result<Vec<StreamId>, Error> {
    if !body.len().is_multiple_of(8) {
        return Err(Error::Sync(body.len()));
    }
    let mut streams = Vec::with_capacity(body.len() / 8);
    while body.has_remaining() {
        streams.push(StreamId(body.get_i64_le()));
    }
    Ok(streams)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn as_go_writes_them() {
        let announced = Announcement { client: ClientKey::new("c-1").unwrap(), session: SessionKey(7) };
        let table = [
            (Message::Data(StreamId(2), Bytes::from_static(b"hi")), 1, "02 04 02 B0 EA 01 68 69"),
            (Message::Connect(StreamId(2), Target::tcp("a:1")), 2, "04 04 04 B0 EA 01 74 63 70 2F 61 3A 31"),
            (Message::Error(StreamId(2), Reason::Eof), 3, "06 04 06 45 4F 46"),
            (Message::AddClient(announced.clone()), 3, "06 00 08 63 2D 31 2F 37"),
            (Message::RemoveClient(announced), 3, "06 00 0A 63 2D 31 2F 37"),
            (Message::Pause(StreamId(2)), 3, "06 04 0C"),
            (Message::Resume(StreamId(2)), 3, "06 04 0E"),
            (
                Message::Sync(vec![StreamId(1), StreamId(258)]),
                3,
                "06 00 10 01 00 00 00 00 00 00 00 02 01 00 00 00 00 00 00",
            ),
        ];
        for (message, number, wanted) in table {
            let bytes = message.encode(number);
            assert_eq!(hex(&bytes), wanted);
            assert_eq!(Message::decode(bytes), Ok(message));
        }
    }

    #[test]
    fn what_is_no_message() {
        let table: [(&[u8], Error); 7] = [
            (b"", Error::Header),
            (&[2], Error::Header),
            (&[2, 4], Error::Header),
            (&[2, 4, 2], Error::Header),
            (&[2, 4, 4, 0, b'x'], Error::Target),
            (&[2, 0, 8, b'x', b'/', b'y'], Error::Announcement),
            (&[2, 0, 16, 1], Error::Sync(1)),
        ];
        for (bytes, error) in table {
            assert_eq!(Message::decode(Bytes::copy_from_slice(bytes)), Err(error), "{bytes:?}");
        }
        assert_eq!(Message::decode(Bytes::from_static(&[2, 0, 18, 1])), Ok(Message::Unknown(9)));
    }

    #[test]
    fn long_texts_are_cut_where_receivers_would() {
        assert_eq!(Reason::failed("é".repeat(60)), Reason::Failed("é".repeat(50)));
        assert_eq!(Reason::failed("EOF"), Reason::Failed("unexpected EOF".into()));
        let long = Message::Connect(StreamId(1), Target::tcp("a".repeat(300)));
        let Ok(Message::Connect(_, target)) = Message::decode(long.encode(1)) else { panic!("a Connect") };
        assert_eq!(target.to_string().len(), Target::LONGEST);
    }

    fn messages() -> impl Strategy<Value = Message> {
        let stream = || any::<i64>().prop_map(StreamId);
        let announced = || {
            ("[a-z0-9-]{1,79}", any::<i64>()).prop_map(|(client, session)| Announcement {
                client: ClientKey::new(client).unwrap(),
                session: SessionKey(session),
            })
        };
        let target =
            ("[a-z]{1,8}(::tcp)?", "[ -~]{0,200}").prop_map(|(proto, address)| Target { proto, address });
        prop_oneof![
            (stream(), any::<Vec<u8>>()).prop_map(|(id, bytes)| Message::Data(id, bytes.into())),
            (stream(), target).prop_map(|(id, target)| Message::Connect(id, target)),
            (stream(), ".{0,150}").prop_map(|(id, text)| Message::Error(id, Reason::failed(text))),
            stream().prop_map(|id| Message::Error(id, Reason::Eof)),
            announced().prop_map(Message::AddClient),
            announced().prop_map(Message::RemoveClient),
            stream().prop_map(Message::Pause),
            stream().prop_map(Message::Resume),
            prop::collection::vec(stream(), 0..20).prop_map(Message::Sync),
            (9..i64::MAX).prop_map(Message::Unknown),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(message in messages(), number: i64) {
            prop_assert_eq!(Message::decode(message.encode(number)), Ok(message));
        }

        #[test]
        fn any_bytes_are_a_message_or_not(bytes: Vec<u8>) {
            if let Ok(message) = Message::decode(bytes.into()) {
                prop_assert_eq!(Message::decode(message.encode(0)), Ok(message));
            }
        }
    }
}
