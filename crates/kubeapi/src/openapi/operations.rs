//! Paths and operations of a resource, before they are written down in one of the versions of OpenAPI.

use crate::GroupVersionKind;
use crate::media::{APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, PROTOBUF, STRATEGIC_MERGE_PATCH, YAML};

use super::{Resource, Subresource, names};

/// A parameter: its name and its type.
pub(super) type Parameter = (&'static str, &'static str);

pub(super) const GET: &[Parameter] = &[("resourceVersion", "string")];
const LIST: &[Parameter] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const WRITE: &[Parameter] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const PATCH: &[Parameter] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")];
const DELETE: &[Parameter] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];
const DELETE_COLLECTION: &[Parameter] = &[
    ("continue", "string"),
    ("dryRun", "string"),
    ("fieldSelector", "string"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
];

const BUILTIN_STREAMS: &[&str] = &[
    JSON,
    YAML,
    PROTOBUF,
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];

/// One path.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) path: String,
    /// What the path has in braces, the last first.
    pub(super) variables: Vec<&'static str>,
    pub(super) operations: Vec<Operation>,
}

/// One method of a path.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) id: String,
    pub(super) tag: String,
    /// `x-kubernetes-action`
    pub(super) action: &'static str,
    /// `x-kubernetes-group-version-kind`
    pub(super) kind: GroupVersionKind,
    pub(super) parameters: &'static [Parameter],
    pub(super) body: Option<Body>,
    pub(super) consumes: &'static [&'static str],
    pub(super) produces: &'static [&'static str],
    /// HTTP status codes of success.
    pub(super) codes: &'static [u16],
    /// The name of the answer's schema.
    pub(super) answer: String,
}

/// The body of a request.
#[derive(Clone, Debug)]
pub(super) struct Body {
    /// The name of its schema.
    pub(super) schema: String,
    pub(super) required: bool,
}

/// All paths of a resource.
pub(super) fn paths(resource: &Resource<'_>) -> Vec<Path> {
    let root = match resource.group {
        "" => format!("/api/{}", resource.version),
        group => format!("/apis/{group}/{}", resource.version),
    };
    let everywhere = format!("{root}/{}", resource.plural);
    let (collection, in_namespace): (String, &[&str]) = match resource.namespaced {
        true => (format!("{root}/namespaces/{{namespace}}/{}", resource.plural), &["namespace"]),
        false => (everywhere.clone(), &[]),
    };
    let one = [&["name"], in_namespace].concat();
    let whole = Part { resource, sub: None };
    let mut paths = Vec::new();
    if resource.namespaced && resource.verbs.iter().any(|verb| verb == "list") {
        let list = Operation { id: whole.id("list", "", "ForAllNamespaces"), ..whole.list() };
        paths.push(Path { path: everywhere, variables: Vec::new(), operations: vec![list] });
    }
    paths.push(Path {
        path: collection.clone(),
        variables: in_namespace.to_vec(),
        operations: whole.operations(&["list", "create", "deletecollection"]),
    });
    paths.push(Path {
        path: format!("{collection}/{{name}}"),
        variables: one.clone(),
        operations: whole.operations(&["get", "update", "delete", "patch"]),
    });
    paths.extend(resource.subresources.iter().map(|sub| Path {
        path: format!("{collection}/{{name}}/{}", sub.name),
        variables: one.clone(),
        operations: Part { resource, sub: Some(sub) }.operations(&["get", "create", "update", "patch"]),
    }));
    paths.retain(|path| !path.operations.is_empty());
    paths
}

/// A resource, or one of its subresources.
struct Part<'a> {
    resource: &'a Resource<'a>,
    sub: Option<&'a Subresource<'a>>,
}

