//! From a request to its answer.

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use ::http::header::{ACCEPT, CONTENT_LENGTH, USER_AGENT};
use ::http::request::Parts;
use ::http::{HeaderValue, Method, Response};
use futures_util::FutureExt;
use http_body::Body as _;
use kubeapi::authn::User;
use kubeapi::limits::Limits;
use kubeapi::media::{Endpoint, PatchType};
use kubeapi::request::{ListOptions, Query, ResourceRequest, Target, Verb};
use kubeapi::{FieldError, GroupKind, Path, Status, builtin, meta};
use serde_json::{Value, json};

use super::incoming::{Content, Expected, Incoming};
use super::metrics::{self, Labels};
use super::negotiated::{self, Wanted};
use super::quota::Callers;
use super::response::{self, AUDIT_ID, header};
use super::stream::Watcher;
use super::{Api, Body, Certificates, audit, fairness, incoming, version};
use crate::Document;
use crate::audit::Record;
use crate::registry::{Origin, Registry, Resource};
use crate::server::{Answer, Notes, Request};

/// The most bytes of a URL: long selectors have room.
const URL: usize = 32 * 1024;

/// A list takes one more seat for so many objects, as upstream counts them, up to some.
const OBJECTS_PER_SEAT: usize = 100;
const WIDEST: usize = 9;

/// A body takes one more seat for so many bytes: about as much work as that list.
const BYTES_PER_SEAT: usize = 256 * 1024;

/// What who waited too long is told.
const TOO_LATE: &str = "request did not complete within requested timeout - context deadline exceeded";

/// Where there is something beside resources.
const PATHS: [&str; 13] = [
    "/.well-known/openid-configuration",
    "/api",
    "/apis",
    "/healthz",
    "/livez",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/openid/v1/jwks",
    "/readyz",
    "/readyz/ping",
    "/readyz/store",
    "/version",
];

/// Who asks.
struct Caller {
    user: User,
    /// Who it was before acting as somebody else.
    authenticated: String,
    /// A client in this process: it does not wait, and is not counted.
    inside: bool,
}

/// Health is asked for most urgently when it is bad.
fn is_health(target: &Target) -> bool {
    let ends = |path: &str, start: &str| path == start || path.starts_with(&format!("{start}/"));
    match target {
        Target::Path { path, .. } => ["/healthz", "/livez", "/readyz"].iter().any(|start| ends(path, start)),
        Target::Resource(_) => false,
    }
}

/// What is said of a request that made the server panic, in upstream's words.
fn panicked(parts: &Parts, panic: &(dyn Any + Send)) -> Status {
    let text = panic.downcast_ref::<&str>().copied();
    let why = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or_default();
    let (method, path) = (&parts.method, parts.uri.path());
    tracing::error!(%method, path, why, "a request made the server panic");
    let message = "This request caused apiserver to panic. Look in the logs for details.".to_owned();
    Status { message, ..Status::internal("") }
}

/// The answer to a request that failed, with warnings.
fn failed(parts: &Parts, query: &Query, status: &Status, warnings: &[String]) -> Response<Body> {
    if status.code >= 500 {
        let (method, path) = (&parts.method, parts.uri.path());
        tracing::warn!(%method, path, code = status.code, %status, "a request failed");
    }
    audit::of(parts).inspect(|record| record.failed(status));
    let mut response = negotiated::failure(parts, query, status);
    response::warn(&mut response, warnings);
    response
}

/// A request before anybody has decided about it.
pub(super) struct Asked {
    pub(super) user: Result<User, Status>,
    pub(super) target: Result<Target, Status>,
}

/// Whose objects a resource has.
pub(super) fn endpoint(resource: &Resource) -> Endpoint {
    match resource.origin {
        Origin::Builtin(_) => Endpoint::Builtin,
        Origin::Custom(_) => Endpoint::Custom,
    }
}

