//! Many streams over one connection: what every message means and what goes next. No IO, no clock of its own.
//!
//! # Rules
//! - **Turns.** Messages that are not `Data` go first; then streams take turns, one message of at most
//!   [`Limits::chunk`] bytes each. A stream that they paused loses its turn, not its bytes.
//! - **Bounds.** Of each stream at most [`Limits::unsent`] bytes wait to be sent (its writer waits), and at most
//!   [`Limits::unread`] to be read (they are asked to pause long before that). A stalled reader stops its own
//!   stream, never another.
//! - **Two pauses.** What they ask of us and what we ask of them have nothing to do with each other. The Go implementation
//!   keeps one flag for both, so that its own `Resume` makes it forget our `Pause`: we repeat it then.
//! - **Ends.** `Error` with the text `EOF` ends one direction. Go takes it for both and echoes it; so a stream ends when
//!   both ends have said it, or with any other text at once. Each side says it once.
//! - **Lost streams.** A list of streams (`SyncConnections`) ends those of ours that are missing in two of them, some time
//!   apart: a stream that was opened while the first list was under way is in the second.
//! - **One stream's trouble** is answered on that stream. Only bytes that are no message end the session.

mod limits;
mod queue;
mod stream;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use clock::Monotonic;

pub use limits::Limits;
pub use stream::{Opener, StreamView};

use crate::message::{Announcement, Message, Reason};
use crate::names::{StreamId, Target};
use stream::{Receiving, Sending, Stream};

/// Which end of the connection we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// We connected: we keep the session alive and say which streams there are.
    Client,
    /// We were connected to.
    Server,
}

/// Something that somebody waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A stream has bytes, or its end.
    Readable(StreamId),
    /// A stream has room, or no use for bytes any more.
    Writable(StreamId),
    /// They want this stream; it is there.
    Opened(StreamId, Target),
    /// They have a session.
    Announced(Announcement),
    /// They have it no more.
    Withdrawn(Announcement),
}

/// What reading gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// Some bytes.
    Bytes(Bytes),
    /// None yet.
    Nothing,
    /// None any more.
    Ended(Reason),
}

/// What writing gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// So many bytes were taken, at least one.
    Taken(usize),
    /// There is no room yet.
    Full,
    /// Nobody wants them any more.
    Closed,
}

/// Why a stream cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There are as many as there may be.
    #[error("the session has {0} streams already")]
    TooMany(usize),
    /// It would not arrive as it is.
    #[error("{0} is longer than the {max} bytes that can be asked for", max = Target::LONGEST)]
    TooLong(Target),
    /// The session is over.
    #[error("the session has ended")]
    Ended,
}

/// Bytes of all streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Streams that there were.
    pub opened: u64,
    /// Bytes that came.
    pub received: u64,
    /// Bytes that went.
    pub sent: u64,
    /// The most bytes of one stream that ever waited to be sent.
    pub most_unsent: usize,
    /// The most bytes of one stream that ever waited to be read.
    pub most_unread: usize,
}

/// The streams of one session.
#[derive(Debug)]
pub struct Mux {
    limits: Limits,
    streams: BTreeMap<StreamId, Stream>,
    control: VecDeque<Message>,
    turns: VecDeque<StreamId>,
    next_stream: i64,
    number: i64,
    events: Vec<Event>,
    totals: Totals,
    ended: bool,
}

impl Mux {
    /// A session that begins. Messages are numbered from `number` on.
    pub fn new(role: Role, limits: Limits, number: i64) -> Self {
        // Even and odd, so that both sides may dial.
        let next_stream = if role == Role::Server { 2 } else { 1 };
        Mux {
            limits,
            streams: BTreeMap::new(),
            control: VecDeque::new(),
            turns: VecDeque::new(),
            next_stream,
            number,
            events: Vec::new(),
            totals: Totals::default(),
            ended: false,
        }
    }

