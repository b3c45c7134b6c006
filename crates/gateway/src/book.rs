//! Tokens that are known: looked up by their hash, in what the process knows of the management cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use api::management::v3::ClusterRegistrationToken;
use api::names;
use apiserver::auth::Tokens;
use clock::Clock;
use jiff::Timestamp;
use kit::{Cache, Caches, Change, Key, KindId, Object};
use kubeapi::authn::{SERVICE_ACCOUNTS, User};
use provisioning::bootstrap::token::Lifetimes;
use provisioning::custom::registration_token;
use tokio::sync::Notify;

use crate::credential::{self, AgentToken, Beside, Credential, Hash};
use crate::lineage::Lineage;

/// What tokens of agents begin with, so that people and scanners know one when they see it.
pub const PREFIX: &str = "hat_";

/// How long who comes just after the start waits until tokens are known.
const PATIENCE: Duration = Duration::from_secs(20);

/// The kind of Secrets.
pub fn secrets() -> KindId {
    KindId::new("", "v1", "Secret", "secrets")
}

/// The kind of ServiceAccounts.
pub fn accounts() -> KindId {
    KindId::new("", "v1", "ServiceAccount", "serviceaccounts")
}

/// All tokens. Clones are the same book.
///
/// It may be made before there is anything to follow: an embedded API server takes it as its [`Tokens`], and is itself what the
/// book follows.
#[derive(Clone)]
pub struct Book(Arc<Inner>);

struct Inner {
    clock: Arc<dyn Clock>,
    lifetimes: Lifetimes,
    /// Tokens that were given from outside.
    given: BTreeMap<Hash, User>,
    followed: OnceLock<Followed>,
    followed_now: Notify,
    index: RwLock<BTreeSet<(Hash, Key)>>,
    /// Tokens of agents that were used for the first time, to be noted down.
    first_used: Mutex<BTreeMap<Key, AgentToken>>,
    noted: Notify,
}

#[derive(Clone)]
struct Followed {
    secrets: Arc<Cache>,
    accounts: Arc<Cache>,
    tokens: Arc<Cache>,
    lineage: Lineage,
}

impl Followed {
    fn all(&self) -> [&Arc<Cache>; 3] {
        [&self.secrets, &self.accounts, &self.tokens]
    }

    /// What a token is good for by one of its Secrets.
    fn judge(
        &self,
        secret: &Object,
        hash: &Hash,
        lifetimes: Lifetimes,
        now: Timestamp,
    ) -> Option<Credential> {
        let namespace = secret.namespace();
        let system = registration_token::secret_name(names::SYSTEM_REGISTRATION_TOKEN);
        let owner = credential::registration_owner(secret);
        let token = owner.and_then(|owner| self.tokens.get(&Key::new(namespace, &owner.name)));
        let management = owner.and_then(|_| self.lineage.management(namespace));
        let beside = Beside {
            has_system: self.secrets.get(&Key::new(namespace, &system)).is_some(),
            token: token.as_deref(),
            management: management.as_deref(),
        };
        credential::judge(secret, hash, &beside, lifetimes, now)
    }
}

impl std::fmt::Debug for Book {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known = self.0.index.read().unwrap_or_else(PoisonError::into_inner).len();
        f.debug_struct("Book").field("tokens", &known).finish()
    }
}

impl Book {
    /// A book in which nothing is known yet. `lifetimes` are those of machines' tokens.
    pub fn new(clock: Arc<dyn Clock>, lifetimes: Lifetimes) -> Self {
        Book::with(clock, lifetimes, [])
    }

    /// The same with tokens that are good from the start: the administrator's.
    pub fn with<'a>(
        clock: Arc<dyn Clock>,
        lifetimes: Lifetimes,
        given: impl IntoIterator<Item = (&'a str, User)>,
    ) -> Self {
        Book(Arc::new(Inner {
            clock,
            lifetimes,
            given: given.into_iter().map(|(token, user)| (Hash::of(token), user)).collect(),
            followed: OnceLock::new(),
            followed_now: Notify::new(),
            index: RwLock::default(),
            first_used: Mutex::default(),
            noted: Notify::new(),
        }))
    }

    /// From now on it knows what these caches know. The first ones count.
    pub fn follow(&self, caches: &Caches) {
        let followed = Followed {
            secrets: caches.of(&secrets()),
            accounts: caches.of(&accounts()),
            tokens: caches.of(&KindId::of::<ClusterRegistrationToken>()),
            lineage: Lineage::new(caches),
        };
        if self.0.followed.set(followed.clone()).is_err() {
            return;
        }
        let this = Arc::downgrade(&self.0);
        followed.secrets.listen("gateway-book", || {
            Arc::new(move |change| {
                if let Some(inner) = this.upgrade() {
                    file(&mut inner.index.write().unwrap_or_else(PoisonError::into_inner), change);
                }
            })
        });
        self.0.followed_now.notify_waiters();
    }

    /// Whether all tokens are known.
    pub fn ready(&self) -> bool {
        let synced = |followed: &Followed| {
            followed.all().into_iter().all(|cache| cache.synced()) && followed.lineage.synced()
        };
        self.0.followed.get().is_some_and(synced)
    }

