//! A day in the life of a server and controllers on it, on one thread, in simulated time, from a seed.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod cuts;
mod day;
#[cfg(target_os = "linux")]
mod footprint;
mod world;

use std::time::Duration;

use day::Outcome;

/// Runs a simulated span of time on a runtime of its own.
fn simulate(seed: u64, span: Duration) -> Outcome {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(day::run(seed, span))
}

/// 24 hours with writes, cut connections and compactions: the controller's view is the server's in the end, and it
/// has done for each parent what was to be done, once.
#[test]
fn a_controller_lives_through_a_day() {
    let outcome = simulate(1, Duration::from_secs(24 * 3600));
    assert!(outcome.writes > 1000, "{outcome:?}");
    assert!(outcome.cuts > 50 && outcome.compactions > 10, "{outcome:?}");
    assert_eq!(outcome.mistakes, Vec::<String>::new());
}

#[test]
fn the_same_seed_gives_the_same_log() {
    let hour = Duration::from_secs(3600);
    for seed in 2..5 {
        let (first, second) = (simulate(seed, hour), simulate(seed, hour));
        assert_eq!(first.log, second.log, "seed {seed}");
        assert_eq!(first.revision, second.revision);
    }
    assert_ne!(simulate(2, hour).log, simulate(3, hour).log);
}
