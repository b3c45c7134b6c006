//! A session: one websocket, the task that drives it, and a handle for everybody else.

mod driver;
mod pace;

use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use jiff::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite;

use crate::message::{self, Announcement};
use crate::mux::{Limits, Mux, Refused, Role, StreamView, Totals};
use crate::names::Target;
use crate::serve::Handler;
use crate::shared::Shared;
use crate::stream::TunnelStream;

pub use driver::Driver;

/// How a session is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Memory and patience for streams.
    pub limits: Limits,
    /// How often a client shows that it is there. Go's server gives up after a minute without.
    pub ping: Duration,
    /// How often a client says which streams it has.
    pub sync: Duration,
    /// How long the other side may be silent, and how long it may not read.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            limits: Limits::default(),
            ping: Duration::from_secs(5),
            sync: Duration::from_secs(60),
            patience: Duration::from_secs(60),
        }
    }
}

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// We wanted it so.
    #[error("it was closed here")]
    Here,
    /// They wanted it so.
    #[error("the other side closed it")]
    There,
    /// The connection is gone.
    #[error("the connection broke: {0}")]
    Broken(#[from] tungstenite::Error),
    /// Nothing came.
    #[error("nothing came for {0:?}")]
    Silent(Duration),
    /// Nothing could be sent.
    #[error("nothing could be sent for {0:?}")]
    Stalled(Duration),
    /// What came is not the protocol.
    #[error("what came is {0}")]
    Garbled(#[from] message::Error),
    /// What came is not the protocol.
    #[error("what came is text")]
    Text,
}

/// A handle to a session. Clones are the same session; it goes on without any.
#[derive(Clone, Debug)]
pub struct Session {
    shared: Arc<Shared>,
    began: Timestamp,
}

/// A session, for people who want to know what is going on.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionView {
    /// When it began.
    #[serde(serialize_with = "as_text")]
    pub began: Timestamp,
    /// How long ago something last came.
    pub silent_seconds: f64,
    /// Of all streams that there were.
    pub totals: Totals,
    /// The streams that there are.
    pub streams: Vec<StreamView>,
}

fn as_text<S: serde::Serializer>(time: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(time)
}

impl Session {
    /// A session over an open websocket. It lives while the driver is polled, and ends when that is dropped. Messages
    /// are numbered from `number` on, for logs.
    pub fn new<S: AsyncRead + AsyncWrite + Send + Unpin>(
        socket: WebSocketStream<S>,
        role: Role,
        settings: Settings,
        handler: Arc<dyn Handler>,
        clock: Arc<dyn Clock>,
        number: i64,
    ) -> (Session, Driver<S>) {
        let began = clock.now();
        let shared = Shared::new(Mux::new(role, settings.limits, number), clock);
        let driver = Driver::new(socket, shared.clone(), role, settings, handler);
        (Session { shared, began }, driver)
    }

    /// Opens a stream. It can be written to at once; if it cannot be dialled over there, reading fails.
    ///
    /// # Errors
    /// If the session has ended or has no room.
    pub fn open(&self, target: Target) -> Result<TunnelStream, Refused> {
        let id = self.shared.change_and_drive(|state, now| state.mux.open(target.clone(), now))?;
        Ok(TunnelStream::new(self.shared.clone(), id, target))
    }

    /// Ends the session, soon.
    pub fn close(&self) {
        self.shared.change_and_drive(|state, _| state.closing = true);
    }

    /// Says that a session of somebody is here.
    pub fn announce(&self, announcement: Announcement) {
        self.shared.change_and_drive(|state, _| state.mux.announce(announcement));
    }

    /// Says that it is here no more.
    pub fn withdraw(&self, announcement: Announcement) {
        self.shared.change_and_drive(|state, _| state.mux.withdraw(announcement));
    }

    /// Whether it is over.
    pub fn is_ended(&self) -> bool {
        self.shared.look().mux.is_ended()
    }

    /// How many streams it has.
    pub fn streams(&self) -> usize {
        self.shared.look().mux.len()
    }

    /// How long nothing has come.
    pub fn silent(&self) -> Duration {
        let now = self.shared.clock.monotonic();
        now.since(self.shared.look().heard)
    }

    /// Bytes of all streams that there were.
    pub fn totals(&self) -> Totals {
        self.shared.look().mux.totals()
    }

    /// What is going on.
    pub fn view(&self) -> SessionView {
        let silent_seconds = self.silent().as_secs_f64();
        let state = self.shared.look();
        SessionView {
            began: self.began,
            silent_seconds,
            totals: state.mux.totals(),
            streams: state.mux.view(),
        }
    }
}
