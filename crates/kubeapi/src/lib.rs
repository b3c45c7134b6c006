//! Kubernetes API semantics as a library: what an API server does with an object between reading it and storing it.
//!
//! No IO, no async, no clock, and none of our kinds: CRDs arrive as data. Objects are [`serde_json::Value`]s.

pub mod authn;
pub mod field;
pub mod gvk;
pub mod proto;
pub mod rbac;
pub mod status;

pub use field::{FieldError, Path};
pub use gvk::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource};
pub use status::Status;
