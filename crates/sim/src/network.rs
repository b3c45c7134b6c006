//! The simulated network: hosts with addresses, services that listen at them, wires between them, and ways out to servers
//! that are real. It can be partitioned: bytes on a wire between two sides are kept, and the wire breaks when the
//! silence lasts.

mod uplink;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use agent::machine::Later;

pub use uplink::{Dialled, Internet, Uplink};
pub(crate) use wire::{Fate, Wire};

use crate::distro::Supervisor;

/// How long a host bears silence on a wire until it takes the other one for gone, as the agent's sockets do.
const SILENCE: Duration = Duration::from_secs(30);
/// What a wire holds that nobody has read.
const WIRE: usize = 64 << 10;

/// An answer to a simple request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn new(status: u16, body: impl Into<String>) -> Self {
        Reply { status, body: body.into() }
    }
}

/// What listens at an address and port.
pub(crate) trait Service: Send + Sync {
    /// Answers one GET. None: nobody listens just now.
    ///
    /// Hosts of this network ask so, without a wire: health checks are most of what they say to each other.
    fn get(&self, path: &str) -> Option<Reply>;

    /// Serves a wire to its end.
    fn serve(self: Arc<Self>, wire: Wire) -> Later<'static, ()>;

    /// What nodes join at.
    fn supervisor(&self) -> Option<Supervisor> {
        None
    }
}

/// Where something listens.
pub(crate) type Place = (Ipv4Addr, u16);

/// The network. Clones are the same.
#[derive(Clone)]
pub(crate) struct Network(Arc<Shared>);

struct Shared {
    uplink: Arc<dyn Uplink>,
    state: Mutex<State>,
    /// Counts changes of who reaches whom.
    changes: tokio::sync::watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    up: BTreeSet<Ipv4Addr>,
    services: BTreeMap<Place, Arc<dyn Service>>,
    /// Hosts that are not on the common side.
    sides: BTreeMap<Ipv4Addr, u32>,
    /// Hosts that have no way out.
    offline: BTreeSet<Ipv4Addr>,
    wires: Vec<Strung>,
}

struct Strung {
    from: Ipv4Addr,
    /// None: outside.
    to: Option<Ipv4Addr>,
    fate: Weak<Fate>,
}

impl State {
    fn side(&self, host: Ipv4Addr) -> u32 {
        self.sides.get(&host).copied().unwrap_or(0)
    }

    fn reaches(&self, from: Ipv4Addr, to: Option<Ipv4Addr>) -> bool {
        match to {
            Some(to) => from == to || self.side(from) == self.side(to),
            None => !self.offline.contains(&from),
        }
    }

    fn find(&self, from: Ipv4Addr, to: Place) -> io::Result<Arc<dyn Service>> {
        if !self.up.contains(&from) || !self.reaches(from, Some(to.0)) || !self.up.contains(&to.0) {
            return Err(io::Error::new(io::ErrorKind::HostUnreachable, format!("no route to {}", to.0)));
        }
        let service = self.services.get(&to).cloned();
        service.ok_or_else(|| refused(to))
    }

    fn strung(&mut self, from: Ipv4Addr, to: Option<Ipv4Addr>, fate: &Arc<Fate>) {
        if self.wires.len() >= 1024 && self.wires.len().is_power_of_two() {
            self.wires.retain(|strung| strung.fate.strong_count() > 0);
        }
        self.wires.push(Strung { from, to, fate: Arc::downgrade(fate) });
    }
}

fn refused(to: Place) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionRefused, format!("{}:{} refuses the connection", to.0, to.1))
}

