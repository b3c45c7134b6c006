//! The side that is connected to: every client's sessions, and who is reached through which.
//!
//! A client may have several sessions (replicas of its agent). A dial takes the one that is heard of and has the fewest
//! streams; one that has ended is passed over. A client whose sessions are all at another server of ours is reached
//! through that server's session with us.

mod accept;
mod metrics;
mod peer;
mod registry;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clock::{Clock, Entropy};
use tokio::sync::watch;
use tokio_tungstenite::WebSocketStream;

use crate::client::number;
use crate::message::Announcement;
use crate::mux::{Refused, Role};
use crate::names::{ClientKey, SessionKey, Target};
use crate::serve::{Handler, Io, Later, Nothing};
use crate::session::{Ended, Session, SessionView, Settings};
use crate::stream::TunnelStream;
use registry::{Attached, Registry};

pub use accept::{Authorizer, Chain, Verdict};
pub use peer::{Identity, PEER_ID, PEER_TOKEN, Peer};

/// A session that is silent for so long is troubled: two pings did not come. Others are preferred.
const QUIET: Duration = Duration::from_secs(12);

/// Why a client cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    /// It has no session, here or at a peer.
    #[error("failed to find Session for client {0}")]
    NoSession(ClientKey),
    /// It has, but none takes another stream.
    #[error("no session of client {client} takes another stream: {reason}")]
    Refused {
        /// Who.
        client: ClientKey,
        /// Why the last one did not.
        reason: Refused,
    },
}

/// What kind of session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A client, which is reached through it.
    Client,
    /// Another server, whose clients are reached through it.
    Peer,
}

/// A hub. Clones are the same one.
#[derive(Clone)]
pub struct Hub(Arc<Inner>);

struct Inner {
    registry: Mutex<Registry>,
    changes: watch::Sender<()>,
    settings: Settings,
    clock: Arc<dyn Clock>,
    entropy: Mutex<Box<dyn Entropy>>,
    counts: metrics::Counts,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("sessions", &self.registry().len()).finish()
    }
}

/// A session of a hub, for people who want to know what is going on.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HubSessionView {
    /// Whose.
    pub client: ClientKey,
    /// Which of them.
    pub key: SessionKey,
    /// What kind.
    pub kind: Kind,
    /// Of a peer: the clients that are reached through it.
    pub clients: Vec<ClientKey>,
    /// The session itself.
    #[serde(flatten)]
    pub session: SessionView,
}

impl Hub {
    /// A hub without sessions.
    pub fn new(settings: Settings, clock: Arc<dyn Clock>, entropy: Box<dyn Entropy>) -> Self {
        Hub(Arc::new(Inner {
            registry: Mutex::default(),
            changes: watch::Sender::new(()),
            settings,
            clock,
            entropy: Mutex::new(entropy),
            counts: metrics::Counts::default(),
        }))
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.0.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what sessions there are, and tells who waits for that.
    fn change<T>(&self, change: impl FnOnce(&mut Registry) -> T) -> T {
        let result = change(&mut self.registry());
        self.0.changes.send_replace(());
        result
    }

    fn number(&self) -> i64 {
        let mut entropy = self.0.entropy.lock().unwrap_or_else(PoisonError::into_inner);
        number(entropy.as_mut())
    }

    /// Keeps a session of a client (or a peer) over an open websocket, until it ends or this is dropped. They may dial
    /// nothing here.
    pub async fn keep<S: Io>(&self, client: ClientKey, kind: Kind, socket: WebSocketStream<S>) -> Ended {
        let key = SessionKey(self.number());
        let handler: Arc<dyn Handler> = match kind {
            Kind::Client => Arc::new(Nothing),
            Kind::Peer => Arc::new(Listener { hub: self.clone(), key }),
        };
        let (settings, clock) = (self.0.settings, self.0.clock.clone());
        let (session, driver) = Session::new(socket, Role::Server, settings, handler, clock, self.number());
        self.change(|registry| registry.add(Attached::new(client.clone(), key, kind, session)));
        let _attached = Attachment { hub: self.clone(), key };
        tracing::info!(client = client.as_str(), session = key.0, ?kind, "tunnel session began");
        let ended = driver.await;
        tracing::info!(client = client.as_str(), session = key.0, ?kind, "tunnel session ended: {ended}");
        ended
    }

    /// Whether a client can be reached.
    pub fn has(&self, client: &ClientKey) -> bool {
        !self.registry().routes(client).is_empty()
    }

    /// Waits until a client can be reached.
    pub async fn wait_for(&self, client: &ClientKey) {
        let mut changes = self.0.changes.subscribe();
        // The sender is ours: it does not go away.
        let _ = changes.wait_for(|()| self.has(client)).await;
    }

    /// Is told whenever sessions come or go, here or at a peer.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.0.changes.subscribe()
    }

    /// A stream to something behind a client.
    ///
    /// # Errors
    /// If the client has no session that takes one.
    pub fn dial(&self, client: &ClientKey, target: &Target) -> Result<TunnelStream, Unreachable> {
        let routes = self.registry().routes(client);
        open(client, target, routes)
    }

    /// The same through a session of its own only, never through a peer: peers ask each other once.
    pub(crate) fn dial_here(&self, client: &ClientKey, target: &Target) -> Result<TunnelStream, Unreachable> {
        let routes = self.registry().local_routes(client);
        open(client, target, routes)
    }

    /// Ends all sessions of a client: its credential was taken back.
    pub fn disconnect(&self, client: &ClientKey) {
        self.registry().of(client).for_each(Session::close);
    }

    /// Clients that have sessions here.
    pub fn clients(&self) -> Vec<ClientKey> {
        self.registry().clients()
    }

    /// Every session, with its streams.
    pub fn view(&self) -> Vec<HubSessionView> {
        self.registry().view()
    }
}

fn open(
    client: &ClientKey,
    target: &Target,
    routes: Vec<registry::Route>,
) -> Result<TunnelStream, Unreachable> {
    let mut failed = Unreachable::NoSession(client.clone());
    for route in routes {
        let target = if route.through_peer { target.through(client) } else { target.clone() };
        match route.session.open(target) {
            Ok(stream) => return Ok(stream),
            Err(Refused::Ended) => {}
            Err(reason) => failed = Unreachable::Refused { client: client.clone(), reason },
        }
    }
    Err(failed)
}

/// A session's place in the hub, until it is dropped.
struct Attachment {
    hub: Hub,
    key: SessionKey,
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let removed = self.hub.change(|registry| registry.remove(self.key));
        if let Some(removed) = removed {
            self.hub.0.counts.add(&removed.session.totals());
        }
    }
}

/// Hears which clients a peer has.
struct Listener {
    hub: Hub,
    key: SessionKey,
}

impl Handler for Listener {
    fn allows(&self, target: &Target) -> bool {
        Nothing.allows(target)
    }

    fn serve(&self, stream: TunnelStream) -> Later<'static, ()> {
        Nothing.serve(stream)
    }

    fn announced(&self, announced: Announcement) {
        self.hub.change(|registry| registry.announced(self.key, announced));
    }

    fn withdrawn(&self, announced: Announcement) {
        self.hub.change(|registry| registry.withdrawn(self.key, &announced));
    }
}
