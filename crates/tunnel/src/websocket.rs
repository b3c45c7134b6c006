//! The websocket that carries a session: both ends of its handshake.

use std::io;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clock::Entropy;
use http::header::{
    CONNECTION, HOST, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self};

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest message that is taken: a writer of Go's may put all it has into one.
const LONGEST_MESSAGE: usize = 32 << 20;
/// What is read at once. Every session has this much memory, be it ever so quiet, and TLS gives no more than twice that at once.
const READ_BUFFER: usize = 8 << 10;
/// What is written at once. More would stand before a message that came later and is in a hurry.
const WRITE_BUFFER: usize = 64 << 10;

/// How the carrier of a session is set up.
pub fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .max_message_size(Some(LONGEST_MESSAGE))
        .max_frame_size(Some(LONGEST_MESSAGE))
}

/// Why there is no websocket.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server does not want us.
    #[error("the server says {status}: {message}")]
    Refused {
        /// Its status code.
        status: StatusCode,
        /// In its words.
        message: String,
    },
    /// The connection is gone, or the answer is none.
    #[error("no websocket: {0}")]
    Handshake(tungstenite::Error),
    /// It took too long.
    #[error("the server does not answer")]
    Timeout,
    /// An address that no request can have.
    #[error("{0} is not the address of a server")]
    Address(Uri),
    /// No stream to begin with.
    #[error(transparent)]
    Connect(#[from] io::Error),
}

/// Asks the server at the other end of `io` for a websocket. `url` may begin with `http` or `ws`, with or without an `s`.
///
/// # Errors
/// If it does not give one.
pub async fn connect<S: AsyncRead + AsyncWrite + Send + Unpin>(
    io: S,
    url: &Uri,
    headers: &HeaderMap,
    entropy: &mut dyn Entropy,
) -> Result<WebSocketStream<S>, Error> {
    let mut nonce = [0; 16];
    entropy.fill(&mut nonce);
    let request =
        request(url, headers, &STANDARD.encode(nonce)).ok_or_else(|| Error::Address(url.clone()))?;
    let handshake = tokio_tungstenite::client_async_with_config(request, io, Some(config()));
    match tokio::time::timeout(PATIENCE, handshake).await {
        Ok(Ok((socket, _))) => Ok(socket),
        Ok(Err(tungstenite::Error::Http(answer))) => {
            let body = answer.body().as_deref().unwrap_or_default();
            Err(Error::Refused {
                status: answer.status(),
                message: String::from_utf8_lossy(body).trim().to_owned(),
            })
        }
        Ok(Err(error)) => Err(Error::Handshake(error)),
        Err(_) => Err(Error::Timeout),
    }
}

fn request(url: &Uri, headers: &HeaderMap, key: &str) -> Option<Request<()>> {
    let scheme = match url.scheme_str()? {
        "https" | "wss" => "wss",
        "http" | "ws" => "ws",
        _ => return None,
    };
    let authority = url.authority()?;
    let host = authority.as_str().rsplit('@').next()?;
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::get(format!("{scheme}://{authority}{path}")).body(()).ok()?;
    *request.headers_mut() = headers.clone();
    for (name, value) in [
        (HOST, host),
        (CONNECTION, "Upgrade"),
        (UPGRADE, "websocket"),
        (SEC_WEBSOCKET_VERSION, "13"),
        (SEC_WEBSOCKET_KEY, key),
    ] {
        request.headers_mut().insert(name, HeaderValue::from_str(value).ok()?);
    }
    Some(request)
}

/// The answer that turns a request into a websocket; `None` if the request does not ask for one.
pub fn accept<B>(request: &Request<B>) -> Option<Response<()>> {
    let headers = request.headers();
    let asks = request.method() == Method::GET
        && has_word(headers, &CONNECTION, "upgrade")
        && has_word(headers, &UPGRADE, "websocket")
        && has_word(headers, &SEC_WEBSOCKET_VERSION, "13");
    let key = headers.get(SEC_WEBSOCKET_KEY).filter(|_| asks)?;
    let answer = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "websocket")
        .header(SEC_WEBSOCKET_ACCEPT, derive_accept_key(key.as_bytes()));
    answer.body(()).ok()
}

fn has_word(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(word))
}

/// The server's end of a websocket whose handshake is done.
pub async fn serve<S: AsyncRead + AsyncWrite + Send + Unpin>(io: S) -> WebSocketStream<S> {
    WebSocketStream::from_raw_socket(io, Role::Server, Some(config())).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_and_its_answer() {
        let url: Uri = "https://user@server.example:8443/v3/connect?x=1".parse().unwrap();
        let headers =
            HeaderMap::from_iter([(HeaderName::from_static("x-api-tunnel-token"), "t".parse().unwrap())]);
        // The example of RFC 6455.
        let request = request(&url, &headers, "dGhlIHNhbXBsZSBub25jZQ==").unwrap();
        assert_eq!(request.uri(), "wss://user@server.example:8443/v3/connect?x=1");
        assert_eq!(request.headers()["host"], "server.example:8443");
        assert_eq!(request.headers()["x-api-tunnel-token"], "t");
        let answer = accept(&request).unwrap();
        assert_eq!(answer.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn other_requests_are_no_websockets() {
        let with = |headers: &[(&'static str, &str)]| {
            let mut request = Request::get("/").body(()).unwrap();
            for (name, value) in headers {
                request.headers_mut().append(*name, value.parse().unwrap());
            }
            accept(&request).is_some()
        };
        let good = [
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "WebSocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "x"),
        ];
        assert!(with(&good));
        for missing in 0..good.len() {
            let rest: Vec<_> = good
                .iter()
                .copied()
                .enumerate()
                .filter(|(at, _)| *at != missing)
                .map(|(_, one)| one)
                .collect();
            assert!(!with(&rest), "without {:?}", good[missing]);
        }
        assert!(request(&"ftp://x/".parse().unwrap(), &HeaderMap::new(), "k").is_none());
        assert!(request(&"/x".parse().unwrap(), &HeaderMap::new(), "k").is_none());
    }
}
