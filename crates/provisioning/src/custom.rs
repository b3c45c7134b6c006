//! Machines that register by their own hand: somebody ran a command on a host.

mod command;
mod farewell;
mod labels;
mod missing;
pub mod registration_token;
mod request;

pub use command::{Host, insecure_node_command, node_command, windows_node_command};
pub use farewell::{Facts as FarewellFacts, Farewell, PATIENCE, farewell};
pub use labels::{label_problem, refused_labels};
pub use missing::{Missing, missing};
pub use request::{Existing, Registration, Request, Unreadable, belongs, objects, registration};
