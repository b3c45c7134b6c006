//! Clients that do not read are cut off: a connection whose peer takes nothing, and a stream of HTTP/2 whose client
//! leaves it unread while it reads others.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::coop::has_budget_remaining;
use tokio::time::Sleep;

/// A connection that fails if the other side takes nothing for too long.
#[derive(Debug)]
pub(super) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Runs while something is to be written and cannot be.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    /// From now on the other side may take as long as it likes.
    pub(super) fn wait_for_ever(&mut self) {
        self.patience = Duration::MAX;
        self.timer = None;
    }

    pub(super) fn new(stream: S, patience: Duration) -> Self {
        Patient { stream, patience, timer: None }
    }

    /// The outcome of an attempt to write, or that there were too many in vain.
    fn judge<T>(&mut self, context: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() || self.patience == Duration::MAX {
            self.timer = None;
            return outcome;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.patience)));
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.judge(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, outcome)
    }
}

/// What is known of an answer that is being written: how many pieces were asked for and given. More given than asked
/// for since means that the last one is not out yet.
#[derive(Debug, Default)]
struct Progress(AtomicU64);

impl Progress {
    /// Asked for and waiting for something to give: an even number. Given: an odd one.
    fn asked(&self) {
        self.0.fetch_add(self.0.load(Ordering::Relaxed) % 2, Ordering::Relaxed);
    }

    fn given(&self) {
        self.0.fetch_add(1 + self.0.load(Ordering::Relaxed) % 2, Ordering::Relaxed);
    }

    /// A mark that changes with every piece; none while the client has all there is.
    fn unread(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|mark| mark % 2 == 1)
    }
}

tokio::task_local! {
    static PROGRESS: Arc<Progress>;
}

/// The body of an answer whose progress is seen by whoever runs its stream [`patiently`], if anybody does.
#[derive(Debug)]
pub(super) struct Tracked<B, H> {
    body: B,
    progress: Option<Arc<Progress>>,
    /// Dropped with the body.
    _held: H,
}

impl<B, H> Tracked<B, H> {
    pub(super) fn new(body: B, held: H) -> Self {
        let progress = PROGRESS.try_with(Arc::clone).ok();
        if let Some(progress) = &progress {
            // A client may give an answer no room at all.
            progress.given();
        }
        Tracked { body, progress, _held: held }
    }
}

impl<B: Body<Data = Bytes> + Unpin, H: Unpin> Body for Tracked<B, H> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        if let Some(progress) = &this.progress {
            progress.asked();
        }
        let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
        if let (Some(progress), true) = (&this.progress, frame.is_some()) {
            progress.given();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Runs a stream of an HTTP/2 connection to its end, or until its client leaves it unread for `patience`.
pub(super) fn patiently<F: Future>(stream: F, patience: Duration) -> impl Future<Output = ()> {
    let progress = Arc::<Progress>::default();
    PROGRESS.scope(progress.clone(), watched(stream, progress, patience))
}

/// Runs a stream to its end, or until a piece of it is not taken for `patience`: then it is dropped, which resets it.
async fn watched(stream: impl Future, progress: Arc<Progress>, patience: Duration) {
    let mut stream = std::pin::pin!(stream);
    let mut timer = std::pin::pin!(tokio::time::sleep(patience));
    let (mut seen, mut armed) = (None, None::<Waker>);
    loop {
        let ended = std::future::poll_fn(|context| {
            if stream.as_mut().poll(context).is_ready() {
                return Poll::Ready(true);
            }
            // A timer that knows whom to wake need not be told again with every event.
            if !timer.is_elapsed() && armed.as_ref().is_some_and(|armed| armed.will_wake(context.waker())) {
                return Poll::Pending;
            }
            let elapsed = timer.as_mut().poll(context).map(|()| false);
            // One that is asked by a task that has used up its turn does not listen.
            armed = has_budget_remaining().then(|| context.waker().clone());
            elapsed
        });
        if ended.await {
            return;
        }
        timer.set(tokio::time::sleep(patience));
        armed = None;
        let unread = progress.unread();
        if unread.is_some() && unread == seen {
            tracing::info!("a client does not read what it asked for: its stream is reset");
            return;
        }
        seen = unread;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[test]
    fn pieces_that_are_not_out_are_known() {
        let progress = Progress::default();
        assert_eq!(progress.unread(), None);
        progress.given();
        let first = progress.unread();
        assert!(first.is_some());
        progress.asked();
        progress.asked();
        assert_eq!(progress.unread(), None);
        progress.given();
        let second = progress.unread();
        assert!(second.is_some() && second != first);
        progress.given();
        assert!(progress.unread().is_some() && progress.unread() != second);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_nobody_reads_fails_in_time() {
        let (near, mut far) = tokio::io::duplex(8);
        let mut near = Patient::new(near, Duration::from_secs(60));
        // A reader that is slow, but reads, is fine.
        let reading = tokio::spawn(async move {
            for _ in 0..4 {
                tokio::time::sleep(Duration::from_secs(50)).await;
                tokio::io::AsyncReadExt::read_exact(&mut far, &mut [0; 8]).await.unwrap();
            }
            far
        });
        near.write_all(&[0; 40]).await.unwrap();
        let _far = reading.await.unwrap();
        let error = near.write_all(&[0; 8]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_is_not_read_is_dropped_and_one_that_waits_is_not() {
        let progress = Arc::<Progress>::default();
        let patience = Duration::from_secs(60);
        let day = tokio::time::sleep(Duration::from_secs(86_400));
        watched(day, progress.clone(), patience).await;
        progress.given();
        let stuck = watched(std::future::pending::<()>(), progress, patience);
        tokio::time::timeout(Duration::from_secs(121), stuck).await.unwrap();
    }
}
