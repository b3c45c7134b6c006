//! The sessions that there are, and which one to take.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::{HubSessionView, Kind, QUIET};
use crate::message::Announcement;
use crate::names::{ClientKey, SessionKey};
use crate::session::Session;

/// How many clients a peer may say it has.
const MOST_ANNOUNCED: usize = 100_000;

/// A session and whose it is.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) client: ClientKey,
    pub(super) key: SessionKey,
    pub(super) kind: Kind,
    pub(super) session: Session,
    /// Of a peer: what it says it has.
    announced: BTreeMap<ClientKey, BTreeSet<SessionKey>>,
}

impl Attached {
    pub(super) fn new(client: ClientKey, key: SessionKey, kind: Kind, session: Session) -> Self {
        Attached { client, key, kind, session, announced: BTreeMap::new() }
    }
}

/// A way to a client.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) session: Session,
    pub(super) through_peer: bool,
}

#[derive(Debug, Default)]
pub(super) struct Registry {
    sessions: BTreeMap<SessionKey, Attached>,
    by_client: BTreeMap<ClientKey, BTreeSet<SessionKey>>,
    /// Peers' tokens, by their ids.
    pub(super) peers: BTreeMap<String, String>,
}

impl Registry {
    pub(super) fn len(&self) -> usize {
        self.sessions.len()
    }

    pub(super) fn add(&mut self, attached: Attached) {
        if attached.kind == Kind::Client {
            self.by_client.entry(attached.client.clone()).or_default().insert(attached.key);
        }
        self.sessions.insert(attached.key, attached);
    }

    pub(super) fn remove(&mut self, key: SessionKey) -> Option<Attached> {
        let attached = self.sessions.remove(&key)?;
        if let Some(keys) = self.by_client.get_mut(&attached.client) {
            keys.remove(&key);
            if keys.is_empty() {
                self.by_client.remove(&attached.client);
            }
        }
        Some(attached)
    }

    pub(super) fn announced(&mut self, peer: SessionKey, announced: Announcement) {
        let Some(peer) = self.sessions.get_mut(&peer) else { return };
        if peer.announced.len() < MOST_ANNOUNCED {
            peer.announced.entry(announced.client).or_default().insert(announced.session);
        }
    }

    pub(super) fn withdrawn(&mut self, peer: SessionKey, announced: &Announcement) {
        let Some(peer) = self.sessions.get_mut(&peer) else { return };
        let Some(keys) = peer.announced.get_mut(&announced.client) else { return };
        keys.remove(&announced.session);
        if keys.is_empty() {
            peer.announced.remove(&announced.client);
        }
    }

    /// Sessions of a client here.
    pub(super) fn of<'a>(&'a self, client: &ClientKey) -> impl Iterator<Item = &'a Session> + use<'a> {
        let keys = self.by_client.get(client).into_iter().flatten();
        keys.filter_map(|key| self.sessions.get(key)).map(|attached| &attached.session)
    }

    /// The ways to a client through its own sessions, best first.
    pub(super) fn local_routes(&self, client: &ClientKey) -> Vec<Route> {
        best_first(self.of(client).map(|session| Route { session: session.clone(), through_peer: false }))
    }

    /// All ways to a client: its own sessions before those of peers, best first.
    pub(super) fn routes(&self, client: &ClientKey) -> Vec<Route> {
        let peers = self.sessions.values().filter(|attached| attached.announced.contains_key(client));
        let through = peers.map(|peer| Route { session: peer.session.clone(), through_peer: true });
        let mut routes = self.local_routes(client);
        routes.extend(best_first(through));
        routes
    }

    /// Clients that have sessions here.
    pub(super) fn clients(&self) -> Vec<ClientKey> {
        self.by_client.keys().cloned().collect()
    }

    /// What peers are to know.
    pub(super) fn announcements(&self) -> BTreeSet<Announcement> {
        let of_client = |(client, keys): (&ClientKey, &BTreeSet<SessionKey>)| {
            keys.iter()
                .map(|session| Announcement { client: client.clone(), session: *session })
                .collect::<Vec<_>>()
        };
        self.by_client.iter().flat_map(of_client).collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Attached> {
        self.sessions.values()
    }

    pub(super) fn view(&self) -> Vec<HubSessionView> {
        let view = |attached: &Attached| HubSessionView {
            client: attached.client.clone(),
            key: attached.key,
            kind: attached.kind,
            clients: attached.announced.keys().cloned().collect(),
            session: attached.session.view(),
        };
        self.sessions.values().map(view).collect()
    }
}

/// Those that are heard of before those that are not, and the ones with fewer streams first.
fn best_first(routes: impl Iterator<Item = Route>) -> Vec<Route> {
    let mut routes: Vec<_> = routes.filter(|route| !route.session.is_ended()).collect();
    routes.sort_by_cached_key(|route| {
        let heard = route.session.silent() < QUIET;
        (Reverse(heard), route.session.streams())
    });
    routes
}
