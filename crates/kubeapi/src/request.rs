//! What a request asks for: from method, path and query to verb, resource and options.

mod body;
mod options;
mod query;
mod timeout;

use std::fmt;

pub(crate) use options::wrong_manager;
pub use options::{
    DeleteOptions, FieldValidation, GetOptions, IncludeObject, ListOptions, Match, PatchOptions,
    Preconditions, Propagation, TableOptions, WriteOptions, pretty, printable,
};
pub use query::Query;
pub use timeout::timeout;

use crate::selector::field;
use crate::{GroupResource, GroupVersion, Status, name};

/// What is done to a resource, as authorisation knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read many.
    List,
    /// Follow the changes of many, or (by a deprecated path) of one.
    Watch,
    /// Make an object, or act on a subresource.
    Create,
    /// Replace an object.
    Update,
    /// Change an object.
    Patch,
    /// Delete an object.
    Delete,
    /// Delete many.
    DeleteCollection,
    /// A path of old that no server answers any more.
    Proxy,
    /// A method that means nothing.
    None,
}

impl Verb {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
            Verb::Proxy => "proxy",
            Verb::None => "",
        }
    }

    fn of_method(method: &str) -> Self {
        match method {
            "POST" => Verb::Create,
            "GET" | "HEAD" => Verb::Get,
            "PUT" => Verb::Update,
            "PATCH" => Verb::Patch,
            "DELETE" => Verb::Delete,
            _ => Verb::None,
        }
    }

    fn takes_selectors(self) -> bool {
        matches!(self, Verb::List | Verb::Watch | Verb::DeleteCollection)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A request for a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRequest {
    /// What is asked.
    pub verb: Verb,
    /// Group and version; the group is empty below `/api`.
    pub group_version: GroupVersion,
    /// The namespace in the path; that of a Namespace is its own. Empty if there is none.
    pub namespace: String,
    /// The plural, such as `pods`.
    pub resource: String,
    /// The object's name; empty if the request names none. A list by `metadata.name` names one.
    pub name: String,
    /// Such as `status`; empty for the object itself.
    pub subresource: String,
    /// What follows the subresource in the path.
    pub rest: Vec<String>,
    /// The field selector as given, where the verb takes one.
    pub field_selector: String,
    /// The label selector as given, where the verb takes one.
    pub label_selector: String,
    /// Whether this is one of the deprecated `/watch/` paths.
    pub by_watch_path: bool,
}

impl ResourceRequest {
    /// Group and resource, for messages.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&*self.group_version.group, &*self.resource)
    }
}

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An API resource.
    Resource(ResourceRequest),
    /// Anything else: health, discovery, metrics.
    Path {
        /// The HTTP method in lower case.
        verb: String,
        /// The decoded path.
        path: String,
    },
}

impl Target {
    /// Reads a request's line: its method, and its path and query as they came.
    ///
    /// # Errors
    /// If the path is not properly encoded, or ends where a resource is expected.
    pub fn parse(method: &str, path: &str, query: &Query) -> Result<Self, Status> {
        let path = query::decode(path, false)
            .ok_or_else(|| Status::bad_request(format!("invalid URL escape in {path:?}")))?;
        let parts: Vec<&str> = match path.trim_matches('/') {
            "" => Vec::new(),
            trimmed => trimmed.split('/').collect(),
        };
        let (group_version, parts) = match parts[..] {
            ["api", version, _, ..] => (GroupVersion::new("", version), &parts[2..]),
            ["apis", group, version, _, ..] => (GroupVersion::new(group, version), &parts[3..]),
            _ => return Ok(Target::Path { verb: method.to_lowercase(), path }),
        };
        let (verb, parts, by_path) = match parts {
            ["watch" | "proxy"] => {
                let why = format!("unable to determine kind and namespace from url, {path}");
                return Err(Status::internal(format!("failed to create RequestInfo: {why}")));
            }
            ["watch", rest @ ..] => (Verb::Watch, rest, true),
            ["proxy", rest @ ..] => (Verb::Proxy, rest, true),
            _ => (Verb::of_method(method), parts, false),
        };
        let mut request = located(group_version, verb, parts);
        request.by_watch_path = by_path && verb == Verb::Watch;
        settle_verb(&mut request, query);
        if !by_path && request.verb.takes_selectors() {
            request.field_selector = query.first("fieldSelector").unwrap_or_default().to_owned();
            request.label_selector = query.first("labelSelector").unwrap_or_default().to_owned();
        }
        Ok(Target::Resource(request))
    }
}

