//! One connection: HTTP/1.1 or HTTP/2 within limits, and an end that lets requests finish.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use ::http::{Request, Response, Version};
use futures_util::FutureExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinError;

use super::gather::{Sender, gather};
use super::lasting::{self, Taken};
use super::patience::{Patient, Tracked};
use super::quota::Callers;
use super::streams::{Running, Streams, apart, streams};
use super::{Certificates, Front, Settings};
use crate::audit::Peer;

/// Why a connection ended.
type Error = Box<dyn std::error::Error + Send + Sync>;

/// How often a silent HTTP/2 connection is asked whether it lives, and how long it may take to say so.
const ALIVE: Duration = Duration::from_secs(30);

/// As many requests on one connection as Go's server allows: a client with more watches opens another.
const STREAMS: u32 = 250;

/// The most bytes of a request's line and headers, and the most headers: a token or a long selector is among them, a
/// client certificate is not.
const HEAD: u32 = 64 * 1024;
const HEADERS: usize = 100;

/// How many requests a client may begin and take back at once, until its connection is cut.
const RESETS: usize = 100;

/// What is kept of an answer for a client that does not read it.
const SEND_BUFFER: usize = 256 * 1024;

/// The window of a stream, as upstream has it: a usual list goes out without waiting.
const WINDOW: u32 = 256 * 1024;

/// How often streams and connection give each other work before others get a turn.
const ROUNDS: u32 = 8;

/// The requests of a connection.
#[derive(Debug, Default)]
struct Activity {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// A request that is not answered to its end yet.
struct Active(Arc<Activity>);

impl Active {
    fn begin(activity: &Arc<Activity>) -> Self {
        activity.begun.fetch_add(1, Ordering::Relaxed);
        Active(activity.clone())
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

impl Activity {
    /// How many requests there have been, if there is none now.
    fn quiet(&self) -> Option<u64> {
        let begun = self.begun.load(Ordering::Relaxed);
        (self.ended.load(Ordering::Relaxed) == begun).then_some(begun)
    }
}

/// Waits until a connection was without requests for a while.
async fn idle(activity: &Activity, most: Duration) {
    let mut seen = None;
    loop {
        tokio::time::sleep(most / 2).await;
        let quiet = activity.quiet();
        if quiet.is_some() && quiet == seen {
            return;
        }
        seen = quiet;
    }
}

/// Serves one connection to its end, whatever it runs over. `certificates` are those of the client, verified. A
/// connection that is not used, or whose client does not read, is ended.
pub fn serve<F, S>(front: F, stream: S, certificates: Certificates) -> impl Future<Output = ()> + Send
where
    F: Front,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    serve_from(front, stream, certificates, None)
}

/// The same, for a client whose address is known.
pub fn serve_from<F, S>(
    front: F,
    stream: S,
    certificates: Certificates,
    peer: Option<SocketAddr>,
) -> impl Future<Output = ()> + Send
where
    F: Front,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    serve_for(front, stream, certificates, peer, Callers::default())
}

/// The same, for a connection that counts for its address.
pub(super) fn serve_for<F, S>(
    front: F,
    stream: S,
    certificates: Certificates,
    peer: Option<SocketAddr>,
    callers: Callers,
) -> impl Future<Output = ()> + Send
where
    F: Front,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // Boxed, as a watch goes on for long when nothing of this is needed any more.
    let conversation = Box::pin(converse(front.clone(), stream, certificates, peer, callers.clone()));
    async move {
        // Who answers has to be there as long as there is something to tell, and the connection counts for who asked.
        let _held = (front, callers);
        if let Some((response, sender)) = conversation.await
            && let Err(error) = lasting::write(response, &sender).await
        {
            tracing::debug!(%error, "a watch ended early");
        }
    }
}

