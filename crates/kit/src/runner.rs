//! Controllers at work.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::cache::Expectation;
use crate::metrics;
use crate::object::Key;
use crate::queue::{Ended, Queue};

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

    /// One look. It must be safe to drop at any point.
    fn reconcile<'a>(
        &'a self,
        key: &'a Key,
        turn: &'a Turn,
    ) -> impl Future<Output = Result<Ended, Self::Error>> + Send + 'a;

    /// Why a look failed.
    type Error: std::error::Error + Send;
}

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
            let turn = Turn::default();
            // Whatever happens, the object is looked at again: even a panic ends one look, not all.
            let mut look = Look { queue: &queue, key: &key, ended: Ended::Badly };
            let begun = queue.clock().monotonic();
            let ended = controller.reconcile(&key, &turn).await;
            let took = queue.clock().monotonic().since(begun);
            let written = turn.into_expected();
            if !written.is_empty() {
                lock().insert(key.clone(), written);
            }
            look.ended = ended.unwrap_or_else(|error| {
                tracing::warn!(controller = controller.name(), %key, error = %chain(&error), "a look failed");
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

/// An error and what caused it, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
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
    use crate::object::{KindId, Object};
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
