//! Everything behind the port, as one service.

mod tunnels;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use apiserver::audit::Peer;
use apiserver::http::{Callers, Certificates, Front};
use clock::{Clock, Entropy};
use http::header::HOST;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use kit::Caches;
use prometheus_client::registry::Registry;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tunnel::Hub;

use crate::assets::{self, Assets};
use crate::body::{self, Body};
use crate::book::{Book, PREFIX};
use crate::clusters;
use crate::connect::{Refusal, Registrar};
use crate::downstream::Downstreams;
use crate::headers::{self, Proxies};
use crate::issue;
use crate::kubeconfigs::Kubeconfigs;
use crate::kubernetes::Kubernetes;
use crate::limit::{Limit, Who};
use crate::metrics::{self, Metrics};
use crate::reviews::{Finding, Reviews};
use crate::route::{self, Route};

/// How long requests have to finish once the server is to stop.
const DRAIN: Duration = Duration::from_secs(5);
/// The most bytes of the API's own metrics.
const METRICS: usize = 64 << 20;

/// Our own end, as nodes and users see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Public {
    /// The one public URL, without a slash at its end; empty if nobody has said it.
    pub url: String,
    /// Who vouches for it, as PEM: [`Certificates::trusted`](crate::Certificates::trusted); empty if every system does.
    pub ca_certificates: String,
}

/// What can be said of a gateway.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// What clients get: connections and how long they may be idle.
    pub http: apiserver::http::Settings,
    /// Where agents for nodes are, beside the directory of the running program.
    pub assets: Vec<PathBuf>,
    /// Load balancers in front of the server.
    pub proxies: Proxies,
    /// What else of this process is told with the gateway's metrics.
    pub metrics: Arc<Registry>,
    /// Image of the cluster agent, for clusters that are imported and name none.
    pub cluster_agent_image: String,
}

/// What a gateway is made of.
pub struct Parts {
    /// The Kubernetes API.
    pub kubernetes: Arc<dyn Kubernetes>,
    /// What the process knows of the management cluster, by rights of its own; filed by [`kit::index::entries`].
    pub caches: Caches,
    /// Tokens. It follows the caches from now on.
    pub book: Book,
    /// Where tunnels end.
    pub hub: Hub,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness for tokens.
    pub entropy: Arc<Mutex<dyn Entropy>>,
    /// Our own end. It may change while we run.
    pub public: watch::Receiver<Public>,
    /// The rest.
    pub settings: Settings,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// A gateway. Clones are the same one.
#[derive(Clone)]
pub struct Gateway(Arc<Inner>);

struct Inner {
    kubernetes: Arc<dyn Kubernetes>,
    caches: Caches,
    book: Book,
    hub: Hub,
    downstreams: Downstreams,
    registrar: Registrar,
    reviews: Reviews,
    kubeconfigs: Kubeconfigs,
    assets: Assets,
    limit: Limit,
    metrics: Metrics,
    clock: Arc<dyn Clock>,
    public: watch::Receiver<Public>,
    settings: Settings,
    closing: watch::Sender<bool>,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("hub", &self.0.hub).finish_non_exhaustive()
    }
}

impl Gateway {
    /// A gateway. It answers from now on; [`Gateway::run`] has to run beside it.
    pub fn new(parts: Parts) -> Self {
        let Parts { kubernetes, caches, book, hub, clock, entropy, public, settings } = parts;
        book.follow(&caches);
        let beside = std::env::current_exe().ok().and_then(|path| path.parent().map(PathBuf::from));
        let directories = settings.assets.iter().cloned().chain(beside).collect();
        Gateway(Arc::new(Inner {
            kubernetes,
            downstreams: Downstreams::new(hub.clone(), caches.clone(), clock.clone()),
            registrar: Registrar::new(caches.clone(), book.clone(), clock.clone(), entropy),
            reviews: Reviews::new(caches.client().clone(), book.clone(), clock.clone()),
            kubeconfigs: Kubeconfigs::new(&caches),
            assets: Assets::new(directories),
            limit: Limit::default(),
            metrics: Metrics::new(hub.clone(), settings.metrics.clone()),
            closing: watch::Sender::new(false),
            caches,
            book,
            hub,
            clock,
            public,
            settings,
        }))
    }

    /// The clusters with a tunnel.
    pub fn downstreams(&self) -> &Downstreams {
        &self.0.downstreams
    }

    /// What nodes can download.
    pub fn assets(&self) -> &Assets {
        &self.0.assets
    }

    /// Waits until enough is known to answer nodes.
    pub async fn wait_ready(&self) {
        self.0.registrar.wait_ready().await;
    }

