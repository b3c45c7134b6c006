//! Simulated machines with plans of the real planner, on an embedded management server: one thread, simulated time.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod chaos;
mod control_plane;
mod faults;
mod lifecycle;
mod management;
mod registration;
mod replay;
mod restart;
mod through_tunnel;
mod workers;

use std::future::Future;

/// Runs a story on a runtime of its own, where time is simulated.
fn story<F: Future<Output = ()>>(story: impl FnOnce() -> F) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap().block_on(story());
}
