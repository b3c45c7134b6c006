//! The gateway in front of an embedded API server, over pipes, in simulated time.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod attacks;
mod cluster;
mod node_attacks;
mod nodes;
mod passing;
mod registration;
mod serving;
mod tunnels;
mod world;
