//! The task of a session: moves messages between the websocket and the streams. It makes no choices.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use clock::Monotonic;
use futures_util::{Sink as _, Stream as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message as Frame;

use super::pace::Pace;
use super::{Ended, Settings};
use crate::message::Message;
use crate::mux::Role;
use crate::serve::Handler;
use crate::shared::{Happened, Shared};
use crate::stream::TunnelStream;

/// How many messages are received or sent before the other direction has its turn.
const TURN: usize = 8;
/// How many turns there are before other tasks have theirs: a long transfer must not keep a processor from a small request.
const ROUNDS: usize = 2;
/// How often it is looked for what has been waiting for too long.
const TICK: Duration = Duration::from_secs(1);
/// What streams of a session that is over get to hear, in the words of Go's implementation.
const OVER: &str = "tunnel disconnect";

/// Drives a session until it ends. Dropping it ends the session, and all that was dialled for it.
#[must_use = "a session lives while its driver is polled"]
pub struct Driver<S> {
    socket: WebSocketStream<S>,
    shared: Arc<Shared>,
    settings: Settings,
    handler: Arc<dyn Handler>,
    serving: JoinSet<()>,
    tick: Interval,
    /// Of a client: when to show that we are there, ...
    ping: Option<Interval>,
    /// ... and when to say which streams there are.
    sync: Option<Interval>,
    ping_due: bool,
    pace: Pace,
    /// Something was given to the socket that may not have left.
    unflushed: bool,
    /// Since when the socket takes nothing.
    blocked: Option<Monotonic>,
}

impl<S> std::fmt::Debug for Driver<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}