impl Api {
    /// Answers a request. The body is read only if who asks may ask.
    pub(super) async fn exchange(&self, mut parts: Parts, body: Incoming) -> Response<Body> {
        let (clock, metrics) = (self.0.server.clock(), &self.0.metrics);
        let (started, _counted) = (clock.monotonic(), metrics.enter());
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let mut labels = Labels::default();
        let (audit_id, asked) = (self.audit_id(&parts), self.asked(&parts, &query).await);
        let ending = self.audited(&mut parts, &audit_id, &asked);
        // Who panics, a hook perhaps, harms nobody else: nothing here is left half done that others would see.
        let answered =
            AssertUnwindSafe(self.attempt(&parts, body, &query, asked, &mut labels)).catch_unwind().await;
        let answer = answered.unwrap_or_else(|panic| {
            audit::of(&parts).inspect(|record| record.panicked());
            Err(panicked(&parts, &*panic))
        });
        let mut response = answer.unwrap_or_else(|status| failed(&parts, &query, &status, &[]));
        response::finish(&mut response, &audit_id);
        let response = audit::finish(response, &parts, ending);
        labels.code = response.status().as_u16().into();
        metrics.answered(&labels, clock.monotonic().since(started));
        response
    }

    /// What a request counts as.
    fn labels(&self, target: &Target) -> Labels {
        let Target::Resource(target) = target else {
            return Labels { verb: "path".into(), ..Labels::default() };
        };
        let registry = self.0.server.registry();
        let known = registry.get(&target.group_version, &target.resource);
        let resource = known.map(|resource| resource.group_resource().to_string()).unwrap_or_default();
        Labels { verb: target.verb.as_str().into(), resource, code: 0 }
    }

    /// The answer to a request, once it is its turn.
    async fn attempt(
        &self,
        parts: &Parts,
        body: Incoming,
        query: &Query,
        asked: Asked,
        labels: &mut Labels,
    ) -> Result<Response<Body>, Status> {
        if parts.uri.path_and_query().is_some_and(|text| text.as_str().len() > URL) {
            return Err(Status { code: 414, ..Status::too_large(format!("limit of the URL is {URL}")) });
        }
        let inside = parts.extensions.get::<User>().is_some();
        let (authenticated, target) = (asked.user?, asked.target?);
        if !is_health(&target) {
            self.connected(parts, &authenticated)?;
        }
        let user = self.0.auth.impersonate(authenticated.clone(), &parts.headers)?;
        let mut seat = match inside || is_health(&target) {
            true => None,
            false => Some(self.0.gate.enter(&user, self.width(parts, &target, query)).await?),
        };
        self.permitted(parts, &authenticated, &user, &target)?;
        *labels = self.labels(&target);
        let answer = self.answer(
            parts,
            body,
            query.clone(),
            Caller { user, authenticated: authenticated.name, inside },
            target,
        );
        let answer = fairness::at_cost(&mut seat, answer).await;
        if let Some(seat) = &mut seat {
            let sent = header(&parts.headers, CONTENT_LENGTH).parse().unwrap_or(0_u64);
            let answered = answer.as_ref().map_or(0, |answer| answer.body().size_hint().lower());
            seat.moved(sent.min(Limits::REQUEST.bytes as u64) + answered);
        }
        answer
    }

    /// Counts the connection of a request for who asks.
    ///
    /// # Errors
    /// 429 if they have too many of them.
    fn connected(&self, parts: &Parts, user: &User) -> Result<(), Status> {
        match parts.extensions.get::<Callers>() {
            Some(callers) if !callers.admit(&user.name, &self.0.connections) => {
                let message = format!("User {:?} has too many connections, please close some.", user.name);
                Err(Status { message, ..fairness::too_many() })
            }
            _ => Ok(()),
        }
    }

