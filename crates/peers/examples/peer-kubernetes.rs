//! How much a test pays for a Kubernetes of its own: `cargo xtask bench peer-kubernetes`.

use clock::{Clock as _, SystemClock};
use peers::{Kubernetes, Peer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // What is not cached is built by now, so that it is not measured.
    Peer::Kubernetes.provide()?;
    Peer::Etcd.provide()?;
    let begin = SystemClock.monotonic();
    let kubernetes = Kubernetes::start()?;
    let ready = SystemClock.monotonic();
    let resident: f64 = kubernetes.processes().map(|(_, id)| resident_megabytes(id)).sum();
    let stopping = SystemClock.monotonic();
    kubernetes.stop();
    let stopped = SystemClock.monotonic();
    println!("measured start {} s", ready.since(begin).as_secs_f64());
    println!("measured stop {} s", stopped.since(stopping).as_secs_f64());
    println!("measured memory {resident} MB");
    Ok(())
}

/// Resident memory of a process; not a number if it cannot be read.
fn resident_megabytes(id: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse().unwrap_or(f64::NAN);
    kilobytes / 1024.0
}
