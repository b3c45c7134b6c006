//! What controllers share and none of them owns.
//!
//! | module | what |
//! |---|---|
//! | [`caches`], [`cache`] | one watch and one cache per kind and process; what a writer expects of them |
//! | [`queue`], [`runner`] | which objects are looked at, when, and by whom |
//! | [`metrics`] | what controllers do, in numbers |
//! | [`mod@write`] | writing only what changed and only what is ours |
//! | [`conditions`] | findings in a status: setting, merging, summing up |
//! | [`drain`], [`evict`] | draining a node: what decides, and what acts |
//! | [`index`] | what objects are found by in caches |
//! | [`owners`], [`events`], [`lease`] | who owns an object, what happened to it, who does the work |
//! | [`lineage`], [`machines`] | which cluster stands behind an id, which Machine behind an account or a plan |
//! | [`access`] | ways to the clusters that are looked after |
//!
//! Everything takes its time from a [`clock::Clock`] and its waits from the tokio runtime, so that it runs in a
//! simulation as it does elsewhere.

pub mod access;
pub mod cache;
pub mod caches;
pub mod conditions;
pub mod drain;
pub mod events;
pub mod evict;
pub mod index;
pub mod lease;
pub mod lineage;
pub mod machines;
pub mod metrics;
pub mod object;
pub mod owners;
pub mod queue;
pub mod runner;
pub mod subject;
mod waiters;
pub mod write;

pub use cache::{Cache, Change, Expectation, Indexer};
pub use caches::Caches;
pub use object::{Key, KindId, Object};
pub use queue::{Ended, Pace, Queue};
pub use runner::{Controller, Turn};