    /// How many seats a request takes: one, and more for a list of many objects or a large body.
    fn width(&self, parts: &Parts, target: &Target, query: &Query) -> usize {
        let Target::Resource(target) = target else { return 1 };
        match target.verb {
            Verb::List | Verb::DeleteCollection => 1 + self.listed(target, query) / OBJECTS_PER_SEAT,
            Verb::Create | Verb::Update | Verb::Patch => {
                // One that does not say how large it is may be of any size.
                let length = header(&parts.headers, CONTENT_LENGTH).parse().unwrap_or(usize::MAX);
                1 + (length / BYTES_PER_SEAT).min(WIDEST)
            }
            _ => 1,
        }
    }

    /// About how many objects a list looks at.
    fn listed(&self, target: &ResourceRequest, query: &Query) -> usize {
        let registry = self.0.server.registry();
        let Some(resource) = registry.get(&target.group_version, &target.resource) else { return 0 };
        let limit = query.first("limit").and_then(|limit| limit.parse::<usize>().ok());
        let limit = limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        // An agent lists one object by its name.
        let scope = resource.scope(&target.namespace, &target.name);
        let most = limit.min(OBJECTS_PER_SEAT * WIDEST);
        self.0.server.store().view().scan(&scope).take(most).count()
    }

    /// Who asks for what.
    async fn asked(&self, parts: &Parts, query: &Query) -> Asked {
        let target = Target::parse(parts.method.as_str(), parts.uri.path(), query);
        let user = match parts.extensions.get::<User>() {
            Some(user) => Ok(user.clone()),
            None => {
                let certificates = parts.extensions.get::<Certificates>().cloned().unwrap_or_default();
                self.0.auth.authenticate(&parts.headers, &certificates.0).await
            }
        };
        Asked { user, target }
    }

    /// Whether they may.
    fn permitted(
        &self,
        parts: &Parts,
        authenticated: &User,
        user: &User,
        target: &Target,
    ) -> Result<(), Status> {
        let (reason, permitted) = self.0.auth.permission(user, target);
        if let Some(record) = audit::of(parts) {
            record.acts_as((user != authenticated).then_some(user));
            record.authorized(permitted.is_ok(), &reason);
        }
        permitted
    }

    async fn answer(
        &self,
        parts: &Parts,
        body: Incoming,
        query: Query,
        caller: Caller,
        target: Target,
    ) -> Result<Response<Body>, Status> {
        match target {
            Target::Path { path, .. } => self.path(parts, &query, &path).await,
            Target::Resource(target) => self.resource(parts, body, query, caller, target).await,
        }
    }

    /// Everything that is no resource.
    async fn path(&self, parts: &Parts, query: &Query, path: &str) -> Result<Response<Body>, Status> {
        if let Some(health) = self.health(path, query).await {
            return Ok(health);
        }
        if path == "/metrics" {
            let dropped = self.0.audit.as_ref().map_or(0, |audit| audit.dropped());
            let text = self.0.metrics.render(&self.0.server.store().view(), dropped);
            let media_type = metrics::media_type(header(&parts.headers, ACCEPT));
            return Ok(response::with_body(200, media_type, Body::full(text)));
        }
        let document = match path.trim_end_matches('/') {
            "" => Some(negotiated::indented(&paths(&self.0.server.registry())).map(json_document)),
            "/version" => Some(negotiated::indented(&version::info()).map(json_document)),
            _ => self.document(path, query, header(&parts.headers, ACCEPT)),
        };
        match document {
            None => Ok(response::nowhere()),
            Some(_) if parts.method != Method::GET => Err(Status::method_not_allowed()),
            Some(document) => Ok(response::document(document?, &parts.headers)),
        }
    }

    fn document(&self, path: &str, query: &Query, accept: &str) -> Option<Result<Document, Status>> {
        let registry = self.0.server.registry();
        crate::discovery::answer(&registry, path, accept)
            .or_else(|| self.0.auth.answer(path).map(Ok))
            .or_else(|| self.0.openapi.answer(&registry, path, query, accept))
    }

