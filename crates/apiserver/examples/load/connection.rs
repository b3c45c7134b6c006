//! A connection of HTTP/2, and requests in the name of whoever it is.

use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How much a client takes before it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Usual,
    /// As little as there can be.
    Narrow,
}

pub(crate) struct Connection(http2::SendRequest<Full<Bytes>>);

impl Connection {
    pub(crate) async fn open(address: &str, tls: Arc<ClientConfig>, kind: Kind) -> anyhow::Result<Self> {
        let (host, _) = address.rsplit_once(':').context("an address has a port")?;
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let stream = TlsConnector::from(tls).connect(ServerName::try_from(host.to_owned())?, stream).await?;
        let mut builder = http2::Builder::new(TokioExecutor::new());
        if kind == Kind::Narrow {
            builder.initial_stream_window_size(4096);
        }
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Connection(sender))
    }

    /// Sends a request in the name of a user; the administrator's if that is empty.
    pub(crate) async fn send(
        &self,
        user: &str,
        method: &str,
        url: &str,
        body: Bytes,
    ) -> anyhow::Result<Response<Incoming>> {
        let mut request = Request::builder().method(method).uri(format!("https://localhost{url}"));
        request = request.header("content-type", "application/json");
        if !user.is_empty() {
            request = request.header("impersonate-user", user).header("impersonate-group", "load");
        }
        let mut sender = self.0.clone();
        sender.ready().await?;
        Ok(sender.send_request(request.body(Full::new(body))?).await?)
    }

    /// What an administrator reads.
    pub(crate) async fn get(&self, url: &str) -> anyhow::Result<serde_json::Value> {
        let response = self.send("", "GET", url, "".into()).await?;
        Ok(serde_json::from_slice(&response.into_body().collect().await?.to_bytes())?)
    }

    /// The same, and reads the answer; gives its code.
    pub(crate) async fn ask(&self, user: &str, method: &str, url: &str, body: Bytes) -> anyhow::Result<u16> {
        let response = self.send(user, method, url, body).await?;
        let code = response.status().as_u16();
        response.into_body().collect().await?;
        Ok(code)
    }
}