impl Part<'_> {
    fn operations(&self, verbs: &[&str]) -> Vec<Operation> {
        let has = self.sub.map_or(self.resource.verbs, |sub| sub.verbs);
        let served = verbs.iter().filter(|verb| has.iter().any(|one| one == *verb));
        served.filter_map(|verb| self.operation(verb)).collect()
    }

    fn operation(&self, verb: &str) -> Option<Operation> {
        let custom = self.resource.custom.is_some();
        let object = self.schema();
        let status = || meta("Status");
        let delete_options = Body { schema: meta("DeleteOptions"), required: false };
        let body = |schema: &str| Some(Body { schema: schema.to_owned(), required: true });
        let base = self.plain(&object);
        Some(match verb {
            "list" => self.list(),
            "get" => {
                let parameters = if custom { GET } else { &[] };
                Operation { id: self.named("read"), action: "get", parameters, ..base }
            }
            "create" => Operation {
                method: "post",
                id: self.named("create"),
                action: "post",
                parameters: WRITE,
                body: body(&object),
                codes: &[200, 201, 202],
                ..base
            },
            "update" => Operation {
                method: "put",
                id: self.named("replace"),
                action: "put",
                parameters: WRITE,
                body: body(&object),
                codes: &[200, 201],
                ..base
            },
            "patch" => Operation {
                method: "patch",
                id: self.named("patch"),
                action: "patch",
                parameters: PATCH,
                body: body(&meta("Patch")),
                consumes: match custom {
                    true => &[JSON_PATCH, MERGE_PATCH, APPLY_PATCH],
                    false => &[JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH],
                },
                codes: if custom { &[200] } else { &[200, 201] },
                ..base
            },
            "delete" => Operation {
                method: "delete",
                id: self.named("delete"),
                action: "delete",
                parameters: DELETE,
                body: Some(delete_options),
                codes: &[200, 202],
                answer: status(),
                ..base
            },
            "deletecollection" => Operation {
                method: "delete",
                id: self.id("delete", "Collection", ""),
                action: "deletecollection",
                parameters: if custom { LIST } else { DELETE_COLLECTION },
                body: (!custom).then_some(delete_options),
                answer: status(),
                ..base
            },
            _ => return None,
        })
    }

    fn list(&self) -> Operation {
        let kind = GroupVersionKind { kind: self.resource.list_kind.to_owned(), ..self.resource.object() };
        let base = self.plain(&names::schema(&kind));
        Operation {
            id: self.named("list"),
            action: "list",
            parameters: LIST,
            produces: if self.resource.custom.is_some() { base.produces } else { BUILTIN_STREAMS },
            ..base
        }
    }

    /// What most operations have in common.
    fn plain(&self, answer: &str) -> Operation {
        let custom = self.resource.custom.is_some();
        Operation {
            method: "get",
            id: String::new(),
            tag: names::tag(self.resource.group, self.resource.version),
            action: "",
            kind: self.told_kind(),
            parameters: &[],
            body: None,
            consumes: if custom { &[JSON, YAML] } else { &["*/*"] },
            produces: if custom { &[JSON, YAML] } else { &[JSON, YAML, PROTOBUF] },
            codes: &[200],
            answer: answer.to_owned(),
        }
    }

    /// The name of the objects' schema.
    fn schema(&self) -> String {
        match self.sub {
            Some(sub) => names::schema(sub.kind),
            None => names::schema(&self.resource.object()),
        }
    }

    /// Of custom resources even subresources tell the resource's kind.
    fn told_kind(&self) -> GroupVersionKind {
        match self.sub {
            Some(sub) if self.resource.custom.is_none() => sub.kind.clone(),
            _ => self.resource.object(),
        }
    }

    fn named(&self, verb: &str) -> String {
        self.id(verb, "", "")
    }

    fn id(&self, verb: &str, before: &str, after: &str) -> String {
        let Resource { group, version, kind, namespaced, .. } = self.resource;
        let scope = if *namespaced && after.is_empty() { "Namespaced" } else { "" };
        let sub = self.sub.map_or(String::new(), |sub| capitalised(sub.name));
        names::operation(group, version, verb, &format!("{before}{scope}{kind}{sub}{after}"))
    }
}

fn meta(kind: &str) -> String {
    format!("{}{kind}", names::META)
}

fn capitalised(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(rest).collect()
}
