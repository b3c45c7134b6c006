//! `herdsman-agent tunnel`: keeps a session with the server, through which it reaches the cluster that this machine is part
//! of. On a control-plane machine it runs before any pod does; in a pod it takes the place of Rancher's cluster agent.
//!
//! What the session says is read anew for each one: tokens are replaced, and files of a cluster that does not run yet
//! are waited for.

mod account;
mod config;

use std::io;
use std::sync::Arc;

use clock::{Clock, Entropy};
use http::Uri;
use outbound::proxy::{self, Proxies};
use outbound::tls::{self, Trust};
use tunnel::client::{Backoff, Client, Progress, Transport};
use tunnel::serve::{Forward, Io, Network as Around};
use tunnel::session::Settings;

use crate::connect::{Connect as _, Network};
use crate::machine::Later;
use crate::systemd;

pub use config::{Config, Error as ConfigError};

/// Why there is no way to the server; waiting does not help.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What the session says.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The cluster gives no token.
    #[error("clusterKubeconfig")]
    Account(#[from] account::Error),
    /// Its authority.
    #[error("caFile")]
    Tls(#[from] tls::Error),
    /// The proxy.
    #[error("proxy")]
    Proxy(#[from] proxy::Error),
}

/// Keeps a session for ever. What it is about is loaded anew for each one: the server may have moved.
///
/// # Errors
/// If the first one can never come about.
pub async fn run(
    load: impl Fn() -> Result<Config, ConfigError>,
    environment: &[(String, String)],
    clock: Arc<dyn Clock>,
    entropy: impl Fn() -> Box<dyn Entropy>,
) -> Result<std::convert::Infallible, Error> {
    let mut config = load()?;
    let mut server = config.server()?;
    let mut client = Client {
        transport: Arc::new(ToServer::new(&config, &server, environment)?),
        handler: Arc::new(Forward::new(config.gate(), Around)),
        settings: Settings::default(),
        clock: clock.clone(),
        entropy: entropy(),
    };
    let (mut backoff, mut chance) = (Backoff::default(), entropy());
    let mut registered = config.registered;
    loop {
        let began = clock.monotonic();
        // Whom to trust is read anew as well: the server may have another authority by now.
        let transport = ToServer::new(&config, &server, environment);
        let hello =
            async { Ok((transport?, config.hello(&server, registered, account::token(&config).await?)?)) };
        match hello.await {
            Err::<_, Error>(error) => {
                tracing::warn!(error = %crate::chain(&error), "there is nothing to offer the server yet")
            }
            Ok((way, hello)) => {
                client.transport = Arc::new(way);
                tracing::info!(url = %hello.url, "connecting");
                let mut connected = |progress: Progress<'_>| {
                    if let Progress::Connected(_) = progress {
                        tracing::info!(url = %hello.url, "connected");
                        systemd::ready(environment);
                        registered = true;
                    }
                };
                match client.once(&hello, &mut connected).await {
                    Ok(ended) => tracing::warn!("the session ended: {ended}"),
                    Err(error) => tracing::warn!(error = %crate::chain(&error), "no session"),
                }
            }
        }
        let pause = backoff.next(clock.monotonic().since(began), chance.as_mut());
        tracing::info!(retry_in = ?pause, "trying again");
        tokio::time::sleep(pause).await;
        let Ok(found) = load() else { continue };
        if let Ok(there) = found.server()
            && let Ok(way) = ToServer::new(&found, &there, environment)
        {
            client.transport = Arc::new(way);
            client.handler = Arc::new(Forward::new(found.gate(), Around));
            (config, server) = (found, there);
        }
    }
}

/// The way to the server. If its own authority did not sign the server's certificate, and strictness is not asked for, the
/// system's are tried, as by the agent itself.
struct ToServer {
    first: Network,
    second: Option<Network>,
}

impl ToServer {
    fn new(config: &Config, server: &Uri, environment: &[(String, String)]) -> Result<Self, Error> {
        let authorities = config.authorities()?;
        let system = Trust { system: true, ..Trust::default() };
        let own = authorities.map(|pem| Trust { authorities: Some(pem), ..Trust::default() });
        let second = match (&own, config.strict) {
            (Some(_), false) => Some(network(server, &system, environment)?),
            _ => None,
        };
        Ok(ToServer { first: network(server, own.as_ref().unwrap_or(&system), environment)?, second })
    }

    async fn connect(&self) -> io::Result<Box<dyn Io>> {
        let stream = match (self.first.connect().await, &self.second) {
            (Err(error), Some(second)) if error.is_unknown_authority() => {
                tracing::warn!(
                    "the server's authority did not sign its certificate: trying those of the system"
                );
                second.connect().await
            }
            (result, _) => result,
        };
        match stream {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

impl Transport for ToServer {
    fn connect(&self) -> Later<'_, io::Result<Box<dyn Io>>> {
        Box::pin(ToServer::connect(self))
    }
}

fn network(server: &Uri, trust: &Trust, environment: &[(String, String)]) -> Result<Network, Error> {
    let tls = tls::config(trust, None)?;
    let network = Network::to(server, Some(Arc::new(tls)), None);
    let variable =
        |name: &str| environment.iter().rfind(|(key, _)| key == name).map(|(_, value)| value.clone());
    let Some(proxy) = Proxies::from_variables(variable).for_server(server)? else { return Ok(network) };
    let to_proxy = match proxy.tls {
        true => Some(Arc::new(tls::config(&Trust { system: true, ..Trust::default() }, None)?)),
        false => None,
    };
    Ok(network.through(proxy, to_proxy))
}
