//! Small writes of one connection, sent together.
//!
//! HTTP/2 writes and flushes every frame by itself: an event for each of a hundred watches would be a hundred TLS
//! records and a hundred system calls. Here they gather until the connection has done all it can do at the moment.
//!
//! A connection that was upgraded to another protocol has nobody who does that for it: it writes through.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::patience::Patient;

/// So many bytes gather before they are sent in any case.
const MOST: usize = 64 * 1024;

/// What a connection writes to. Flushing it does nothing (see [`Sender`]) until it is another protocol's.
#[derive(Debug)]
pub(super) struct Gathering<S>(Arc<Mutex<Shared<S>>>);

/// Sends what has gathered.
#[derive(Debug)]
pub(super) struct Sender<S>(Arc<Mutex<Shared<S>>>);

#[derive(Debug)]
struct Shared<S> {
    stream: S,
    gathered: Vec<u8>,
    sent: usize,
    /// Nobody sends for who writes: flushing has to.
    direct: bool,
}

/// A stream that gathers, and what has to be asked to send at the end of every turn.
pub(super) fn gather<S>(stream: S) -> (Gathering<S>, Sender<S>) {
    let shared = Arc::new(Mutex::new(Shared { stream, gathered: Vec::new(), sent: 0, direct: false }));
    (Gathering(shared.clone()), Sender(shared))
}

/// Never contended: both halves are used by the one task of a connection.
fn lock<S>(shared: &Mutex<Shared<S>>) -> MutexGuard<'_, Shared<S>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: AsyncWrite + Unpin> Shared<S> {
    /// Writes all that has gathered.
    fn poll_write_out(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.gathered.len() {
            let rest = &self.gathered[self.sent..];
            match ready!(Pin::new(&mut self.stream).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.sent += written,
            }
        }
        self.gathered.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }

    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_out(context))?;
        // Most connections are idle most of the time: they keep nothing.
        self.gathered = Vec::new();
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    /// Makes room for more.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.gathered.len() < MOST { Poll::Ready(Ok(())) } else { self.poll_write_out(context) }
    }
}

impl<S: AsyncWrite + Unpin> Sender<S> {
    /// Sends all that has gathered.
    pub(super) fn poll_send(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(&self.0).poll_send(context)
    }

    /// Adds to what has gathered, in the place of who wrote until now. See to it that not too much does.
    pub(super) fn put(&self, bytes: &[u8]) {
        lock(&self.0).gathered.extend_from_slice(bytes);
    }

    /// Sends all that has gathered, and says that there will be no more.
    pub(super) fn poll_shutdown(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(&self.0).poll_shutdown(context)
    }
}

impl<S: AsyncRead + Unpin> Sender<S> {
    /// Ready once the client is gone. What it says until then is not heard.
    pub(super) fn poll_gone(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut shared = lock(&self.0);
        let mut unheard = [0; 64];
        loop {
            let mut buffer = ReadBuf::new(&mut unheard);
            ready!(Pin::new(&mut shared.stream).poll_read(context, &mut buffer))?;
            if buffer.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> Sender<Patient<S>> {
    /// The connection speaks another protocol from now on: what is written goes out when it is flushed, and may stay
    /// unread as long as that protocol likes.
    pub(super) async fn write_through(&self, within: std::time::Duration) {
        {
            let mut shared = lock(&self.0);
            shared.direct = true;
            shared.stream.wait_for_ever();
        }
        // What was written before it said so. A failure is seen by who writes next; and who writes meanwhile sends it, too.
        let sent = std::future::poll_fn(|context| self.poll_send(context));
        let _ = tokio::time::timeout(within, sent).await;
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathering<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut shared = lock(&self.0);
        ready!(shared.poll_room(context))?;
        shared.gathered.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    /// The head of a frame and what is in it come as two slices.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut shared = lock(&self.0);
        ready!(shared.poll_room(context))?;
        slices.iter().for_each(|slice| shared.gathered.extend_from_slice(slice));
        Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut shared = lock(&self.0);
        if shared.direct { shared.poll_send(context) } else { Poll::Ready(Ok(())) }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(&self.0).poll_shutdown(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathering<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut lock(&self.0).stream).poll_read(context, buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn writes_go_out_together_when_they_are_sent() {
        let (near, mut far) = tokio::io::duplex(1024);
        let (mut stream, sender) = gather(near);
        for part in ["one ", "two ", "three"] {
            stream.write_all(part.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
        }
        let mut received = [0; 64];
        let early = tokio::time::timeout(std::time::Duration::ZERO, far.read(&mut received)).await;
        assert!(early.is_err());
        poll_fn(|context| sender.poll_send(context)).await.unwrap();
        let length = far.read(&mut received).await.unwrap();
        assert_eq!(&received[..length], b"one two three");
    }

    #[tokio::test]
    async fn no_more_gathers_than_the_most() {
        let (near, mut far) = tokio::io::duplex(16);
        let (mut stream, sender) = gather(near);
        let piece = [7; 16 * 1024];
        let writer = async {
            for _ in 0..100 {
                stream.write_all(&piece).await.unwrap();
                assert!(lock(&sender.0).gathered.len() < MOST + piece.len());
            }
            let parts = [io::IoSlice::new(&[7]), io::IoSlice::new(&[7; 15])];
            assert_eq!(stream.write_vectored(&parts).await.unwrap(), 16);
            stream.shutdown().await.unwrap();
        };
        let mut received = Vec::new();
        let reader = far.read_to_end(&mut received);
        let ((), read) = tokio::join!(writer, reader);
        assert_eq!(read.unwrap(), 100 * piece.len() + 16);
        assert!(received.iter().all(|byte| *byte == 7));
    }
}
