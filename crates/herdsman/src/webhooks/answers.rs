//! What is answered on the webhooks' port.
//!
//! Anybody may reach it, and who writes is what the review says: so an answer is yes or no, and nothing is written.

use std::sync::Arc;
use std::time::Duration;

use apiserver::http::{Certificates, Front, Settings};
use capi::Definitions;
use capi::review;
use controllers::admission::Door;
use controllers::admission::review as ours;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};

/// The most that is read of a review: an object, what it was before, and what the API server says of it.
const LARGEST: usize = 16 << 20;
/// How many reviews are read and answered at once.
const AT_ONCE: usize = 32;

/// Answers reviews.
#[derive(Clone)]
pub(super) struct Answers(Arc<Inner>);

struct Inner {
    /// Not there until the CRDs have been read once.
    definitions: watch::Receiver<Option<Arc<Definitions>>>,
    door: Door,
    /// Whether who asks has to show a certificate.
    needs_certificate: bool,
    settings: Settings,
    turns: Semaphore,
}

impl Answers {
    pub(super) fn new(
        definitions: watch::Receiver<Option<Arc<Definitions>>>,
        door: Door,
        needs_certificate: bool,
    ) -> Self {
        // A few API servers ask, over few connections.
        let settings = Settings {
            connections: 512,
            connections_per_address: 128,
            idle: Duration::from_secs(90),
            body: Duration::from_secs(10),
            ..Settings::default()
        };
        let turns = Semaphore::new(AT_ONCE);
        Answers(Arc::new(Inner { definitions, door, needs_certificate, settings, turns }))
    }

    /// What is known of CRDs: a request at the very start waits for it.
    async fn definitions(&self) -> Option<Arc<Definitions>> {
        let mut definitions = self.0.definitions.clone();
        definitions.wait_for(Option::is_some).await.ok()?.clone()
    }

    async fn review(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path().to_owned();
        let Ok(_turn) = self.0.turns.acquire().await else {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "this server is about to end");
        };
        let body = Limited::new(request.into_body(), LARGEST).collect();
        let body = match tokio::time::timeout(self.0.settings.body, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) => return plain(StatusCode::BAD_REQUEST, error.to_string()),
            Err(_) => return plain(StatusCode::REQUEST_TIMEOUT, "the review did not arrive in time"),
        };
        let review: Value = match serde_json::from_slice(&body) {
            Ok(review) => review,
            Err(error) => return plain(StatusCode::BAD_REQUEST, format!("this is no review: {error}")),
        };
        let answer = match (path.as_str(), review::asked(&path), ours::asked(&path)) {
            ("/convert", ..) => match self.definitions().await {
                Some(definitions) => review::convert(&review, &*definitions),
                None => return plain(StatusCode::SERVICE_UNAVAILABLE, "this server is about to end"),
            },
            (_, Some(asked), _) => review::admit(asked, &review),
            (_, _, Some(asked)) => ours::admit(&self.0.door, asked, &review).await,
            _ => return plain(StatusCode::NOT_FOUND, format!("there is no webhook {path}")),
        };
        let mut response = plain(StatusCode::OK, answer.to_string());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

impl Front for Answers {
    type Body = Full<Bytes>;

    fn settings(&self) -> &Settings {
        &self.0.settings
    }

    async fn closed(&self) {
        // The process ends with its other work, and this with it.
        std::future::pending().await
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let is_ready = self.0.definitions.borrow().is_some();
        match (request.uri().path(), is_ready) {
            ("/healthz" | "/livez", _) | ("/readyz", true) => return plain(StatusCode::OK, "ok"),
            ("/readyz", false) => {
                let why = "the CustomResourceDefinitions have not been read yet";
                return plain(StatusCode::SERVICE_UNAVAILABLE, why);
            }
            _ => {}
        }
        let shown = request.extensions().get::<Certificates>().is_some_and(|shown| !shown.0.is_empty());
        if self.0.needs_certificate && !shown {
            let why = "webhooks are answered to who shows a certificate of --webhook-client-ca";
            return plain(StatusCode::UNAUTHORIZED, why);
        }
        self.review(request).await
    }
}

fn plain(code: StatusCode, text: impl Into<String>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text.into())));
    *response.status_mut() = code;
    response
}