    /// Waits until all tokens are known. Gives whether they are: who has waited long enough should come again.
    pub async fn wait_ready(&self) -> bool {
        let wait = async {
            loop {
                let mut told = std::pin::pin!(self.0.followed_now.notified());
                told.as_mut().enable();
                if let Some(followed) = self.0.followed.get() {
                    for cache in followed.all() {
                        cache.wait_synced().await;
                    }
                    followed.lineage.wait_synced().await;
                    return;
                }
                told.await;
            }
        };
        self.ready() || tokio::time::timeout(PATIENCE, wait).await.is_ok()
    }

    /// What a token is good for; nothing if nobody knows it, or it is no longer good.
    pub fn find(&self, token: &str) -> Option<Credential> {
        self.find_hash(&Hash::of(token))
    }

    /// The Secrets that say something of a token.
    fn secrets_of(&self, hash: &Hash) -> Vec<Key> {
        let index = self.0.index.read().unwrap_or_else(PoisonError::into_inner);
        let from = index.range((*hash, Key::new("", ""))..);
        from.take_while(|(filed, _)| filed == hash).map(|(_, key)| key.clone()).collect()
    }

    /// The same by its hash.
    pub fn find_hash(&self, hash: &Hash) -> Option<Credential> {
        let followed = self.0.followed.get()?;
        let now = self.0.clock.now();
        self.secrets_of(hash)
            .iter()
            .find_map(|key| followed.judge(&*followed.secrets.get(key)?, hash, self.0.lifetimes, now))
    }

    /// The Machine whose agent has a token: by the account of its plan, whatever the plan Secret says of itself.
    pub(crate) fn machine(&self, token: &AgentToken) -> Option<Arc<Object>> {
        let followed = self.0.followed.get()?;
        let plan = followed.secrets.get(&token.plan).filter(|plan| plan.uid() == token.plan_uid)?;
        let account = followed.accounts.get(&plan.key()).filter(|_| token.account == plan.name())?;
        followed.lineage.machine(&account, names::plan_secret)
    }

    /// Whom an agent's token acts as. Its plan and its account have to be the ones that it was made for.
    pub fn agent(&self, token: &str) -> Option<(AgentToken, User)> {
        if !token.starts_with(PREFIX) {
            return None;
        }
        let Some(Credential::Agent(known)) = self.find(token) else { return None };
        let followed = self.0.followed.get()?;
        // Nothing but the account of this plan: a user who may write a Secret does not become another account by it.
        self.machine(&known)?;
        let account = followed.accounts.get(&known.plan)?;
        let namespace = &known.plan.namespace;
        let user = User {
            name: format!("system:serviceaccount:{namespace}:{}", known.account),
            uid: account.uid().to_owned(),
            groups: vec![SERVICE_ACCOUNTS.into(), format!("{SERVICE_ACCOUNTS}:{namespace}")],
            ..User::default()
        };
        Some((known, user))
    }

    /// The same, and notes that it was used.
    fn use_agent(&self, token: &str) -> Option<User> {
        let (known, user) = self.agent(token)?;
        if !known.used {
            let mut first = self.0.first_used.lock().unwrap_or_else(PoisonError::into_inner);
            if first.insert(known.secret.clone(), known).is_none() {
                self.0.noted.notify_one();
            }
        }
        Some(user)
    }

    /// Tokens that were used for the first time, as soon as there are some.
    pub(crate) async fn first_used(&self) -> Vec<AgentToken> {
        loop {
            let used = std::mem::take(&mut *self.0.first_used.lock().unwrap_or_else(PoisonError::into_inner));
            if !used.is_empty() {
                return used.into_values().collect();
            }
            self.0.noted.notified().await;
        }
    }

    /// Whose token this is, once tokens are known.
    ///
    /// # Errors
    /// If they are not known in time.
    pub async fn who(&self, token: &str) -> Result<Option<User>, String> {
        if let Some(user) = self.0.given.get(&Hash::of(token)).filter(|_| !self.0.given.is_empty()) {
            return Ok(Some(user.clone()));
        }
        if !token.starts_with(PREFIX) {
            return Ok(None);
        }
        if !self.wait_ready().await {
            return Err("the tokens of agents are not known yet".into());
        }
        Ok(self.use_agent(token))
    }
}

/// Files a Secret that has changed.
fn file(index: &mut BTreeSet<(Hash, Key)>, change: &Change) {
    let key = change.object().key();
    for hash in change.before.iter().flat_map(|before| credential::hashes(before)) {
        index.remove(&(hash, key.clone()));
    }
    for hash in change.after.iter().flat_map(|after| credential::hashes(after)) {
        index.insert((hash, key.clone()));
    }
}

impl Tokens for Book {
    fn holder<'a>(
        &'a self,
        token: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<User>, String>> + Send + 'a>> {
        Box::pin(self.who(token))
    }

    fn secrets(&self, token: &str) -> Vec<(String, String)> {
        let keys = self.secrets_of(&Hash::of(token));
        keys.into_iter().map(|key| (key.namespace.to_string(), key.name.to_string())).collect()
    }
}
