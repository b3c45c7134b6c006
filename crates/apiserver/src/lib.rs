//! The embedded Kubernetes API server.
//!
//! It knows no kinds of ours: what it serves arrives as data.

pub mod registry;
pub mod server;
pub mod store;
