//! The Kubernetes API behind the port.

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::HttpConnector;
use kube::Config;
use kube::config::AuthInfo;
use kubeapi::Status;

use crate::Later;
use crate::body::Body;
use crate::book::{Book, PREFIX};
use crate::forward::{self, Backend, Purpose};
use crate::headers;

/// A Kubernetes API. It finds out itself who asks; tokens of agents are in a [`Book`].
pub trait Kubernetes: Send + Sync {
    /// Answers a request. What goes wrong is in the answer.
    fn handle(&self, request: Request<Incoming>) -> Later<'_, Response<Body>>;

    /// Ends watches and what else goes on for ever: the server stops.
    fn close(&self) {}

    /// Whether it lives in this process, so that its metrics are ours, too.
    fn is_ours(&self) -> bool {
        true
    }
}

/// The one in this process. It was made with the [`Book`] as its tokens.
#[derive(Clone, Debug)]
pub struct Embedded(pub apiserver::http::Api);

impl Kubernetes for Embedded {
    fn handle(&self, request: Request<Incoming>) -> Later<'_, Response<Body>> {
        Box::pin(async move { self.0.handle(request).await.map(Body::from) })
    }

    fn close(&self) {
        self.0.close();
    }
}

/// A real one, somewhere else.
///
/// Whoever a [`Book`] knows acts there by our own credentials and impersonation; only an administrator's wish to act as somebody else
/// is heard. Everybody else acts by their own credentials: whatever they send is the server's to judge.
#[derive(Clone)]
pub struct PassThrough {
    ours: Backend,
    theirs: Backend,
    book: Book,
}

impl std::fmt::Debug for PassThrough {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PassThrough").finish_non_exhaustive()
    }
}

impl PassThrough {
    /// To the server of a configuration, whose credentials may impersonate.
    ///
    /// # Errors
    /// If the configuration cannot be used.
    pub fn new(mut config: Config, book: Book) -> Result<Self, kube::Error> {
        let connector = || {
            let mut http = HttpConnector::new();
            http.enforce_http(false);
            http.set_nodelay(true);
            http.set_connect_timeout(Some(std::time::Duration::from_secs(10)));
            http
        };
        let ours = forward::backend(&config, connector(), Purpose::Anything)?;
        config.auth_info = AuthInfo::default();
        let theirs = forward::backend(&config, connector(), Purpose::Anything)?;
        Ok(PassThrough { ours, theirs, book })
    }

    async fn answer(&self, mut request: Request<Incoming>) -> Response<Body> {
        // Whether this process lives does not hang on the server behind it.
        if matches!(request.uri().path(), "/livez" | "/healthz") {
            return crate::body::text(http::StatusCode::OK, "ok");
        }
        let token = headers::bearer(request.headers());
        let is_ours = token.is_some_and(|token| token.starts_with(PREFIX));
        let known = match token {
            Some(token) => self.book.who(token).await,
            None => Ok(None),
        };
        match known {
            Ok(Some(user)) => {
                let headers = request.headers_mut();
                match headers::become_user(headers, user.authenticated()) {
                    true => forward::forward(self.ours.clone(), request).await,
                    false => refusal(),
                }
            }
            Ok(None) if !is_ours => {
                headers::strip_front_proxy(request.headers_mut());
                forward::forward(self.theirs.clone(), request).await
            }
            Ok(None) | Err(_) => refusal(),
        }
    }
}

fn refusal() -> Response<Body> {
    let status = Status::unauthorized();
    let code = http::StatusCode::from_u16(status.code).unwrap_or(http::StatusCode::UNAUTHORIZED);
    crate::body::status(code, "Unauthorized", &status.message)
}

impl Kubernetes for PassThrough {
    fn handle(&self, request: Request<Incoming>) -> Later<'_, Response<Body>> {
        Box::pin(self.answer(request))
    }

    fn is_ours(&self) -> bool {
        false
    }
}
