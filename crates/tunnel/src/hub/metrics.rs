//! What a hub counts, for Prometheus. It is read off the sessions when it is asked for: nothing is counted twice.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::{Hub, Kind};
use crate::mux::Totals;

/// Of sessions that are over.
#[derive(Debug, Default)]
pub(super) struct Counts {
    sessions: AtomicU64,
    streams: AtomicU64,
    received: AtomicU64,
    sent: AtomicU64,
}

impl Counts {
    pub(super) fn add(&self, totals: &Totals) {
        self.sessions.fetch_add(1, Ordering::Relaxed);
        self.streams.fetch_add(totals.opened, Ordering::Relaxed);
        self.received.fetch_add(totals.received, Ordering::Relaxed);
        self.sent.fetch_add(totals.sent, Ordering::Relaxed);
    }
}

/// To be registered without a prefix: the names are whole.
impl Collector for Hub {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let (mut clients, mut peers, mut streams) = (0i64, 0i64, 0i64);
        let mut totals = Totals::default();
        for attached in self.registry().iter() {
            match attached.kind {
                Kind::Client => clients += 1,
                Kind::Peer => peers += 1,
            }
            streams += i64::try_from(attached.session.streams()).unwrap_or(i64::MAX);
            let of_session = attached.session.totals();
            totals.opened += of_session.opened;
            totals.received += of_session.received;
            totals.sent += of_session.sent;
        }
        let over = &self.0.counts;
        let sum = |over: &AtomicU64, now: u64| ConstCounter::new(over.load(Ordering::Relaxed) + now);
        let now = u64::try_from(clients + peers).unwrap_or_default();
        show(
            &mut to,
            "herdsman_tunnel_sessions",
            "Sessions of clients that are open",
            &ConstGauge::new(clients),
        )?;
        show(
            &mut to,
            "herdsman_tunnel_peer_sessions",
            "Sessions of other servers that are open",
            &ConstGauge::new(peers),
        )?;
        show(&mut to, "herdsman_tunnel_streams", "Streams that are open", &ConstGauge::new(streams))?;
        show(
            &mut to,
            "herdsman_tunnel_sessions_begun",
            "Sessions that there were",
            &sum(&over.sessions, now),
        )?;
        show(
            &mut to,
            "herdsman_tunnel_streams_opened",
            "Streams that there were",
            &sum(&over.streams, totals.opened),
        )?;
        show(
            &mut to,
            "herdsman_tunnel_received_bytes",
            "Bytes of streams that came",
            &sum(&over.received, totals.received),
        )?;
        show(
            &mut to,
            "herdsman_tunnel_sent_bytes",
            "Bytes of streams that went",
            &sum(&over.sent, totals.sent),
        )
    }
}

fn show(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    metric: &impl EncodeMetric,
) -> Result<(), std::fmt::Error> {
    metric.encode(to.encode_descriptor(name, help, None, metric.metric_type())?)
}
