//! The streams of an HTTP/2 connection, all in the task of their connection.
//!
//! An event for a hundred watches of a connection wakes one task, once, and that task also writes what they say: there
//! is nobody else to wait for, and nothing to lock that somebody else holds. What takes long is no part of this: requests
//! are answered in tasks of their own ([`apart`]).

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use hyper::rt::Executor;
use tokio::task::{JoinError, JoinHandle, unconstrained};

use super::patience::patiently;

type Stream = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a connection gives its streams to.
#[derive(Clone)]
pub(super) struct Streams {
    patience: Duration,
    begun: Arc<Mutex<Vec<Stream>>>,
    polled: Arc<AtomicBool>,
}

/// The streams of one connection, for its task to run.
pub(super) struct Running {
    begun: Arc<Mutex<Vec<Stream>>>,
    polled: Arc<AtomicBool>,
    streams: FuturesUnordered<Stream>,
}

/// For a connection whose client may leave an answer unread for so long.
pub(super) fn streams(patience: Duration) -> (Streams, Running) {
    let (begun, polled) = (Arc::<Mutex<Vec<Stream>>>::default(), Arc::<AtomicBool>::default());
    let running = Running { begun: begun.clone(), polled: polled.clone(), streams: FuturesUnordered::new() };
    (Streams { patience, begun, polled }, running)
}

impl<F> Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        let mut stream = Box::pin(patiently(stream, self.patience));
        let polled = self.polled.clone();
        let noted = std::future::poll_fn(move |context| {
            polled.store(true, Ordering::Relaxed);
            stream.as_mut().poll(context)
        });
        // What goes wrong in one stream ends that one; what the connection may do in one turn is not for one to use up.
        let alone = AssertUnwindSafe(unconstrained(noted)).catch_unwind().map(drop);
        lock(&self.begun).push(Box::pin(alone));
    }
}

impl Running {
    /// Lets those go on that can. Gives whether there were any.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> bool {
        self.streams.extend(lock(&self.begun).drain(..));
        while let Poll::Ready(Some(())) = self.streams.poll_next_unpin(context) {}
        self.polled.swap(false, Ordering::Relaxed)
    }
}

/// Never contended: both halves are used by the one task of a connection.
fn lock(begun: &Mutex<Vec<Stream>>) -> std::sync::MutexGuard<'_, Vec<Stream>> {
    begun.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a future in a task of its own, which ends if nobody waits for it any more.
pub(super) fn apart<F>(future: F) -> impl Future<Output = Result<F::Output, JoinError>> + Send
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Apart(tokio::spawn(future))
}

struct Apart<T>(JoinHandle<T>);

impl<T> Future for Apart<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_unpin(context)
    }
}

impl<T> Drop for Apart<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::sync::atomic::AtomicUsize;

    use super::*;

    async fn turn(running: &mut Running) -> bool {
        poll_fn(|context| Poll::Ready(running.poll(context))).await
    }

    #[tokio::test]
    async fn streams_run_in_turns_and_a_panic_ends_only_its_own() {
        let (streams, mut running) = streams(Duration::from_secs(60));
        let done = Arc::new(AtomicUsize::new(0));
        for number in 0..300 {
            let done = done.clone();
            streams.execute(async move {
                // More often than a task may without a pause.
                for _ in 0..10 {
                    tokio::task::coop::consume_budget().await;
                }
                assert!(number != 7, "this one fails");
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        streams.execute(pending::<()>());
        assert!(turn(&mut running).await);
        assert_eq!((done.load(Ordering::Relaxed), running.streams.len()), (299, 1));
        assert!(!turn(&mut running).await, "nobody can go on");
    }

    #[tokio::test]
    async fn what_nobody_waits_for_ends() {
        let held = Arc::new(());
        let inside = held.clone();
        let running = apart(async move {
            let _inside = inside;
            pending::<()>().await;
        });
        assert_eq!(apart(async { 7 }).await.unwrap(), 7);
        drop(running);
        while Arc::strong_count(&held) > 1 {
            tokio::task::yield_now().await;
        }
    }
}
