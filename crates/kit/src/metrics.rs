//! What controllers do, in numbers for Prometheus.
//!
//! There is one set of them for the process, as there is one process to look at; whoever serves metrics registers it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::cache::Cache;
use crate::queue::{Ended, Queue};

/// From a look at caches to a drain that takes its time.
const SECONDS: [f64; 10] = [0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

/// Which controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    controller: &'static str,
}

/// Objects of which kind, and how they are kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct Kept {
    kind: String,
    state: &'static str,
}

/// The numbers of all controllers of the process.
pub struct Metrics {
    looks: Family<Of, Histogram>,
    failures: Family<Of, Counter>,
    queues: Mutex<Vec<(&'static str, Weak<Queue>)>>,
    caches: Mutex<Vec<Weak<Cache>>>,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the numbers of controllers")
    }
}

/// The numbers of this process.
pub fn shared() -> &'static Metrics {
    static SHARED: OnceLock<Metrics> = OnceLock::new();
    SHARED.get_or_init(|| {
        let histogram: fn() -> Histogram = || Histogram::new(SECONDS);
        Metrics {
            looks: Family::new_with_constructor(histogram),
            failures: Family::default(),
            queues: Mutex::default(),
            caches: Mutex::default(),
        }
    })
}

impl Metrics {
    /// Adds `herdsman_reconcile_seconds`, `herdsman_reconcile_failures_total`, `herdsman_queue_depth` and
    /// `herdsman_cache_objects`.
    pub fn register(&'static self, registry: &mut Registry) {
        registry.register(
            "herdsman_reconcile_seconds",
            "How long looks at an object took",
            self.looks.clone(),
        );
        registry.register(
            "herdsman_reconcile_failures",
            "Looks at an object that failed",
            self.failures.clone(),
        );
        registry.register_collector(Box::new(Depths(self)));
        registry.register_collector(Box::new(Contents(self)));
    }

    pub(crate) fn keeps(&self, cache: &Arc<Cache>) {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        caches.retain(|cache| cache.strong_count() > 0);
        caches.push(Arc::downgrade(cache));
    }

    pub(crate) fn begun(&self, controller: &'static str, queue: &Arc<Queue>) {
        // A counter that is there before it counts can be asked for its rate.
        drop(self.failures.get_or_create(&Of { controller }));
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|(_, queue)| queue.strong_count() > 0);
        queues.push((controller, Arc::downgrade(queue)));
    }

    pub(crate) fn looked(&self, controller: &'static str, took: Duration, ended: Ended) {
        self.looks.get_or_create(&Of { controller }).observe(took.as_secs_f64());
        if ended == Ended::Badly {
            self.failures.get_or_create(&Of { controller }).inc();
        }
    }
}

/// Counted when somebody asks.
#[derive(Debug)]
struct Depths(&'static Metrics);

impl Collector for Depths {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let mut family = encoder.encode_descriptor(
            "herdsman_queue_depth",
            "Objects whose time to be looked at has come",
            None,
            MetricType::Gauge,
        )?;
        let queues = self.0.queues.lock().unwrap_or_else(PoisonError::into_inner);
        for (controller, queue) in queues.iter() {
            let Some(queue) = queue.upgrade() else { continue };
            let depth = i64::try_from(queue.depth()).unwrap_or(i64::MAX);
            ConstGauge::new(depth).encode(family.encode_family(&Of { controller })?)?;
        }
        Ok(())
    }
}

/// Counted when somebody asks.
#[derive(Debug)]
struct Contents(&'static Metrics);

impl Collector for Contents {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let mut family = encoder.encode_descriptor(
            "herdsman_cache_objects",
            "Objects that controllers know of: open ones are in use, folded ones take little memory",
            None,
            MetricType::Gauge,
        )?;
        let mut kept: BTreeMap<Kept, i64> = BTreeMap::new();
        let caches = self.0.caches.lock().unwrap_or_else(PoisonError::into_inner);
        for cache in caches.iter().filter_map(Weak::upgrade) {
            let (open, folded) = cache.counts();
            for (state, count) in [("open", open), ("folded", folded)] {
                let of = Kept { kind: cache.kind().kind.clone(), state };
                *kept.entry(of).or_default() += i64::try_from(count).unwrap_or(i64::MAX);
            }
        }
        for (of, count) in kept {
            ConstGauge::new(count).encode(family.encode_family(&of)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clock::SystemClock;

    use super::*;
    use crate::object::{Key, KindId, Object};
    use crate::queue::Pace;

    #[test]
    fn looks_and_depths_are_told() {
        let queue = Arc::new(Queue::new(Arc::new(SystemClock), Pace::default()));
        queue.add(Key::new("n", "a"));
        shared().begun("test", &queue);
        let cache = Arc::new(Cache::new(KindId::new("", "v1", "Lamp", "lamps"), |_| Vec::new()));
        let document = serde_json::json!({"metadata": {"name": "a"}});
        cache.apply(Arc::new(Object::from_document(document).unwrap()));
        shared().keeps(&cache);
        shared().looked("test", Duration::from_millis(3), Ended::Badly);
        let mut registry = Registry::default();
        shared().register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "herdsman_reconcile_seconds_count{controller=\"test\"} 1",
            "herdsman_reconcile_failures_total{controller=\"test\"} 1",
            "herdsman_queue_depth{controller=\"test\"} 1",
            "herdsman_cache_objects{kind=\"Lamp\",state=\"open\"} 1",
            "herdsman_cache_objects{kind=\"Lamp\",state=\"folded\"} 0",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
