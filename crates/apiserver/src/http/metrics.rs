//! What the server counts, for Prometheus.

use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::fairness::Level;
use crate::store::{Scope, View};

/// The media type of the exposition.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the same text is for who does not ask for OpenMetrics: all in it that is special is a comment to them.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The media type for an `Accept` header.
pub(super) fn media_type(accept: &str) -> &'static str {
    if accept.contains("application/openmetrics-text") { OPEN_METRICS } else { TEXT }
}

/// From a read in memory to a large list over a slow disk.
const SECONDS: [f64; 11] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.0, 10.0];

/// What kind of request. Only words of ours and names of resources that are served: what strangers ask for must not
/// fill the memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Labels {
    pub(super) verb: String,
    pub(super) resource: String,
    pub(super) code: u32,
}

/// What kind of client.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfLevel {
    level: &'static str,
}

/// The counters of one server.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    requests: Family<Labels, Histogram>,
    inflight: Gauge,
    watches: Gauge,
    watch_events: Counter,
    refused_connections: Counter,
    seats: Family<OfLevel, Gauge>,
    waiting: Family<OfLevel, Gauge>,
    rejected: Family<OfLevel, Counter>,
    revision: Gauge,
    objects: Gauge,
    object_bytes: Gauge,
    history_bytes: Gauge,
    audit_dropped: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        let requests: fn() -> Histogram = || Histogram::new(SECONDS);
        let mut metrics = Metrics {
            registry: Registry::with_prefix("herdsman_apiserver"),
            requests: Family::new_with_constructor(requests),
            inflight: Gauge::default(),
            watches: Gauge::default(),
            watch_events: Counter::default(),
            refused_connections: Counter::default(),
            seats: Family::default(),
            waiting: Family::default(),
            rejected: Family::default(),
            revision: Gauge::default(),
            objects: Gauge::default(),
            object_bytes: Gauge::default(),
            history_bytes: Gauge::default(),
            audit_dropped: Counter::default(),
        };
        let help = "Time from a request to its answer; of a watch, to its beginning";
        metrics.registry.register("request_seconds", help, metrics.requests.clone());
        let help = "Audit events that could not be written";
        metrics.registry.register("audit_events_dropped", help, metrics.audit_dropped.clone());
        for (name, help, gauge) in [
            ("inflight_requests", "Requests that are being answered", &metrics.inflight),
            ("watches", "Watches that are open", &metrics.watches),
            ("store_revision", "The revision of the last change", &metrics.revision),
            ("store_objects", "Objects in the store", &metrics.objects),
            ("store_object_bytes", "Bytes of all objects in the store", &metrics.object_bytes),
            ("store_history_bytes", "About the bytes of all history in the store", &metrics.history_bytes),
        ] {
            metrics.registry.register(name, help, gauge.clone());
        }
        for (name, help, counter) in [
            ("watch_events", "Events given to watches", &metrics.watch_events),
            (
                "refused_connections",
                "Connections closed because there were too many",
                &metrics.refused_connections,
            ),
        ] {
            metrics.registry.register(name, help, counter.clone());
        }
        let registry = &mut metrics.registry;
        registry.register("seats_in_use", "Seats of requests that are worked on", metrics.seats.clone());
        registry.register("waiting_requests", "Requests that wait for a seat", metrics.waiting.clone());
        let help = "Requests that were answered 429 for want of a seat";
        registry.register("rejected_requests", help, metrics.rejected.clone());
        metrics
    }
}

impl Metrics {
    /// Counts a request that has been answered.
    pub(super) fn answered(&self, labels: &Labels, took: Duration) {
        self.requests.get_or_create(labels).observe(took.as_secs_f64());
    }

    /// Counts a request as being answered, until the guard is dropped.
    pub(super) fn enter(&self) -> Counted {
        Counted::new(&self.inflight)
    }

    /// Counts a watch as open, until the guard is dropped.
    pub(super) fn watch(&self) -> Counted {
        Counted::new(&self.watches)
    }

    /// Counts the events that watches give.
    pub(super) fn watch_events(&self) -> Counter {
        self.watch_events.clone()
    }

    /// Counts a connection that was not taken.
    pub(super) fn refused_connection(&self) {
        self.refused_connections.inc();
    }

    /// The counters of one level of clients.
    pub(super) fn level(&self, level: Level) -> LevelMetrics {
        let labels = OfLevel { level: level.as_str() };
        LevelMetrics {
            seats: self.seats.get_or_create_owned(&labels),
            waiting: self.waiting.get_or_create_owned(&labels),
            rejected: self.rejected.get_or_create_owned(&labels),
        }
    }

    /// The exposition, with what the store has at this moment and how much the audit log has lost.
    pub(super) fn render(&self, view: &View, audit_dropped: u64) -> String {
        self.audit_dropped.inc_by(audit_dropped.saturating_sub(self.audit_dropped.get()));
        let bytes: usize = view.scan(&Scope::prefix("")).map(|stored| stored.length()).sum();
        self.revision.set(view.head().0);
        self.objects.set(signed(view.len() as u64));
        self.object_bytes.set(signed(bytes as u64));
        self.history_bytes.set(signed(view.history_bytes()));
        let mut exposition = String::new();
        // Writing to a String does not fail.
        let _ = text::encode(&mut exposition, &self.registry);
        exposition
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// What is counted of one level of clients.
#[derive(Debug)]
pub(super) struct LevelMetrics {
    seats: Gauge,
    waiting: Gauge,
    rejected: Counter,
}

impl LevelMetrics {
    pub(super) fn set(&self, seats: usize, waiting: usize) {
        self.seats.set(signed(seats as u64));
        self.waiting.set(signed(waiting as u64));
    }

    pub(super) fn rejected(&self) {
        self.rejected.inc();
    }
}

/// One of those that a gauge counts.
#[derive(Debug)]
pub(super) struct Counted(Gauge);

impl Counted {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Counted(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}
