//! The embedded Kubernetes API, as `apiserver` and `up` start it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;

use ::apiserver::audit::Audit;
use ::apiserver::auth::Tokens;
use ::apiserver::encryption::{self, RESOURCES, Resources};
use ::apiserver::instance::{Instance, Parts};
use ::apiserver::pki::{Keys, Pki};
use ::apiserver::server::Admission;
use ::apiserver::store::{Options as StoreOptions, SqliteStore, Store};
use anyhow::anyhow;
use clock::{Clock, SystemEntropy};
use controllers::admission::Door;
use controllers::controlplane::Releases;
use kube::Client;
use kubeapi::authn::{MASTERS, User};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use crate::admission::{ClusterApi, Clusters};
use crate::audit::AuditArguments;
use crate::converter::OurKinds;

/// The namespaces of the product.
pub(crate) const NAMESPACES: [&str; 3] = ["cattle-global-data", "cattle-system", "fleet-default"];

/// Where the Service `kubernetes` is.
pub(crate) const SERVICE_ADDRESS: &str = "10.96.0.1";

/// What can be said of it on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// What is encrypted in the database, as kubectl names it, separated by commas; empty for nothing
    #[arg(long, value_name = "RESOURCES", default_value = RESOURCES, value_delimiter = ',')]
    encrypt_resources: Vec<String>,
    /// The most bytes of the database; writes beyond are refused as on a full disk
    #[arg(long, value_name = "BYTES")]
    storage_quota: Option<u64>,
    #[command(flatten)]
    audit: AuditArguments,
}

/// A data directory that is ours.
pub(crate) struct Opened {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) pki: Arc<Pki>,
    clock: Arc<dyn Clock>,
    audit: Option<Arc<Audit>>,
}

/// What a server has beside its data.
#[derive(Default)]
pub(crate) struct More {
    /// Where clients on other machines reach it.
    pub(crate) advertised: Option<(IpAddr, u16)>,
    /// Knows further bearer tokens.
    pub(crate) tokens: Option<Arc<dyn Tokens>>,
    /// Which arguments distributions take.
    pub(crate) releases: Arc<Releases>,
}

impl Opened {
    /// Opens a data directory; makes it if need be. Only one process can.
    pub(crate) fn open(directory: &Path, options: &Options, clock: &Arc<dyn Clock>) -> anyhow::Result<Self> {
        let audit = options.audit.start(clock)?;
        let named = options.encrypt_resources.iter().filter(|name| !name.is_empty());
        let kept = StoreOptions { quota_bytes: options.storage_quota, ..StoreOptions::default() };
        let resources = Resources::new(named);
        let store =
            encryption::open_store(directory, kept, &resources, clock.clone(), Box::new(SystemEntropy))?;
        crate::authority::settle(directory)?;
        let keys = Keys::open(directory, &**clock, &mut SystemEntropy)?;
        let pki = Arc::new(Pki::new(keys, clock.clone(), Box::new(SystemEntropy))?);
        Ok(Opened { store: Arc::new(store), pki, clock: clock.clone(), audit })
    }

    /// Starts the server.
    pub(crate) async fn start(&self, more: More) -> anyhow::Result<Instance> {
        let store: Arc<dyn Store> = self.store.clone();
        let kinds = Arc::new(OurKinds::new(store.clone()));
        let door = Arc::new(Door::new(more.releases));
        let admission: Vec<Arc<dyn Admission>> =
            vec![Arc::new(ClusterApi::new(kinds.clone())), Arc::new(Clusters(door.clone()))];
        let parts = Parts {
            admission,
            converters: vec![kinds],
            namespaces: NAMESPACES.map(str::to_owned).to_vec(),
            advertised: more.advertised,
            audit: self.audit.clone(),
            tokens: more.tokens,
            ..Parts::new(
                store,
                self.clock.clone(),
                Box::new(SystemEntropy),
                self.pki.ca_certificate(),
                self.pki.signing_key()?,
            )
        };
        let instance = Instance::start(parts).await;
        let instance = instance.map_err(|status| anyhow!("cannot start: {}", status.message))?;
        door.open(Client::new(instance.api().as_user(doorkeeper()), "default"));
        Ok(instance)
    }
}

/// Who looks things up at the door.
fn doorkeeper() -> User {
    User { name: "system:herdsman:admission".into(), groups: vec![MASTERS.into()], ..User::default() }
}

/// Where clients on this machine reach a server that listens here.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Where clients on other machines reach it; an address of the loopback if they do not.
pub(crate) fn advertised(listens: IpAddr) -> IpAddr {
    if !listens.is_unspecified() {
        return listens;
    }
    // The address of the route to anywhere. Nothing is sent: this only asks the kernel.
    let routed = || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    routed().unwrap_or(Ipv4Addr::LOCALHOST.into())
}

/// The signals that a server heeds.
pub(crate) struct Stop {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Stop {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Stop {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits until the server is to end. Tells `keys_changed` when somebody says so by SIGHUP.
    pub(crate) async fn asked(&mut self, keys_changed: &Notify) {
        loop {
            tokio::select! {
                biased;
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hang_up.recv() => keys_changed.notify_one(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_all_addresses_is_reached_on_the_loopback() {
        for (listens, reached) in
            [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:1", "[::1]:1"), ("10.0.0.5:1", "10.0.0.5:1")]
        {
            assert_eq!(reachable(listens.parse().unwrap()), reached.parse().unwrap());
        }
    }
}
