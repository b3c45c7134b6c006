//! What the gateway counts, for Prometheus.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use http::StatusCode;
use kit::Key;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tunnel::Hub;

/// What an exposition of ours alone is.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// How an exposition ends.
const END: &str = "# EOF\n";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Registration {
    code: u32,
}

/// The counters.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    more: Arc<Registry>,
    agents: Agents,
    registrations: Family<Registration, Counter>,
    limited: Counter,
    refused: Counter,
}

impl Metrics {
    /// With those of a hub, and what else there is.
    pub(crate) fn new(hub: Hub, more: Arc<Registry>) -> Self {
        let mut metrics = Metrics {
            registry: Registry::default(),
            more,
            agents: Agents::default(),
            registrations: Family::default(),
            limited: Counter::default(),
            refused: Counter::default(),
        };
        let registry = &mut metrics.registry;
        registry.register_collector(Box::new(hub));
        let help = "Agents with a request under way; every agent watches its plan";
        registry.register("herdsman_agents_connected", help, metrics.agents.gauge.clone());
        let help = "Hosts that introduced themselves, by the answer they got";
        registry.register("herdsman_gateway_registrations", help, metrics.registrations.clone());
        let help = "Requests that were not looked at because their address had failed too often";
        registry.register("herdsman_gateway_limited_requests", help, metrics.limited.clone());
        let help = "Connections closed because there were too many";
        registry.register("herdsman_gateway_refused_connections", help, metrics.refused.clone());
        metrics
    }

    /// Counts an agent as connected until what is given is dropped.
    pub(crate) fn agent(&self, plan: Key) -> Present {
        self.agents.enter(plan)
    }

    pub(crate) fn registered(&self, code: StatusCode) {
        self.registrations.get_or_create(&Registration { code: code.as_u16().into() }).inc();
    }

    pub(crate) fn limited(&self) {
        self.limited.inc();
    }

    pub(crate) fn refused(&self) {
        self.refused.inc();
    }

    /// The exposition of another server, with ours.
    pub(crate) fn beside(&self, theirs: &str) -> String {
        let mut all = theirs.to_owned();
        for registry in [&self.more, &self.registry] {
            all.truncate(all.strip_suffix(END).map_or(all.len(), str::len));
            if !all.is_empty() && !all.ends_with('\n') {
                all.push('\n');
            }
            // Writing to a String does not fail.
            let _ = text::encode(&mut all, registry);
        }
        all
    }
}

/// Agents with requests under way.
#[derive(Clone, Debug, Default)]
struct Agents {
    requests: Arc<Mutex<BTreeMap<Key, usize>>>,
    gauge: Gauge,
}

impl Agents {
    fn enter(&self, plan: Key) -> Present {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry(plan.clone()).or_default() += 1;
        self.gauge.set(i64::try_from(requests.len()).unwrap_or(i64::MAX));
        Present { agents: self.clone(), plan }
    }
}

/// A request of an agent.
#[derive(Debug)]
pub(crate) struct Present {
    agents: Agents,
    plan: Key,
}

impl Drop for Present {
    fn drop(&mut self) {
        let mut requests = self.agents.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = requests.get_mut(&self.plan) {
            *count -= 1;
            if *count == 0 {
                requests.remove(&self.plan);
            }
        }
        self.agents.gauge.set(i64::try_from(requests.len()).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use clock::{SeededEntropy, SystemClock};

    use super::*;

    #[test]
    fn ours_stand_behind_theirs() {
        let hub = Hub::new(
            tunnel::session::Settings::default(),
            Arc::new(SystemClock),
            Box::new(SeededEntropy::new(1)),
        );
        let metrics = Metrics::new(hub, Arc::default());
        let one = metrics.agent(Key::new("ns", "a"));
        let _same = metrics.agent(Key::new("ns", "a"));
        let other = metrics.agent(Key::new("ns", "b"));
        let text = metrics.beside("theirs 1\n# EOF\n");
        assert!(text.starts_with("theirs 1\n# HELP") && text.ends_with("# EOF\n"), "{text}");
        assert_eq!(text.matches("# EOF").count(), 1);
        assert!(
            text.contains("\nherdsman_agents_connected 2\n")
                && text.contains("\nherdsman_tunnel_sessions 0\n"),
            "{text}"
        );
        drop((one, other));
        assert!(metrics.beside("").contains("herdsman_agents_connected 1\n"));
    }
}
