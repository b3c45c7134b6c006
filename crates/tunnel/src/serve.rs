//! What is done with streams that the other side wants.

mod pump;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::message::Announcement;
use crate::names::Target;
use crate::stream::TunnelStream;

pub use pump::pump;

/// How long dialling may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Something that takes time.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A byte stream.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// What a session does with what the other side wants of it. All of it is asked on the session's own task: it must not
/// wait, but in the future that [`Handler::serve`] gives.
pub trait Handler: Send + Sync {
    /// Whether they may dial this. If not, they hear so on that stream, and the session goes on.
    fn allows(&self, target: &Target) -> bool;

    /// Serves a stream that they wanted, and was allowed.
    fn serve(&self, stream: TunnelStream) -> Later<'static, ()>;

    /// They have a session of somebody.
    fn announced(&self, _: Announcement) {}

    /// They have it no more.
    fn withdrawn(&self, _: Announcement) {}
}

/// Lets them dial nothing.
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

impl Handler for Nothing {
    fn allows(&self, _: &Target) -> bool {
        false
    }

    fn serve(&self, stream: TunnelStream) -> Later<'static, ()> {
        Box::pin(async move { stream.fail("nothing is served here") })
    }
}

/// What may be dialled.
pub trait Gate: Send + Sync {
    /// Whether this may.
    fn allows(&self, target: &Target) -> bool;
}

impl<F: Fn(&Target) -> bool + Send + Sync> Gate for F {
    fn allows(&self, target: &Target) -> bool {
        self(target)
    }
}

/// A way to what is dialled.
pub trait Dial: Send + Sync {
    /// A stream to it.
    fn dial(&self, target: Target) -> Later<'static, io::Result<Box<dyn Io>>>;
}

/// The network that we are in: TCP, and sockets in the file system.
#[derive(Clone, Copy, Debug)]
pub struct Network;

impl Dial for Network {
    fn dial(&self, target: Target) -> Later<'static, io::Result<Box<dyn Io>>> {
        Box::pin(async move {
            match target.proto.as_str() {
                "tcp" | "tcp4" | "tcp6" => {
                    let stream = TcpStream::connect(&target.address).await?;
                    stream.set_nodelay(true)?;
                    Ok(Box::new(stream) as Box<dyn Io>)
                }
                #[cfg(unix)]
                "unix" => {
                    Ok(Box::new(tokio::net::UnixStream::connect(&target.address).await?) as Box<dyn Io>)
                }
                other => Err(io::Error::new(io::ErrorKind::Unsupported, format!("unknown network {other}"))),
            }
        })
    }
}

/// Dials what they want, if a gate lets them, and carries the bytes.
pub struct Forward {
    gate: Box<dyn Gate>,
    dial: Arc<dyn Dial>,
}

impl std::fmt::Debug for Forward {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forward").finish_non_exhaustive()
    }
}

impl Forward {
    /// What may be dialled, and how.
    pub fn new(gate: impl Gate + 'static, dial: impl Dial + 'static) -> Self {
        Forward { gate: Box::new(gate), dial: Arc::new(dial) }
    }
}

impl Handler for Forward {
    fn allows(&self, target: &Target) -> bool {
        self.gate.allows(target)
    }

    fn serve(&self, stream: TunnelStream) -> Later<'static, ()> {
        let dialled = self.dial.dial(stream.target().clone());
        Box::pin(async move {
            let target = stream.target().clone();
            match tokio::time::timeout(PATIENCE, dialled).await {
                Ok(Ok(io)) => pump(stream, io).await,
                Ok(Err(error)) => stream.fail(format!("dial {target}: {error}")),
                Err(_) => stream.fail(format!("dial {target}: i/o timeout")),
            }
        })
    }
}
