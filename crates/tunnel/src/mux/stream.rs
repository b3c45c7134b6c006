//! One stream: what waits in its two directions, and how far they are.

use clock::Monotonic;

use super::queue::{Unread, Unsent};
use crate::message::Reason;
use crate::names::{StreamId, Target};

/// The direction from them to us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Receiving {
    /// Bytes may come.
    Open,
    /// None come any more; what is unread can be read.
    Ended(Reason),
}

/// The direction from us to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    /// Bytes may be written.
    Open,
    /// None are written any more; when what is there has been sent, this is said.
    Finishing(Reason),
    /// All is said.
    Done,
}

/// Who wanted a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Opener {
    /// We dialled.
    Us,
    /// They did.
    Them,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) target: Target,
    pub(super) opener: Opener,
    pub(super) receiving: Receiving,
    pub(super) sending: Sending,
    pub(super) unread: Unread,
    pub(super) unsent: Unsent,
    /// Somebody can read and write it.
    pub(super) held: bool,
    /// They asked us not to send.
    pub(super) paused: bool,
    /// We asked them not to send; when we last did, so much was unread.
    pub(super) pausing: Option<usize>,
    /// It waits for its turn to send.
    pub(super) queued: bool,
    /// Since when their lists of streams do not have it.
    pub(super) absent: Option<Monotonic>,
    /// It ended with an error.
    pub(super) broken: bool,
    /// They were told that nobody reads what they send.
    pub(super) refused: bool,
    /// When bytes or an end last moved.
    pub(super) touched: Monotonic,
    pub(super) received: u64,
    pub(super) sent: u64,
}

impl Stream {
    pub(super) fn new(target: Target, opener: Opener, now: Monotonic) -> Self {
        Stream {
            target,
            opener,
            receiving: Receiving::Open,
            sending: Sending::Open,
            unread: Unread::default(),
            unsent: Unsent::default(),
            held: true,
            paused: false,
            pausing: None,
            queued: false,
            absent: None,
            broken: false,
            refused: false,
            touched: now,
            received: 0,
            sent: 0,
        }
    }

    /// Whether nobody has anything to do with it any more.
    pub(super) fn is_over(&self) -> bool {
        !self.held && self.sending == Sending::Done && self.receiving != Receiving::Open
    }

    /// Whether exactly one direction has ended.
    pub(super) fn is_half_closed(&self) -> bool {
        (self.sending == Sending::Done) != (self.receiving != Receiving::Open)
    }

    /// Whether it could send if it had the turn.
    pub(super) fn has_turn(&self) -> bool {
        !self.paused && !self.unsent.is_empty()
    }

    pub(super) fn view(&self, id: StreamId) -> StreamView {
        let ended = match &self.receiving {
            Receiving::Ended(reason) => Some(reason.clone()),
            Receiving::Open => None,
        };
        StreamView {
            id,
            target: self.target.clone(),
            opener: self.opener,
            received: self.received,
            sent: self.sent,
            unread: self.unread.bytes(),
            unsent: self.unsent.bytes(),
            paused_by_them: self.paused,
            paused_by_us: self.pausing.is_some(),
            ended,
            finished: self.sending != Sending::Open,
        }
    }
}

/// A stream, for people who want to know what is going on.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamView {
    /// Which.
    pub id: StreamId,
    /// What it leads to.
    pub target: Target,
    /// Who wanted it.
    pub opener: Opener,
    /// Bytes that came.
    pub received: u64,
    /// Bytes that went.
    pub sent: u64,
    /// Bytes that came and nobody has read.
    pub unread: usize,
    /// Bytes that were written and have not gone.
    pub unsent: usize,
    /// They asked us to wait.
    pub paused_by_them: bool,
    /// We asked them to wait.
    pub paused_by_us: bool,
    /// How their direction ended, if it did.
    pub ended: Option<Reason>,
    /// Nothing more is written in our direction.
    pub finished: bool,
}
