//! Real programs to test against.
//!
//! A *peer* is somebody else's program or file that Herdsman must get along with: a Kubernetes API server, the CRDs
//! of Cluster API. This crate gets each of them onto the machine once, keeps them in a cache outside of the
//! repository, and runs them. `docs/peers.md` is the guide.
//!
//! ```no_run
//! let kubernetes = peers::Kubernetes::start()?;
//! kubernetes.kubectl().args(["get", "namespaces"]).status()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Everything here blocks: an async test calls it by `spawn_blocking`.

pub mod archive;
pub mod availability;
pub mod cache;
pub mod catalog;
pub mod command;
pub mod debian;
pub mod docker;
pub mod fleet;
pub mod go;
pub mod k3s;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
pub mod machine;
pub mod process;
#[cfg(test)]
mod scratch;

pub use availability::{available, skip};
pub use catalog::{Peer, go_module};
#[cfg(feature = "kubernetes")]
pub use kubernetes::Kubernetes;
