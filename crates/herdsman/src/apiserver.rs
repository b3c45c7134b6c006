//! `herdsman apiserver`: the embedded Kubernetes API on its own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use ::apiserver::encryption;
use ::apiserver::pki::Clients;
use anyhow::Context as _;
use clock::{Clock, SystemClock};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::embedded::{More, Opened, Options, SERVICE_ADDRESS, Stop, advertised, reachable};

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
    #[command(flatten)]
    options: Options,
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
    let opened = Opened::open(directory, &arguments.options, &clock)?;
    let listener = TcpListener::bind(arguments.listen)
        .await
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    let address = listener.local_addr()?;
    let reached = reachable(address);
    let mut names = arguments.tls_san.clone();
    names.extend([address.ip(), reached.ip(), advertised(address.ip())].map(|ip| ip.to_string()));
    names.push(SERVICE_ADDRESS.to_owned());
    let tls = opened.pki.server_config(&names, Clients::MayShowCertificates)?;
    let more = More { advertised: Some((advertised(address.ip()), address.port())), ..More::default() };
    let instance = opened.start(more).await?;
    let url = format!("https://{reached}");
    let kubeconfig = opened.pki.write_admin_kubeconfig(directory, &url)?;
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
                () = encryption::follow(&opened.store, directory, &keys_changed) => {}
            }
        }
    );
    instance.stop().await;
    Ok(())
}
