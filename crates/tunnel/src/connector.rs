//! Connections for HTTP clients: what `kube::Client`, or any client of hyper's, dials through a hub.

use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;

use crate::hub::{Hub, Unreachable};
use crate::names::{ClientKey, Target};
use crate::serve::Later;
use crate::stream::TunnelStream;

/// Dials what a URL names, behind one client of a hub.
///
/// Host and port of the URL are dialled over there, TCP, 443 or 80 unless it says otherwise. TLS is not this one's business: wrap
/// it in a TLS connector.
#[derive(Clone, Debug)]
pub struct Connector {
    hub: Hub,
    client: ClientKey,
    patience: Duration,
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The client cannot be reached.
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
    /// Nothing to dial.
    #[error("{0} names no host")]
    NoHost(Uri),
}

impl Connector {
    /// To what is behind `client`. If it has no session, there is an error at once.
    pub fn new(hub: Hub, client: ClientKey) -> Self {
        Connector { hub, client, patience: Duration::ZERO }
    }

    /// If the client has no session, one is waited for so long.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Connector { patience, ..self }
    }

    async fn connect(self, url: Uri) -> Result<TokioIo<TunnelStream>, Error> {
        let target = target(&url).ok_or(Error::NoHost(url))?;
        // Whether one came is seen when it is dialled.
        let _ = tokio::time::timeout(self.patience, self.hub.wait_for(&self.client)).await;
        Ok(TokioIo::new(self.hub.dial(&self.client, &target)?))
    }
}

fn target(url: &Uri) -> Option<Target> {
    let host = url.host()?;
    let secure = url.scheme_str() == Some("https");
    let port = url.port_u16().unwrap_or(if secure { 443 } else { 80 });
    Some(Target::tcp(format!("{host}:{port}")))
}

impl tower::Service<Uri> for Connector {
    type Response = TokioIo<TunnelStream>;
    type Error = Error;
    type Future = Later<'static, Result<Self::Response, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, url: Uri) -> Self::Future {
        Box::pin(self.clone().connect(url))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_what_is_dialled() {
        for (url, address) in [
            ("https://10.0.0.1:6443/api", Some("10.0.0.1:6443")),
            ("https://kubernetes.default", Some("kubernetes.default:443")),
            ("http://not-used/ping", Some("not-used:80")),
            ("https://[fd00::1]/", Some("[fd00::1]:443")),
            ("/api", None),
        ] {
            let target = target(&url.parse().unwrap());
            assert_eq!(target.map(|target| target.address).as_deref(), address);
        }
    }
}
