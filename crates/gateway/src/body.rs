//! Bodies of answers: our own, the API's, and those that are handed on. None is copied.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use serde_json::{Value, json};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of an answer.
pub struct Body {
    kind: Kind,
    /// Dropped with the body.
    held: Option<Box<dyn Send>>,
}

enum Kind {
    Full(Option<Bytes>),
    Api(apiserver::http::Body),
    HandedOn(Incoming),
    Stream(Pin<Box<dyn http_body::Body<Data = Bytes, Error = BoxError> + Send>>),
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Body")
    }
}

impl Body {
    /// These bytes.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Body { kind: Kind::Full(Some(bytes.into()).filter(|bytes| !bytes.is_empty())), held: None }
    }

    /// Nothing.
    pub fn empty() -> Self {
        Body { kind: Kind::Full(None), held: None }
    }

    /// Bytes as they come.
    pub fn stream(body: impl http_body::Body<Data = Bytes, Error = BoxError> + Send + 'static) -> Self {
        Body { kind: Kind::Stream(Box::pin(body)), held: None }
    }

    /// The same body; `held` is dropped with it.
    #[must_use]
    pub fn until_end(self, held: impl Send + 'static) -> Self {
        Body { held: Some(Box::new((self.held, held))), kind: self.kind }
    }
}

impl From<apiserver::http::Body> for Body {
    fn from(body: apiserver::http::Body) -> Self {
        Body { kind: Kind::Api(body), held: None }
    }
}

impl From<Incoming> for Body {
    fn from(body: Incoming) -> Self {
        Body { kind: Kind::HandedOn(body), held: None }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.get_mut().kind {
            Kind::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Api(body) => Pin::new(body).poll_frame(context).map_err(|never| match never {}),
            Kind::HandedOn(body) => Pin::new(body).poll_frame(context).map_err(Into::into),
            Kind::Stream(body) => body.as_mut().poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Full(bytes) => bytes.is_none(),
            Kind::Api(body) => body.is_end_stream(),
            Kind::HandedOn(body) => body.is_end_stream(),
            Kind::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Kind::Api(body) => body.size_hint(),
            Kind::HandedOn(body) => body.size_hint(),
            Kind::Stream(body) => body.size_hint(),
        }
    }
}

/// An answer of a media type.
pub(crate) fn answer(code: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::full(body));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// Text, for a node's log.
pub(crate) fn text(code: StatusCode, text: impl Into<String>) -> Response<Body> {
    answer(code, "text/plain; charset=utf-8", text.into() + "\n")
}

/// JSON.
pub(crate) fn document(document: &Value) -> Response<Body> {
    answer(StatusCode::OK, "application/json", document.to_string())
}

/// The same answer; whoever gets it may come again after so many seconds.
pub(crate) fn retry_after(mut response: Response<Body>, seconds: u64) -> Response<Body> {
    response.headers_mut().insert(RETRY_AFTER, seconds.into());
    response
}

/// A failure as clients of the Kubernetes API read it.
pub(crate) fn status(code: StatusCode, reason: &str, message: &str) -> Response<Body> {
    let document = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16(),
    });
    answer(code, "application/json", document.to_string())
}
