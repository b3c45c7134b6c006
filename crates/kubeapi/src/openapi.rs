//! OpenAPI documents of what is served: version 3, one for each group and version, and version 2, one for all.
//!
//! Built-in kinds are described by the table of [`crate::builtin::types`], which has structure and no prose; custom ones
//! by their CRD's schema, published as upstream publishes it. Paths are there for clients that look which verbs and
//! parameters a kind has; the long-deprecated `/watch/` paths are left out.

mod builtin;
mod custom;
mod names;
mod operations;
mod protobuf;
mod render;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::GroupVersionKind;
use crate::builtin::types;
use crate::crd::Document;

pub use protobuf::encode_v2;

/// A resource in one version, as far as documents tell of it.
#[derive(Clone, Debug)]
pub struct Resource<'a> {
    /// API group; empty for core.
    pub group: &'a str,
    /// API version.
    pub version: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Kind of its lists.
    pub list_kind: &'a str,
    /// As in paths.
    pub plural: &'a str,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// What can be done to it.
    pub verbs: &'a [String],
    /// Its subresources.
    pub subresources: Vec<Subresource<'a>>,
    /// What its CRD says; `None` if it is built in.
    pub custom: Option<Custom<'a>>,
}

/// A subresource.
#[derive(Clone, Debug)]
pub struct Subresource<'a> {
    /// Such as `status`.
    pub name: &'a str,
    /// The kind of its bodies.
    pub kind: &'a GroupVersionKind,
    /// What can be done to it.
    pub verbs: &'a [String],
}

/// What a CRD says of a version.
#[derive(Clone, Copy, Debug)]
pub struct Custom<'a> {
    /// Its `openAPIV3Schema`, if there is one.
    pub schema: Option<&'a Document>,
    /// JSON paths that field selectors may use.
    pub selectable_fields: &'a [String],
}

/// The version of OpenAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    V2,
    V3,
}

impl Dialect {
    /// A reference to a schema by its name.
    fn reference(self, name: &str) -> Value {
        match self {
            Dialect::V2 => json!({"$ref": format!("#/definitions/{name}")}),
            Dialect::V3 => json!({"$ref": format!("#/components/schemas/{name}")}),
        }
    }

    /// A reference that has something beside it, which version 3 does not allow directly.
    fn annotated(self, name: &str) -> Value {
        match self {
            Dialect::V2 => self.reference(name),
            Dialect::V3 => json!({"allOf": [self.reference(name)]}),
        }
    }
}

/// The document of one group and version, in OpenAPI 3. All resources have to be of it.
pub fn v3(resources: &[Resource<'_>]) -> Value {
    let info = match resources.iter().all(|one| one.custom.is_some()) {
        true => json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}),
        false => json!({"title": "Kubernetes", "version": format!("v{}", types().kubernetes)}),
    };
    let paths: serde_json::Map<String, Value> =
        resources.iter().flat_map(operations::paths).map(|path| render::v3(&path)).collect();
    json!({
        "openapi": "3.0.0",
        "info": info,
        "paths": paths,
        "components": {"schemas": schemas(resources, Dialect::V3)},
    })
}

/// The document of all that is served, in OpenAPI 2.
pub fn v2(resources: &[Resource<'_>]) -> Value {
    let paths: serde_json::Map<String, Value> =
        resources.iter().flat_map(operations::paths).map(|path| render::v2(&path)).collect();
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": format!("v{}", types().kubernetes)},
        "paths": paths,
        "definitions": schemas(resources, Dialect::V2),
        "securityDefinitions": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
        "security": [{"BearerToken": []}],
    })
}

/// The schemas that operations and definitions name, and all that those refer to.
fn schemas(resources: &[Resource<'_>], dialect: Dialect) -> BTreeMap<String, Value> {
    let mut schemas = BTreeMap::new();
    for resource in resources {
        if let Some(custom) = &resource.custom {
            schemas.extend(custom::schemas(resource, custom, dialect));
            for name in ["ListMeta", "ObjectMeta"] {
                builtin::add(&mut schemas, &format!("{}{name}", names::META), dialect);
            }
        }
        for operation in operations::paths(resource).iter().flat_map(|path| &path.operations) {
            let body = operation.body.as_ref().map(|body| &body.schema);
            for name in body.into_iter().chain([&operation.answer]) {
                builtin::add(&mut schemas, name, dialect);
            }
        }
    }
    schemas
}

impl Resource<'_> {
    fn object(&self) -> GroupVersionKind {
        GroupVersionKind {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            kind: self.kind.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
