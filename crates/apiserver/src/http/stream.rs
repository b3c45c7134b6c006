//! Watches as streams of bytes.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use clock::Entropy;
use futures_util::{FutureExt, Stream, stream};
use kubeapi::media::Format;
use kubeapi::request::ListOptions;
use kubeapi::{Status, proto};
use prometheus_client::metrics::counter::Counter;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::coop::has_budget_remaining;
use tokio::time::Sleep;

use super::metrics::Counted;
use super::negotiated::Wanted;
use super::quota::Held;
use crate::auth::Standing;
use crate::server::{Server, Told, WatchEvent, Watching};

/// How long a watch without a wish lasts: at least this, and up to twice as long, so that not all end at once.
const SHORTEST: Duration = Duration::from_secs(1800);
/// How long a watch lasts at most, whatever its client wishes.
const LONGEST: Duration = Duration::from_secs(3600);

/// About how often a bookmark is given: as often as upstream does.
const BOOKMARKS: Duration = Duration::from_secs(60);
/// One bookmark comes this long before the end, so that who watches can go on from there.
const BEFORE_END: Duration = Duration::from_secs(2);

/// Events that are there already go out together, up to about this many bytes.
const BATCH: usize = 64 * 1024;

/// A watch on its way to a client. It goes on only as fast as the client reads.
pub(super) struct Watcher {
    pub(super) server: Arc<Server>,
    pub(super) watching: Watching,
    pub(super) wanted: Wanted,
    pub(super) closing: watch::Receiver<bool>,
    /// What it was permitted by; nothing for those in this process.
    pub(super) standing: Option<Arc<Standing>>,
    /// Counts the events.
    pub(super) events: Counter,
    pub(super) _counted: Counted,
}

/// Until when, and how often.
struct Timers {
    end: std::pin::Pin<Box<Sleep>>,
    bookmark: Option<std::pin::Pin<Box<Sleep>>>,
}

/// What a watch waits for.
#[allow(clippy::large_enum_variant, reason = "it is taken apart at once")]
enum Next {
    Told(Result<Option<Told>, Status>),
    Bookmark,
    End,
}

/// Whether the server has begun to go down since it was asked the last time whether it does.
fn is_over(closing: &watch::Receiver<bool>) -> bool {
    closing.has_changed().unwrap_or(true)
}

struct State {
    watcher: Watcher,
    timers: Timers,
    /// When the server goes down, or who asked may not any more. Kept, so that not every event puts itself in line for it anew.
    closed: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Whom the timers and `closed` wake.
    armed: Option<Waker>,
    /// Whether a Table is still to describe its columns.
    headers: bool,
    over: bool,
}

impl Watcher {
    /// The bytes of a watch that takes a place among its user's, until its time is over, history is lost, who asked may not any more, or the server goes down.
    pub(super) fn stream(
        self,
        options: &ListOptions,
        held: Option<Held<String>>,
    ) -> impl Stream<Item = Bytes> + Send + use<> {
        let timers = self.server.with_entropy(|entropy| Timers::new(options, entropy));
        let mut closing = self.closing.clone();
        let closed: std::pin::Pin<Box<dyn Future<Output = ()> + Send>> = match self.standing.clone() {
            None => Box::pin(async move {
                let _held = held;
                drop(closing.wait_for(|closing| *closing).await);
            }),
            Some(standing) => Box::pin(async move {
                let _held = held;
                tokio::select! {
                    biased;
                    _ = closing.wait_for(|closing| *closing) => {}
                    () = standing.over() => {}
                }
            }),
        };
        // There may be thousands of watches, and the stream has two places for what it is made from.
        let state =
            Box::new(State { watcher: self, timers, closed, armed: None, headers: true, over: false });
        stream::unfold(state, |mut state| async move {
            let bytes = state.next().await?;
            Some((bytes, state))
        })
    }
}

impl Timers {
    fn new(options: &ListOptions, entropy: &mut dyn Entropy) -> Self {
        let sleep = |duration| Box::pin(tokio::time::sleep(duration));
        let lifetime = lifetime(options.timeout_seconds, entropy);
        let first =
            options.allow_watch_bookmarks.then(|| until_bookmark(lifetime, jittered(BOOKMARKS, entropy)));
        let mut end = sleep(lifetime);
        // It runs from now on, whether anybody asks for it or not.
        let _ = end.as_mut().now_or_never();
        Timers { end, bookmark: first.flatten().map(sleep) }
    }
}

