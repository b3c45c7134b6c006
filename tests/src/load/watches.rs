//! Many watches over one HTTP/2 connection, read by one task and as little code as can be: what the generator takes of
//! the machine is taken from the servers that it measures.

use anyhow::{Context, Result, bail, ensure};
use bytes::{Buf, Bytes, BytesMut};
use clock::{Clock, Monotonic, SystemClock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::{Server, Stream};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The largest window there is: nobody ever waits for room.
const WINDOW: u32 = 0x7fff_ffff;
/// What a connection's window is at first.
const FIRST_WINDOW: u32 = 0xffff;
const READ: usize = 256 * 1024;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const ACKNOWLEDGED: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

/// `:status: 200`, as every server writes it.
const GOOD: u8 = 0x88;

/// The watches of one connection.
pub(super) struct Watches {
    stream: Stream,
    received: BytesMut,
    /// When that was.
    at: Monotonic,
    /// The beginning of a line that is not there as a whole, for each watch.
    begun: Vec<Vec<u8>>,
}

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Bytes,
}

impl Watches {
    /// Opens so many watches of one path, and waits until all are answered.
    pub(super) async fn open(server: &Server, path: &str, count: usize) -> Result<Self> {
        let stream = server.connect(true, b"h2").await?;
        let (received, at, begun) = (BytesMut::new(), SystemClock.monotonic(), vec![Vec::new(); count]);
        let mut watches = Watches { stream, received, at, begun };
        let mut out = PREFACE.to_vec();
        let settings = [[0, 2, 0, 0, 0, 0], [0, 4, 0x7f, 0xff, 0xff, 0xff]].concat();
        frame(&mut out, SETTINGS, 0, 0, &settings);
        frame(&mut out, WINDOW_UPDATE, 0, 0, &(WINDOW - FIRST_WINDOW).to_be_bytes());
        let headers = headers(server, path);
        for watch in 0..count {
            let stream = u32::try_from(watch * 2 + 1)?;
            frame(&mut out, HEADERS, END_STREAM | END_HEADERS, stream, &headers);
        }
        watches.stream.write_all(&out).await?;
        let mut answered = 0;
        while answered < count {
            let next = watches.next().await?;
            if next.kind == HEADERS {
                ensure!(next.payload.first() == Some(&GOOD), "a watch is refused: {:?}", next.payload);
                answered += 1;
            }
        }
        Ok(watches)
    }

    /// Waits for events; each that has come is given to `take`, with the time when it was read.
    pub(super) async fn events(
        &mut self,
        mut take: impl FnMut(&[u8], Monotonic) -> Result<()>,
    ) -> Result<()> {
        loop {
            let next = self.next().await?;
            if next.kind != DATA {
                continue;
            }
            ensure!(next.flags & (PADDED | END_STREAM) == 0, "a watch ended, or is padded");
            let watch = usize::try_from(next.stream / 2)?;
            let begun = self.begun.get_mut(watch).context("a watch that was not opened")?;
            let at = self.at;
            return lines(begun, &next.payload, &mut |line| take(line, at));
        }
    }

    /// The next frame; what a connection has to answer by itself is answered.
    async fn next(&mut self) -> Result<Frame> {
        loop {
            let Some(next) = split(&mut self.received) else {
                self.received.reserve(READ);
                ensure!(self.stream.read_buf(&mut self.received).await? > 0, "the connection was closed");
                self.at = SystemClock.monotonic();
                continue;
            };
            let mut out = Vec::new();
            match next.kind {
                RESET | GO_AWAY => bail!("the server gave up: {:?}", next.payload),
                SETTINGS if next.flags & ACKNOWLEDGED == 0 => frame(&mut out, SETTINGS, ACKNOWLEDGED, 0, &[]),
                PING if next.flags & ACKNOWLEDGED == 0 => {
                    frame(&mut out, PING, ACKNOWLEDGED, 0, &next.payload)
                }
                _ => return Ok(next),
            }
            self.stream.write_all(&out).await?;
        }
    }
}

