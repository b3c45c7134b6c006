//! What clusters wait for, counted: the metric `herdsman_waits{code}`.

use std::collections::BTreeMap;
use std::sync::Mutex;

use kit::Key;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::context::lock;

/// What every object waits for now, whichever group of controllers says so. Register [`WaitsCollector`] without a prefix: the
/// name is whole.
#[derive(Debug, Default)]
pub struct Waits {
    of: Mutex<BTreeMap<(&'static str, Key), Vec<&'static str>>>,
}

impl Waits {
    /// What an object waits for from now on, as a group of controllers sees it.
    pub fn set(&self, group: &'static str, object: &Key, codes: Vec<&'static str>) {
        let mut of = lock(&self.of);
        let key = (group, object.clone());
        match codes.is_empty() {
            true => drop(of.remove(&key)),
            false => drop(of.insert(key, codes)),
        }
    }

    /// How many waits of each code there are.
    pub fn counts(&self) -> BTreeMap<&'static str, i64> {
        let mut counts = BTreeMap::new();
        for code in lock(&self.of).values().flatten() {
            *counts.entry(*code).or_default() += 1;
        }
        counts
    }
}

/// For a registry: clones of one [`Waits`] count the same.
#[derive(Clone, Debug)]
pub struct WaitsCollector(pub std::sync::Arc<Waits>);

impl Collector for WaitsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let help = "What clusters and machines wait for, by the code of the wait";
        let mut metric = encoder.encode_descriptor("herdsman_waits", help, None, MetricType::Gauge)?;
        for (code, count) in self.0.counts() {
            let gauge = ConstGauge::new(count);
            gauge.encode(metric.encode_family(&[("code", code)])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn waits_are_counted_by_code_over_all_clusters() {
        let waits = Arc::new(Waits::default());
        waits.set("x", &Key::new("n", "a"), vec!["turn", "turn", "paused"]);
        waits.set("y", &Key::new("n", "b"), vec!["turn"]);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(WaitsCollector(waits.clone())));
        let text = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        assert!(text().contains("herdsman_waits{code=\"turn\"} 3"), "{}", text());
        assert!(text().contains("herdsman_waits{code=\"paused\"} 1"), "{}", text());
        waits.set("x", &Key::new("n", "a"), Vec::new());
        assert!(text().contains("herdsman_waits{code=\"turn\"} 1"), "{}", text());
    }
}
