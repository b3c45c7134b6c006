//! A whole server: the pieces put together, started and stopped in the right order.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clock::{Clock, Entropy};
use kubeapi::Status;
use rustls::ServerConfig;
use tokio::net::TcpListener;

use crate::audit::Audit;
use crate::auth::{Auth, SigningKey, Tokens};
use crate::controllers::{self, Progress, Running, Settings};
use crate::convert::Converter;
use crate::http::{self, Api, Check, Setup};
use crate::server::{Admission, Server};
use crate::store::Store;

/// How long requests have to finish once the server is to stop.
const DRAIN: Duration = Duration::from_secs(5);

/// What a server is made of.
pub struct Parts {
    /// Where objects are kept.
    pub store: Arc<dyn Store>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness for names and identifiers.
    pub entropy: Box<dyn Entropy>,
    /// The certificate of the authority that clients trust, as PEM.
    pub ca_certificate: String,
    /// Signs the tokens of ServiceAccounts.
    pub signing_key: SigningKey,
    /// Knows further bearer tokens.
    pub tokens: Option<Arc<dyn Tokens>>,
    /// Convert custom resources in process.
    pub converters: Vec<Arc<dyn Converter>>,
    /// Have a say in what is written, in this order, before any webhook.
    pub admission: Vec<Arc<dyn Admission>>,
    /// Namespaces that are to be there from the start, beside those that every server has.
    pub namespaces: Vec<String>,
    /// Where clients reach the server: behind the Service `kubernetes`.
    pub advertised: Option<(IpAddr, u16)>,
    /// Where requests are told.
    pub audit: Option<Arc<Audit>>,
    /// What clients get.
    pub settings: http::Settings,
}

impl Parts {
    /// Only what cannot be left out.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        entropy: Box<dyn Entropy>,
        ca_certificate: impl Into<String>,
        signing_key: SigningKey,
    ) -> Self {
        Parts {
            store,
            clock,
            entropy,
            ca_certificate: ca_certificate.into(),
            signing_key,
            tokens: None,
            converters: Vec::new(),
            admission: Vec::new(),
            namespaces: Vec::new(),
            advertised: None,
            audit: None,
            settings: http::Settings::default(),
        }
    }
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("namespaces", &self.namespaces).finish_non_exhaustive()
    }
}

/// A server at work.
#[derive(Debug)]
pub struct Instance {
    api: Api,
    controllers: Running,
}

impl Instance {
    /// Starts a server: when this returns, the first objects are there and [`Instance::api`] answers.
    ///
    /// # Errors
    /// If the first objects cannot be written.
    pub async fn start(parts: Parts) -> Result<Self, Status> {
        let server = Server::new(parts.store, parts.clock, parts.entropy);
        let server = parts.converters.into_iter().fold(server, Server::with_converter);
        let server = Arc::new(parts.admission.into_iter().fold(server, Server::with_admission));
        let mut auth = Auth::new(server.clone()).with_key(parts.signing_key);
        if let Some(tokens) = parts.tokens {
            auth = auth.with_tokens(tokens);
        }
        let auth = Arc::new(auth);
        let settings = Settings {
            namespaces: parts.namespaces,
            advertised: parts.advertised,
            ..Settings::new(parts.ca_certificate, mint(auth.clone()))
        };
        controllers::first_objects(&server, &settings).await?;
        let progress: Arc<OnceLock<Progress>> = Arc::default();
        let checks = vec![controllers_check(progress.clone())];
        let setup = Setup { checks, settings: parts.settings, audit: parts.audit };
        let api = Api::with(server.clone(), auth, setup);
        let closing = api.clone();
        let controllers = controllers::run(server, settings, async move { closing.closed().await });
        let _ = progress.set(controllers.progress().clone());
        Ok(Instance { api, controllers })
    }

    /// The server as a service.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// How far the controllers are.
    pub fn progress(&self) -> &Progress {
        self.controllers.progress()
    }

    /// Serves whoever connects, until [`Api::close`] and for a moment longer.
    pub async fn listen(&self, listener: TcpListener, tls: Option<Arc<ServerConfig>>) {
        http::listen(self.api.clone(), listener, tls, DRAIN).await;
    }

    /// Stops: no more requests, then no more controllers. The store is closed when nobody holds it any more.
    pub async fn stop(self) {
        self.api.close();
        self.controllers.ended().await;
    }
}

/// Tokens for Secrets, as the tokens controller wants them.
fn mint(auth: Arc<Auth>) -> controllers::Mint {
    Arc::new(move |wanted| {
        let token = auth.legacy_token(wanted.namespace, wanted.secret, wanted.account, wanted.account_uid);
        token
            .map_err(Status::internal)?
            .ok_or_else(|| Status::internal("there is no key to sign tokens with"))
    })
}

/// Ready once the controllers have seen what was there at the start.
fn controllers_check(progress: Arc<OnceLock<Progress>>) -> Check {
    Check::new("controllers", move || match progress.get() {
        Some(progress) if progress.now().0 > 0 => Ok(()),
        _ => Err("the controllers have not caught up yet".into()),
    })
}