/// How long a watch lasts.
fn lifetime(asked: Option<i64>, entropy: &mut dyn Entropy) -> Duration {
    match asked.and_then(|seconds| u64::try_from(seconds).ok()) {
        None | Some(0) => SHORTEST + Duration::from_millis(entropy.below(1_800_000).into()),
        Some(seconds) => Duration::from_secs(seconds).min(LONGEST),
    }
}

/// How long to wait for the next bookmark of a watch that lasts that much longer; none if there is to be no more.
fn until_bookmark(lasts: Duration, usual: Duration) -> Option<Duration> {
    let last = lasts.checked_sub(BEFORE_END).filter(|last| !last.is_zero())?;
    Some(usual.min(last))
}

/// A duration, up to a tenth shorter.
fn jittered(duration: Duration, entropy: &mut dyn Entropy) -> Duration {
    duration.mul_f64(1.0 - f64::from(entropy.below(1000)) / 10_000.0)
}

impl State {
    /// The next bytes; none at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        let event = self.event().await?;
        Some(self.batch(event))
    }

    /// Waits for an event, or for the time for a bookmark; none at the end.
    async fn event(&mut self) -> Option<Result<Told, Status>> {
        loop {
            match self.next_of_all().await {
                Next::Told(event) => return event.transpose(),
                Next::End => return None,
                Next::Bookmark => {}
            }
            let Watcher { server, watching, .. } = &mut self.watcher;
            let Timers { end, bookmark } = &mut self.timers;
            let usual = server.with_entropy(|entropy| jittered(BOOKMARKS, entropy));
            let fired = bookmark.as_ref().map_or(end.deadline(), |bookmark| bookmark.deadline());
            let lasts = end.deadline().saturating_duration_since(fired);
            *bookmark = until_bookmark(lasts, usual).map(|wait| Box::pin(tokio::time::sleep(wait)));
            self.armed = None;
            if let Some(bookmark) = watching.bookmark() {
                return Some(Ok(Told::Event(bookmark)));
            }
        }
    }

    /// Waits for whatever comes first. In a fixed order, so that a simulation replays; events before the rest, which is
    /// looked at between two of them but only asked anew when it does not know whom to wake: there may be a thousand
    /// watches of which each has an event, and nothing else to do.
    async fn next_of_all(&mut self) -> Next {
        let State { watcher: Watcher { watching, closing, standing, .. }, timers, closed, armed, .. } = self;
        let is_doubtful = || standing.as_ref().is_some_and(|standing| standing.is_doubtful());
        let Timers { end, bookmark } = timers;
        // Where events never pause, nobody else would be asked.
        if is_over(closing) || end.is_elapsed() || (armed.is_none() && *closing.borrow()) {
            return Next::End;
        }
        if is_doubtful() {
            if closed.as_mut().now_or_never().is_some() {
                return Next::End;
            }
            *armed = None;
        }
        let mut told = pin!(watching.next_told());
        poll_fn(|context| {
            if let Poll::Ready(event) = told.as_mut().poll(context) {
                return Poll::Ready(Next::Told(event));
            }
            let is_due = is_over(closing)
                || end.is_elapsed()
                || bookmark.as_ref().is_some_and(|due| due.is_elapsed())
                || is_doubtful();
            if !is_due && armed.as_ref().is_some_and(|armed| armed.will_wake(context.waker())) {
                return Poll::Pending;
            }
            if closed.as_mut().poll(context).is_ready() || end.as_mut().poll(context).is_ready() {
                return Poll::Ready(Next::End);
            }
            let bookmark = match bookmark {
                Some(due) => due.as_mut().poll(context).map(|()| Next::Bookmark),
                None => Poll::Pending,
            };
            // Who is asked by a task that has used up its turn does not listen.
            *armed = has_budget_remaining().then(|| context.waker().clone());
            bookmark
        })
        .await
    }

    /// An event, and those that are there already.
    fn batch(&mut self, event: Result<Told, Status>) -> Bytes {
        let first = self.bytes(event);
        let mut all = BytesMut::new();
        while all.len() + first.len() < BATCH && !self.over && self.watcher.watching.has_ready() {
            let Some(next) = self.watcher.watching.next_told().now_or_never() else { break };
            let Some(next) = next.transpose() else {
                self.over = true;
                break;
            };
            if all.is_empty() {
                all.extend_from_slice(&first);
            }
            all.extend_from_slice(&self.bytes(next));
        }
        // Usually there is one, and its line is given as it is.
        if all.is_empty() { first } else { all.freeze() }
    }

    fn bytes(&mut self, event: Result<Told, Status>) -> Bytes {
        if event.is_ok() {
            self.watcher.events.inc();
        }
        match event {
            Ok(Told::Line(line)) => line,
            Ok(Told::Event(event)) => self.frame(event).into(),
            Err(status) => self.error(&status).into(),
        }
    }

    /// An event as the client wants it.
    fn frame(&mut self, event: WatchEvent) -> Vec<u8> {
        let Watcher { server, watching, wanted, .. } = &self.watcher;
        let now = server.clock().now();
        let object = wanted.shape(event.object, watching.resource(), self.headers, now);
        self.headers = false;
        let framed = object.and_then(|object| frame(event.event.as_str(), object, wanted.format()));
        framed.unwrap_or_else(|status| self.error(&status))
    }

    /// The last event: why there are no more.
    fn error(&mut self, status: &Status) -> Vec<u8> {
        self.over = true;
        let object = serde_json::to_value(status).unwrap_or_default();
        frame("ERROR", object, self.watcher.wanted.format()).unwrap_or_default()
    }
}

