//! The kinds that are built in: their structure, and how they are served.

mod resources;
mod types;

pub use resources::{NameShape, Resource, Subresource, resource, resources};
pub use types::{Field, ListType, MapType, Node, PatchStrategy, Scalar, Shape, Type, Types, types};
