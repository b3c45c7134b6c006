//! Drivers of servers: the contract of rancher-machine, and drivers of our own.
//!
//! | module | what |
//! |---|---|
//! | [`driver`] | what a driver is: [`Driver`], what it is given, what it gives |
//! | [`drivers`] | all drivers of a process, by name |
//! | [`command`] | rancher-machine's command line, read and written |
//! | [`archive`] | what is known of a server, as a Secret keeps it |
//! | [`record`] | `config.json`: one server as rancher-machine writes it down |
//! | [`docker`] | servers that are containers |
//! | [`ssh`] | servers that are hosts which are there already |
//! | [`plugin`] | drivers that are others' programs: what their flags are |
//! | [`download`] | drivers from elsewhere, checked and kept |
//! | [`mod@run`] | a command line carried out by a driver of our own, with rancher-machine's exit codes |
//!
//! Nothing here talks to Kubernetes: whoever calls has unpacked the state into a directory, and packs it again.

pub mod archive;
pub mod command;
pub mod docker;
pub mod download;
pub mod driver;
pub mod drivers;
pub mod plugin;
pub mod record;
pub mod run;
pub mod ssh;

pub use command::Command;
pub use driver::{Arguments, Driver, Failure, Order, Output, Server, Working};
pub use drivers::Drivers;
pub use provisioning::machine::flags::{Flag, FlagValue, Special};
pub use run::{Task, run};
