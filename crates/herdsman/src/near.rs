//! The way from simulated machines to the server in whose process they live.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ::gateway::Gateway;
use rustls::ServerConfig;
use sim::{Dialled, Internet, Uplink};

use crate::embedded::{advertised, reachable};

/// Bytes that one end may send ahead of the other.
const PIPE: usize = 16 << 10;

/// Pipes to our own server, and the network to everybody else. A socket takes two open files when both of its ends are here, and ten
/// thousand machines have one each.
pub(crate) struct Near {
    gateway: Gateway,
    tls: Arc<ServerConfig>,
    /// Where it listens.
    address: SocketAddr,
}

impl Near {
    pub(crate) fn new(gateway: Gateway, tls: Arc<ServerConfig>, address: SocketAddr) -> Self {
        Near { gateway, tls, address }
    }
}

/// Whether a host and port lead to the server that listens at `address`. A name leads wherever somebody has it lead.
fn is_ours(address: SocketAddr, host: &str, port: u16) -> bool {
    let ours = [address.ip(), reachable(address).ip(), advertised(address.ip())];
    port == address.port()
        && host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|ip| ours.contains(&ip))
}

impl Uplink for Near {
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> Dialled<'a> {
        if !is_ours(self.address, host, port) {
            return Internet.dial(host, port);
        }
        let (near, far) = tokio::io::duplex(PIPE);
        let (gateway, tls) = (self.gateway.clone(), self.tls.clone());
        // It ends with its other end, or when the gateway closes.
        drop(tokio::spawn(async move { gateway.serve_near(far, tls).await }));
        Box::pin(std::future::ready(Ok(Box::new(near) as Box<_>)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_leads_to_us_is_a_pipe() {
        let address: SocketAddr = "127.0.0.1:8443".parse().unwrap();
        assert!(is_ours(address, "127.0.0.1", 8443));
        for (host, port) in [("127.0.0.1", 8444), ("10.0.0.1", 8443), ("herdsman.example.com", 8443)] {
            assert!(!is_ours(address, host, port), "{host}:{port}");
        }
        let address: SocketAddr = "[::1]:8443".parse().unwrap();
        assert!(is_ours(address, "[::1]", 8443));
    }
}
