//! What the suites in `tests/tests` share.

pub mod agents;
pub mod apply;
pub mod client;
pub mod conformance;
pub mod kubeconfig;
pub mod kubectl;
pub mod load;
pub mod plans;
pub mod schema_diff;
pub mod target;
pub mod tunnel;
