//! Controllers at work.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::Instrument as _;

use crate::cache::Expectation;
use crate::metrics;
use crate::object::{Key, Object};
use crate::queue::{Ended, Queue};
use crate::subject::Subject;

/// What a look at an object has written, so that the next one waits until the caches show it.
#[derive(Debug, Default)]
pub struct Turn {
    expected: std::sync::Mutex<Vec<Expectation>>,
}

impl Turn {
    /// The next look at the object waits for this.
    pub fn expect(&self, expectation: Expectation) {
        self.expected.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(expectation);
    }

    fn into_expected(self) -> Vec<Expectation> {
        self.expected.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Looks at one object and does what is to be done about it.
pub trait Controller: Send + Sync + 'static {
    /// What it is called in logs.
    fn name(&self) -> &'static str;

    /// The object that a look is about, for the log.
    fn object(&self, _key: &Key) -> Option<Arc<Object>> {
        None
    }

    /// One look. It must be safe to drop at any point.
    fn reconcile<'a>(
        &'a self,
        key: &'a Key,
        turn: &'a Turn,
    ) -> impl Future<Output = Result<Ended, Self::Error>> + Send + 'a;

    /// Why a look failed.
    type Error: std::error::Error + Send + 'static;
}

/// How many objects a controller looks at at a time, if nothing speaks for another number. Looks that wait see what is newer, and several
/// reasons for one look become one.
pub const AT_A_TIME: usize = 16;

/// The same where a look makes several objects, one after the other, and does little but wait for the server.
pub const WRITERS_AT_A_TIME: usize = 64;

/// Runs a controller until the future is dropped: at most `most` objects at a time, each by one at a time.
pub async fn run<C: Controller>(controller: Arc<C>, queue: Arc<Queue>, most: usize) {
    metrics::shared().begun(controller.name(), &queue);
    let slots = Arc::new(Semaphore::new(most));
    let mut looks = JoinSet::new();
    let expected: Arc<std::sync::Mutex<std::collections::BTreeMap<Key, Vec<Expectation>>>> = Arc::default();
    loop {
        let key = tokio::select! {
            biased;
            Some(_) = looks.join_next() => continue,
            key = queue.next() => key,
        };
        let (controller, queue, slots, expected) =
            (controller.clone(), queue.clone(), slots.clone(), expected.clone());
        looks.spawn(async move {
            let lock = || expected.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let before = lock().remove(&key).unwrap_or_default();
            for expectation in before {
                expectation.wait().await;
            }
            let Ok(_slot) = slots.acquire().await else { return };
            queue.begin(&key);
            let turn = Turn::default();
            // Whatever happens, the object is looked at again: even a panic ends one look, not all.
            let mut look = Look { queue: &queue, key: &key, ended: Ended::Badly };
            let begun = queue.clock().monotonic();
            let about = controller.object(&key).map(|object| Subject::of(&object)).unwrap_or_default();
            let (cluster, machine) = (about.cluster.as_deref(), about.machine.as_deref());
            let span = tracing::error_span!("look", controller = controller.name(), %key, cluster, machine);
            let ended = controller.reconcile(&key, &turn).instrument(span.clone()).await;
            let took = queue.clock().monotonic().since(begun);
            let written = turn.into_expected();
            if !written.is_empty() {
                lock().insert(key.clone(), written);
            }
            look.ended = ended.unwrap_or_else(|error| {
                span.in_scope(|| match lost_a_race(&error) {
                    true => tracing::debug!(error = %chain(&error), "somebody else was faster"),
                    false => tracing::warn!(error = %chain(&error), "a look failed"),
                });
                Ended::Badly
            });
            metrics::shared().looked(controller.name(), took, look.ended);
        });
    }
}

/// A look that is running; when it is dropped, it has ended.
struct Look<'a> {
    queue: &'a Queue,
    key: &'a Key,
    ended: Ended,
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        self.queue.done(self.key.clone(), self.ended);
    }
}

/// Whether an object was not as it had been seen: nothing is wrong, and the next look sees it.
fn lost_a_race(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .any(|cause| answered(cause).is_some_and(|status| status.code == 409 && status.reason == "Conflict"))
}

/// The answer of a server, if an error is one.
fn answered<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a kube::core::Status> {
    let boxed = || error.downcast_ref::<Box<kube::Error>>().map(|boxed| &**boxed);
    match error.downcast_ref::<kube::Error>().or_else(boxed)? {
        kube::Error::Api(status) => Some(status),
        _ => None,
    }
}

/// An error and what caused it, in one line; of a server's answer its message.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        match answered(inner) {
            Some(status) => return format!("{text}: {}", status.message),
            None => text = format!("{text}: {inner}"),
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;
    use std::time::Duration;

    use clock::{Clock, RuntimeClock};
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::cache::Cache;
    use crate::object::KindId;
    use crate::queue::Pace;

    struct Writer {
        cache: Arc<Cache>,
        looks: Mutex<u32>,
    }

    impl Controller for Writer {
        type Error = Infallible;

        fn name(&self) -> &'static str {
            "writer"
        }

        async fn reconcile(&self, _: &Key, turn: &Turn) -> Result<Ended, Infallible> {
            *self.looks.lock().unwrap() += 1;
            turn.expect(self.cache.expect_revision(5));
            Ok(Ended::Again(Duration::from_secs(1)))
        }
    }

    #[test]
    fn races_are_told_from_failures() {
        let error = |code: u16, reason: &str| {
            let status = kube::core::Status::failure("it was changed", reason).with_code(code);
            let answer = Box::new(kube::Error::Api(Box::new(status)));
            crate::write::Error::Refused { what: "change", kind: "A".into(), key: Key::new("n", "a"), answer }
        };
        assert!(lost_a_race(&error(409, "Conflict")));
        assert!(!lost_a_race(&error(409, "AlreadyExists")) && !lost_a_race(&error(403, "Forbidden")));
        assert_eq!(chain(&error(409, "Conflict")), "cannot change A n/a: it was changed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_waits_until_the_cache_has_seen_what_the_last_one_wrote() {
        let clock: Arc<dyn Clock> = Arc::new(RuntimeClock::starting_at(Timestamp::UNIX_EPOCH));
        let queue = Arc::new(Queue::new(clock, Pace::default()));
        let cache = Arc::new(Cache::new(KindId::new("", "v1", "Pod", "pods"), |_| Vec::new()));
        let writer = Arc::new(Writer { cache: cache.clone(), looks: Mutex::default() });
        queue.add(Key::new("n", "a"));
        let running = tokio::spawn(run(writer.clone(), queue, 1));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(*writer.looks.lock().unwrap(), 1);
        let document = json!({"metadata": {"name": "x", "resourceVersion": "5"}});
        cache.apply(Arc::new(Object::from_document(document).unwrap()));
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(*writer.looks.lock().unwrap(), 2);
        running.abort();
    }
}