impl Network {
    pub(crate) fn new(uplink: Arc<dyn Uplink>) -> Self {
        Network(Arc::new(Shared { uplink, state: Mutex::default(), changes: Default::default() }))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears of it whenever somebody reaches others than before.
    pub(crate) fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    fn changed(&self) {
        self.0.changes.send_modify(|count| *count += 1);
    }

    /// A host is there while this is held.
    pub(crate) fn up(&self, host: Ipv4Addr) -> Presence {
        self.state().up.insert(host);
        self.changed();
        Presence { network: self.clone(), host }
    }

    fn down(&self, host: Ipv4Addr) {
        let mut state = self.state();
        state.up.remove(&host);
        state.services.retain(|place, _| place.0 != host);
        let theirs = |strung: &Strung| strung.from == host || strung.to == Some(host);
        let broken: Vec<_> = state
            .wires
            .iter()
            .filter(|strung| theirs(strung))
            .filter_map(|strung| strung.fate.upgrade())
            .collect();
        state.wires.retain(|strung| !theirs(strung));
        drop(state);
        broken.iter().for_each(|fate| fate.break_now());
        self.changed();
    }

    /// A service listens while this is held.
    pub(crate) fn listen(&self, place: Place, service: Arc<dyn Service>) -> Listening {
        self.state().services.insert(place, service.clone());
        Listening { network: self.clone(), place, service }
    }

    /// Whether packets get from one host to the other.
    pub(crate) fn reaches(&self, from: Ipv4Addr, to: Ipv4Addr) -> bool {
        let state = self.state();
        state.up.contains(&from) && state.up.contains(&to) && state.reaches(from, Some(to))
    }

    /// What listens there, for somebody.
    ///
    /// # Errors
    /// If there is no way, or nobody listens.
    pub(crate) fn find(&self, from: Ipv4Addr, to: Place) -> io::Result<Arc<dyn Service>> {
        self.state().find(from, to)
    }

    /// One GET.
    ///
    /// # Errors
    /// If there is no way, or nobody listens.
    pub(crate) fn get(&self, from: Ipv4Addr, to: Place, path: &str) -> io::Result<Reply> {
        self.find(from, to)?.get(path).ok_or_else(|| refused(to))
    }

    /// A wire to a service.
    ///
    /// # Errors
    /// If there is no way, or nobody listens.
    pub(crate) fn connect(&self, from: Ipv4Addr, to: Place) -> io::Result<Wire> {
        let service = self.find(from, to)?;
        let (near, far) = tokio::io::duplex(WIRE);
        let fate = Arc::new(Fate::default());
        self.state().strung(from, Some(to.0), &fate);
        tokio::spawn(service.serve(Wire::new(Box::new(far), fate.clone(), 1)));
        Ok(Wire::new(Box::new(near), fate, 0))
    }

    /// A wire to a server that is not simulated.
    ///
    /// # Errors
    /// If there is no way, or nobody listens.
    pub(crate) async fn connect_out(&self, from: Ipv4Addr, host: &str, port: u16) -> io::Result<Wire> {
        let may = {
            let state = self.state();
            // No machine asks: the world itself does.
            from.is_unspecified() || (state.up.contains(&from) && state.reaches(from, None))
        };
        if !may {
            return Err(io::Error::new(io::ErrorKind::HostUnreachable, format!("no route to {host}")));
        }
        let stream = self.0.uplink.dial(host, port).await?;
        let fate = Arc::new(Fate::default());
        self.state().strung(from, None, &fate);
        Ok(Wire::new(stream, fate, 0))
    }

    /// Puts hosts on a side of their own, or back; without a way out as well if they are to be `offline`.
    pub(crate) fn separate(&self, hosts: &[Ipv4Addr], side: u32, offline: bool) {
        {
            let mut state = self.state();
            for host in hosts {
                match side {
                    0 => state.sides.remove(host),
                    side => state.sides.insert(*host, side),
                };
                match offline {
                    true => state.offline.insert(*host),
                    false => state.offline.remove(host),
                };
            }
        }
        self.judge();
        self.changed();
    }

    /// All is whole again.
    pub(crate) fn heal(&self) {
        {
            let mut state = self.state();
            state.sides.clear();
            state.offline.clear();
        }
        self.judge();
        self.changed();
    }

    /// Silences wires between hosts that do not reach each other, and lets the others go on.
    fn judge(&self) {
        let mut silent = Vec::new();
        {
            let mut state = self.state();
            state.wires.retain(|strung| strung.fate.strong_count() > 0);
            for strung in &state.wires {
                let Some(fate) = strung.fate.upgrade() else { continue };
                let cut = !state.reaches(strung.from, strung.to);
                if fate.silence(cut) {
                    silent.push(strung.fate.clone());
                }
            }
        }
        if !silent.is_empty() {
            tokio::spawn(async move {
                tokio::time::sleep(SILENCE).await;
                silent.iter().filter_map(Weak::upgrade).for_each(|fate| fate.break_if_silent());
            });
        }
    }
}

/// A host that is there.
pub(crate) struct Presence {
    network: Network,
    host: Ipv4Addr,
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.network.down(self.host);
    }
}

/// A service that listens.
pub(crate) struct Listening {
    network: Network,
    place: Place,
    service: Arc<dyn Service>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut state = self.network.state();
        // Its successor may listen there already.
        if state.services.get(&self.place).is_some_and(|found| Arc::ptr_eq(found, &self.service)) {
            state.services.remove(&self.place);
        }
    }
}

#[cfg(test)]
#[path = "network/tests.rs"]
mod tests;
