//! A stream, as bytes to read and write.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};

use crate::message::Reason;
use crate::mux::{Read, Written};
use crate::names::{StreamId, Target};
use crate::shared::Shared;

/// Why a stream ended, when it was not with all being said: the cause inside an [`io::Error`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(pub String);

/// A byte stream to somewhere behind the other end of a session.
///
/// - Reading gives every byte that was written there, once and in order, then the end or an error.
/// - Writing waits while too much is unsent, and so do they while we do not read.
/// - `shutdown` ends our direction when all is sent. Where the other end is Go's, it ends both.
/// - Dropping it sends what was written, and ends both.
pub struct TunnelStream {
    shared: Arc<Shared>,
    id: StreamId,
    target: Target,
    unread: Bytes,
}

impl std::fmt::Debug for TunnelStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TunnelStream")
            .field("id", &self.id)
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

impl TunnelStream {
    pub(crate) fn new(shared: Arc<Shared>, id: StreamId, target: Target) -> Self {
        TunnelStream { shared, id, target, unread: Bytes::new() }
    }

    /// Which it is in its session.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// What it leads to.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Ready when the stream has broken, also while there is something to read.
    pub(crate) fn poll_broken(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.shared.look();
        if state.mux.is_broken(self.id) {
            return Poll::Ready(());
        }
        state.wait_to_read(self.id, cx);
        Poll::Pending
    }

    /// Ends it with an error, which they get to see after what was written.
    pub fn fail(self, text: impl Into<String>) {
        let reason = Reason::failed(text);
        self.shared.change_and_drive(|state, now| state.mux.finish(self.id, reason, now));
    }
}

impl Drop for TunnelStream {
    fn drop(&mut self) {
        self.shared.change_and_drive(|state, now| {
            state.mux.release(self.id, now);
            state.forget(self.id);
        });
    }
}

impl AsyncBufRead for TunnelStream {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        if this.unread.is_empty() {
            let id = this.id;
            let read = this.shared.change_and_drive(|state, _| {
                let read = state.mux.read(id);
                if read == Read::Nothing {
                    state.wait_to_read(id, cx);
                }
                read
            });
            match read {
                Read::Bytes(bytes) => this.unread = bytes,
                Read::Nothing => return Poll::Pending,
                Read::Ended(Reason::Eof) => {}
                Read::Ended(Reason::Failed(text)) => {
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionReset, Broken(text))));
                }
            }
        }
        Poll::Ready(Ok(&this.unread))
    }

    fn consume(self: Pin<&mut Self>, amount: usize) {
        self.get_mut().unread.advance(amount);
    }
}

impl AsyncRead for TunnelStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let amount = match self.as_mut().poll_fill_buf(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Ready(Ok(bytes)) => {
                let amount = bytes.len().min(to.remaining());
                to.put_slice(&bytes[..amount]);
                amount
            }
        };
        self.consume(amount);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TunnelStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = self.shared.change_and_drive(|state, now| {
            let written = state.mux.write(self.id, bytes, now);
            if written == Written::Full {
                state.wait_to_write(self.id, cx);
            }
            written
        });
        match written {
            Written::Taken(amount) => Poll::Ready(Ok(amount)),
            Written::Full => Poll::Pending,
            Written::Closed => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// What was written is on its way already.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.change_and_drive(|state, now| state.mux.finish(self.id, Reason::Eof, now));
        Poll::Ready(Ok(()))
    }
}

/// For HTTP clients: nothing special is known about the connection.
impl Connection for TunnelStream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}
