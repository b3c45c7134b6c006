//! The request core: what an API server does between a parsed request and the store. No HTTP, no authentication, no
//! authorisation: others wrap it.

mod body;
mod create;
mod definition;
mod delete;
mod failure;
mod fits;
mod kinds;
mod object;
mod patch;
mod read;
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
use serde_json::Value;

pub use watch::{EventType, WatchEvent, Watching};

use crate::registry::{Registry, Resource};
use crate::store::{Scope, Store};

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
    entropy: Mutex<Box<dyn Entropy>>,
    registry: ArcSwap<Registry>,
    /// CRDs are written one at a time: each is accepted with the names of all others in mind.
    definitions: tokio::sync::Mutex<()>,
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
        let one = !self.name().is_empty() && (!self.resource.namespaced || !self.namespace().is_empty());
        match one {
            true => Scope::key(self.key()),
            false => Scope::prefix(self.resource.prefix(self.namespace())),
        }
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
        Server {
            store,
            clock,
            entropy: Mutex::new(entropy),
            registry: ArcSwap::from_pointee(registry),
            definitions: tokio::sync::Mutex::default(),
        }
    }

    /// What is served now.
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.load_full()
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Answers a request for a resource; for watches there is [`Server::watch`].
    ///
    /// A future that is dropped half-way does not take a write back that was already handed to the store.
    ///
    /// # Errors
    /// A Status that says why not, in upstream's words.
    pub async fn serve(&self, request: &Request) -> Result<Answer, Status> {
        let resource = self.resource(&request.target)?;
        let call = Call { request, resource: &resource };
        let sub = !request.target.subresource.is_empty();
        let scale = call.subresource() == "scale";
        let mut answer = match request.target.verb {
            Verb::Get if scale => self.get_scale(call).await,
            Verb::Update if scale => self.update_scale(call).await,
            Verb::Patch if scale => self.patch_scale(call).await,
            Verb::Get => self.get(call).await,
            Verb::List if !sub => self.list(call).await,
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
        answer.warnings.splice(0..0, deprecation(&resource));
        Ok(answer)
    }

    /// The resource that a request is about, if it has the verb and is asked for where it is.
    fn resource(&self, target: &ResourceRequest) -> Result<Arc<Resource>, Status> {
        let registry = self.registry.load();
        let found = registry.get(&target.group_version, &target.resource);
        let resource = found.ok_or_else(Status::no_such_resource)?.clone();
        let in_namespace = !target.namespace.is_empty() && target.resource != "namespaces";
        let names_one = !matches!(target.verb, Verb::List | Verb::Watch | Verb::DeleteCollection);
        let wants_namespace = resource.namespaced && names_one;
        if (in_namespace && !resource.namespaced) || (wants_namespace && !in_namespace) {
            return Err(Status::no_such_resource());
        }
        let verbs = match target.subresource.as_str() {
            "" => &resource.verbs,
            // Other subresources are served where they are understood.
            name @ ("status" | "finalize" | "scale") => match resource.subresource(name) {
                Some(sub) => &sub.verbs,
                None => return Err(Status::no_such_resource()),
            },
            _ => return Err(Status::no_such_resource()),
        };
        match verbs.iter().any(|verb| verb == target.verb.as_str()) && is_stored(&resource) {
            true => Ok(resource),
            false => Err(Status::method_not_allowed()),
        }
    }

    fn with_entropy<T>(&self, draw: impl FnOnce(&mut dyn Entropy) -> T) -> T {
        let mut entropy = self.entropy.lock().unwrap_or_else(PoisonError::into_inner);
        draw(&mut **entropy)
    }
}

/// Reviews are answered by who knows users and policies, not here.
fn is_stored(resource: &Resource) -> bool {
    match &resource.origin {
        crate::registry::Origin::Builtin(one) => one.stored,
        crate::registry::Origin::Custom(_) => true,
    }
}

/// What users of a deprecated version are told.
fn deprecation(resource: &Resource) -> Option<String> {
    let version = &resource.as_custom()?.version;
    let usual = || format!("{} {} is deprecated", resource.group_version(), resource.kind);
    version.deprecated.then(|| version.deprecation_warning.clone().unwrap_or_else(usual))
}
