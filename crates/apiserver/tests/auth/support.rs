use std::sync::Arc;

use apiserver::auth::{Auth, SigningKey};
use apiserver::server::{Answer, Notes, Request, Server};
use apiserver::store::{MemoryStore, Options};
use clock::{ManualClock, SeededEntropy};
use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use kubeapi::Status;
use kubeapi::authn::User;
use kubeapi::media::{Endpoint, PatchType, patch_type};
use kubeapi::request::{Query, Target};
use serde_json::{Value, json};

pub(crate) const NOW: &str = "2026-01-02T03:04:05Z";
pub(crate) const KEY: &str = include_str!("../data/sa.key");
pub(crate) const OTHER_KEY: &str = include_str!("../data/other-sa.key");
pub(crate) const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A server with the bootstrap policy and a namespace `default`, and all that decides about its users.
pub(crate) struct World {
    pub(crate) server: Arc<Server>,
    pub(crate) auth: Auth,
    pub(crate) clock: Arc<ManualClock>,
}

impl World {
    pub(crate) async fn new() -> Self {
        World::with(|auth| auth).await
    }

    pub(crate) async fn with(change: impl FnOnce(Auth) -> Auth) -> Self {
        let clock = Arc::new(ManualClock::at(NOW.parse::<Timestamp>().unwrap()));
        let store = Arc::new(MemoryStore::new(Options::default(), clock.clone()));
        let server = Arc::new(Server::new(store, clock.clone(), Box::new(SeededEntropy::new(1))));
        let auth = change(Auth::new(server.clone()).with_key(SigningKey::from_pem(KEY).unwrap()));
        let world = World { server, auth, clock };
        world.ok("POST", "/api/v1/namespaces", json!({"metadata": {"name": "default"}})).await;
        for object in kubeapi::rbac::bootstrap::objects() {
            let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
            world.ok("POST", &format!("{RBAC}/{plural}"), object).await;
        }
        world
    }

    /// The same decisions, to be handed on.
    pub(crate) fn auth_again(&self) -> Auth {
        Auth::new(self.server.clone()).with_key(SigningKey::from_pem(KEY).unwrap())
    }

    /// A whole request of a user: authorised, then answered.
    pub(crate) async fn ask(
        &self,
        user: &User,
        method: &str,
        url: &str,
        body: Value,
    ) -> Result<Answer, Status> {
        let request = request(user, method, url, body);
        self.auth.authorize(user, &Target::Resource(request.target.clone()))?;
        match self.auth.serve(&request).await {
            Some(answer) => answer,
            None => self.server.serve(&request).await,
        }
    }

    /// The body that an administrator is answered.
    pub(crate) async fn ok(&self, method: &str, url: &str, body: Value) -> Value {
        match self.ask(&admin(), method, url, body).await {
            Ok(answer) => answer.body,
            Err(status) => panic!("{method} {url}: {status:?}"),
        }
    }

    /// How an administrator is refused.
    pub(crate) async fn refused(&self, method: &str, url: &str, body: Value) -> Status {
        match self.ask(&admin(), method, url, body).await {
            Ok(answer) => panic!("{method} {url}: {}", answer.body),
            Err(status) => status,
        }
    }

    pub(crate) async fn with_bearer(&self, token: &str) -> Result<User, Status> {
        self.auth.authenticate(&headers(&[("authorization", &format!("Bearer {token}"))]), &[]).await
    }

    /// What a TokenReview says about a token.
    pub(crate) async fn review(&self, token: &str, audiences: &[&str]) -> Value {
        let review = json!({"spec": {"token": token, "audiences": audiences}});
        self.ok("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review).await["status"].clone()
    }
}

pub(crate) fn request(user: &User, method: &str, url: &str, body: Value) -> Request {
    let (method, patch) = match method {
        "merge" => ("PATCH", "application/merge-patch+json"),
        other => (other, ""),
    };
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let query = Query::parse(query);
    let Ok(Target::Resource(target)) = Target::parse(method, path, &query) else { panic!("{method} {url}") };
    let patch = patch_type(patch, Endpoint::Builtin).unwrap_or(PatchType::Merge);
    let body = (!body.is_null()).then_some(body);
    Request {
        target,
        query,
        body,
        patch,
        user: user.clone(),
        user_agent: "tests".into(),
        notes: Notes::default(),
    }
}

pub(crate) fn user(name: &str, groups: &[&str]) -> User {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    User { name: name.into(), groups, ..User::default() }.authenticated()
}

pub(crate) fn admin() -> User {
    user("root", &["system:masters"])
}

pub(crate) fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let parsed = |(name, value): &(&str, &str)| {
        (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
    };
    pairs.iter().map(parsed).collect()
}
