//! Requests that are handed on to another server, and what comes back: bodies as they come, upgrades as byte streams.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::uri::PathAndQuery;
use http::{Request, Response, StatusCode, Uri, Version};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kube::Config;
use kube::client::ConfigExt as _;
use tower::util::{BoxCloneSyncService, ServiceExt as _};
use tower::{Layer as _, Service};

use crate::body::{self, Body};
use crate::headers;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How long a connection is kept that nobody uses: there may be a thousand servers, and each connection has its buffers.
const UNUSED: Duration = Duration::from_secs(20);

/// A server to hand requests on to. Clones are the same.
pub type Backend<B = Incoming> = BoxCloneSyncService<Request<B>, Response<Incoming>, BoxError>;

/// What a backend is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Requests of any kind, also such as become another protocol: each has a connection to itself, of HTTP/1.1.
    Anything,
    /// Requests and watches: all of them share one connection of HTTP/2, with its buffers, if the server speaks that.
    Plain,
}

/// A backend with the address, trust and credentials of a configuration, dialled by `connector`.
///
/// # Errors
/// If certificates or credentials in it cannot be used.
pub fn backend<H, B>(config: &Config, connector: H, purpose: Purpose) -> Result<Backend<B>, kube::Error>
where
    H: Service<Uri> + Clone + Send + Sync + Unpin + 'static,
    H::Response: hyper_util::client::legacy::connect::Connection
        + hyper::rt::Read
        + hyper::rt::Write
        + Send
        + Unpin
        + 'static,
    H::Future: Send + 'static,
    H::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    let https = match (purpose, &config.tls_server_name) {
        (Purpose::Plain, None) => {
            let mut tls = config.rustls_client_config()?;
            tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            HttpsConnector::from((connector, Arc::new(tls)))
        }
        _ => config.rustls_https_connector_with_connector(connector)?,
    };
    let mut builder = Client::builder(TokioExecutor::new());
    builder.pool_timer(TokioTimer::new()).timer(TokioTimer::new()).pool_idle_timeout(UNUSED);
    let http = builder.build(https).map_err(BoxError::from);
    Ok(match config.auth_layer()? {
        Some(auth) => {
            let service = config.base_uri_layer().layer(auth.layer(http));
            BoxCloneSyncService::new(service)
        }
        None => BoxCloneSyncService::new(config.base_uri_layer().layer(http)),
    })
}

/// The same request for another path.
pub fn with_path(uri: &Uri, path: &str) -> Uri {
    let whole = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    // It is part of a path that was one: it always parses.
    whole.parse::<PathAndQuery>().map(Uri::from).unwrap_or_default()
}

/// Hands a request on. What goes wrong is an answer that clients of the Kubernetes API understand.
///
/// # Assumptions
/// Headers that say who asks have been dealt with.
pub async fn forward(mut backend: Backend, mut request: Request<Incoming>) -> Response<Body> {
    let upgrade = (request.version() == Version::HTTP_11)
        .then(|| headers::upgrade(request.headers()))
        .flatten()
        .map(|_| hyper::upgrade::on(&mut request));
    *request.version_mut() = Version::HTTP_11;
    // What it was told of another connection.
    request.extensions_mut().clear();
    headers::strip_hop(request.headers_mut());
    request.headers_mut().remove(HOST);
    let answer = match backend.ready().await {
        Ok(ready) => ready.call(request).await,
        Err(error) => Err(error),
    };
    match answer {
        Err(error) => unreachable(&*error),
        Ok(mut answer) => match (answer.status(), upgrade) {
            (StatusCode::SWITCHING_PROTOCOLS, Some(client)) => {
                let server = hyper::upgrade::on(&mut answer);
                tokio::spawn(join(client, server));
                let (mut head, _) = answer.into_parts();
                head.extensions.clear();
                headers::strip_hop(&mut head.headers);
                Response::from_parts(head, Body::empty())
            }
            _ => {
                let (mut head, incoming) = answer.into_parts();
                head.extensions.clear();
                head.version = Version::HTTP_11;
                headers::strip_hop(&mut head.headers);
                Response::from_parts(head, incoming.into())
            }
        },
    }
}

/// Carries bytes between both sides until both are done.
async fn join(client: hyper::upgrade::OnUpgrade, server: hyper::upgrade::OnUpgrade) {
    let (client, server) = match tokio::try_join!(client, server) {
        Ok(both) => both,
        Err(error) => return tracing::debug!(%error, "an upgrade did not come about"),
    };
    let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
    if let Err(error) = tokio::io::copy_bidirectional(&mut client, &mut server).await {
        tracing::debug!(%error, "an upgraded connection ended");
    }
}

fn unreachable(error: &(dyn std::error::Error + 'static)) -> Response<Body> {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        words = format!("{words}: {inner}");
        cause = inner.source();
    }
    tracing::info!(error = words, "a request could not be handed on");
    // Clients that are told to come again would do so many times, and say nothing.
    body::status(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", &words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_rewritten_and_queries_stay() {
        for (from, path, to) in [
            (
                "https://h/k8s/clusters/c/api/v1/pods?watch=true&a=%2F",
                "/api/v1/pods",
                "/api/v1/pods?watch=true&a=%2F",
            ),
            ("/k8s/clusters/c", "/", "/"),
            ("/k8s/clusters/c/a%20b", "/a%20b", "/a%20b"),
        ] {
            assert_eq!(with_path(&from.parse().unwrap(), path).to_string(), to, "{from}");
        }
    }
}
