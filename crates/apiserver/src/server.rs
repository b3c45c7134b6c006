//! The request core: what an API server does between a parsed request and the store. No HTTP, no authentication, no
//! authorisation: others wrap it.

mod admission;
mod apply;
mod body;
mod create;
mod definition;
mod delete;
mod failure;
mod fits;
mod given;
mod gotime;
mod grace;
mod kinds;
mod lines;
mod managed;
mod network;
mod notes;
mod object;
mod parameters;
mod patch;
mod pods;
mod policy;
mod raw;
mod rbac;
mod read;
mod review;
pub(crate) mod revocation;
mod scale;
mod selection;
mod sweep;
mod token;
mod update;
mod validate;
mod watch;

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use clock::{Clock, Entropy};
use kubeapi::Status;
use kubeapi::authn::User;
use kubeapi::media::PatchType;
use kubeapi::request::{Query, ResourceRequest, Verb};
use kubeapi::status::Details;
use serde_json::Value;

pub use admission::{Admission, Attributes, Operation, Verdict};
pub(crate) use admission::{Warnings, reread};
pub(crate) use body::read as read_body;
pub use given::Given;
pub use notes::Notes;
pub use watch::{EventType, Told, WatchEvent, Watching};

use crate::convert::{Conversion, Converter};
use crate::registry::{Registry, Resource};
use crate::store::{Scope, Store};
use crate::webhook::Caller;

/// A request for a resource, authenticated and authorised.
#[derive(Clone, Debug)]
pub struct Request {
    /// What is asked.
    pub target: ResourceRequest,
    /// The parameters of the URL.
    pub query: Query,
    /// The body as JSON, if there is one.
    pub body: Option<Value>,
    /// What kind of patch the body is; for other verbs it is not looked at.
    pub patch: PatchType,
    /// Who asks.
    pub user: User,
    /// What the client's program calls itself, as in the header `User-Agent`; may be empty.
    pub user_agent: String,
    /// What those who are asked about it note for the audit log.
    pub notes: Notes,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status code.
    pub code: u16,
    /// An object, a list or a Status.
    pub body: Value,
    /// For `Warning` headers.
    pub warnings: Vec<String>,
    /// What was asked for: its printer makes Tables.
    pub resource: Arc<Resource>,
}

/// The server's state. Share it behind an `Arc`.
pub struct Server {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    entropy: Arc<Mutex<Box<dyn Entropy>>>,
    conversion: Conversion,
    lines: lines::Lines,
    admission: Vec<Arc<dyn Admission>>,
    registry: ArcSwap<Registry>,
    policy: policy::Current,
    revocations: Arc<revocation::Revocations>,
    hooks: crate::admission::Current,
    /// CRDs are written one at a time: each is accepted with the names of all others in mind.
    definitions: tokio::sync::Mutex<()>,
    /// Services are written one at a time: each gets an address that no other has.
    services: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

/// What a verb works with: the request, its resource, and the place in the store.
#[derive(Clone, Copy)]
struct Call<'a> {
    request: &'a Request,
    resource: &'a Arc<Resource>,
    warnings: &'a Warnings,
    /// Nobody outside is asked.
    alone: bool,
}

impl Call<'_> {
    /// The namespace of the objects; empty for kinds without.
    fn namespace(&self) -> &str {
        if self.resource.namespaced { &self.request.target.namespace } else { "" }
    }

    fn name(&self) -> &str {
        &self.request.target.name
    }

    fn key(&self) -> String {
        self.resource.key(self.namespace(), self.name())
    }

    /// The keys that a list or watch is about: one only, if it asks for one by name.
    fn scope(&self) -> Scope {
        self.resource.scope(self.namespace(), self.name())
    }

    fn subresource(&self) -> &str {
        &self.request.target.subresource
    }

    fn not_found(&self) -> Status {
        Status::not_found(&self.resource.group_resource(), self.name())
    }

    fn answer(&self, code: u16, body: Value, warnings: Vec<String>) -> Answer {
        Answer { code, body, warnings, resource: self.resource.clone() }
    }
}

