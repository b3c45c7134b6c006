//! The server as an HTTP service: a `tower` service from request to answer, and the listener around it.

mod audit;
mod body;
mod compression;
mod connection;
mod dispatch;
mod duplicates;
mod fairness;
mod front;
mod gather;
mod health;
mod incoming;
mod lasting;
mod listen;
mod metrics;
mod negotiated;
mod patience;
mod quota;
mod response;
mod settings;
mod stream;
mod streams;
mod version;
mod yaml;

use std::convert::Infallible;
use std::fmt::Display;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::http::{Request, Response};
use kubeapi::authn::User;
use rustls::pki_types::CertificateDer;
use tokio::sync::watch;

pub use body::Body;
pub use connection::{serve, serve_from};
pub use fairness::Bounds;
pub use front::Front;
pub use health::Check;
pub use listen::{TlsError, listen, serve_near, tls_config};
pub use quota::Callers;
pub use settings::Settings;

use crate::audit::Audit;
use crate::auth::Auth;
use crate::openapi::OpenApi;
use crate::server::Server;

/// The client certificates of a connection, as an extension of its requests.
#[derive(Clone, Debug, Default)]
pub struct Certificates(pub Arc<[CertificateDer<'static>]>);

/// The whole server as a service. Clones are the same server.
///
/// A [`User`] in a request's extensions is who asks; without one, headers and [`Certificates`] say it. Nothing that
/// comes over a network can put extensions there.
#[derive(Clone, Debug)]
pub struct Api(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    server: Arc<Server>,
    auth: Arc<Auth>,
    openapi: OpenApi,
    metrics: metrics::Metrics,
    checks: Vec<Check>,
    audit: Option<Arc<Audit>>,
    settings: Settings,
    gate: fairness::Gate,
    connections: quota::Quota<String>,
    watches: quota::Quota<String>,
    /// Whether the server goes down: watches end then.
    closing: watch::Sender<bool>,
}

/// What can be said about a server beside what it is.
#[derive(Debug, Default)]
pub struct Setup {
    /// It is ready once these say so.
    pub checks: Vec<Check>,
    /// What clients get.
    pub settings: Settings,
    /// Where requests are told.
    pub audit: Option<Arc<Audit>>,
}

impl Api {
    /// A service for a server, with who knows its users.
    pub fn new(server: Arc<Server>, auth: Arc<Auth>) -> Self {
        Api::with_checks(server, auth, Vec::new())
    }

    /// The same; it is ready once the checks say so.
    pub fn with_checks(server: Arc<Server>, auth: Arc<Auth>, checks: Vec<Check>) -> Self {
        Api::with(server, auth, Setup { checks, ..Setup::default() })
    }

    /// The same, with more to say.
    pub fn with(server: Arc<Server>, auth: Arc<Auth>, setup: Setup) -> Self {
        let Setup { checks, settings, audit } = setup;
        let closing = watch::Sender::new(false);
        let (openapi, metrics) = (OpenApi::default(), metrics::Metrics::default());
        let gate = fairness::Gate::new(&settings, |level| metrics.level(level));
        // How many there are in all is for listeners to say.
        let connections = quota::Quota::new(usize::MAX, settings.connections_per_user);
        let watches = quota::Quota::new(settings.watches, settings.watches_per_user);
        Api(Arc::new(Inner {
            server,
            auth,
            openapi,
            metrics,
            checks,
            audit,
            settings,
            gate,
            connections,
            watches,
            closing,
        }))
    }

    /// What clients get.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The server behind it.
    pub fn server(&self) -> &Arc<Server> {
        &self.0.server
    }

    /// The same service for one user, who needs no credentials: for clients in this process.
    pub fn as_user(&self, user: User) -> AsUser {
        AsUser { api: self.clone(), user }
    }

    /// Ends all watches, those to come too, and has every listener take no more connections. What else is being
    /// answered is finished; clients in this process are still answered.
    pub fn close(&self) {
        self.0.closing.send_replace(true);
    }

    /// Waits until [`Api::close`].
    pub async fn closed(&self) {
        // The sender is as old as this: there is no error.
        let _ = self.0.closing.subscribe().wait_for(|closing| *closing).await;
    }

    /// Answers a request. What goes wrong is in the answer.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body + Send + 'static,
        B::Error: Display,
    {
        let (parts, body) = request.into_parts();
        self.exchange(parts, incoming::boxed(body)).await
    }
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl<B> tower::Service<Request<B>> for Api
where
    B: http_body::Body + Send + 'static,
    B::Error: Display,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Answering {
        let api = self.clone();
        let (parts, body) = request.into_parts();
        let body = incoming::boxed(body);
        Box::pin(async move { Ok(api.exchange(parts, body).await) })
    }
}

/// An [`Api`] whose requests all come from one user.
#[derive(Clone, Debug)]
pub struct AsUser {
    api: Api,
    user: User,
}

impl<B> tower::Service<Request<B>> for AsUser
where
    B: http_body::Body + Send + 'static,
    B::Error: Display,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Answering {
        request.extensions_mut().insert(self.user.clone());
        self.api.call(request)
    }
}