    async fn resource(
        &self,
        parts: &Parts,
        body: Incoming,
        query: Query,
        caller: Caller,
        target: ResourceRequest,
    ) -> Result<Response<Body>, Status> {
        let registry = self.0.server.registry();
        let Some(resource) = registry.get(&target.group_version, &target.resource) else {
            return no_resource(&target);
        };
        routed(&parts.method, &target, resource)?;
        if target.verb == Verb::Watch {
            return self.watch(parts, resource, query, caller, target);
        }
        let timeout = kubeapi::request::timeout(&query)?;
        let wanted = Wanted::of_answer(parts, &query, endpoint(resource), target.verb)?;
        let expected = Expected {
            verb: target.verb,
            resource,
            subresource: &target.subresource,
            strict: query.first("fieldValidation") != Some("Ignore"),
            patience: self.0.settings.body,
        };
        let content = incoming::read(body, &parts.headers, expected).await?;
        audit::sent(parts, &target, content.value.as_ref());
        if !content.repeated.is_empty() && query.first("fieldValidation") == Some("Strict") {
            return Err(refused(resource, target.verb, &content));
        }
        let repeated = content.repeated;
        let (body, patch) = (content.value, content.patch);
        let user_agent = header(&parts.headers, USER_AGENT).to_owned();
        let user = caller.user;
        let notes = audit::of(parts).map(Record::notes).unwrap_or_default();
        let request = Request { target, query, body, patch, user, user_agent, notes };
        let served = async {
            // What is shown to the audit log has to be looked into.
            if wanted.is_plain_json() && !audit::of(parts).is_some_and(Record::shows_answer) {
                let given = Box::pin(self.0.server.give(&request)).await?;
                if let Some(given) = given {
                    return Ok(wanted.given(given));
                }
            }
            let mut warnings = Vec::new();
            let mut answer = match self.serve(&request, &mut warnings).await {
                Err(status) if !warnings.is_empty() => {
                    return Ok(failed(parts, &request.query, &status, &warnings));
                }
                answer => answer?,
            };
            audit::of(parts).inspect(|record| record.answered(&answer.body));
            answer.warnings.splice(0..0, repeated);
            wanted.answer(answer, self.0.server.clock().now())
        };
        tokio::time::timeout(timeout, served).await.map_err(|_| Status::timeout(TOO_LATE, 0))?
    }

    /// The answer to a request; `warnings` are those of one that is refused.
    async fn serve(&self, request: &Request, warnings: &mut Vec<String>) -> Result<Answer, Status> {
        match self.0.auth.serve(request).await {
            Some(answer) => answer,
            // Boxed: it is large, and moved about.
            None => Box::pin(self.0.server.serve_warning(request, warnings)).await,
        }
    }

    fn watch(
        &self,
        parts: &Parts,
        resource: &Resource,
        query: Query,
        Caller { user, authenticated, inside }: Caller,
        target: ResourceRequest,
    ) -> Result<Response<Body>, Status> {
        let wanted = Wanted::of_watch(parts, &query, endpoint(resource))?;
        // The deprecated paths need no parameter; what reads the parameters does.
        let query = match target.by_watch_path {
            true => Query::parse(&format!("watch=true&{}", parts.uri.query().unwrap_or_default())),
            false => query,
        };
        let options = ListOptions::parse(&query)?;
        let standing = match inside {
            true => None,
            false => Some(Arc::new(self.0.auth.standing(parts, &authenticated, &user.name, &target))),
        };
        let held = match inside {
            true => None,
            false => Some(self.0.watches.take(&user.name).ok_or_else(fairness::too_many)?),
        };
        let patch = PatchType::Merge;
        let (user_agent, notes) = (String::new(), Notes::default());
        let request = Request { target, query, body: None, patch, user, user_agent, notes };
        let server = self.0.server.clone();
        let mut watching = server.watch(&request)?;
        if wanted.is_plain_json() {
            watching = watching.as_lines();
        }
        let (closing, _counted) = (self.0.closing.subscribe(), self.0.metrics.watch());
        let events = self.0.metrics.watch_events();
        let watcher = Watcher { server, watching, wanted, closing, standing, events, _counted };
        let content_type = wanted.format().watch_content_type();
        let mut response =
            response::with_body(200, content_type, Body::stream(watcher.stream(&options, held)));
        response::last(&mut response, self.0.server.clock().now());
        Ok(response)
    }

