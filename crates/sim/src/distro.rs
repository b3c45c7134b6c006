//! The simulated distribution, K3s and RKE2: what its processes read and refuse, how servers become a cluster, and what a
//! cluster does by itself.
//!
//! | module | what |
//! |---|---|
//! | `version`, `config`, `etcd`, `node` | values: what is installed, what the config says, who has a quorum, what a Node looks like |
//! | `process`, `join`, `server`, `ports` | one process on one machine |
//! | `cluster`, `clusters` | all servers of a cluster, and its API server |
//! | `upkeep`, `deploy`, `pods`, `disruption`, `cluster_agent` | what a cluster does by itself while it serves |

mod cluster;
mod cluster_agent;
mod clusters;
mod config;
mod deploy;
mod disruption;
mod downstream;
mod etcd;
mod files;
mod join;
mod kubelet;
mod node;
mod pods;
mod ports;
mod process;
mod removal;
mod server;
mod upkeep;
mod version;

pub(crate) use cluster::Supervisor;
pub(crate) use clusters::Clusters;
pub use downstream::Downstream;
pub(crate) use process::{Process, Role, run};
pub(crate) use version::{Runtime, Version};