    /// Keeps what tunnels say, tells which clusters are connected, and ends tokens that have been replaced. Runs until it is dropped.
    pub async fn run(&self) {
        let tokens = async {
            loop {
                for token in self.0.book.first_used().await {
                    let noted = issue::note_use(&self.0.caches, &*self.0.clock, &token).await;
                    if let Err(error) = noted {
                        tracing::warn!(%error, "the first use of a token is not noted down");
                    }
                }
            }
        };
        tokio::join!(self.0.downstreams.run(&self.0.book), tokens).1
    }

    /// Serves one connection to its end, whatever it runs over; `peer` is its other end, if there is one.
    pub async fn serve<S>(&self, stream: S, peer: Option<std::net::SocketAddr>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        apiserver::http::serve_from(self.clone(), stream, Certificates::default(), peer).await;
    }

    /// The same for a client in this process that speaks TLS.
    pub async fn serve_near<S>(&self, stream: S, tls: Arc<ServerConfig>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        apiserver::http::serve_near(self.clone(), stream, tls).await;
    }

    /// Takes no more connections, ends watches and tunnels, and lets everything else finish.
    pub fn close(&self) {
        self.0.kubernetes.close();
        for client in self.0.hub.clients() {
            self.0.hub.disconnect(&client);
        }
        self.0.closing.send_replace(true);
    }

    /// Where a request came from.
    fn origin(&self, head: &http::Extensions, headers: &http::HeaderMap) -> Option<IpAddr> {
        let peer = head.get::<Peer>()?.0.ip();
        Some(self.0.settings.proxies.origin(headers, peer))
    }

    /// Our own end for who asks: the host that it used, if nobody has said another.
    fn public(&self, headers: &http::HeaderMap) -> Public {
        let mut public = self.0.public.borrow().clone();
        if public.url.is_empty() {
            public.url = format!("https://{}", headers::text(headers, HOST.as_str()));
        }
        public
    }

    /// The answer to a token that is not good. It is counted, for its address and for the token's name; after too many of them the answer
    /// is 429. A good token never comes here: what others behind the same load balancer guess does not lock it out.
    fn refused(&self, from: Option<IpAddr>, token: Option<&str>, answer: Response<Body>) -> Response<Body> {
        let (limit, clock) = (&self.0.limit, &*self.0.clock);
        let who = from.map(Who::Address).into_iter().chain(token.and_then(Who::of_token));
        let waits = who.filter_map(|who| {
            let wait = limit.wait(&who, clock);
            limit.failed(&who, clock);
            wait
        });
        let Some(wait) = waits.max() else { return answer };
        self.0.metrics.limited();
        let words = "too many tokens from this address, or of this name, were not good: try again later, with one that is";
        body::retry_after(body::text(StatusCode::TOO_MANY_REQUESTS, words), wait.as_secs().max(1))
    }

    async fn dispatch(&self, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let from = self.origin(request.extensions(), request.headers());
        match route::of(&path) {
            Route::Kubernetes => self.kubernetes(request).await,
            Route::Ready => match self.0.registrar.ready() {
                true => self.0.kubernetes.handle(request).await,
                false => body::text(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "[-]gateway failed: tokens are not known yet",
                ),
            },
            Route::Metrics => self.metrics(request).await,
            Route::CaCerts => only_get(request.method(), || {
                body::answer(StatusCode::OK, "text/plain", self.0.public.borrow().ca_certificates.clone())
            }),
            Route::InstallScript => only_get(request.method(), || {
                let script = assets::install_script(&self.public(request.headers()));
                body::answer(StatusCode::OK, "text/plain; charset=utf-8", script)
            }),
            Route::WindowsInstallScript => self.0.assets.answer("wins-agent-install.ps1").await,
            Route::Asset(name) => match *request.method() {
                Method::GET | Method::HEAD => self.0.assets.answer(name).await,
                _ => not_allowed(),
            },
            Route::RegisterNode | Route::ConfigYaml | Route::ClusterInfo => self.node(&request, from).await,
            Route::Tunnel => self.tunnel(request, from).await,
            Route::Import { token, cluster } => self.import(token, cluster, request.headers(), from),
            Route::Cluster { id, rest } => self.cluster(request, id, rest, from).await,
        }
    }

    /// The Kubernetes API. Agents are counted while they ask.
    async fn kubernetes(&self, request: Request<Incoming>) -> Response<Body> {
        let token = headers::bearer(request.headers()).filter(|token| token.starts_with(PREFIX));
        let agent = token.and_then(|token| self.0.book.agent(token));
        if agent.is_some()
            && let Some(callers) = request.extensions().get::<Callers>()
        {
            callers.identified();
        }
        let present = agent.map(|(token, _)| self.0.metrics.agent(token.plan));
        let answer = self.0.kubernetes.handle(request).await;
        match present {
            Some(present) => answer.map(|body| body.until_end(present)),
            None => answer,
        }
    }