fn frame(into: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    into.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    into.extend_from_slice(&[kind, flags]);
    into.extend_from_slice(&stream.to_be_bytes());
    into.extend_from_slice(payload);
}

/// Takes the first frame, if it is there as a whole.
fn split(received: &mut BytesMut) -> Option<Frame> {
    let head = received.get(..9)?;
    let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
    let (kind, flags) = (head[3], head[4]);
    let stream = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
    if received.len() < 9 + length {
        return None;
    }
    received.advance(9);
    Some(Frame { kind, flags, stream, payload: received.split_to(length).freeze() })
}

/// The headers of a request, none of them compressed.
fn headers(server: &Server, path: &str) -> Vec<u8> {
    // GET over https, by their places in the table that everybody has.
    let mut block = vec![0x82, 0x87];
    let mut field = |name: &[u8], value: &str| {
        block.extend_from_slice(name);
        block.extend_from_slice(&length(value.len()));
        block.extend_from_slice(value.as_bytes());
    };
    field(&[0x04], path);
    field(&[0x01], server.authority());
    field(&[0x0f, 0x04], "application/json");
    if let Some(token) = server.token() {
        field(&[0x0f, 0x08], &format!("Bearer {token}"));
    }
    block
}

/// The length of a text that is not compressed.
fn length(mut length: usize) -> Vec<u8> {
    if length < 127 {
        return vec![length as u8];
    }
    let mut bytes = vec![127];
    length -= 127;
    while length >= 128 {
        bytes.push((length % 128) as u8 | 128);
        length /= 128;
    }
    bytes.push(length as u8);
    bytes
}

/// Gives the lines that `more` completes; what is left is kept in `begun`.
fn lines(begun: &mut Vec<u8>, more: &[u8], take: &mut impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    // Nearly always a frame is a line.
    if let (true, Some((b'\n', line))) = (begun.is_empty(), more.split_last()) {
        if !line.contains(&b'\n') {
            return take(more);
        }
        return more.split_inclusive(|byte| *byte == b'\n').try_for_each(take);
    }
    begun.extend_from_slice(more);
    let Some(end) = begun.iter().rposition(|byte| *byte == b'\n') else { return Ok(()) };
    let rest = begun.split_off(end + 1);
    let whole = std::mem::replace(begun, rest);
    whole.split_inclusive(|byte| *byte == b'\n').try_for_each(take)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_however_they_come() {
        let text = b"one\ntwo\nthree\n";
        for cut in 0..text.len() {
            let (mut begun, mut all) = (Vec::new(), Vec::new());
            for part in [&text[..cut], &text[cut..]] {
                let mut take = |line: &[u8]| {
                    all.push(String::from_utf8(line.to_vec())?);
                    Ok(())
                };
                lines(&mut begun, part, &mut take).unwrap();
            }
            assert_eq!(
                (all.as_slice(), begun.len()),
                (&["one\n", "two\n", "three\n"].map(String::from)[..], 0)
            );
        }
    }

    #[test]
    fn frames_are_split_as_they_are_made() {
        let mut out = Vec::new();
        frame(&mut out, DATA, 0, 7, b"abc");
        frame(&mut out, PING, ACKNOWLEDGED, 0, b"12345678");
        let mut received = BytesMut::from(&out[..out.len() - 1]);
        let first = split(&mut received).unwrap();
        assert_eq!((first.kind, first.stream, &*first.payload), (DATA, 7, &b"abc"[..]));
        assert!(split(&mut received).is_none());
        received.extend_from_slice(b"8");
        let second = split(&mut received).unwrap();
        assert_eq!((second.kind, second.flags, &*second.payload), (PING, ACKNOWLEDGED, &b"12345678"[..]));
    }

    #[test]
    fn lengths_of_texts() {
        for (number, bytes) in
            [(0, vec![0]), (126, vec![126]), (127, vec![127, 0]), (1337, vec![127, 186, 9])]
        {
            assert_eq!(length(number), bytes);
        }
    }
}
