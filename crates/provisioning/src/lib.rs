//! From a `provisioning.cattle.io/v1 Cluster` to everything that stands behind it, decided without IO.
//!
//! No client, no clock, no randomness: whoever calls has gathered what there is, passes the time and new names as
//! values, and does what comes back.
//!
//! | module | what |
//! |---|---|
//! | [`graph`] | the objects that a cluster becomes, and what of them is to be made, changed, deleted |
//! | [`infrastructure`] | the infrastructure cluster of clusters that bring none |
//! | [`management`] | its `management.cattle.io/v3` half: the cluster object, the registration token |
//! | [`status`] | conditions back to the cluster |
//! | [`diagnose`] | what is in the way, with a stable code and a next step |
//! | [`removal`] | what goes, in which order |
//! | [`restore`] | the settings that go back with a snapshot |
//! | [`bootstrap`] | per machine: accounts, plan Secret, bootstrap Secret, hook |
//! | [`custom`] | machines that register by their own hand, and the token they do it with |
//! | [`machine`] | servers of node drivers: schema, Job, failures, removal |
//! | [`admission`] | what is refused, warned of, and filled in at the door |
//! | [`object`], [`wait`] | the values that all of these speak in |

pub mod admission;
pub mod bootstrap;
pub mod custom;
pub mod diagnose;
pub mod graph;
pub mod infrastructure;
pub mod machine;
pub mod management;
pub mod object;
pub mod removal;
pub mod restore;
pub mod status;
pub mod wait;

pub use object::{Id, Object};
pub use wait::{Code, Wait};
