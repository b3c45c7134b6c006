//! The agent as a library, against the embedded API server in this process, in simulated time. Its machine is a
//! temporary directory and, unless real processes are what is tested, an executor that only remembers.

#![expect(clippy::unwrap_used, reason = "in a test the panic is the message")]

mod binary;
mod crashes;
mod flows;
mod local;
mod network;
mod probes;
mod processes;
mod server;
mod support;
mod tunnel;
mod update;
