//! The listener: TLS, and no more connections than there may be.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::error::Elapsed;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::connection::serve_for;
use super::quota::{Callers, FromAddress, Held, Quota};
use super::{Certificates, Front};

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

/// Serves whoever connects, over TLS unless `tls` is none, until [`Front::closed`]. Then no more connections are taken,
/// watches end, and requests have `drain` to finish before their connections are cut.
pub async fn listen<F: Front>(
    front: F,
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    drain: Duration,
) {
    let tls = tls.map(TlsAcceptor::from);
    let settings = front.settings();
    let quota = Quota::<IpAddr>::new(settings.connections, settings.connections_per_address);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = front.closed() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => match taken(&front, &quota, from.ip()) {
                    Some(held) => {
                        drop(connections.spawn(accepted_by(front.clone(), stream, tls.clone(), held)));
                    }
                    // It is closed at once: there is nobody to answer to yet.
                    None => front.refused_connection(),
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

/// A place for one more connection. Those of a load balancer are many clients': they count for all, not for its address.
fn taken<F: Front>(front: &F, quota: &Quota<IpAddr>, from: IpAddr) -> Option<Held<IpAddr>> {
    if front.is_proxy(from) { quota.take_for_nobody() } else { quota.take(&from) }
}

async fn accepted_by<F: Front>(front: F, stream: TcpStream, tls: Option<TlsAcceptor>, held: Held<IpAddr>) {
    // Events are small and wanted at once.
    let _ = stream.set_nodelay(true);
    let peer = stream.peer_addr().ok();
    // It counts as long as it lives, also when it is another protocol's.
    let from = FromAddress::new(held);
    let callers = Callers::from(from.clone());
    let stream = Counted { stream, _held: from };
    let Some(tls) = tls else {
        return serve_for(front, stream, Certificates::default(), peer, callers).await;
    };
    shake_hands(front, stream, tls, peer, callers).await;
}

/// Serves one connection of a client in the same process to its end, over TLS.
pub async fn serve_near<F, S>(front: F, stream: S, tls: Arc<ServerConfig>)
where
    F: Front,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    shake_hands(front, stream, tls.into(), None, Callers::default()).await;
}

async fn shake_hands<F, S>(front: F, stream: S, tls: TlsAcceptor, peer: Option<SocketAddr>, callers: Callers)
where
    F: Front,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // Boxed: it is large, and soon over.
    let accepted = Box::pin(tokio::time::timeout(HANDSHAKE, tls.accept(stream)));
    if let Some(serving) = accepted.map(|accepted| serving(front, accepted, peer, callers)).await {
        serving.await;
    }
}

/// Serves the connection of a handshake. No async function: it would have room for the connection as long as that lives.
fn serving<F: Front, S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    front: F,
    accepted: Result<io::Result<TlsStream<S>>, Elapsed>,
    peer: Option<SocketAddr>,
    callers: Callers,
) -> Option<impl Future<Output = ()> + Send> {
    match accepted {
        Ok(Ok(stream)) => {
            let shown = stream.get_ref().1.peer_certificates().unwrap_or_default().to_vec();
            return Some(serve_for(front, stream, Certificates(shown.into()), peer, callers));
        }
        Ok(Err(error)) => tracing::debug!(%error, "no TLS connection came about"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
    None
}

/// A connection that counts for its address.
struct Counted {
    stream: TcpStream,
    _held: FromAddress,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
