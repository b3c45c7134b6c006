//! Calls to webhooks: a JSON document is posted over TLS, and another one comes back.
//!
//! Who calls decides what the documents mean: see [`crate::convert`].

mod config;
mod pool;
mod resolve;
mod trust;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use serde_json::Value;

pub use config::{ClientConfig, Endpoint};

use crate::store::Store;
use pool::{Pool, Sender, Target};

/// No answer is longer.
const MOST_BYTES: usize = 100 << 20;

/// Why a webhook gave no usable answer, in the words of Go's HTTP client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration names no place to call.
    #[error("webhook configuration must have either service or URL")]
    NoEndpoint,
    /// The URL cannot be read.
    #[error("Unparsable URL: {0}")]
    Url(String),
    /// The CA bundle holds no certificates, or there are none on this machine.
    #[error("unable to load root certificates: {0}")]
    Roots(String),
    /// It could not be reached, or did not answer in HTTP or in time.
    #[error("Post {url:?}: {why}")]
    Call {
        /// The URL that was called.
        url: String,
        /// What went wrong.
        why: String,
    },
    /// It answered with an error.
    #[error("{0}")]
    Refused(String),
    /// It answered, but not in JSON.
    #[error("couldn't get version/kind; json parse error: {0}")]
    NotJson(serde_json::Error),
}

/// Calls webhooks, and keeps connections to them for further calls. Services are looked up in the store.
pub struct Caller {
    store: Arc<dyn Store>,
    pool: Pool,
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller").finish_non_exhaustive()
    }
}

impl Caller {
    /// A caller that finds services in a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Caller { store, pool: Pool::default() }
    }

    /// Posts a document and gives the answer's. The webhook is told how long it may take.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn call(
        &self,
        config: &ClientConfig,
        document: &Value,
        timeout: Duration,
    ) -> Result<Value, Error> {
        let place = config.place()?;
        let url = format!("https://{}{}?timeout={}s", place.authority(), place.path, timeout.as_secs());
        let failed = |why: String| Error::Call { url: url.clone(), why };
        let address = match &config.endpoint {
            Some(Endpoint::Service { namespace, name, port, .. }) => {
                resolve::resolve(&self.store.view(), namespace, name, *port).map_err(failed)?
            }
            _ => (place.host.clone(), place.port),
        };
        let target = Target { address, server_name: place.host.clone(), ca_bundle: config.ca_bundle.clone() };
        let body = Bytes::from(document.to_string());
        let late = || failed("context deadline exceeded".into());
        let answer = tokio::time::timeout(timeout, self.exchange(&target, &url, body));
        let answer = answer.await.map_err(|_| late())??;
        match answer.code {
            200..=299 => serde_json::from_slice(&answer.body).map_err(Error::NotJson),
            _ => Err(Error::Refused(refusal(&answer))),
        }
    }

    /// A kept connection may have been closed from the other side meanwhile: then a new one is tried.
    async fn exchange(&self, target: &Target, url: &str, body: Bytes) -> Result<Answer, Error> {
        let failed = |why: String| Error::Call { url: url.to_owned(), why };
        if let Some(mut kept) = self.pool.take(target)
            && let Ok(answer) = send(&mut kept, url, body.clone()).await
        {
            self.pool.give_back(target, kept);
            return Ok(answer);
        }
        let mut fresh = self.pool.connect(target).await?.map_err(failed)?;
        let answer = send(&mut fresh, url, body).await.map_err(failed)?;
        self.pool.give_back(target, fresh);
        Ok(answer)
    }
}

/// What came back.
struct Answer {
    code: u16,
    /// Whether the body is for people, as far as is known.
    is_text: bool,
    body: Bytes,
}

async fn send(sender: &mut Sender, url: &str, body: Bytes) -> Result<Answer, String> {
    let text = |error: hyper::Error| error.to_string();
    let url: http::Uri = url.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
    let host = url.authority().map(ToString::to_string).unwrap_or_default();
    let request = http::Request::post(url.path_and_query().map_or("/", |path| path.as_str()))
        .header("host", host)
        .header("accept", "application/json, */*")
        .header("content-type", "application/json")
        .body(Full::new(body))
        .map_err(|error| error.to_string())?;
    sender.ready().await.map_err(text)?;
    let answer = sender.send_request(request).await.map_err(text)?;
    let code = answer.status().as_u16();
    let media = answer.headers().get("content-type").and_then(|value| value.to_str().ok());
    let is_text = media.is_none_or(|media| media.is_empty() || media.starts_with("text/"));
    let body = Limited::new(answer.into_body(), MOST_BYTES).collect().await;
    Ok(Answer { code, is_text, body: body.map_err(|error| error.to_string())?.to_bytes() })
}

/// What Go's client makes of an error: a Status speaks for itself, else the code does.
fn refusal(answer: &Answer) -> String {
    let status: Option<Value> = serde_json::from_slice(&answer.body).ok();
    let message =
        status.as_ref().filter(|status| status["kind"] == "Status").and_then(|s| s["message"].as_str());
    if let Some(message) = message {
        return message.to_owned();
    }
    // What is not said to be text is not shown.
    let text = if answer.is_text { String::from_utf8_lossy(&answer.body) } else { "unknown".into() };
    match answer.code {
        404 => "the server could not find the requested resource".into(),
        401 => "the server has asked for the client to provide credentials".into(),
        403 => "forbidden".into(),
        503 => "the server is currently unable to handle the request".into(),
        500.. => {
            format!(
                "an error on the server ({:?}) has prevented the request from succeeding",
                text.trim_end()
            )
        }
        400 => "the server rejected our request for an unknown reason".into(),
        code => {
            format!("the server responded with the status code {code} but did not return more information")
        }
    }
}
