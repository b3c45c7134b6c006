//! The controllers on the embedded server, in simulated time, with providers of both contracts.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod clusters;
mod cost;
mod deployments;
mod health;
mod kubernetes;
mod provider;
mod removal;
mod rest;
mod world;
