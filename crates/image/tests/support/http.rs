//! A small HTTP server whose answers a test decides.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::image_files::Image;

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn authorization(&self) -> &str {
        self.headers.get("authorization").map_or("", String::as_str)
    }
}

pub(crate) struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Response {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Response { status, headers: Vec::new(), body: body.into() }
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}

/// What a registry without any protection answers.
pub(crate) fn as_registry(image: &Image, request: &Request) -> Response {
    let path = request.target.split('?').next().unwrap();
    let name = path.rsplit('/').next().unwrap();
    let found = match path {
        _ if path.ends_with("/manifests/v1") => image.manifests.get(&image.index),
        _ if path.contains("/manifests/") => image.manifests.get(name),
        _ if path.contains("/blobs/") => image.blobs.get(name),
        _ => None,
    };
    match found {
        Some(bytes) => Response::new(200, bytes.clone()),
        None => Response::new(404, "{\"errors\":[{\"code\":\"MANIFEST_UNKNOWN\"}]}"),
    }
}

type Handler = Arc<dyn Fn(&Request) -> Response + Send + Sync>;

/// A server on a free port of this machine, and what it was asked.
pub(crate) struct Server {
    pub(crate) port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    pub(crate) async fn start(handler: impl Fn(&Request) -> Response + Send + Sync + 'static) -> Self {
        Server::start_with(None, handler).await
    }

    /// The same, behind TLS if there is an acceptor.
    pub(crate) async fn start_with(
        tls: Option<TlsAcceptor>,
        handler: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, handler): (_, Handler) = (requests.clone(), Arc::new(handler));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, handler, tls) = (seen.clone(), handler.clone(), tls.clone());
                tokio::spawn(async move {
                    // A client that goes away early is the client's business.
                    let _ = match tls {
                        None => serve(stream, &handler, &seen).await,
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => serve(stream, &handler, &seen).await,
                            Err(error) => Err(error),
                        },
                    };
                });
            }
        });
        Server { port, requests }
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    handler: &Handler,
    seen: &Mutex<Vec<Request>>,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut words = lines.first().map(String::as_str).unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default().into(), words.next().unwrap_or_default().into());
    let headers = lines.iter().skip(1).filter_map(|line| line.split_once(": "));
    let headers: BTreeMap<String, String> =
        headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let request = Request { method, target, headers, body: String::from_utf8_lossy(&body).into_owned() };
    let response = handler(&request);
    seen.lock().unwrap().push(request);
    let mut head = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", response.status);
    head += &format!("Content-Length: {}\r\n", response.body.len());
    for (name, value) in &response.headers {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).await?;
    stream.write_all(&response.body).await?;
    stream.shutdown().await
}