/// Namespace, resource, name and subresource of what stands after the version.
fn located(group_version: GroupVersion, verb: Verb, parts: &[&str]) -> ResourceRequest {
    let (namespace, parts) = match parts {
        ["namespaces", namespace, "status" | "finalize", ..] | ["namespaces", namespace] => {
            (*namespace, parts)
        }
        ["namespaces", namespace, rest @ ..] => (*namespace, rest),
        _ => ("", parts),
    };
    let part = |index: usize| parts.get(index).copied().unwrap_or_default().to_owned();
    let subresource = if verb == Verb::Proxy { String::new() } else { part(2) };
    ResourceRequest {
        verb,
        group_version,
        namespace: namespace.to_owned(),
        resource: part(0),
        name: part(1),
        subresource,
        rest: parts.iter().skip(3).map(|rest| (*rest).to_owned()).collect(),
        field_selector: String::new(),
        label_selector: String::new(),
        by_watch_path: false,
    }
}

/// Without a name a get is a list or a watch, and a delete is one of many.
fn settle_verb(request: &mut ResourceRequest, query: &Query) {
    if !request.name.is_empty() {
        return;
    }
    match request.verb {
        Verb::Get => {
            let options = ListOptions::read(query);
            // An option that cannot be read is answered later; here only the watch counts.
            let watch = match &options {
                Ok(options) => options.watch,
                Err(_) => query.flag("watch").unwrap_or(false),
            };
            request.verb = if watch { Verb::Watch } else { Verb::List };
            let selector = options.ok().map(|options| options.field_selector);
            if let Some(named) = selector.as_ref().and_then(|selector| exact_name(selector)) {
                request.name = named.to_owned();
            }
        }
        Verb::Delete => request.verb = Verb::DeleteCollection,
        _ => {}
    }
}

