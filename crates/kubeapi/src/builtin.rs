//! The kinds that are built in: their structure, and how they are served.

pub mod defaults;
pub mod eviction;
mod normal;
pub mod prepare;
mod resources;
pub mod service;
mod types;
pub mod validation;

pub use normal::normalize;
pub use resources::{NameShape, Resource, Subresource, resource, resources};
pub use types::{Field, ListType, MapType, Node, PatchStrategy, Scalar, Shape, Type, Types, empty, types};
