//! Node drivers, their machines and their Jobs, on the embedded API server, in simulated time.

mod failures;
mod kinds;
mod life;
mod restart;
mod scripted;
mod world;