impl Server {
    /// A server on a store. What the store's CRDs define is served at once.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, entropy: Box<dyn Entropy>) -> Self {
        let registry = Registry::build(&store.view(), &Registry::default());
        let policy = policy::Current::of(&*store);
        let revocations = Arc::default();
        let hooks = crate::admission::Current::of(&*store);
        let entropy = Arc::new(Mutex::new(entropy));
        Server {
            conversion: Conversion::new(store.clone(), entropy.clone()),
            lines: lines::Lines::default(),
            store,
            clock,
            entropy,
            admission: Vec::new(),
            registry: ArcSwap::from_pointee(registry),
            policy,
            revocations,
            hooks,
            definitions: tokio::sync::Mutex::default(),
            services: tokio::sync::Mutex::default(),
        }
    }

    /// The same server, with a converter that takes the place of the webhooks of the kinds that it knows. Of several
    /// that know a kind, the first is asked.
    pub fn with_converter(mut self, converter: Arc<dyn Converter>) -> Self {
        self.conversion.add(converter);
        self
    }

    /// The same server, with one more who has a say in what is written. They are asked in the order they came.
    pub fn with_admission(mut self, admission: Arc<dyn Admission>) -> Self {
        self.admission.push(admission);
        self
    }

    /// What is served now.
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.load_full()
    }

    /// The time.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// What calls webhooks.
    pub fn webhooks(&self) -> &Arc<Caller> {
        self.conversion.caller()
    }

    /// Answers a request for a resource; for watches there is [`Server::watch`].
    ///
    /// A future that is dropped half-way does not take a write back that was already handed to the store.
    ///
    /// # Errors
    /// A Status that says why not, in upstream's words.
    pub async fn serve(&self, request: &Request) -> Result<Answer, Status> {
        self.serve_warning(request, &mut Vec::new()).await
    }

    /// As [`Server::serve`]; `warnings` are those of a request that is refused.
    ///
    /// # Errors
    /// A Status that says why not, in upstream's words.
    pub async fn serve_warning(
        &self,
        request: &Request,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        self.repeat(request, false, warnings).await
    }

    /// As [`Server::serve`], but nobody outside is asked: for what a server cannot start without.
    pub(crate) async fn serve_alone(&self, request: &Request) -> Result<Answer, Status> {
        self.repeat(request, true, &mut Vec::new()).await
    }

    async fn repeat(
        &self,
        request: &Request,
        alone: bool,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        loop {
            let noted = Warnings::default();
            match self.attempt(request, alone, &noted).await {
                // What was to be written was made for a CRD that has changed meanwhile. Who changes it holds the lock
                // until the new one is served.
                Err(status) if failure::is_redefined(&status) => drop(self.definitions.lock().await),
                Err(status) => {
                    warnings.extend(noted.take());
                    return Err(status);
                }
                answer => return answer,
            }
        }
    }

    async fn attempt(&self, request: &Request, alone: bool, warnings: &Warnings) -> Result<Answer, Status> {
        let resource = self.resource(&request.target)?;
        let call = Call { request, resource: &resource, warnings, alone };
        let sub = !request.target.subresource.is_empty();
        let scale = call.subresource() == "scale";
        let mut answer = match request.target.verb {
            Verb::Get if scale => self.get_scale(call).await,
            Verb::Update if scale => self.update_scale(call).await,
            Verb::Patch if scale => self.patch_scale(call).await,
            Verb::Get => self.get(call).await,
            Verb::List if !sub => self.list(call).await,
            Verb::Create if !sub && review::is_review(call) => self.review(call),
            Verb::Create if call.subresource() == "eviction" => self.evict(call).await,
            Verb::Create if call.subresource() == "binding" => self.bind(call).await,
            Verb::Create if !sub => self.create(call).await,
            Verb::Update => self.update(call).await,
            Verb::Patch => self.patch(call).await,
            Verb::Delete if !sub => self.delete(call).await,
            Verb::DeleteCollection if !sub => self.delete_collection(call).await,
            _ => Err(Status::method_not_allowed()),
        }?;
        if matches!(request.target.verb, Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection) {
            self.sweep(&resource).await?;
        }
        answer.warnings.extend(warnings.take());
        answer.warnings.splice(0..0, deprecation(&resource));
        Ok(answer)
    }

    /// The resource that a request is about, if it has the verb and is asked for where it is.
    fn resource(&self, target: &ResourceRequest) -> Result<Arc<Resource>, Status> {
        let registry = self.registry.load();
        let found = registry.get(&target.group_version, &target.resource);
        let resource = found.ok_or_else(Status::no_such_resource)?.clone();
        let in_namespace = !target.namespace.is_empty() && target.resource != "namespaces";
        let wants_namespace = resource.namespaced && !matches!(target.verb, Verb::List | Verb::Watch);
        if (in_namespace && !resource.namespaced) || (wants_namespace && !in_namespace) {
            // The path is there, for other methods.
            let other = !in_namespace && matches!(target.verb, Verb::Create | Verb::DeleteCollection);
            return Err(match other && resource.as_custom().is_none() {
                true => Status::method_not_allowed(),
                false => Status::no_such_resource(),
            });
        }
        let verbs = match target.subresource.as_str() {
            "" => &resource.verbs,
            // Other subresources are served where they are understood.
            name @ ("status" | "finalize" | "scale" | "eviction" | "binding") => {
                match resource.subresource(name) {
                    Some(sub) => &sub.verbs,
                    None => return Err(no_subresource(&resource, target)),
                }
            }
            _ => return Err(no_subresource(&resource, target)),
        };
        match verbs.iter().any(|verb| verb == target.verb.as_str()) && !is_token_review(&resource) {
            true => Ok(resource),
            false => Err(wrong_verb(&resource, target)),
        }
    }

    /// Draws from the source of randomness.
    pub(crate) fn with_entropy<T>(&self, draw: impl FnOnce(&mut dyn Entropy) -> T) -> T {
        let mut entropy = self.entropy.lock().unwrap_or_else(PoisonError::into_inner);
        draw(&mut **entropy)
    }
}

