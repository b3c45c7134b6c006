//! What planner and agent share: the plan, the Secret it travels in, and who does what next.
//!
//! No IO, no async, no clock: every decision is a function of what was seen and of the time it is told. The wire is
//! that of Rancher's system-agent and planner, old (without `plan-state`) and new; where we do otherwise on purpose, the
//! module says so: [`agent`], [`orchestrator`], [`probe`], [`periodic`], [`interlock`].
//!
//! | module | what |
//! |---|---|
//! | [`document`] | the plan: typed, unknown fields kept, bytes as Go writes them, checksum |
//! | [`secret`] | the Secret's keys as one value, and only the changed ones back |
//! | [`agent`] | what the agent does next, in both flows |
//! | [`orchestrator`] | delivering a plan, reading how it went |
//! | [`probe`], [`periodic`] | counting and due times |
//! | [`output`], [`position`], [`interlock`] | codecs |
//! | [`authority`] | whom an agent takes for its server |
//! | [`binary`] | which binary an agent runs |
//! | [`validate()`] | what is wrong with a plan, and where |
//! | [`gojson`], [`gotime`], [`gzip`] | Go's encodings |

pub mod agent;
pub mod authority;
pub mod binary;
pub mod document;
pub mod gojson;
pub mod gotime;
pub mod gzip;
pub mod interlock;
pub mod orchestrator;
pub mod output;
pub mod periodic;
pub mod position;
pub mod probe;
pub mod secret;
mod validate;

pub use document::{Checksum, Document, Plan};
pub use secret::PlanSecret;
pub use validate::{Finding, Severity, validate};
