//! The listener: TLS, and no more connections than there may be.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::connection::serve_from;
use super::quota::{Held, Quota};
use super::{Api, Certificates};

/// How long a client may take to shake hands.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// After an error of the listener itself, such as too many open files, connections get time to end.
const BREATH: Duration = Duration::from_millis(100);

/// What is wrong with the TLS set-up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate, its key or the protocol versions.
    #[error("the server's certificate or key cannot be used")]
    Server(#[source] rustls::Error),
    /// The CA of the clients.
    #[error("the certificate authority of the clients cannot be used")]
    Clients(#[source] rustls::server::VerifierBuilderError),
}

/// TLS 1.2 or newer with this certificate, HTTP/2 before HTTP/1.1. Clients may show a certificate of `client_ca`, or
/// none; without a CA they are not asked.
///
/// # Errors
/// If key and certificate do not match, or the CA is empty.
pub fn tls_config(
    certificates: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    client_ca: Option<RootCertStore>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let provider: Arc<CryptoProvider> = rustls::crypto::aws_lc_rs::default_provider().into();
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Server)?;
    let builder = match client_ca {
        Some(ca) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(ca.into(), provider);
            let verifier = verifier.allow_unauthenticated().build().map_err(TlsError::Clients)?;
            builder.with_client_cert_verifier(verifier)
        }
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(certificates, key).map_err(TlsError::Server)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config.into())
}

/// Serves whoever connects, over TLS unless `tls` is none, until [`Api::close`]. Then no more connections are taken,
/// watches end, and requests have `drain` to finish before their connections are cut.
pub async fn listen(api: Api, listener: TcpListener, tls: Option<Arc<ServerConfig>>, drain: Duration) {
    let tls = tls.map(TlsAcceptor::from);
    let settings = api.settings();
    let quota = Quota::<IpAddr>::new(settings.connections, settings.connections_per_address);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = api.closed() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => match quota.take(&from.ip()) {
                    Some(held) => {
                        drop(connections.spawn(accepted_by(api.clone(), stream, tls.clone(), held)));
                    }
                    // It is closed at once: there is nobody to answer to yet.
                    None => api.refused_connection(),
                },
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(BREATH).await;
                }
            },
        }
    }
    drop(listener);
    let finished = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(drain, finished).await.is_err() {
        tracing::warn!(connections = connections.len(), "connections are cut before they are done");
    }
}

async fn accepted_by(api: Api, stream: TcpStream, tls: Option<TlsAcceptor>, _held: Held<IpAddr>) {
    // Events are small and wanted at once.
    let _ = stream.set_nodelay(true);
    let peer = stream.peer_addr().ok();
    let Some(tls) = tls else { return serve_from(api, stream, Certificates::default(), peer).await };
    match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
        Ok(Ok(stream)) => {
            let shown = stream.get_ref().1.peer_certificates().unwrap_or_default().to_vec();
            serve_from(api, stream, Certificates(shown.into()), peer).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "no TLS connection came about"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}
