//! Time and randomness, as values that come from outside.
//!
//! Whatever decides takes a [`Clock`] or an [`Entropy`] instead of asking the operating system, so that a test can
//! move time by hand and a simulation can replay a run from its seed. `clippy.toml` bans the ambient sources
//! everywhere else.

mod entropy;
mod runtime;
mod time;

pub use entropy::{Entropy, SeededEntropy, SystemEntropy};
pub use runtime::RuntimeClock;
pub use time::{Clock, Deadline, ManualClock, Monotonic, SystemClock};