fn frame(event: &str, object: Value, format: Format) -> Result<Vec<u8>, Status> {
    match format {
        Format::Protobuf => proto::encode_watch_frame(event, &object).map_err(Status::internal),
        Format::Json | Format::Yaml => {
            let event = json!({"type": event, "object": object});
            let mut bytes = serde_json::to_vec(&event).map_err(Status::internal)?;
            bytes.push(b'\n');
            Ok(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use clock::SeededEntropy;

    use super::*;

    #[test]
    fn a_bookmark_comes_before_the_end() {
        let seconds = Duration::from_secs;
        for (lasts, usual, wait) in
            [(100, 60, Some(60)), (40, 60, Some(38)), (8, 60, Some(6)), (2, 60, None), (1, 60, None)]
        {
            assert_eq!(until_bookmark(seconds(lasts), seconds(usual)), wait.map(seconds), "{lasts}");
        }
    }

    #[test]
    fn watches_last_as_long_as_asked_or_half_an_hour_to_an_hour() {
        let mut entropy = SeededEntropy::new(1);
        assert_eq!(lifetime(Some(7), &mut entropy), Duration::from_secs(7));
        assert_eq!(lifetime(Some(999_999_999), &mut entropy), LONGEST);
        for asked in [None, Some(0), Some(-1)].into_iter().cycle().take(300) {
            let lasts = lifetime(asked, &mut entropy);
            assert!((SHORTEST..SHORTEST * 2).contains(&lasts), "{lasts:?}");
        }
    }

    #[test]
    fn bookmarks_come_about_once_a_minute() {
        let mut entropy = SeededEntropy::new(1);
        for _ in 0..300 {
            let pause = jittered(BOOKMARKS, &mut entropy);
            assert!((Duration::from_secs(54)..=BOOKMARKS).contains(&pause), "{pause:?}");
        }
    }

    #[test]
    fn a_watch_is_smaller_than_a_node_of_json() {
        // There are thousands of watches, and they stay. Blocks of the size of a JSON object's node (632 bytes) would lie
        // scattered among those of objects that came and went, and keep their room.
        fn given<A, B, C, D>(_: impl Fn(A, B, C) -> D) -> usize {
            size_of::<D>()
        }
        assert!(size_of::<State>() <= 512, "{} bytes", size_of::<State>());
        let stream = given(|watcher: Watcher, options: ListOptions, held| watcher.stream(&options, held));
        assert!(stream <= 512, "{stream} bytes");
    }
}
