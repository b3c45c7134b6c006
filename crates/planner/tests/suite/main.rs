//! The planner in a world of its own: machines with real agent logic, a modelled distribution and etcd, the drainer, and
//! what of Cluster API counts. Scenarios are scripts with golden output; the property test is the same world with luck.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod catalogue;
mod computer;
mod corpus;
mod property;
mod rules;
mod scenario;
mod spec;
mod world;
