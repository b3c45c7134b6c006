//! Servers of node drivers: from a driver's flags to its kinds, from a machine to a Job that makes or deletes its
//! server, and what is done when that fails.
//!
//! The contract is rancher-machine's command line and state, to the letter. Where we do otherwise than Rancher:
//! - A server that could not be made is tried again in place, each time after a longer pause, with the failed Job and its
//!   logs kept meanwhile; it is not deleted and made anew without end. The setting `delete-machine-on-failure-after` still
//!   deletes the Machine, if it is more than zero.
//! - The condition that announces a Job is written before the Job: a crash in between cannot leave a server that nobody
//!   knows of.
//! - A deletion that fails is tried again, also after a create that failed as long as its driver knows of a server; numbers among a driver's fields reach the command line; the program of a driver
//!   that was deleted is remembered.

pub mod arguments;
mod create;
mod credential;
pub mod flags;
mod job;
mod kinds;
mod node;
pub mod outcome;
mod remove;
pub mod retry;

use api::machine::Machine;
use api::management::v3::NodeDriver;

pub use create::{Create, Facts as CreateFacts, create};
pub use credential::{environment, granted};
pub use job::{Certificates, Installation, Order, Ordered, SET, deletes, order, state};
pub use kinds::{driver, kinds};
pub use node::{Joined, joined};
pub use outcome::{JobState, JobView};
pub use remove::{Facts as RemoveFacts, Remove, remove};
pub use retry::Policy;

use crate::object::Id;

/// A driver's program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Where it is downloaded; empty for drivers that come with rancher-machine.
    pub url: String,
    /// Checksum of the download.
    pub hash: String,
    /// Whether only the machine's status tells of it, because its NodeDriver is gone. Users can write that: such a program is used if
    /// it was downloaded for a NodeDriver once, and never fetched.
    pub remembered: bool,
}

/// The program of a machine's driver: as the driver says, or, once the driver is deleted, as the machine remembers.
/// `offered` is the server's own copy, which wins over a download from elsewhere.
pub fn program(driver: Option<&NodeDriver>, offered: Option<&Program>, machine: &Machine) -> Program {
    match (driver, offered) {
        (Some(driver), _) if driver.spec.url.starts_with("local://") => Program::default(),
        (Some(_), Some(offered)) => offered.clone(),
        (Some(driver), None) => {
            Program { url: driver.spec.url.clone(), hash: driver.spec.checksum.clone(), remembered: false }
        }
        (None, _) => {
            let status = machine.status.clone().unwrap_or_default();
            Program { url: status.driver_url, hash: status.driver_hash, remembered: true }
        }
    }
}

/// Which object a machine is.
pub fn identity(machine: &Machine) -> Id {
    Id {
        api_version: machine.api_version.clone(),
        kind: machine.kind.clone(),
        namespace: machine.metadata.namespace.clone().unwrap_or_default(),
        name: machine.metadata.name.clone().unwrap_or_default(),
    }
}

#[cfg(test)]
#[path = "machine/walk.rs"]
mod walk;

#[cfg(test)]
#[path = "machine/tests.rs"]
mod tests;
