//! The controllers of clusters, infrastructure, bootstrap and hosts beside Cluster API's, on the embedded server, in
//! simulated time, with a small stand-in for everything that is not there.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod admission;
mod agents;
mod cluster;
mod custom;
mod kubernetes;
mod native;
mod nodes;
mod provider;
mod providers;
mod tenants;
mod world;
