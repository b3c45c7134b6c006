//! The load that two servers are measured under: the same requests, from the same program, over TLS and HTTP/2, one
//! server after the other in short rounds, so that a noisy machine is as noisy for both.

mod contestant;
mod creates;
mod events;
mod lists;
mod objects;
mod pairs;
mod plan;
mod watches;

pub use pairs::Pair;
pub use plan::{Part, Plan, run};
