//! A hub behind an HTTP server, and ways to it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use clock::{RuntimeClock, SeededEntropy};
use http::{HeaderMap, HeaderValue, Request, Response, request};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::task::JoinHandle;
use tunnel::client::{Client, Hello, Transport};
use tunnel::hub::{Authorizer, Verdict};
use tunnel::serve::{Dial, Forward, Io, Later};
use tunnel::session::Settings;
use tunnel::{ClientKey, Hub, Target};

pub(crate) fn key(name: &str) -> ClientKey {
    ClientKey::new(name).expect("a key")
}

pub(crate) fn hub(seed: u64) -> Hub {
    let clock = Arc::new(RuntimeClock::starting_at(Timestamp::UNIX_EPOCH));
    Hub::new(Settings::default(), clock, Box::new(SeededEntropy::new(seed)))
}

/// Tokens are `token-of-<key>`; `token-of-` nobody can have.
pub(crate) struct ByToken;

impl Authorizer for ByToken {
    fn authorize<'a>(&'a self, head: &'a request::Parts) -> Later<'a, Verdict> {
        let token = head.headers.get("x-api-tunnel-token").and_then(|value| value.to_str().ok());
        let verdict = match token.and_then(|token| token.strip_prefix("token-of-")) {
            Some(name) => {
                ClientKey::new(name).map_or_else(|why| Verdict::Wrong(why.to_string()), Verdict::Is)
            }
            None => Verdict::Nobody,
        };
        Box::pin(async move { verdict })
    }
}

/// A way to a hub's HTTP server that can be closed.
#[derive(Clone)]
pub(crate) struct Way {
    hub: Hub,
    open: Arc<AtomicBool>,
}

impl Way {
    pub(crate) fn to(hub: &Hub) -> Self {
        Way { hub: hub.clone(), open: Arc::new(AtomicBool::new(true)) }
    }

    pub(crate) fn set_open(&self, open: bool) {
        self.open.store(open, Ordering::Relaxed);
    }

    pub(crate) fn pipe(&self) -> DuplexStream {
        let (near, far) = tokio::io::duplex(64 << 10);
        let hub = self.hub.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let hub = hub.clone();
            async move {
                Ok::<Response<Full<Bytes>>, std::convert::Infallible>(hub.answer(request, &ByToken).await)
            }
        });
        let http = hyper::server::conn::http1::Builder::new();
        tokio::spawn(http.serve_connection(TokioIo::new(far), service).with_upgrades());
        near
    }
}

impl Transport for Way {
    fn connect(&self) -> Later<'_, io::Result<Box<dyn Io>>> {
        let open = self.open.load(Ordering::Relaxed);
        Box::pin(async move {
            match open {
                true => Ok(Box::new(self.pipe()) as Box<dyn Io>),
                false => Err(io::ErrorKind::ConnectionRefused.into()),
            }
        })
    }
}

/// Something behind a client: says its name and what was dialled, then echoes.
struct Named(String);

impl Dial for Named {
    fn dial(&self, target: Target) -> Later<'static, io::Result<Box<dyn Io>>> {
        let said = format!("{} {target}\n", self.0);
        Box::pin(async move {
            let (near, far) = tokio::io::duplex(64 << 10);
            tokio::spawn(async move {
                let (mut from, mut to) = tokio::io::split(far);
                let _ = to.write_all(said.as_bytes()).await;
                let _ = tokio::io::copy(&mut from, &mut to).await;
                let _ = to.shutdown().await;
            });
            Ok(Box::new(near) as Box<dyn Io>)
        })
    }
}

/// A client that connects for ever, until it is aborted.
pub(crate) fn client(way: &Way, token: &str, name: &str) -> JoinHandle<()> {
    client_with(way, token, Named(name.to_owned()))
}

pub(crate) fn client_with(way: &Way, token: &str, dial: impl Dial + 'static) -> JoinHandle<()> {
    let client = Client {
        transport: Arc::new(way.clone()),
        handler: Arc::new(Forward::new(|_: &Target| true, dial)),
        settings: Settings::default(),
        clock: Arc::new(RuntimeClock::starting_at(Timestamp::UNIX_EPOCH)),
        entropy: Box::new(SeededEntropy::new(3)),
    };
    let hello = hello(token);
    tokio::spawn(async move {
        client.run(move || hello.clone(), |_| {}).await;
    })
}

pub(crate) fn hello(token: &str) -> Hello {
    let mut headers = HeaderMap::new();
    headers.insert("x-api-tunnel-token", HeaderValue::from_str(token).expect("a header"));
    Hello { url: "ws://server/v3/connect".parse().expect("a URL"), headers }
}

/// The first line that a stream says.
pub(crate) async fn first_line(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> io::Result<String> {
    let mut line = Vec::new();
    loop {
        match stream.read_u8().await? {
            b'\n' => return Ok(String::from_utf8_lossy(&line).into_owned()),
            byte => line.push(byte),
        }
    }
}

/// Waits until something is so.
pub(crate) async fn until(what: impl Fn() -> bool) {
    for _ in 0..3000 {
        if what() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it never came to be");
}