    /// Ours, with those of the API if it is ours, too.
    async fn metrics(&self, request: Request<Incoming>) -> Response<Body> {
        if !self.0.kubernetes.is_ours() {
            let Some(token) = headers::bearer(request.headers()) else {
                return body::text(StatusCode::UNAUTHORIZED, "Unauthorized");
            };
            return match self.0.reviews.may_read(token, "/metrics").await {
                Ok(Finding::Allowed) => {
                    body::answer(StatusCode::OK, metrics::CONTENT_TYPE, self.0.metrics.beside(""))
                }
                Ok(Finding::Unknown) => body::text(StatusCode::UNAUTHORIZED, "Unauthorized"),
                Ok(Finding::Forbidden) => {
                    body::text(StatusCode::FORBIDDEN, "the right to get the path /metrics is needed")
                }
                Err(error) => body::text(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
            };
        }
        let (mut head, theirs) = self.0.kubernetes.handle(request).await.into_parts();
        if head.status != StatusCode::OK {
            return Response::from_parts(head, theirs);
        }
        let theirs = match http_body_util::Limited::new(theirs, METRICS).collect().await {
            Ok(theirs) => theirs.to_bytes(),
            Err(error) => return body::text(StatusCode::BAD_GATEWAY, error.to_string()),
        };
        head.headers.remove(http::header::CONTENT_LENGTH);
        Response::from_parts(head, Body::full(self.0.metrics.beside(&String::from_utf8_lossy(&theirs))))
    }

    /// What nodes ask for with the token of their machine or cluster.
    async fn node(&self, request: &Request<Incoming>, from: Option<IpAddr>) -> Response<Body> {
        if request.method() != Method::GET {
            return not_allowed();
        }
        let headers = request.headers();
        let registrar = &self.0.registrar;
        let document = match route::of(request.uri().path()) {
            Route::ConfigYaml => registrar.config_yaml(headers).await,
            Route::ClusterInfo => registrar.cluster_info(headers).await,
            _ => {
                let connection = registrar.register(headers).await;
                let code = connection.as_ref().map_or_else(Refusal::code, |_| StatusCode::OK);
                self.0.metrics.registered(code);
                let public = self.public(headers);
                connection.map(|connection| connection.document(&public.url, &public.ca_certificates))
            }
        };
        document.map(|document| body::document(&document)).unwrap_or_else(|refusal| {
            let id = headers::machine_id(headers).unwrap_or_default();
            tracing::info!(host = id, from = ?from, why = %refusal, "a host is not registered");
            match refusal.is_suspicious() {
                true => self.refused(from, headers::bearer(headers), refusal.answer()),
                false => refusal.answer(),
            }
        })
    }

    async fn cluster(
        &self,
        request: Request<Incoming>,
        id: &str,
        rest: &str,
        from: Option<IpAddr>,
    ) -> Response<Body> {
        let token = headers::bearer(request.headers()).map(str::to_owned);
        match clusters::permitted(&self.0.kubeconfigs, &self.0.reviews, &request, id).await {
            Ok(()) => clusters::proxy(&self.0.downstreams, request, id, rest).await,
            Err(refused @ clusters::Refused::Unknown) => {
                self.refused(from, token.as_deref(), refused.answer())
            }
            Err(refused) => refused.answer(),
        }
    }
}

fn not_allowed() -> Response<Body> {
    body::text(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered here")
}

fn only_get(method: &Method, answer: impl FnOnce() -> Response<Body>) -> Response<Body> {
    match *method {
        Method::GET | Method::HEAD => answer(),
        _ => not_allowed(),
    }
}

impl Front for Gateway {
    type Body = Body;

    fn settings(&self) -> &apiserver::http::Settings {
        &self.0.settings.http
    }

    async fn closed(&self) {
        // The sender is as old as this: there is no error.
        let _ = self.0.closing.subscribe().wait_for(|closing| *closing).await;
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        self.dispatch(request).await
    }

    fn refused_connection(&self) {
        self.0.metrics.refused();
    }

    fn is_proxy(&self, address: IpAddr) -> bool {
        self.0.settings.proxies.contain(address)
    }
}

/// Serves whoever connects, over TLS unless `tls` is none, until [`Gateway::close`] and for a moment longer.
pub async fn listen(gateway: Gateway, listener: TcpListener, tls: Option<Arc<ServerConfig>>) {
    apiserver::http::listen(gateway, listener, tls, DRAIN).await;
}
