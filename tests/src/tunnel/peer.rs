//! Our end of a tunnel as a program, with the command line of `peers/remotedialer/tunnel-peer`:
//!
//! ```text
//! server [-tls-cert F -tls-key F] [-peer-id ID -peer-token T -peer URL,ID,T]
//! client -url URL -key KEY
//! raw-server, raw-client: the same without a tunnel, a websocket for each connection
//! ```
//!
//! A server prints `ready connect=<address> forward=<address>`. A connection to the forward address begins with a line
//! `<client key> <address>` and is carried from there on; of ours, the line `view` gives what the hub shows, and `metrics` what
//! it counts. It ends when its standard input does.

use std::io;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use clock::{SystemClock, SystemEntropy};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri, request};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use prometheus_client::registry::Registry;
use rustls::ServerConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tunnel::client::{Client, Hello, Progress, Transport};
use tunnel::hub::{Authorizer, Identity, Peer, Verdict};
use tunnel::serve::{Forward, Io, Later, Network, pump};
use tunnel::session::Settings;
use tunnel::{ClientKey, Hub, Target};

use super::{raw, tls};

/// The header with the client's key.
pub(super) const KEY: HeaderName = HeaderName::from_static("x-tunnel-key");

/// The words of a command line: `-name value`.
#[derive(Debug)]
pub(super) struct Options(Vec<(String, String)>);

