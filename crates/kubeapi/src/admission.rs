//! Admission: who is asked about a write, what they are asked, and what their answers mean.
//!
//! Configurations are taken as they are stored: valid, and with their defaults.

pub mod annotations;
mod conditions;
mod policy;
mod review;
mod rules;

pub use conditions::{Condition, Conditions, Matching};
pub use policy::{Decision, Evaluated, Policy, PolicyInputs};
pub use review::{Answer, Question, ReviewVersion, denied, denied_with, read};
pub use rules::{MatchResources, NamedRule, Place, Rule, is_exempt, is_hidden_from_policies};

pub(crate) use crate::schema::cel::expression::{Names, is_identifier};
pub(crate) use conditions::wrong_condition;
pub(crate) use policy::{Part, names, wrong_part};

/// What is done when somebody who has to be asked cannot answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
pub enum FailurePolicy {
    /// The write goes on without them.
    Ignore,
    /// The write is refused.
    #[default]
    Fail,
}

/// Whether a rule for a resource is also one for the same objects in other versions and groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
pub enum MatchPolicy {
    /// It is not.
    Exact,
    /// It is.
    #[default]
    Equivalent,
}
