//! Several servers in front of the same clusters: each has a session with every other, over which it says whose sessions it
//! has, and dials for the others.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use clock::Entropy;
use http::{HeaderMap, HeaderValue, Uri};

use super::Hub;
use crate::client::{Client, Hello, Progress, Transport};
use crate::message::Announcement;
use crate::names::Target;
use crate::serve::{Dial, Forward, Io, Later};
use crate::session::Session;

/// The header with the id of the server that connects.
pub const PEER_ID: &str = "x-api-tunnel-id";
/// The header with its token.
pub const PEER_TOKEN: &str = "x-api-tunnel-token";

/// Who a server is to the others.
#[derive(Clone)]
pub struct Identity {
    /// Its name; in Rancher a pod's address.
    pub id: String,
    /// What proves it.
    pub token: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Another server.
pub struct Peer {
    /// Where it takes sessions.
    pub url: Uri,
    /// The way there.
    pub transport: Arc<dyn Transport>,
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Peer").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Hub {
    /// Takes sessions of another server, which is who it says it is.
    pub fn trust_peer(&self, peer: Identity) {
        self.registry().peers.insert(peer.id, peer.token);
    }

    /// Takes no more sessions of it; those that there are end.
    pub fn distrust_peer(&self, id: &str) {
        let mut registry = self.registry();
        registry.peers.remove(id);
        let of_peer =
            registry.iter().filter(|one| one.kind == super::Kind::Peer && one.client.as_str() == id);
        of_peer.for_each(|one| one.session.close());
    }

    /// Keeps a session with another server for as long as this is polled: tells it which clients are here, and dials them
    /// for it.
    ///
    /// # Errors
    /// If who we are cannot be said in a header.
    pub async fn join_peer(&self, us: &Identity, peer: Peer, entropy: Box<dyn Entropy>) -> io::Result<()> {
        let hello = Hello { url: peer.url, headers: headers(us).map_err(io::Error::other)? };
        let client = Client {
            transport: peer.transport,
            handler: Arc::new(Forward::new(|_: &Target| true, ThroughHere(self.clone()))),
            settings: self.0.settings,
            clock: self.0.clock.clone(),
            entropy,
        };
        let (connected, mut sessions) = tokio::sync::mpsc::unbounded_channel::<Session>();
        let announce = async {
            let mut session = None;
            loop {
                session = match session.take() {
                    None => sessions.recv().await,
                    Some(session) => tokio::select! {
                        newer = sessions.recv() => newer,
                        () = self.keep_informed(&session) => None,
                    },
                };
            }
        };
        let run = client.run(
            || hello.clone(),
            |progress| match progress {
                Progress::Connected(session) => {
                    let _ = connected.send(session.clone());
                }
                Progress::Ended(why) => tracing::info!("the session with peer {} ended: {why}", hello.url),
                Progress::Failed(why) => tracing::warn!("no session with peer {}: {why}", hello.url),
            },
        );
        tokio::select! {
            never = run => match never {},
            () = announce => Ok(()),
        }
    }

    /// Tells a peer which clients are here, whenever that changes. What it has to hear is the difference to what it has heard:
    /// one that does not read holds nothing up, and nothing piles up for it.
    async fn keep_informed(&self, session: &Session) {
        let mut changes = self.0.changes.subscribe();
        let mut heard = BTreeSet::new();
        while !session.is_ended() {
            let current = self.registry().announcements();
            let (gone, new) = difference(&heard, &current);
            gone.into_iter().for_each(|one| session.withdraw(one));
            new.into_iter().for_each(|one| session.announce(one));
            heard = current;
            let _ = changes.changed().await;
        }
    }
}

/// What somebody who knows of `heard` has to hear to know of `current`: what is gone, what is new.
fn difference(
    heard: &BTreeSet<Announcement>,
    current: &BTreeSet<Announcement>,
) -> (Vec<Announcement>, Vec<Announcement>) {
    (heard.difference(current).cloned().collect(), current.difference(heard).cloned().collect())
}

fn headers(us: &Identity) -> Result<HeaderMap, http::header::InvalidHeaderValue> {
    let mut token = HeaderValue::from_str(&us.token)?;
    token.set_sensitive(true);
    let mut headers = HeaderMap::new();
    headers.insert(PEER_ID, HeaderValue::from_str(&us.id)?);
    headers.insert(PEER_TOKEN, token);
    Ok(headers)
}

/// Dials for a peer, through the sessions that are here.
struct ThroughHere(Hub);

impl Dial for ThroughHere {
    fn dial(&self, target: Target) -> Later<'static, io::Result<Box<dyn Io>>> {
        let dialled = match target.split_client() {
            None => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{target} names no client"))),
            Some((client, target)) => self.0.dial_here(&client, &target).map_err(io::Error::other),
        };
        Box::pin(async move { dialled.map(|stream| Box::new(stream) as Box<dyn Io>) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{ClientKey, SessionKey};

    #[test]
    fn a_peer_hears_what_it_does_not_know() {
        let one = |client: &str, session| Announcement {
            client: ClientKey::new(client).unwrap(),
            session: SessionKey(session),
        };
        let heard = BTreeSet::from([one("a", 1), one("b", 2)]);
        let current = BTreeSet::from([one("b", 2), one("b", 3)]);
        assert_eq!(difference(&heard, &current), (vec![one("a", 1)], vec![one("b", 3)]));
    }
}
