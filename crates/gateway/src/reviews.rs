//! Who asks for a cluster, and whether they may: the management cluster's own judgement.
//!
//! Whoever has the verb `own` on the management Cluster may do everything through its proxy. That is Rancher's word for it, and the
//! administrator has it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::Kind as _;
use api::management::v3::Cluster;
use clock::{Clock, Monotonic};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::Semaphore;

use crate::book::Book;
use crate::credential::Hash;

/// How long an answer is believed.
const BELIEVED: Duration = Duration::from_secs(10);
/// No more answers are remembered than this.
const MOST: usize = 4_096;

/// How long it is believed that nobody knows a token.
const UNKNOWN_FOR: Duration = Duration::from_secs(5);
/// How many tokens are asked about at a time; further ones wait.
const ASKED_AT_A_TIME: usize = 16;

/// The verb that opens a cluster's proxy.
pub const VERB: &str = "own";

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// They may.
    Allowed,
    /// We know them, and they may not.
    Forbidden,
    /// Nobody knows them.
    Unknown,
}

/// Asks the management cluster, and remembers for a moment.
pub struct Reviews {
    client: Client,
    book: Book,
    clock: Arc<dyn Clock>,
    known: Mutex<BTreeMap<(Hash, String), Monotonic>>,
    /// Tokens that nobody knew, and when.
    unknown: Mutex<BTreeMap<Hash, Monotonic>>,
    asked: Semaphore,
}

impl std::fmt::Debug for Reviews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reviews").finish_non_exhaustive()
    }
}

impl Reviews {
    /// By this client's rights; who is in the book is known without asking.
    pub fn new(client: Client, book: Book, clock: Arc<dyn Clock>) -> Self {
        Reviews {
            client,
            book,
            clock,
            known: Mutex::default(),
            unknown: Mutex::default(),
            asked: Semaphore::new(ASKED_AT_A_TIME),
        }
    }

    /// Whether the holder of a token may use the proxy of a cluster.
    ///
    /// # Errors
    /// If nobody can be asked.
    pub async fn may(&self, token: &str, cluster: &str) -> Result<Finding, kube::Error> {
        let key = (Hash::of(token), cluster.to_owned());
        let now = self.clock.monotonic();
        if self.lock().get(&key).is_some_and(|at| now.since(*at) < BELIEVED) {
            return Ok(Finding::Allowed);
        }
        let Some(subject) = self.who(token).await? else { return Ok(Finding::Unknown) };
        let attributes = ResourceAttributes {
            group: Some(Cluster::GROUP.into()),
            version: Some(Cluster::VERSION.into()),
            resource: Some(Cluster::PLURAL.into()),
            name: Some(cluster.into()),
            verb: Some(VERB.into()),
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec { resource_attributes: Some(attributes), ..subject };
        let found = self.review(spec).await?;
        if found != Finding::Allowed {
            return Ok(found);
        }
        let mut known = self.lock();
        if known.len() >= MOST {
            known.retain(|_, at| now.since(*at) < BELIEVED);
        }
        if known.len() < MOST {
            known.insert(key, now);
        }
        Ok(Finding::Allowed)
    }

    /// Whether the holder of a token may read a path that is no object's.
    ///
    /// # Errors
    /// If nobody can be asked.
    pub async fn may_read(&self, token: &str, path: &str) -> Result<Finding, kube::Error> {
        let Some(subject) = self.who(token).await? else { return Ok(Finding::Unknown) };
        let attributes = NonResourceAttributes { path: Some(path.into()), verb: Some("get".into()) };
        self.review(SubjectAccessReviewSpec { non_resource_attributes: Some(attributes), ..subject }).await
    }

    async fn review(&self, spec: SubjectAccessReviewSpec) -> Result<Finding, kube::Error> {
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer = api.create(&PostParams::default(), &review).await?;
        let allowed = answer.status.is_some_and(|status| status.allowed);
        Ok(if allowed { Finding::Allowed } else { Finding::Forbidden })
    }

    /// Whose token it is.
    async fn who(&self, token: &str) -> Result<Option<SubjectAccessReviewSpec>, kube::Error> {
        if let Ok(Some(user)) = self.book.who(token).await {
            let user = user.authenticated();
            let (name, groups) = (Some(user.name), Some(user.groups));
            return Ok(Some(SubjectAccessReviewSpec {
                user: name,
                groups,
                ..SubjectAccessReviewSpec::default()
            }));
        }
        let hash = Hash::of(token);
        if self.is_unknown(&hash) {
            return Ok(None);
        }
        // Whoever guesses waits for others who guess; nobody is refused for it.
        let _turn = self.asked.acquire().await;
        let spec = TokenReviewSpec { token: token.into(), audiences: None };
        let api: Api<TokenReview> = Api::all(self.client.clone());
        let answer =
            api.create(&PostParams::default(), &TokenReview { spec, ..TokenReview::default() }).await?;
        let status = answer.status.unwrap_or_default();
        let user = status.user.filter(|_| status.authenticated == Some(true));
        if user.is_none() {
            self.note_unknown(hash);
        }
        Ok(user.map(|user| SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            ..SubjectAccessReviewSpec::default()
        }))
    }

    fn is_unknown(&self, hash: &Hash) -> bool {
        let now = self.clock.monotonic();
        let unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        unknown.get(hash).is_some_and(|at| now.since(*at) < UNKNOWN_FOR)
    }

    fn note_unknown(&self, hash: Hash) {
        let now = self.clock.monotonic();
        let mut unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        if unknown.len() >= MOST {
            unknown.retain(|_, at| now.since(*at) < UNKNOWN_FOR);
        }
        if unknown.len() < MOST {
            unknown.insert(hash, now);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<(Hash, String), Monotonic>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
