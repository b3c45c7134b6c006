//! Node drivers, their machines and their Jobs, on the embedded API server, in simulated time.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod attacks;
mod failures;
mod kinds;
mod life;
mod process;
mod rancher;
mod restart;
mod scripted;
mod third_party;
mod world;
