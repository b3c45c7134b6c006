//! Requests of controllers to their own server.

use std::sync::Arc;

use kubeapi::authn::{AUTHENTICATED, MASTERS, User, service_account_user};
use kubeapi::media::PatchType;
use kubeapi::request::{Query, ResourceRequest, Verb};
use kubeapi::{GroupVersion, Status};
use serde_json::Value;

use crate::registry::Resource;
use crate::server::{Notes, Request, Server};

/// Asks the server, with the name of a controller and the rights of an administrator.
#[derive(Clone)]
pub(super) struct Client {
    server: Arc<Server>,
    user: User,
    /// The program that has this controller upstream.
    program: &'static str,
    /// Nobody outside is asked about what it writes.
    alone: bool,
}

/// What a request is about. What does not apply is empty.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct At<'a> {
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) plural: &'a str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) subresource: &'a str,
}

impl<'a> At<'a> {
    /// An object of the core group.
    pub(super) fn core(plural: &'a str, namespace: &'a str, name: &'a str) -> Self {
        At { version: "v1", plural, namespace, name, ..At::default() }
    }

    /// A Namespace; requests for one are in it.
    pub(super) fn namespace(name: &'a str) -> Self {
        At::core("namespaces", name, name)
    }

    /// An object of a resource.
    pub(super) fn of(resource: &'a Resource, namespace: &'a str, name: &'a str) -> Self {
        let Resource { group, version, plural, .. } = resource;
        At { group, version, plural, namespace, name, subresource: "" }
    }

    /// A subresource of the same object.
    pub(super) fn sub(self, subresource: &'a str) -> Self {
        At { subresource, ..self }
    }
}

impl Client {
    /// For the controller that has this name upstream, in this program.
    pub(super) fn new(server: Arc<Server>, controller: &str, program: &'static str) -> Self {
        let groups = vec![MASTERS.to_owned(), AUTHENTICATED.to_owned()];
        let name = service_account_user("kube-system", controller);
        Client { server, user: User { name, groups, ..User::default() }, program, alone: false }
    }

    /// The same for what has to be done before the server can be used, and with it whatever is asked from outside.
    pub(super) fn alone(self) -> Self {
        Client { alone: true, ..self }
    }

    /// The server, for what needs no request.
    pub(super) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// The object, as it is now.
    pub(super) async fn get(&self, at: At<'_>) -> Result<Value, Status> {
        self.ask(Verb::Get, at, None).await
    }

    /// Makes an object; its name is in it.
    pub(super) async fn create(&self, at: At<'_>, object: Value) -> Result<Value, Status> {
        let name = if at.plural == "namespaces" { at.name } else { "" };
        self.ask(Verb::Create, At { name, ..at }, Some(object)).await
    }

    /// Replaces an object.
    pub(super) async fn update(&self, at: At<'_>, object: Value) -> Result<Value, Status> {
        self.ask(Verb::Update, at, Some(object)).await
    }

    /// Changes an object by a merge patch.
    pub(super) async fn patch(&self, at: At<'_>, change: Value) -> Result<Value, Status> {
        self.ask(Verb::Patch, at, Some(change)).await
    }

    /// Deletes an object.
    pub(super) async fn delete(&self, at: At<'_>, options: Value) -> Result<Value, Status> {
        self.ask(Verb::Delete, at, Some(options)).await
    }

    /// Deletes all objects of a resource in a namespace.
    pub(super) async fn delete_collection(&self, at: At<'_>, options: Value) -> Result<Value, Status> {
        self.ask(Verb::DeleteCollection, at, Some(options)).await
    }

    async fn ask(&self, verb: Verb, at: At<'_>, body: Option<Value>) -> Result<Value, Status> {
        let request = Request {
            target: ResourceRequest {
                verb,
                group_version: GroupVersion::new(at.group, at.version),
                namespace: at.namespace.into(),
                resource: at.plural.into(),
                name: at.name.into(),
                subresource: at.subresource.into(),
                rest: Vec::new(),
                field_selector: String::new(),
                label_selector: String::new(),
                by_watch_path: false,
            },
            query: Query::default(),
            body,
            patch: PatchType::Merge,
            user: self.user.clone(),
            user_agent: self.program.to_owned(),
            notes: Notes::default(),
        };
        // Boxed: the types of futures of controllers are deep enough as it is.
        let answer = match self.alone {
            true => Box::pin(self.server.serve_alone(&request)).await,
            false => Box::pin(self.server.serve(&request)).await,
        };
        answer.map(|answer| answer.body)
    }
}

/// That it is not there any more is what was wanted.
pub(super) fn or_gone<T>(result: Result<T, Status>) -> Result<Option<T>, Status> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(status) if status.code == 404 => Ok(None),
        Err(status) => Err(status),
    }
}

/// Whether a creation was refused because the namespace is going or gone: then there is nothing to create.
pub(super) fn namespace_goes(status: &Status) -> bool {
    let terminating = |details: &kubeapi::status::Details| {
        details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
    };
    status.code == 404 || status.details.as_ref().is_some_and(terminating)
}
