//! Simulated machines: an operating system, a distribution and a network that live in the process, and protocols that
//! are real.
//!
//! A [`World`] has machines, made by name as a driver makes them ([`Machines`]). A machine boots with a bootstrap script,
//! registers as the script says, and runs the real agent on a directory of its own. What plans have it run is a simulated
//! K3s or RKE2, whose API server is the embedded one: one for each cluster, reached at the address of each of its servers while
//! etcd has a quorum.
//!
//! | module | what |
//! |---|---|
//! | [`world`](mod@world), `machines`, `faults` | the world from outside |
//! | `network`, `upstream` | wires between hosts, and the way to servers that are real |
//! | `bootstrap`, `register` | the bootstrap script, and what its installer does |
//! | `machine`, `systemd`, `service`, `tunnel_service` | one machine, its units, and the agent and its tunnel among them |
//! | `line` | tunnels, with the real client |
//! | `executor`, `images`, `prober` | what the agent finds on its machine |
//! | `distro` | the distribution: servers, etcd, kubelets, what a cluster does by itself |
//! | [`fleet`] | many machines that register by hand |

mod bootstrap;
mod distro;
mod events;
mod executor;
mod faults;
pub mod fleet;
mod ground;
mod images;
mod line;
mod machine;
mod machines;
mod network;
mod prober;
mod register;
mod service;
mod settings;
mod systemd;
mod tunnel_service;
mod upstream;
pub mod world;

pub use bootstrap::{Error as BootstrapError, Registration};
pub use distro::Downstream;
pub use events::Event;
pub use machine::{MachineName, Os};
pub use machines::{Addresses, CreateOptions, Machines};
pub use network::{Dialled, Internet, Uplink};
pub use settings::{Delays, Settings, Stores};
pub use world::{Error, World};
