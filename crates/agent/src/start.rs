//! From connection info to a client that has spoken to the server once.
//!
//! The server's certificate is checked with the authority in the kubeconfig. If that did not sign it and strictness
//! is not asked for, the system's authorities are tried: the server may have moved to a public certificate. What is
//! settled here holds until the next start.
//!
//! Rancher's agent exits when the server cannot be reached, and is started again; here it waits, with growing pauses.

use std::sync::Arc;

use outbound::proxy::{self, Proxies, Proxy};
use outbound::tls::{self, Trust};

use crate::client::{self, Client};
use crate::connect::{self, Network};
use crate::kubeconfig::Kubeconfig;
use crate::machine::Machine;
use crate::retry::Retry;

/// Why there is no client; waiting does not help.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Certificates or keys in it.
    #[error("kubeConfig")]
    Tls(#[from] tls::Error),
    /// The proxy.
    #[error("proxy")]
    Proxy(#[from] proxy::Error),
    /// The token.
    #[error("kubeConfig")]
    Client(client::Error),
    /// Strictness without anything to be strict about.
    #[error("strict CA verification is enabled but the kubeConfig has no certificate authority data")]
    NoAuthority,
    /// The server's certificate.
    #[error("the server's certificate is not to be trusted")]
    Untrusted(#[source] connect::Error),
}

/// A client that has spoken to the server once.
pub async fn client(config: &Kubeconfig, strict: bool, machine: &Machine) -> Result<Client, Error> {
    if strict && config.ca.is_none() && config.is_tls() {
        return Err(Error::NoAuthority);
    }
    let own = Trust { system: config.ca.is_none(), authorities: config.ca.clone(), anyone: config.insecure };
    let mut client = build(config, &own, machine)?;
    let mut may_fall_back = config.ca.is_some() && !strict;
    let mut retry = Retry::default();
    loop {
        match client.get("/version").await {
            Ok(_) => return Ok(client),
            Err(client::Error::Connect(error)) if error.is_unknown_authority() && may_fall_back => {
                tracing::warn!(
                    "the certificate authority of the kubeConfig did not sign the server's certificate: trying those of the system"
                );
                may_fall_back = false;
                client = build(config, &Trust { system: true, ..Trust::default() }, machine)?;
            }
            Err(client::Error::Connect(error)) if error.is_handshake() => {
                return Err(Error::Untrusted(error));
            }
            // A server that says no is there; what it says to the requests that count is told then.
            Err(error) if error.code().is_some_and(|code| code.is_client_error()) => return Ok(client),
            Err(error) => {
                let pause = retry.pause(|bound| machine.random(bound));
                tracing::warn!(error = %crate::chain(&error), retry_in = ?pause, "cannot reach the server");
                tokio::time::sleep(pause).await;
            }
        }
    }
}

fn build(config: &Kubeconfig, trust: &Trust, machine: &Machine) -> Result<Client, Error> {
    let network = network(config, trust, machine)?;
    Client::new(Arc::new(network), &config.server, config.token.as_deref()).map_err(Error::Client)
}

/// The way to the server, as far as whom it trusts answers there.
pub(crate) fn network(config: &Kubeconfig, trust: &Trust, machine: &Machine) -> Result<Network, Error> {
    let tls = match config.is_tls() {
        true => Some(Arc::new(tls::config(trust, config.identity.as_ref())?)),
        false => None,
    };
    let network = Network::to(&config.server, tls, config.server_name.clone());
    let proxy = match &config.proxy {
        Some(proxy) => Some(Proxy::parse(proxy)?),
        None => Proxies::from_variables(|name| machine.variable(name)).for_server(&config.server)?,
    };
    Ok(match proxy {
        None => network,
        Some(proxy) => {
            let tls = match proxy.tls {
                true => Some(Arc::new(tls::config(&Trust { system: true, ..Trust::default() }, None)?)),
                false => None,
            };
            network.through(proxy, tls)
        }
    })
}
