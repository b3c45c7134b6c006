//! CustomResourceDefinitions as an API server handles them: defaults, validation, names, and what they define.
//!
//! CRDs are JSON of `apiextensions.k8s.io/v1`. Nothing here looks at a store: other CRDs come in as arguments.

mod definition;
mod names;
mod prepare;
mod validate;
mod version;

pub use definition::{Column, Definition, Document, Scale, Version};
pub use names::{Acceptance, Condition, Names, accept_names};
pub use prepare::{default, prepare_create, prepare_update};
pub use validate::{validate, validate_update};