impl Options {
    fn parse(words: &[String]) -> Result<Self> {
        let pair = |pair: &[String]| match pair {
            [name, value] => Ok((name.trim_start_matches('-').to_owned(), value.clone())),
            _ => bail!("{pair:?} has no value"),
        };
        Ok(Options(words.chunks(2).map(pair).collect::<Result<_>>()?))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn must(&self, name: &str) -> Result<&str> {
        self.get(name).with_context(|| format!("-{name} is missing"))
    }

    pub(super) fn tls(&self) -> Result<Option<Arc<ServerConfig>>> {
        let Some(certificate) = self.get("tls-cert") else { return Ok(None) };
        let files = tls::Files { certificate: certificate.into(), key: self.must("tls-key")?.into() };
        files.server().map(Some)
    }
}

/// Runs the program.
pub async fn main(words: Vec<String>) -> Result<()> {
    let (mode, rest) =
        words.split_first().context("usage: tunnel-peer server|client|raw-server|raw-client ...")?;
    let options = Options::parse(rest)?;
    let run = async {
        match mode.as_str() {
            "server" => server(&options).await,
            "client" => client(&options).await,
            "raw-server" => raw::server(&options).await,
            "raw-client" => raw::client(&options).await,
            other => bail!("no mode {other:?}"),
        }
    };
    tokio::select! {
        result = run => result,
        () = stdin_ends() => Ok(()),
    }
}

async fn stdin_ends() {
    let _ = tokio::io::stdin().read_to_end(&mut Vec::new()).await;
}

/// Whoever says who it is.
struct ByHeader;

impl Authorizer for ByHeader {
    fn authorize<'a>(&'a self, head: &'a request::Parts) -> Later<'a, Verdict> {
        let key = head.headers.get(KEY).and_then(|value| ClientKey::new(value.to_str().ok()?).ok());
        Box::pin(async move { key.map_or(Verdict::Nobody, Verdict::Is) })
    }
}

/// The listeners of a server, once they are told.
pub(super) async fn listen() -> Result<(TcpListener, TcpListener)> {
    let (connect, forward) =
        (TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("127.0.0.1:0").await?);
    println!("ready connect={} forward={}", connect.local_addr()?, forward.local_addr()?);
    Ok((connect, forward))
}

async fn server(options: &Options) -> Result<()> {
    let hub = Hub::new(Settings::default(), Arc::new(SystemClock), Box::new(SystemEntropy));
    let tls = options.tls()?;
    if let Some(peer) = options.get("peer") {
        let [url, id, token] = peer.split(',').collect::<Vec<_>>()[..] else { bail!("-peer URL,ID,TOKEN") };
        let identity = |id: &str, token: &str| Identity { id: id.to_owned(), token: token.to_owned() };
        hub.trust_peer(identity(id, token));
        let us = identity(options.must("peer-id")?, options.must("peer-token")?);
        let url: Uri = url.parse()?;
        let peer = Peer { url: url.clone(), transport: Arc::new(Dialled::to(&url)?) };
        let hub = hub.clone();
        tokio::spawn(async move { hub.join_peer(&us, peer, Box::new(SystemEntropy)).await });
    }
    let (connect, forward) = listen().await?;
    tokio::spawn(serve_forward(forward, hub.clone()));
    loop {
        let (stream, _) = connect.accept().await?;
        tokio::spawn(serve_connect(stream, tls.clone(), hub.clone()));
    }
}

/// TLS if there is to be any.
pub(super) async fn secure(stream: TcpStream, tls: Option<Arc<ServerConfig>>) -> io::Result<Box<dyn Io>> {
    tunnel::socket::tune(&stream)?;
    Ok(match tls {
        Some(config) => Box::new(TlsAcceptor::from(config).accept(stream).await?),
        None => Box::new(stream),
    })
}

async fn serve_connect(stream: TcpStream, tls: Option<Arc<ServerConfig>>, hub: Hub) -> Result<()> {
    let stream = secure(stream, tls).await?;
    let service = service_fn(move |request: Request<Incoming>| {
        let hub = hub.clone();
        async move { Ok::<Response<Full<Bytes>>, std::convert::Infallible>(hub.answer(request, &ByHeader).await) }
    });
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    Ok(connection.with_upgrades().await?)
}

async fn serve_forward(forward: TcpListener, hub: Hub) {
    while let Ok((stream, _)) = forward.accept().await {
        let hub = hub.clone();
        tokio::spawn(async move {
            if let Err(error) = carry(stream, &hub).await {
                eprintln!("forward: {error:#}");
            }
        });
    }
}

/// The first line of a connection, and the connection.
pub(super) async fn first_line(stream: TcpStream) -> Result<(String, BufReader<TcpStream>)> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::with_capacity(32 << 10, stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    Ok((line.trim().to_owned(), stream))
}

async fn carry(stream: TcpStream, hub: &Hub) -> Result<()> {
    let (line, mut stream) = first_line(stream).await?;
    match line.split(' ').collect::<Vec<_>>()[..] {
        ["view"] => stream.write_all(serde_json::to_string(&hub.view())?.as_bytes()).await?,
        ["metrics"] => {
            let (mut registry, mut text) = (Registry::default(), String::new());
            registry.register_collector(Box::new(hub.clone()));
            prometheus_client::encoding::text::encode(&mut text, &registry)?;
            stream.write_all(text.as_bytes()).await?;
        }
        [client, address] => {
            let tunnelled = hub.dial(&ClientKey::new(client)?, &Target::tcp(address))?;
            pump(tunnelled, stream).await;
        }
        _ => bail!("{line:?} is not <client key> <address>"),
    }
    Ok(())
}

/// A server by its URL; who answers is not checked.
pub(super) struct Dialled {
    address: String,
    tls: Option<Arc<rustls::ClientConfig>>,
}

impl Dialled {
    pub(super) fn to(url: &Uri) -> Result<Self> {
        let address = url.authority().context("a URL with a host")?.to_string();
        let tls = matches!(url.scheme_str(), Some("wss" | "https")).then(tls::client).transpose()?;
        Ok(Dialled { address, tls })
    }
}

impl Transport for Dialled {
    fn connect(&self) -> Later<'_, io::Result<Box<dyn Io>>> {
        Box::pin(async {
            let stream = TcpStream::connect(&self.address).await?;
            tunnel::socket::tune(&stream)?;
            let Some(config) = &self.tls else { return Ok(Box::new(stream) as Box<dyn Io>) };
            let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
            Ok(Box::new(TlsConnector::from(config.clone()).connect(name, stream).await?) as Box<dyn Io>)
        })
    }
}

async fn client(options: &Options) -> Result<()> {
    let url: Uri = options.must("url")?.parse()?;
    let headers = HeaderMap::from_iter([(KEY, HeaderValue::from_str(options.must("key")?)?)]);
    let client = Client {
        transport: Arc::new(Dialled::to(&url)?),
        handler: Arc::new(Forward::new(|_: &Target| true, Network)),
        settings: Settings::default(),
        clock: Arc::new(SystemClock),
        entropy: Box::new(SystemEntropy),
    };
    let hello = || Hello { url: url.clone(), headers: headers.clone() };
    let never = client.run(hello, |progress| match progress {
        Progress::Connected(_) => println!("ready connected"),
        Progress::Ended(why) => eprintln!("the session ended: {why}"),
        Progress::Failed(why) => eprintln!("no session: {why}"),
    });
    match never.await {}
}
