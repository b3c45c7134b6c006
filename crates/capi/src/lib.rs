//! The Cluster API core controllers.
//!
//! What decides is in modules without IO: [`contract`], [`rollout`], [`priority`], [`template`], [`health`],
//! [`preflight`], [`phase`], [`naming`], [`version`], [`removal`].

pub mod contract;
pub mod health;
pub mod naming;
pub mod phase;
pub mod preflight;
pub mod priority;
pub mod removal;
pub mod rollout;
pub mod template;
pub mod version;