fn exact_name(selector: &field::Selector) -> Option<&str> {
    selector.exact("metadata.name").filter(|named| name::path_segment(named).is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Verb, group, version, namespace, resource, subresource, name.
    type Row = (&'static str, &'static str, [&'static str; 7]);

    const ROWS: &[Row] = &[
        ("GET", "/api/v1/namespaces", ["list", "", "v1", "", "namespaces", "", ""]),
        ("GET", "/api/v1/namespaces/other", ["get", "", "v1", "other", "namespaces", "", "other"]),
        (
            "PUT",
            "/api/v1/namespaces/other/finalize",
            ["update", "", "v1", "other", "namespaces", "finalize", "other"],
        ),
        (
            "PATCH",
            "/api/v1/namespaces/other/status",
            ["patch", "", "v1", "other", "namespaces", "status", "other"],
        ),
        ("GET", "/api/v1/namespaces/other/pods", ["list", "", "v1", "other", "pods", "", ""]),
        ("GET", "/api/v1/namespaces/other/pods/foo", ["get", "", "v1", "other", "pods", "", "foo"]),
        ("HEAD", "/api/v1/namespaces/other/pods/foo", ["get", "", "v1", "other", "pods", "", "foo"]),
        ("GET", "/api/v1/pods", ["list", "", "v1", "", "pods", "", ""]),
        ("HEAD", "/api/v1/pods", ["list", "", "v1", "", "pods", "", ""]),
        ("POST", "/api/v1/pods", ["create", "", "v1", "", "pods", "", ""]),
        ("DELETE", "/api/v1/namespaces/other/pods", ["deletecollection", "", "v1", "other", "pods", "", ""]),
        (
            "DELETE",
            "/apis/a.b/v1/namespaces/other/pods/foo",
            ["delete", "a.b", "v1", "other", "pods", "", "foo"],
        ),
        (
            "PUT",
            "/apis/a.b/v1/namespaces/other/pods/foo/scale",
            ["update", "a.b", "v1", "other", "pods", "scale", "foo"],
        ),
        ("GET", "/apis/a.b/v1/things/x/status", ["get", "a.b", "v1", "", "things", "status", "x"]),
        ("OPTIONS", "/api/v1/pods", ["", "", "v1", "", "pods", "", ""]),
        ("GET", "/api/v1/watch/pods", ["watch", "", "v1", "", "pods", "", ""]),
        ("GET", "/api/v1/watch/namespaces/other/pods/a", ["watch", "", "v1", "other", "pods", "", "a"]),
        ("GET", "/api/v1/proxy/namespaces/other/pods/a/b", ["proxy", "", "v1", "other", "pods", "", "a"]),
        ("GET", "/api/v1/pods?watch=true", ["watch", "", "v1", "", "pods", "", ""]),
        ("GET", "/api/v1/pods?watch=false", ["list", "", "v1", "", "pods", "", ""]),
        ("GET", "/api/v1/pods?watch=0", ["list", "", "v1", "", "pods", "", ""]),
        ("GET", "/api/v1/pods?watch", ["watch", "", "v1", "", "pods", "", ""]),
        ("GET", "/api/v1/pods?watch=1&timeoutSeconds=x", ["watch", "", "v1", "", "pods", "", ""]),
        ("GET", "/api/v1/pods/a?watch=1", ["get", "", "v1", "", "pods", "", "a"]),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Da", ["list", "", "v1", "", "pods", "", "a"]),
        (
            "GET",
            "/api/v1/pods?watch=1&fieldSelector=metadata.name=a,x=y",
            ["watch", "", "v1", "", "pods", "", "a"],
        ),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name!=a", ["list", "", "v1", "", "pods", "", ""]),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name=a/b", ["list", "", "v1", "", "pods", "", ""]),
        (
            "DELETE",
            "/api/v1/pods?fieldSelector=metadata.name=a",
            ["deletecollection", "", "v1", "", "pods", "", ""],
        ),
        ("GET", "/api/v1/pods/a%3Ab/", ["get", "", "v1", "", "pods", "", "a:b"]),
    ];

    fn target(method: &str, url: &str) -> Result<Target, Status> {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        Target::parse(method, path, &Query::parse(query))
    }

    #[test]
    fn resources_are_found_in_the_path() {
        for (method, url, wanted) in ROWS {
            let Ok(Target::Resource(found)) = target(method, url) else { panic!("{method} {url}") };
            let found = [
                found.verb.as_str(),
                &found.group_version.group,
                &found.group_version.version,
                &found.namespace,
                &found.resource,
                &found.subresource,
                &found.name,
            ];
            assert_eq!(found, *wanted, "{method} {url}");
        }
    }

    #[test]
    fn other_paths_are_no_resources() {
        for url in [
            "/",
            "/api",
            "/api/",
            "/api/v1",
            "/apis",
            "/apis/a.b",
            "/apis/a.b/v1",
            "/healthz",
            "/version",
            "/v3/a/b/c",
        ] {
            let wanted = Target::Path { verb: "get".into(), path: url.into() };
            assert_eq!(target("GET", url).unwrap(), wanted, "{url}");
        }
    }

    #[test]
    fn paths_that_stop_short_are_refused() {
        for url in ["/api/v1/watch", "/apis/a.b/v1/proxy"] {
            assert_eq!(target("GET", url).unwrap_err().code, 500, "{url}");
        }
        assert_eq!(target("GET", "/api/v1/%zz/a").unwrap_err().code, 400);
    }

    #[test]
    fn selectors_are_kept_for_verbs_that_take_them() {
        for (method, url, selectors) in [
            ("GET", "/api/v1/pods?fieldSelector=a%3Db&labelSelector=c", ("a=b", "c")),
            ("DELETE", "/api/v1/pods?labelSelector=c", ("", "c")),
            ("GET", "/api/v1/pods?fieldSelector=broken", ("broken", "")),
            ("GET", "/api/v1/pods/x?labelSelector=c", ("", "")),
            ("GET", "/api/v1/watch/pods?labelSelector=c", ("", "")),
        ] {
            let Ok(Target::Resource(found)) = target(method, url) else { panic!("{url}") };
            assert_eq!((found.field_selector.as_str(), found.label_selector.as_str()), selectors, "{url}");
        }
    }
}