/// These are answered by who knows tokens, not here.
fn is_token_review(resource: &Resource) -> bool {
    (&*resource.group, &*resource.kind) == ("authentication.k8s.io", "TokenReview")
}

/// Of custom resources upstream says that the object is not there.
fn no_subresource(resource: &Resource, target: &ResourceRequest) -> Status {
    match resource.as_custom() {
        Some(_) => Status::not_found(&resource.group_resource(), &target.name),
        None => Status::no_such_resource(),
    }
}

fn wrong_verb(resource: &Resource, target: &ResourceRequest) -> Status {
    let status = Status::method_not_allowed();
    if resource.as_custom().is_none() {
        return status;
    }
    let message = format!(
        "{} is not supported on resources of kind \"{}\"",
        target.verb.as_str(),
        resource.group_resource()
    );
    let details =
        Details { group: resource.group.clone(), kind: resource.plural.clone(), ..Details::default() };
    Status { message, details: Some(details), ..status }
}

/// What users of a deprecated version are told.
fn deprecation(resource: &Resource) -> Option<String> {
    let custom = resource.as_custom()?;
    let usual = || {
        let (group, kind) = (&resource.group, &resource.kind);
        let said = format!("{} {kind} is deprecated", resource.group_version());
        match custom.family.newer_than(&resource.version) {
            Some(newer) => format!("{said}; use {group}/{newer} {kind}"),
            None => said,
        }
    };
    custom.version.deprecated.then(|| custom.version.deprecation_warning.clone().unwrap_or_else(usual))
}
