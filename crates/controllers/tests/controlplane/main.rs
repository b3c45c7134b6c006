//! The control plane controller beside Cluster API's, on two embedded servers, with machines whose agents are real and
//! whose distribution is a small model, on one thread and in simulated time.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod commands;
mod computer;
mod faults;
mod nodes;
mod stories;
mod world;
