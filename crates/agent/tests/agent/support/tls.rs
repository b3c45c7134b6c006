use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// An authority.
pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn issue(&self, name: &str) -> Pair {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.issuer).unwrap();
        Pair { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// A server's side of TLS for `127.0.0.1`; asks for certificates of this authority if `clients`.
    pub(crate) fn server(&self, clients: bool) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        let builder = match clients {
            true => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
                builder.with_client_cert_verifier(verifier)
            }
            false => builder.with_no_client_auth(),
        };
        let pair = self.issue("127.0.0.1");
        let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
        Arc::new(builder.with_single_cert(vec![certificate], key).unwrap())
    }
}

/// Answers each request on the loopback with what a function says: a code and a `Location`.
pub(crate) async fn listen(
    tls: Option<Arc<ServerConfig>>,
    answer: impl Fn(&Request<Incoming>) -> (u16, String) + Clone + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (answer, tls) = (answer.clone(), tls.clone());
            let service = service_fn(move |request: Request<Incoming>| {
                let (code, location) = answer(&request);
                let response = Response::builder().status(code).header("location", location);
                std::future::ready(response.body(Full::new(Bytes::from_static(b"{}"))))
            });
            tokio::spawn(async move {
                let builder = hyper::server::conn::http1::Builder::new();
                match tls {
                    None => drop(builder.serve_connection(TokioIo::new(stream), service).await),
                    Some(config) => {
                        if let Ok(stream) = TlsAcceptor::from(config).accept(stream).await {
                            drop(builder.serve_connection(TokioIo::new(stream), service).await);
                        }
                    }
                }
            });
        }
    });
    address
}