/// Answers the requests of a connection until it ends, or until an answer lasts: then it gives that, and what it is to be written to.
async fn converse<F, S>(
    front: F,
    stream: S,
    certificates: Certificates,
    peer: Option<SocketAddr>,
    callers: Callers,
) -> Option<(Response<Tracked<F::Body, Active>>, Sender<Patient<S>>)>
where
    F: Front,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let this = front.clone();
    let (activity, taken) = (Arc::<Activity>::default(), Taken::default());
    let (of_requests, lasting) = (activity.clone(), taken.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(certificates.clone());
        request.extensions_mut().insert(callers.clone());
        if let Some(peer) = peer {
            request.extensions_mut().insert(Peer(peer));
        }
        let (front, active, lasting) = (front.clone(), Active::begin(&of_requests), lasting.clone());
        let may_last = lasting::is_possible(&request);
        async move {
            // On a connection of HTTP/1.1 there is nobody else to hold up. What makes the answer is boxed, as the connection
            // keeps room for this future for as long as it lives.
            let response = match request.version() {
                Version::HTTP_2 => apart(async move { front.answer(request).await }).await?,
                _ => front.answer(request).boxed().await,
            };
            let response = response.map(|body| Tracked::new(body, active));
            Ok::<_, JoinError>(if may_last { lasting.unless_lasting(response).await } else { response })
        }
    });
    let settings = this.settings();
    let (stream, sender) = gather(Patient::new(stream, settings.stalled));
    let (streams, mut running) = streams(settings.stalled);
    let builder = builder(settings, streams);
    let mut connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
    let over = async {
        tokio::select! { biased; () = this.closed() => {}, () = idle(&activity, settings.idle) => {} }
    };
    let outcome = tokio::select! {
        biased;
        outcome = in_turns(connection.as_mut(), &mut running, &sender, &taken) => outcome,
        () = over => {
            connection.as_mut().graceful_shutdown();
            in_turns(connection.as_mut(), &mut running, &sender, &taken).await
        }
    };
    match outcome {
        // If it was upgraded, it goes on without us.
        Outcome::Ended(Ok(())) => sender.write_through(settings.stalled).await,
        Outcome::Ended(Err(error)) => tracing::debug!(error, "a connection ended early"),
        Outcome::Lasts(response) => return Some((response, sender)),
    }
    None
}

/// What becomes of a connection.
enum Outcome<B> {
    Ended(Result<(), Error>),
    /// Its last answer goes on for long.
    Lasts(Response<B>),
}

/// A connection that runs its streams, and sends what they have written when none has more to write.
async fn in_turns<S, C, B>(
    mut connection: Pin<&mut C>,
    streams: &mut Running,
    sender: &Sender<S>,
    taken: &Taken<B>,
) -> Outcome<B>
where
    S: AsyncWrite + Unpin,
    C: Future<Output = Result<(), Error>>,
{
    poll_fn(|context| {
        let mut turn = connection.as_mut().poll(context);
        let mut rounds = 1;
        while turn.is_pending() && streams.poll(context) {
            if rounds == ROUNDS {
                context.waker().wake_by_ref();
                break;
            }
            turn = connection.as_mut().poll(context);
            rounds += 1;
        }
        if let Some(response) = taken.take() {
            return Poll::Ready(Outcome::Lasts(response));
        }
        match sender.poll_send(context) {
            // A connection that is over has nobody else to tell.
            Poll::Ready(Err(error)) if turn.is_pending() => Poll::Ready(Outcome::Ended(Err(error.into()))),
            _ => turn.map(Outcome::Ended),
        }
    })
    .await
}

fn builder(settings: &Settings, streams: Streams) -> auto::Builder<Streams> {
    let mut builder = auto::Builder::new(streams);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.idle)
        .max_buf_size(HEAD as usize)
        .max_headers(HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(ALIVE)
        .keep_alive_timeout(ALIVE)
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEAD)
        .max_pending_accept_reset_streams(RESETS)
        .max_local_error_reset_streams(RESETS)
        .max_send_buf_size(SEND_BUFFER)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW * 16);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_connection_without_requests_is_idle() {
        let (activity, most) = (Arc::<Activity>::default(), Duration::from_secs(90));
        let soon = Duration::from_secs(91);
        tokio::time::timeout(soon, idle(&activity, most)).await.expect("it is idle from the start");
        let watching = Active::begin(&activity);
        assert!(tokio::time::timeout(most * 20, idle(&activity, most)).await.is_err());
        drop(watching);
        tokio::time::timeout(soon, idle(&activity, most)).await.expect("it is idle again");
        // One request now and then keeps it.
        let often = async {
            loop {
                drop(Active::begin(&activity));
                tokio::time::sleep(Duration::from_secs(40)).await;
            }
        };
        tokio::select! {
            biased;
            () = idle(&activity, most) => panic!("it is in use"),
            () = often => {}
            () = tokio::time::sleep(most * 20) => {}
        }
    }
}
