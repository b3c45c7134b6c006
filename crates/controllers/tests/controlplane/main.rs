//! The control plane controller beside Cluster API's, on two embedded servers, with machines whose agents are real and
//! whose distribution is a small model, on one thread and in simulated time.

mod commands;
mod computer;
mod faults;
mod stories;
mod world;
