//! What the scripts ask of a management server, over TLS.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

/// What a machine is answered that may register.
pub(crate) const CONNECTION: &str =
    r#"{"kubeConfig":"apiVersion: v1","namespace":"fleet-default","secretName":"machine-plan"}"#;
/// The agent, as far as the script needs one.
pub(crate) const AGENT: &str = "#!/bin/sh
[ \"$1\" = validate-connection ] || exit 2
grep -q '\"secretName\":\"machine-plan\"' \"$2\" || { echo 'no secretName' >&2; exit 1; }
";

/// How a registration is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Ready,
    NotReady,
    Unauthorized,
    Nonsense,
}

/// What a server has to give.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    /// The agent.
    pub(crate) agent: Bytes,
    /// What a machine is answered that may register.
    pub(crate) connection: String,
}

impl Default for Offer {
    fn default() -> Self {
        Offer { agent: AGENT.into(), connection: CONNECTION.into() }
    }
}

#[derive(Default)]
struct State {
    offer: Offer,
    /// Answers to come; the last one stays.
    answers: VecDeque<Answer>,
    registrations: Vec<BTreeMap<String, String>>,
}

pub(crate) struct Server {
    address: SocketAddr,
    ca: String,
    state: Arc<Mutex<State>>,
    /// Ends the server with it.
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    /// One on this machine, for it alone.
    pub(crate) fn start() -> Self {
        Server::at(Ipv4Addr::LOCALHOST.into(), Offer::default())
    }

    /// One on an address of this machine.
    pub(crate) fn at(address: IpAddr, offer: Offer) -> Self {
        let (ca, acceptor) = identity(address);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind((address, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State { offer, ..State::default() }));
        let (shared, served_ca) = (state.clone(), ca.clone());
        runtime.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, state, ca) = (acceptor.clone(), shared.clone(), served_ca.clone());
                tokio::spawn(async move {
                    // A client that does not trust us goes away here.
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request| {
                        let response = respond(&request, &ca, &state);
                        async move { Ok::<_, Infallible>(response) }
                    });
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Server { address, ca, state, _runtime: runtime }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    pub(crate) fn ca(&self) -> &str {
        &self.ca
    }

    /// How registrations are answered from now on; the last answer stays.
    pub(crate) fn answer(&self, answers: &[Answer]) {
        self.state.lock().unwrap().answers = answers.iter().copied().collect();
    }

    pub(crate) fn registrations(&self) -> usize {
        self.state.lock().unwrap().registrations.len()
    }

    /// The headers of the last registration.
    pub(crate) fn registration(&self) -> BTreeMap<String, String> {
        self.state.lock().unwrap().registrations.last().unwrap().clone()
    }
}

fn respond(request: &Request<Incoming>, ca: &str, state: &Mutex<State>) -> Response<Full<Bytes>> {
    let machine = std::env::consts::ARCH.replace("x86_64", "amd64").replace("aarch64", "arm64");
    let agent = format!("/assets/rancher-system-agent-{machine}");
    match request.uri().path() {
        "/healthz" => text(StatusCode::OK, "ok"),
        "/cacerts" => text(StatusCode::OK, ca),
        "/v3/connect/agent" => register(request.headers(), &mut state.lock().unwrap()),
        "/assets/system-agent-uninstall.sh" => {
            text(StatusCode::OK, include_str!("../../../crates/agent/install/uninstall.sh"))
        }
        "/system-agent-install.sh" => {
            text(StatusCode::OK, include_str!("../../../crates/agent/install/install.sh"))
        }
        path if path == agent => Response::new(Full::new(state.lock().unwrap().offer.agent.clone())),
        path if path == format!("{agent}.sha256") => {
            let sum = sha256(&state.lock().unwrap().offer.agent);
            text(StatusCode::OK, &format!("{sum}  rancher-system-agent\n"))
        }
        // A user interface answers everything else with a page of its own.
        _ => text(StatusCode::OK, "<html>"),
    }
}

fn register(headers: &HeaderMap, state: &mut State) -> Response<Full<Bytes>> {
    let shown = headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
    state.registrations.push(shown.collect());
    let answer = match state.answers.len() {
        0 => Answer::Ready,
        1 => state.answers[0],
        _ => state.answers.pop_front().unwrap(),
    };
    match answer {
        Answer::Ready => text(StatusCode::OK, &state.offer.connection),
        Answer::Unauthorized => text(StatusCode::UNAUTHORIZED, "unauthorized"),
        Answer::Nonsense => text(StatusCode::OK, "{}"),
        Answer::NotReady => {
            let mut response = text(StatusCode::SERVICE_UNAVAILABLE, "not ready");
            response.headers_mut().insert("Retry-After", 1.into());
            response
        }
    }
}

fn text(status: StatusCode, body: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body.to_owned()));
    *response.status_mut() = status;
    response
}

/// An authority of our own, in PEM, and a server with a certificate of it for this machine.
fn identity(address: IpAddr) -> (String, TlsAcceptor) {
    let ca_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // With the same name as the certificate's it would be taken for the same.
    params.distinguished_name.push(DnType::CommonName, "authority of a test");
    let ca = params.self_signed(&ca_key).unwrap();
    let key = KeyPair::generate().unwrap();
    let params_of_server = CertificateParams::new(vec![address.to_string()]).unwrap();
    let certificate = params_of_server.signed_by(&key, &Issuer::new(params, ca_key)).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    (ca.pem(), TlsAcceptor::from(Arc::new(config)))
}

/// By the program that users take for it.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let output = std::process::Command::new("sha256sum").arg(file.path()).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split_whitespace().next().unwrap().to_owned()
}