fn every(period: Duration) -> Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first one comes at once.
    interval.reset();
    interval
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Driver<S> {
    pub(super) fn new(
        socket: WebSocketStream<S>,
        shared: Arc<Shared>,
        role: Role,
        settings: Settings,
        handler: Arc<dyn Handler>,
    ) -> Self {
        let pace = Pace::new(shared.clock.monotonic());
        let of_client = |period| (role == Role::Client).then(|| every(period));
        Driver {
            socket,
            shared,
            handler,
            serving: JoinSet::new(),
            tick: every(TICK),
            ping: of_client(settings.ping),
            sync: of_client(settings.sync),
            settings,
            ping_due: false,
            pace,
            unflushed: false,
            blocked: None,
        }
    }

    fn poll_timers(&mut self, cx: &mut Context<'_>) -> Result<(), Ended> {
        if self.ping.as_mut().is_some_and(|ping| ping.poll_tick(cx).is_ready()) {
            self.ping_due = true;
            // Wakes us the next time.
            while self.ping.as_mut().is_some_and(|ping| ping.poll_tick(cx).is_ready()) {}
        }
        while self.sync.as_mut().is_some_and(|sync| sync.poll_tick(cx).is_ready()) {
            self.shared.change(|state, _| state.mux.list_streams());
        }
        while self.tick.poll_tick(cx).is_ready() {
            self.tick()?;
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<(), Ended> {
        let patience = self.settings.patience;
        let (now, silent) = self.shared.change(|state, now| {
            state.mux.tick(now);
            (now, now.since(state.heard))
        });
        self.pace.tick(now);
        if silent >= patience {
            return Err(Ended::Silent(silent));
        }
        match self.blocked.map(|since| now.since(since)) {
            Some(blocked) if blocked >= patience => Err(Ended::Stalled(blocked)),
            // What is left to say cannot be said soon.
            Some(_) if self.shared.look().closing => Err(Ended::Here),
            _ => Ok(()),
        }
    }

    /// Sends what there is; whether anything moved.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Result<bool, Ended> {
        let mut moved = false;
        for _ in 0..TURN {
            if Pin::new(&mut self.socket).poll_ready(cx)?.is_pending() {
                self.block();
                return Ok(moved);
            }
            self.blocked = None;
            let Some(frame) = self.next_frame(cx)? else { break };
            Pin::new(&mut self.socket).start_send(frame)?;
            (self.unflushed, moved) = (true, true);
        }
        if self.unflushed {
            match Pin::new(&mut self.socket).poll_flush(cx)? {
                Poll::Ready(()) => self.unflushed = false,
                Poll::Pending => self.block(),
            }
        }
        Ok(moved)
    }

    fn block(&mut self) {
        let now = self.shared.clock.monotonic();
        self.blocked.get_or_insert(now);
    }

    fn next_frame(&mut self, cx: &Context<'_>) -> Result<Option<Frame>, Ended> {
        let first = self.pace.wants_first_mark() && self.shared.look().mux.has_output();
        if std::mem::take(&mut self.ping_due) || first || self.pace.wants_mark() {
            let mark = self.pace.mark(self.shared.clock.monotonic());
            return Ok(Some(Frame::Ping(Bytes::copy_from_slice(&mark))));
        }
        let open = self.pace.is_open();
        let (next, closing) = self.shared.change(|state, now| {
            let next = if open { state.mux.next(now) } else { state.mux.next_control() };
            if next.is_none() {
                state.wait_to_drive(cx);
            }
            (next, state.closing)
        });
        match next {
            None if closing => Err(Ended::Here),
            None => Ok(None),
            Some(message) => {
                self.pace.sent(message.len());
                Ok(Some(Frame::Binary(message)))
            }
        }
    }

    /// Receives what there is; whether anything moved.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Result<bool, Ended> {
        for received in 0..TURN {
            if !self.shared.look().mux.wants_input() {
                return Ok(received > 0);
            }
            match Pin::new(&mut self.socket).poll_next(cx) {
                Poll::Pending => return Ok(received > 0),
                Poll::Ready(None) => return Err(Ended::There),
                Poll::Ready(Some(frame)) => self.receive(frame?)?,
            }
        }
        Ok(true)
    }

    fn receive(&mut self, frame: Frame) -> Result<(), Ended> {
        let message = match frame {
            Frame::Binary(bytes) => Some(Message::decode(bytes)?),
            Frame::Text(_) => return Err(Ended::Text),
            Frame::Close(_) => return Err(Ended::There),
            Frame::Ping(_) => {
                // The socket has its answer ready.
                self.unflushed = true;
                None
            }
            Frame::Pong(said) => {
                self.pace.answered(&said, self.shared.clock.monotonic());
                None
            }
            Frame::Frame(_) => None,
        };
        let handler = &self.handler;
        self.shared.change(|state, now| {
            state.heard = now;
            if let Some(message) = message {
                state.mux.receive(message, |target| handler.allows(target), now);
            }
        });
        self.act();
        Ok(())
    }

    fn act(&mut self) {
        let happened = self.shared.look().take_happened();
        for happened in happened {
            match happened {
                Happened::Opened(id, target) => {
                    let stream = TunnelStream::new(self.shared.clone(), id, target);
                    self.serving.spawn(self.handler.serve(stream));
                }
                Happened::Announced(announcement) => self.handler.announced(announcement),
                Happened::Withdrawn(announcement) => self.handler.withdrawn(announcement),
            }
        }
    }

    fn poll_turns(&mut self, cx: &mut Context<'_>) -> Result<(), Ended> {
        self.poll_timers(cx)?;
        while let Poll::Ready(Some(ended)) = self.serving.poll_join_next(cx) {
            if let Err(error) = ended {
                tracing::warn!("a stream's task failed: {error}");
            }
        }
        for _ in 0..ROUNDS {
            let sent = self.poll_send(cx)?;
            let received = self.poll_receive(cx)?;
            if !sent && !received {
                return Ok(());
            }
        }
        cx.waker().wake_by_ref();
        Ok(())
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Future for Driver<S> {
    type Output = Ended;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        let this = self.get_mut();
        match this.poll_turns(cx) {
            Ok(()) => Poll::Pending,
            Err(ended) => {
                this.end();
                Poll::Ready(ended)
            }
        }
    }
}

impl<S> Driver<S> {
    fn end(&mut self) {
        self.shared.change(|state, _| state.mux.end(OVER));
        self.serving.abort_all();
    }
}

impl<S> Drop for Driver<S> {
    fn drop(&mut self) {
        self.end();
    }
}
