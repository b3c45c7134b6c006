//! What a token is good for, by the Secret that knows it.
//!
//! | token | Secret | good for |
//! |---|---|---|
//! | of an agent | `herdsman.io/agent-token`: its hash | the Kubernetes API, as the account of one plan |
//! | of a machine's script | the token Secret of its bootstrap account: what it is the hash of | registering that machine, once |
//! | of a cluster | `crt-token-<name>`: itself | `system`: a tunnel. Others: registering nodes, and a tunnel where there is no `system` |
//!
//! A cluster's token counts only if the ClusterRegistrationToken that owns its Secret exists, by UID, is for the cluster whose namespace both are
//! in, and that management Cluster exists: a user who writes Secrets in a namespace has no cluster's token by it.
//!
//! Nothing compares tokens: Secrets are filed under the SHA-256 of the token that they know, and are found by it.

use api::catalogue::annotations;
use api::catalogue::secrets::{keys, types};
use api::management::v3::ClusterRegistrationToken;
use api::names::SYSTEM_REGISTRATION_TOKEN;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kit::{Key, KindId, Object, owners};
use provisioning::bootstrap::token::{self, Lifetimes, Worth};
use provisioning::custom::registration_token;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The SHA-256 of a token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hash([u8; 32]);

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.short())
    }
}

impl Hash {
    /// Of a token.
    pub fn of(token: &str) -> Self {
        Hash(Sha256::digest(token).into())
    }

    /// In hex.
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// A few letters of it: enough to tell tokens apart, not to find one.
    pub fn short(&self) -> String {
        self.hex()[..10].to_owned()
    }

    fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Hash(bytes))
    }
}

/// What a token is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A node agent's: the Kubernetes API as one ServiceAccount.
    Agent(AgentToken),
    /// A machine's script's: registering the machine of this bootstrap account.
    Bootstrap {
        /// The account.
        account: Key,
        /// Its uid; one of the same name is another.
        uid: String,
        /// The Secret with its token.
        secret: Key,
    },
    /// A cluster's.
    Registration {
        /// The management cluster's name.
        cluster: String,
        /// Whether it registers nodes.
        nodes: bool,
        /// Whether it opens a tunnel.
        tunnels: bool,
    },
}

/// The token of a node agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentToken {
    /// The Secret that knows it.
    pub secret: Key,
    /// The plan that it reaches.
    pub plan: Key,
    /// The plan's uid; a plan of the same name is another.
    pub plan_uid: String,
    /// The name of the ServiceAccount that it acts as.
    pub account: String,
    /// Whether it was used before.
    pub used: bool,
}

fn kind(secret: &Object) -> &str {
    secret.document()["type"].as_str().unwrap_or_default()
}

/// A value of a Secret; empty if there is none.
pub fn value(secret: &Object, key: &str) -> Vec<u8> {
    let text = secret.document().pointer("/data").and_then(|data| data.get(key)).and_then(Value::as_str);
    text.and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default()
}

fn text(secret: &Object, key: &str) -> String {
    String::from_utf8(value(secret, key)).unwrap_or_default()
}

/// The ClusterRegistrationToken that a Secret says it belongs to.
pub(crate) fn registration_owner(secret: &Object) -> Option<&OwnerReference> {
    let owner = owners::of_kind(secret.owners(), &KindId::of::<ClusterRegistrationToken>())?;
    (secret.name() == registration_token::secret_name(&owner.name)).then_some(owner)
}

/// What exists beside the Secret of a token.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside<'a> {
    /// Whether the Secret's namespace has a token that is for tunnels alone.
    pub has_system: bool,
    /// The ClusterRegistrationToken that the Secret names as its owner.
    pub token: Option<&'a Object>,
    /// The management Cluster that is called as the Secret's namespace.
    pub management: Option<&'a Object>,
}

impl Beside<'_> {
    /// Whether the Secret of a cluster's token is what it says.
    fn confirms(&self, secret: &Object, owner: &OwnerReference) -> bool {
        let token = self.token.is_some_and(|token| {
            token.uid() == owner.uid
                && !token.deleting()
                && token.namespace() == secret.namespace()
                && token.document()["spec"]["clusterName"] == secret.namespace()
        });
        token && self.management.is_some_and(|one| one.name() == secret.namespace() && !one.deleting())
    }
}

