//! The gateway in front of an embedded API server, over pipes, in simulated time.

mod cluster;
mod nodes;
mod passing;
mod registration;
mod serving;
mod tunnels;
mod world;
