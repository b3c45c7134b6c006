//! How much a test pays for a Kubernetes of its own.

use clock::{Clock, SystemClock};
use peers::{Kubernetes, Peer};

use super::Effort;
use super::figure::{Bar, Figure};

pub(crate) fn run(_: Effort) -> anyhow::Result<Vec<Figure>> {
    // What is not cached is built by now, so that it is not measured.
    Peer::Kubernetes.provide()?;
    Peer::Etcd.provide()?;
    let begin = SystemClock.monotonic();
    let kubernetes = Kubernetes::start()?;
    let ready = SystemClock.monotonic();
    let resident = kubernetes.processes().map(|(_, id)| resident_megabytes(id)).sum();
    let stopping = SystemClock.monotonic();
    kubernetes.stop();
    let stopped = SystemClock.monotonic();
    Ok(vec![
        seconds("peer_kubernetes_start", ready.since(begin), 15.0),
        seconds("peer_kubernetes_stop", stopped.since(stopping), 6.0),
        Figure {
            name: "peer_kubernetes_memory".into(),
            value: resident,
            unit: "MB",
            bar: Bar::AtMost(800.0),
        },
    ])
}

fn seconds(name: &'static str, time: std::time::Duration, most: f64) -> Figure {
    Figure { name: name.into(), value: time.as_secs_f64(), unit: "s", bar: Bar::AtMost(most) }
}

/// Resident memory of a process; not a number if it cannot be read.
fn resident_megabytes(id: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse().unwrap_or(f64::NAN);
    kilobytes / 1024.0
}
