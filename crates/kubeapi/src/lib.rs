//! Kubernetes API semantics as a library: what an API server does with an object between reading it and storing it.
//!
//! No IO, no async, no clock, and none of our kinds: CRDs arrive as data. Objects are [`serde_json::Value`]s.

pub mod admission;
pub mod apply;
pub mod audit;
pub mod authn;
pub mod builtin;
pub mod crd;
pub mod field;
pub mod gotype;
pub mod gvk;
pub mod jsonpath;
pub mod limits;
pub mod media;
pub mod meta;
pub mod name;
pub mod openapi;
pub mod patch;
pub mod proto;
pub mod quantity;
pub mod rbac;
pub mod request;
pub mod schema;
pub mod selector;
pub mod status;
pub mod table;

pub use field::{FieldError, Path};
pub use gvk::{
    GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource, compare_versions,
};
pub use status::Status;