fn is_bootstrap(secret: &Object) -> bool {
    kind(secret) == types::SERVICE_ACCOUNT_TOKEN
        && secret.annotation(annotations::BOOTSTRAP_TOKEN) == Some("true")
}

/// What a Secret is filed under.
pub fn hashes(secret: &Object) -> Vec<Hash> {
    if kind(secret) == types::HERDSMAN_AGENT_TOKEN {
        return Hash::from_hex(&text(secret, keys::HERDSMAN_HASH)).into_iter().collect();
    }
    if is_bootstrap(secret) {
        let account_token = value(secret, keys::TOKEN);
        let known = (!account_token.is_empty()).then(|| Hash::of(&token::introduction(&account_token)));
        return known.into_iter().collect();
    }
    if registration_owner(secret).is_none() {
        return Vec::new();
    }
    // Whether they are still accepted is seen when they are used.
    let tokens = registration_data(secret);
    tokens.values().filter_map(|token| std::str::from_utf8(token).ok()).map(Hash::of).collect()
}

fn registration_data(secret: &Object) -> std::collections::BTreeMap<String, Vec<u8>> {
    let data = secret.document()["data"].as_object().into_iter().flatten();
    data.map(|(key, _)| (key.clone(), value(secret, key))).collect()
}

/// What a token is good for by the Secret that is filed under its hash, and by what exists beside that.
pub fn judge(
    secret: &Object,
    hash: &Hash,
    beside: &Beside<'_>,
    lifetimes: Lifetimes,
    now: Timestamp,
) -> Option<Credential> {
    if secret.deleting() || !hashes(secret).contains(hash) {
        return None;
    }
    if kind(secret) == types::HERDSMAN_AGENT_TOKEN {
        return agent(secret).map(Credential::Agent);
    }
    if is_bootstrap(secret) {
        return bootstrap(secret, lifetimes, now);
    }
    let owner = registration_owner(secret).filter(|owner| beside.confirms(secret, owner))?;
    let data = registration_data(secret);
    let accepted = registration_token::accepted(&data, now).into_iter().any(|token| Hash::of(token) == *hash);
    accepted.then(|| {
        let nodes = owner.name != SYSTEM_REGISTRATION_TOKEN;
        let tunnels = !nodes || !beside.has_system;
        Credential::Registration { cluster: secret.namespace().into(), nodes, tunnels }
    })
}

fn agent(secret: &Object) -> Option<AgentToken> {
    let plan = secret.owners().iter().find(|owner| owner.kind == "Secret")?;
    Some(AgentToken {
        secret: secret.key(),
        plan: Key::new(secret.namespace(), &plan.name),
        plan_uid: plan.uid.clone(),
        account: text(secret, keys::HERDSMAN_ACCOUNT),
        used: secret.annotation(annotations::HERDSMAN_TOKEN_USED).is_some(),
    })
}

fn bootstrap(secret: &Object, lifetimes: Lifetimes, now: Timestamp) -> Option<Credential> {
    if secret.annotation(annotations::BOOTSTRAP_TOKEN_INVALIDATED) == Some("true") {
        return None;
    }
    let created = secret.meta().creation_timestamp.as_ref()?.0;
    let accessed = secret.annotation(annotations::LAST_ACCESS_TIMESTAMP).and_then(|text| text.parse().ok());
    if token::worth(lifetimes, created, accessed, now) == Worth::Ended {
        return None;
    }
    let account = secret.annotation(annotations::KUBERNETES_SERVICE_ACCOUNT_NAME)?;
    Some(Credential::Bootstrap {
        account: Key::new(secret.namespace(), account),
        uid: secret.annotation(SERVICE_ACCOUNT_UID).unwrap_or_default().into(),
        secret: secret.key(),
    })
}

/// Kubernetes' own note on the token Secret of an account.
const SERVICE_ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

#[cfg(test)]
#[path = "credential/tests.rs"]
mod tests;
