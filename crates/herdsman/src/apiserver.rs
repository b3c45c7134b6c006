//! `herdsman apiserver`: the embedded Kubernetes API on its own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::apiserver::encryption::{self, RESOURCES, Resources};
use ::apiserver::instance::{Instance, Parts};
use ::apiserver::pki::{Clients, Keys, Pki};
use ::apiserver::store::{Options, SqliteStore, Store};
use anyhow::{Context as _, anyhow};
use clock::{Clock, SystemClock, SystemEntropy};
use controllers::admission::Door;
use kube::Client;
use kubeapi::authn::{MASTERS, User};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use crate::admission::{ClusterApi, Clusters};
use crate::audit::AuditArguments;
use crate::converter::OurKinds;

/// The namespaces of the product.
const NAMESPACES: [&str; 3] = ["cattle-global-data", "cattle-system", "fleet-default"];

/// Where the Service `kubernetes` is.
const SERVICE_ADDRESS: &str = "10.96.0.1";

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where everything is kept; made if it is not there
    #[arg(long, value_name = "DIRECTORY", env = "HERDSMAN_DATA_DIR")]
    data_dir: PathBuf,
    /// Address and port to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// A further host name or address that clients use, for the server's certificate; may be repeated
    #[arg(long, value_name = "NAME")]
    tls_san: Vec<String>,
    /// What is encrypted in the database, as kubectl names it, separated by commas; empty for nothing
    #[arg(long, value_name = "RESOURCES", default_value = RESOURCES, value_delimiter = ',')]
    encrypt_resources: Vec<String>,
    /// The most bytes of the database; writes beyond are refused as on a full disk
    #[arg(long, value_name = "BYTES")]
    storage_quota: Option<u64>,
    #[command(flatten)]
    audit: AuditArguments,
}

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: &Arguments) -> anyhow::Result<()> {
    // Before anything is written: a second start must not disturb the first.
    let mut stop = Stop::new()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let directory = &arguments.data_dir;
    let audit = arguments.audit.start(&clock)?;
    let kept = Arc::new(open_store(arguments, &clock)?);
    let store: Arc<dyn Store> = kept.clone();
    let listener = TcpListener::bind(arguments.listen)
        .await
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    let address = listener.local_addr()?;
    let pki = open_pki(directory, clock.clone())?;
    let reached = reachable(address);
    let mut names = arguments.tls_san.clone();
    names.extend([address.ip(), reached.ip(), advertised(address.ip())].map(|ip| ip.to_string()));
    names.push(SERVICE_ADDRESS.to_owned());
    let tls = pki.server_config(&names, Clients::MayShowCertificates)?;
    let kinds = Arc::new(OurKinds::new(store.clone()));
    let door = Arc::new(Door::default());
    let parts = Parts {
        admission: vec![Arc::new(ClusterApi::new(kinds.clone())), Arc::new(Clusters(door.clone()))],
        converters: vec![kinds],
        namespaces: NAMESPACES.map(str::to_owned).to_vec(),
        advertised: Some((advertised(address.ip()), address.port())),
        audit,
        ..Parts::new(store, clock, Box::new(SystemEntropy), pki.ca_certificate(), pki.signing_key()?)
    };
    let instance =
        Instance::start(parts).await.map_err(|status| anyhow!("cannot start: {}", status.message))?;
    door.open(Client::new(instance.api().as_user(doorkeeper()), "default"));
    let url = format!("https://{reached}");
    let kubeconfig = pki.write_admin_kubeconfig(directory, &url)?;
    println!("ready url={url} kubeconfig={}", kubeconfig.display());
    let api = instance.api().clone();
    let keys_changed = Notify::new();
    tokio::join!(
        instance.listen(listener, Some(tls)),
        async {
            stop.asked(&keys_changed).await;
            tracing::info!("stopping");
            api.close();
        },
        async {
            tokio::select! {
                biased;
                () = api.closed() => {}
                () = encryption::follow(&kept, directory, &keys_changed) => {}
            }
        }
    );
    instance.stop().await;
    Ok(())
}

/// Who looks things up at the door.
fn doorkeeper() -> User {
    User { name: "system:herdsman:admission".into(), groups: vec![MASTERS.into()], ..User::default() }
}

fn open_store(arguments: &Arguments, clock: &Arc<dyn Clock>) -> Result<SqliteStore, encryption::Error> {
    let named = arguments.encrypt_resources.iter().filter(|name| !name.is_empty());
    let options = Options { quota_bytes: arguments.storage_quota, ..Options::default() };
    let entropy = Box::new(SystemEntropy);
    encryption::open_store(&arguments.data_dir, options, &Resources::new(named), clock.clone(), entropy)
}

fn open_pki(directory: &Path, clock: Arc<dyn Clock>) -> anyhow::Result<Arc<Pki>> {
    let keys = Keys::open(directory, &*clock, &mut SystemEntropy)?;
    Ok(Arc::new(Pki::new(keys, clock, Box::new(SystemEntropy))?))
}

/// Where clients on this machine reach a server that listens here.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Where clients on other machines reach it; an address of the loopback if they do not.
fn advertised(listens: IpAddr) -> IpAddr {
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
struct Stop {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Stop {
    fn new() -> std::io::Result<Self> {
        Ok(Stop {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits until the server is to end. Tells `keys_changed` when somebody says so by SIGHUP.
    async fn asked(&mut self, keys_changed: &Notify) {
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