    /// Opens a stream. There is no answer to it: a failure comes as the stream's end.
    ///
    /// # Errors
    /// If there can be none.
    pub fn open(&mut self, target: Target, now: Monotonic) -> Result<StreamId, Refused> {
        if self.ended {
            return Err(Refused::Ended);
        }
        if !target.fits() {
            return Err(Refused::TooLong(target));
        }
        if self.streams.len() >= self.limits.streams {
            return Err(Refused::TooMany(self.streams.len()));
        }
        let id = StreamId(self.next_stream);
        self.next_stream += 2;
        self.totals.opened += 1;
        self.streams.insert(id, Stream::new(target.clone(), Opener::Us, now));
        self.control.push_back(Message::Connect(id, target));
        Ok(id)
    }

    /// Takes bytes that came on a stream.
    pub fn read(&mut self, id: StreamId) -> Read {
        let Some(stream) = self.streams.get_mut(&id) else { return Read::Ended(Reason::Eof) };
        let Some(bytes) = stream.unread.pop() else {
            return match &stream.receiving {
                Receiving::Open => Read::Nothing,
                Receiving::Ended(reason) => Read::Ended(reason.clone()),
            };
        };
        if stream.pausing.is_some() && stream.unread.bytes() < self.limits.resume_below {
            stream.pausing = None;
            if stream.receiving == Receiving::Open {
                self.control.push_back(Message::Resume(id));
            }
        }
        Read::Bytes(bytes)
    }

    /// Whether a stream is of no use any more, whatever can still be read of it.
    pub fn is_broken(&self, id: StreamId) -> bool {
        self.streams.get(&id).is_none_or(|stream| stream.broken)
    }

    /// Gives bytes to be sent on a stream.
    pub fn write(&mut self, id: StreamId, bytes: &[u8], now: Monotonic) -> Written {
        let Some(stream) = self.streams.get_mut(&id) else { return Written::Closed };
        if stream.sending != Sending::Open {
            return Written::Closed;
        }
        let room = self.limits.unsent.saturating_sub(stream.unsent.bytes());
        if room == 0 && !bytes.is_empty() {
            return Written::Full;
        }
        let taken = bytes.len().min(room);
        let number = &mut self.number;
        stream.unsent.push(&bytes[..taken], id, self.limits.chunk, &mut || {
            *number = number.wrapping_add(1);
            *number
        });
        stream.touched = now;
        self.totals.most_unsent = self.totals.most_unsent.max(stream.unsent.bytes());
        queue(&mut self.turns, id, stream);
        Written::Taken(taken)
    }

