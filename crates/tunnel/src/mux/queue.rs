//! The bytes of one direction that wait.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::message::{self, LONGEST_HEADER};
use crate::names::StreamId;

/// Shorter pieces are copied together: a piece that is not copied keeps the whole buffer alive that the socket was read into.
const WORTH_KEEPING: usize = 8 << 10;
/// Copied pieces do not become longer than this.
const TOGETHER: usize = 32 << 10;

#[derive(Debug)]
enum Piece {
    Copied(BytesMut),
    Whole(Bytes),
}

/// Received, not read.
#[derive(Debug, Default)]
pub(super) struct Unread {
    pieces: VecDeque<Piece>,
    bytes: usize,
}

impl Unread {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(&mut self, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        self.bytes += bytes.len();
        if bytes.len() >= WORTH_KEEPING {
            return self.pieces.push_back(Piece::Whole(bytes));
        }
        match self.pieces.back_mut() {
            Some(Piece::Copied(last)) if last.len() + bytes.len() <= TOGETHER => {
                last.extend_from_slice(&bytes)
            }
            _ => self.pieces.push_back(Piece::Copied(BytesMut::from(&bytes[..]))),
        }
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let bytes = match self.pieces.pop_front()? {
            Piece::Copied(bytes) => bytes.freeze(),
            Piece::Whole(bytes) => bytes,
        };
        self.bytes -= bytes.len();
        Some(bytes)
    }

    pub(super) fn clear(&mut self) {
        *self = Unread::default();
    }
}

/// Written, not sent: whole messages, to which may be added while they wait.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    messages: VecDeque<(BytesMut, usize)>,
    bytes: usize,
}

impl Unsent {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Adds all of `bytes`, in messages of up to `chunk` of them. A new message gets a number from `next`.
    pub(super) fn push(
        &mut self,
        mut bytes: &[u8],
        stream: StreamId,
        chunk: usize,
        next: &mut impl FnMut() -> i64,
    ) {
        self.bytes += bytes.len();
        while !bytes.is_empty() {
            let room = self.messages.back().map_or(0, |(_, body)| chunk.saturating_sub(*body));
            if room == 0 {
                let mut message = BytesMut::with_capacity(LONGEST_HEADER + bytes.len().min(chunk));
                message::begin_data(&mut message, next(), stream);
                self.messages.push_back((message, 0));
                continue;
            }
            let (now, later) = bytes.split_at(bytes.len().min(room));
            if let Some((message, body)) = self.messages.back_mut() {
                message.extend_from_slice(now);
                *body += now.len();
            }
            bytes = later;
        }
    }

    /// The next message, and how many of the stream's bytes are in it.
    pub(super) fn pop(&mut self) -> Option<(Bytes, usize)> {
        let (message, body) = self.messages.pop_front()?;
        self.bytes -= body;
        Some((message.freeze(), body))
    }

    pub(super) fn clear(&mut self) {
        *self = Unsent::default();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::Message;

    fn drain(mut unread: Unread) -> Vec<u8> {
        std::iter::from_fn(|| unread.pop()).flatten().collect()
    }

    proptest! {
        #[test]
        fn what_is_received_is_read(pieces in prop::collection::vec(0usize..20_000, 0..12)) {
            let mut unread = Unread::default();
            let mut all = Vec::new();
            for (index, length) in pieces.into_iter().enumerate() {
                let piece: Vec<u8> = (0..length).map(|at| (at * 7 + index) as u8).collect();
                unread.push(Bytes::copy_from_slice(&piece));
                all.extend(piece);
                prop_assert_eq!(unread.bytes(), all.len());
            }
            prop_assert_eq!(drain(unread), all);
        }

        #[test]
        fn what_is_written_is_sent_in_messages(pieces in prop::collection::vec(0usize..500, 0..20), chunk in 1usize..300) {
            let (mut unsent, mut number, mut all) = (Unsent::default(), 0, Vec::new());
            for (index, length) in pieces.into_iter().enumerate() {
                let piece: Vec<u8> = (0..length).map(|at| (at * 5 + index) as u8).collect();
                unsent.push(&piece, StreamId(3), chunk, &mut || { number += 1; number });
                all.extend(piece);
            }
            prop_assert_eq!(unsent.bytes(), all.len());
            let mut sent = Vec::new();
            while let Some((message, body)) = unsent.pop() {
                let Ok(Message::Data(StreamId(3), bytes)) = Message::decode(message) else { panic!("data") };
                prop_assert!(bytes.len() == body && body <= chunk);
                sent.extend(bytes);
            }
            prop_assert_eq!((sent, unsent.bytes()), (all, 0));
        }
    }
}
