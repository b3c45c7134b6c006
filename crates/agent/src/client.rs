//! Requests to the Kubernetes API: plain HTTP/1.1, no more than an agent needs.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::sync::Mutex;

use crate::connect::{self, Connect};

/// How long an answer may take, from the first byte sent to the last one read.
const PATIENCE: Duration = Duration::from_secs(30);
/// A Secret has at most 1 MiB; with base64 and managed fields it stays far below this.
const LARGEST: usize = 8 << 20;

/// Why a request has no answer to use.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection.
    #[error(transparent)]
    Connect(#[from] connect::Error),
    /// The connection broke.
    #[error("the connection broke")]
    Http(#[from] hyper::Error),
    /// A body that cannot be read.
    #[error("cannot read the answer: {0}")]
    Body(String),
    /// The server says no.
    #[error("the server says {code}: {message}")]
    Status {
        /// Its status code.
        code: StatusCode,
        /// In its words.
        message: String,
    },
    /// It took too long.
    #[error("no answer in time")]
    Timeout,
    /// A token that no header can carry.
    #[error("the token is not one that can be sent")]
    Token,
}

impl Error {
    /// The status code, if the server said no.
    pub fn code(&self) -> Option<StatusCode> {
        match self {
            Error::Status { code, .. } => Some(*code),
            _ => None,
        }
    }
}

/// A client for one server.
pub struct Client {
    way: std::sync::Mutex<Arc<dyn Connect>>,
    host: String,
    prefix: String,
    authorization: Option<HeaderValue>,
    idle: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Client {
    /// A client for the server at `address`, reached by `connect`.
    ///
    /// # Errors
    /// If the token cannot be sent.
    pub fn new(connect: Arc<dyn Connect>, address: &Uri, token: Option<&str>) -> Result<Self, Error> {
        let authorization = token.map(|token| {
            let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| Error::Token)?;
            value.set_sensitive(true);
            Ok::<_, Error>(value)
        });
        Ok(Client {
            way: std::sync::Mutex::new(connect),
            host: address.authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default(),
            prefix: address.path().trim_end_matches('/').to_owned(),
            authorization: authorization.transpose()?,
            idle: Mutex::new(None),
        })
    }

    /// A JSON document.
    pub async fn get(&self, path: &str) -> Result<Value, Error> {
        self.document(Method::GET, path, None).await
    }

    /// Whatever is there, as it is.
    pub async fn bytes(&self, path: &str) -> Result<Bytes, Error> {
        match self.exchange(Method::GET, path, None).await? {
            (code, bytes) if code.is_success() => Ok(bytes),
            (code, bytes) => Err(refusal(code, &bytes)),
        }
    }

    /// A file of at most `most` bytes, which may take its time as long as it goes on.
    pub async fn file(&self, path: &str, most: usize) -> Result<Vec<u8>, Error> {
        let (mut body, _connection) = self.stream(path).await?;
        let mut bytes = Vec::new();
        loop {
            let frame = tokio::time::timeout(PATIENCE, body.frame()).await.map_err(|_| Error::Timeout)?;
            let Some(frame) = frame else { return Ok(bytes) };
            if let Ok(data) = frame?.into_data() {
                bytes.extend_from_slice(&data);
            }
            if bytes.len() > most {
                return Err(Error::Body(format!("it has more than {most} bytes")));
            }
        }
    }

    /// Replaces a document; gives it as the server has it now.
    pub async fn put(&self, path: &str, document: &Value) -> Result<Value, Error> {
        self.document(Method::PUT, path, Some(document)).await
    }

    async fn document(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Error> {
        let (code, bytes) = self.exchange(method, path, body).await?;
        understand(code, &bytes)
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Bytes), Error> {
        let exchange = async {
            let mut sender = match self.idle.lock().await.take().filter(SendRequest::is_ready) {
                Some(sender) => sender,
                None => self.open().await?,
            };
            let response = sender.send_request(self.request(method, path, body)).await?;
            let code = response.status();
            let bytes = collect(response).await?;
            *self.idle.lock().await = Some(sender);
            Ok((code, bytes))
        };
        tokio::time::timeout(PATIENCE, exchange).await.unwrap_or(Err(Error::Timeout))
    }

    /// An answer that goes on, on a connection of its own.
    pub(crate) async fn stream(&self, path: &str) -> Result<(Incoming, SendRequest<Full<Bytes>>), Error> {
        let begin = async {
            let mut sender = self.open().await?;
            let response = sender.send_request(self.request(Method::GET, path, None)).await?;
            match response.status() {
                StatusCode::OK => Ok((response.into_body(), sender)),
                code => Err(refusal(code, &collect(response).await?)),
            }
        };
        tokio::time::timeout(PATIENCE, begin).await.unwrap_or(Err(Error::Timeout))
    }

    /// Has the server make something of a document; gives what it made.
    pub(crate) async fn post(&self, path: &str, document: &Value) -> Result<Value, Error> {
        self.document(Method::POST, path, Some(document)).await
    }

    /// The same client on another way.
    pub(crate) fn by(&self, way: Arc<dyn Connect>) -> Self {
        Client {
            way: std::sync::Mutex::new(way),
            host: self.host.clone(),
            prefix: self.prefix.clone(),
            authorization: self.authorization.clone(),
            idle: Mutex::new(None),
        }
    }

    /// From now on new connections take another way. Those that are open stay.
    pub(crate) fn change_way(&self, way: Arc<dyn Connect>) {
        *self.way.lock().unwrap_or_else(PoisonError::into_inner) = way;
    }

    async fn open(&self) -> Result<SendRequest<Full<Bytes>>, Error> {
        let way = self.way.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let stream = way.connect().await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // It ends with the sender.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection to the server");
            }
        });
        Ok(sender)
    }

    fn request(&self, method: Method, path: &str, body: Option<&Value>) -> Request<Full<Bytes>> {
        let body = body.map(|body| Bytes::from(body.to_string()));
        let mut request = Request::new(Full::new(body.clone().unwrap_or_default()));
        *request.method_mut() = method;
        // Paths are made of names that the API allows: they always parse.
        *request.uri_mut() = format!("{}{path}", self.prefix).parse().unwrap_or_default();
        let headers = request.headers_mut();
        headers
            .insert(HOST, HeaderValue::try_from(self.host.as_str()).unwrap_or(HeaderValue::from_static("")));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("herdsman-agent/", env!("CARGO_PKG_VERSION"))),
        );
        if body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        request
    }
}

async fn collect(response: Response<Incoming>) -> Result<Bytes, Error> {
    let collected = Limited::new(response.into_body(), LARGEST).collect().await;
    Ok(collected.map_err(|error| Error::Body(error.to_string()))?.to_bytes())
}

fn understand(code: StatusCode, bytes: &[u8]) -> Result<Value, Error> {
    match code.is_success() {
        true => serde_json::from_slice(bytes).map_err(|error| Error::Body(error.to_string())),
        false => Err(refusal(code, bytes)),
    }
}

/// In the words of the server's `Status`, or of whoever answered in its place.
fn refusal(code: StatusCode, bytes: &[u8]) -> Error {
    let status: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let message = match status["message"].as_str() {
        Some(message) => message.to_owned(),
        None => String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).trim().to_owned(),
    };
    Error::Status { code, message }
}