    /// No more is written on a stream; what was written is still sent.
    pub fn finish(&mut self, id: StreamId, reason: Reason, now: Monotonic) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.sending == Sending::Open {
            stream.sending = Sending::Finishing(reason);
            stream.touched = now;
            self.settle(id);
        }
    }

    /// Nobody holds a stream any more: what was written is still sent, what comes is of no use.
    pub fn release(&mut self, id: StreamId, now: Monotonic) {
        self.finish(id, Reason::Eof, now);
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.held = false;
            stream.touched = now;
            stream.unread.clear();
            let resume = stream.pausing.take().is_some() && stream.receiving == Receiving::Open;
            if resume {
                // What they still have is of no use, but it must not keep them.
                self.control.push_back(Message::Resume(id));
            }
            self.settle(id);
        }
    }

    /// Says that a session is there.
    pub fn announce(&mut self, announcement: Announcement) {
        self.control.push_back(Message::AddClient(announcement));
    }

    /// Says that a session is there no more.
    pub fn withdraw(&mut self, announcement: Announcement) {
        self.control.push_back(Message::RemoveClient(announcement));
    }

    /// Says which streams there are.
    pub fn list_streams(&mut self) {
        self.control.push_back(Message::Sync(self.streams.keys().copied().collect()));
    }

    /// Whether more should be received now.
    pub fn wants_input(&self) -> bool {
        self.control.len() < self.limits.control
    }

    /// Takes a message that came. `allowed` says whether they may dial something.
    pub fn receive(&mut self, message: Message, allowed: impl FnOnce(&Target) -> bool, now: Monotonic) {
        match message {
            Message::Data(id, bytes) => self.data(id, bytes, now),
            Message::Connect(id, target) => self.connect(id, target, allowed, now),
            Message::Error(id, reason) => self.error(id, reason, now),
            Message::Pause(id) => {
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.paused = true;
                }
            }
            Message::Resume(id) => self.resume(id),
            Message::Sync(listed) => self.missing(&listed.into_iter().collect(), now),
            Message::AddClient(announced) => self.events.push(Event::Announced(announced)),
            Message::RemoveClient(announced) => self.events.push(Event::Withdrawn(announced)),
            Message::Unknown(_) => {}
        }
    }

    fn data(&mut self, id: StreamId, bytes: Bytes, now: Monotonic) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return self.control.push_back(Message::Error(id, Reason::failed("connection not found")));
        };
        stream.received += bytes.len() as u64;
        self.totals.received += bytes.len() as u64;
        if stream.receiving != Receiving::Open {
            return;
        }
        if !stream.held {
            // They know that nothing comes from us any more, but not that nothing they send is read.
            if stream.sending == Sending::Done && !std::mem::replace(&mut stream.refused, true) {
                self.control.push_back(Message::Error(id, Reason::failed("nobody reads this any more")));
            }
            return;
        }
        stream.touched = now;
        stream.unread.push(bytes);
        self.events.push(Event::Readable(id));
        let unread = stream.unread.bytes();
        self.totals.most_unread = self.totals.most_unread.max(unread);
        if unread > self.limits.unread {
            return self.abort(id, Reason::failed("too much was sent in spite of a pause"));
        }
        // Who goes on in spite of it has forgotten, or did not know.
        let again = stream.pausing.map_or(0, |said| said + self.limits.pause_above / 2);
        if unread > self.limits.pause_above.max(again) {
            stream.pausing = Some(unread);
            self.control.push_back(Message::Pause(id));
        }
    }

    fn connect(
        &mut self,
        id: StreamId,
        target: Target,
        allowed: impl FnOnce(&Target) -> bool,
        now: Monotonic,
    ) {
        if self.streams.contains_key(&id) {
            // Whose bytes are whose cannot be told any more.
            return self.abort(id, Reason::failed("a second stream of the same number"));
        }
        let refusal = match () {
            () if !allowed(&target) => Some("connect not allowed"),
            () if self.streams.len() >= self.limits.streams => Some("too many streams"),
            () => None,
        };
        if let Some(refusal) = refusal {
            return self.control.push_back(Message::Error(id, Reason::failed(refusal)));
        }
        self.totals.opened += 1;
        self.streams.insert(id, Stream::new(target.clone(), Opener::Them, now));
        self.events.push(Event::Opened(id, target));
    }

    fn error(&mut self, id: StreamId, reason: Reason, now: Monotonic) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.touched = now;
        if stream.receiving == Receiving::Open {
            stream.receiving = Receiving::Ended(reason.clone());
            self.events.push(Event::Readable(id));
        }
        if reason != Reason::Eof {
            // Nothing that we send arrives any more. The echo tells them that we know.
            stream.broken = true;
            stream.unsent.clear();
            if stream.sending != Sending::Done {
                stream.sending = Sending::Done;
                self.control.push_back(Message::Error(id, reason));
            }
            self.events.push(Event::Writable(id));
        }
        self.settle(id);
    }

    fn resume(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.paused = false;
        if stream.pausing.is_some() {
            self.control.push_back(Message::Pause(id));
        }
        queue(&mut self.turns, id, stream);
    }

    /// Ends streams that they do not have.
    fn missing(&mut self, listed: &BTreeSet<StreamId>, now: Monotonic) {
        let mut lost = Vec::new();
        for (id, stream) in &mut self.streams {
            if listed.contains(id) {
                stream.absent = None;
            } else if now.since(*stream.absent.get_or_insert(now)) >= self.limits.absent {
                lost.push(*id);
            }
        }
        for id in lost {
            self.abort(id, Reason::failed("the other side does not have this stream"));
        }
    }

    /// Ends a stream at once, and says so.
    fn abort(&mut self, id: StreamId, reason: Reason) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.sending != Sending::Done {
            self.control.push_back(Message::Error(id, reason.clone()));
        }
        self.cut(id, reason);
    }

    /// Ends a stream at once.
    fn cut(&mut self, id: StreamId, reason: Reason) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.broken = true;
        stream.unsent.clear();
        stream.sending = Sending::Done;
        if stream.receiving == Receiving::Open {
            stream.receiving = Receiving::Ended(reason);
        }
        self.events.extend([Event::Readable(id), Event::Writable(id)]);
        self.settle(id);
    }

    /// Says the end once all is sent; forgets what is over.
    fn settle(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if let Sending::Finishing(reason) = &stream.sending
            && stream.unsent.is_empty()
        {
            self.control.push_back(Message::Error(id, reason.clone()));
            stream.sending = Sending::Done;
        }
        if stream.is_over() {
            self.streams.remove(&id);
        }
    }

    /// Whether something may have to be sent.
    pub fn has_output(&self) -> bool {
        !self.control.is_empty() || !self.turns.is_empty()
    }

    /// What is to be sent next of all that is not `Data`.
    pub fn next_control(&mut self) -> Option<Bytes> {
        let message = self.control.pop_front()?;
        self.number = self.number.wrapping_add(1);
        Some(message.encode(self.number))
    }

    /// What is to be sent next.
    pub fn next(&mut self, now: Monotonic) -> Option<Bytes> {
        if let Some(message) = self.next_control() {
            return Some(message);
        }
        while let Some(id) = self.turns.pop_front() {
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            stream.queued = false;
            if !stream.has_turn() {
                continue;
            }
            let Some((message, bytes)) = stream.unsent.pop() else { continue };
            stream.sent += bytes as u64;
            stream.touched = now;
            self.totals.sent += bytes as u64;
            // Half of the room at once: fewer, longer turns for the writer.
            if stream.unsent.bytes() <= self.limits.unsent / 2 {
                self.events.push(Event::Writable(id));
            }
            queue(&mut self.turns, id, stream);
            self.settle(id);
            return Some(message);
        }
        None
    }

    /// Ends what has been waiting for too long. To be called now and then.
    pub fn tick(&mut self, now: Monotonic) {
        let mut late = Vec::new();
        for (id, stream) in &self.streams {
            let silent = now.since(stream.touched);
            let most = match stream.held {
                false => Some(self.limits.linger),
                true if stream.is_half_closed() => Some(self.limits.half_closed),
                true => None,
            };
            if most.is_some_and(|most| silent >= most) {
                late.push(*id);
            }
        }
        for id in late {
            self.abort(id, Reason::failed("one end of the stream did not come"));
        }
    }

    /// The session is over: every stream ends with this.
    pub fn end(&mut self, reason: &str) {
        self.ended = true;
        let ids: Vec<_> = self.streams.keys().copied().collect();
        for id in ids {
            self.cut(id, Reason::failed(reason));
        }
        self.control.clear();
        self.turns.clear();
    }

    /// Whether the session is over.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// What has happened since this was last asked.
    pub fn take_events(&mut self) -> std::vec::Drain<'_, Event> {
        self.events.drain(..)
    }

    /// How many streams there are.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Bytes of all streams that there were.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Every stream.
    pub fn view(&self) -> Vec<StreamView> {
        self.streams.iter().map(|(id, stream)| stream.view(*id)).collect()
    }
}

/// Gives a stream its place in the line, unless it has one or no use for it.
fn queue(turns: &mut VecDeque<StreamId>, id: StreamId, stream: &mut Stream) {
    if !stream.queued && stream.has_turn() {
        stream.queued = true;
        turns.push_back(id);
    }
}