    /// The number of a request: the client's, or a new one.
    fn audit_id(&self, parts: &Parts) -> HeaderValue {
        let fresh = || self.0.server.with_entropy(meta::new_uid);
        parts.headers.get(AUDIT_ID).cloned().unwrap_or_else(|| {
            HeaderValue::try_from(fresh()).unwrap_or_else(|_| HeaderValue::from_static("-"))
        })
    }
}

/// What is said of a resource that is not served: groups that are built in answer for themselves, others are not there.
fn no_resource(target: &ResourceRequest) -> Result<Response<Body>, Status> {
    match builtin::resources().iter().any(|one| one.group == target.group_version.group) {
        true => Err(Status::no_such_resource()),
        false => Ok(response::nowhere()),
    }
}

/// Whether a path has a method at all, before anything is read.
///
/// # Errors
/// 404 or 405, as upstream's routes answer.
fn routed(method: &Method, target: &ResourceRequest, resource: &Resource) -> Result<(), Status> {
    let (named, sub) = (!target.name.is_empty(), target.subresource.as_str());
    let verbs = match sub {
        "" => &resource.verbs,
        sub => &resource.subresource(sub).ok_or_else(Status::no_such_resource)?.verbs,
    };
    if !target.rest.is_empty() {
        return Err(Status::no_such_resource());
    }
    let misplaced = match target.verb {
        Verb::Create if sub.is_empty() => named || (resource.namespaced && target.namespace.is_empty()),
        Verb::DeleteCollection => resource.namespaced && target.namespace.is_empty(),
        Verb::Update | Verb::Patch | Verb::Delete => !named,
        _ => false,
    };
    // A HEAD counts as a get for who may do it, but nothing answers it.
    let known = method != Method::HEAD && verbs.iter().any(|verb| verb == target.verb.as_str());
    if known && !misplaced { Ok(()) } else { Err(Status::method_not_allowed()) }
}

/// What is said of an object with fields that it has twice.
fn refused(resource: &Resource, verb: Verb, content: &Content) -> Status {
    if verb == Verb::Patch && content.patch == PatchType::Apply {
        let lines = content.repeated.join("\n  ");
        let why = format!("error converting YAML to JSON: yaml: unmarshal errors:\n  {lines}");
        return Status::bad_request(format!("error strict decoding YAML: {why}"));
    }
    let why = format!("strict decoding error: {}", content.repeated.join(", "));
    if verb == Verb::Patch {
        let shown = content.value.as_ref().map(Value::to_string).unwrap_or_default();
        let error = FieldError::invalid(&Path::new("patch"), shown, why);
        return Status::invalid(&GroupKind::default(), "", &[error]);
    }
    let (kind, version) = (&resource.kind, &resource.version);
    Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
}

fn json_document(body: Vec<u8>) -> Document {
    Document { content_type: kubeapi::media::JSON.into(), body: body.into(), ..Document::default() }
}

/// What the root lists: where there is something to find.
fn paths(registry: &Registry) -> Value {
    let mut paths: BTreeSet<String> = PATHS.iter().map(|path| (*path).to_owned()).collect();
    for resource in registry.iter() {
        let version = resource.group_version();
        match version.group.is_empty() {
            true => paths.insert(format!("/api/{version}")),
            false => {
                paths.insert(format!("/apis/{}", version.group));
                paths.insert(format!("/apis/{version}"))
            }
        };
    }
    json!({"paths": paths})
}
