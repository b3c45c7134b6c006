//! Tokens of ServiceAccounts as they are made.

use jiff::Timestamp;
use kubeapi::authn::service_account_user;
use serde::Deserialize;
use serde_json::{Value, json};

use super::key::{KeyError, SigningKey};

/// The issuer of tokens in Secrets.
pub(super) const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// Name and UID of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Ref {
    pub(super) name: String,
    pub(super) uid: String,
}

impl Ref {
    fn claim(&self) -> Value {
        match self.uid.is_empty() {
            true => json!({"name": self.name}),
            false => json!({"name": self.name, "uid": self.uid}),
        }
    }
}

/// What a token lives and dies with, beside its account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Bound {
    pub(super) pod: Option<Ref>,
    pub(super) secret: Option<Ref>,
    /// The Pod's, if there is one; else the token is bound to it.
    pub(super) node: Option<Ref>,
}

/// A token to be made.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    pub(super) namespace: &'a str,
    pub(super) account: Ref,
    pub(super) audiences: &'a [String],
    pub(super) bound: Bound,
    pub(super) now: Timestamp,
    pub(super) seconds: i64,
    /// After how many seconds it should have been renewed, if it lives on after that.
    pub(super) warn_after: Option<i64>,
    pub(super) id: String,
}

impl Wanted<'_> {
    fn claims(&self, issuer: &str) -> Value {
        let now = self.now.as_second();
        let mut of_kubernetes = json!({"namespace": self.namespace, "serviceaccount": self.account.claim()});
        let parts = [("pod", &self.bound.pod), ("secret", &self.bound.secret), ("node", &self.bound.node)];
        for (name, part) in parts {
            if let Some(part) = part {
                of_kubernetes[name] = part.claim();
            }
        }
        if let Some(seconds) = self.warn_after {
            of_kubernetes["warnafter"] = json!(now.saturating_add(seconds));
        }
        json!({
            "aud": self.audiences, "exp": now.saturating_add(self.seconds), "iat": now, "iss": issuer,
            "jti": self.id, "kubernetes.io": of_kubernetes, "nbf": now,
            "sub": service_account_user(self.namespace, &self.account.name),
        })
    }

    pub(super) fn sign(&self, issuer: &str, key: &SigningKey) -> Result<String, KeyError> {
        key.sign(&self.claims(issuer))
    }
}

/// A token for a Secret: it has no end of its own.
pub(super) fn sign_legacy(
    key: &SigningKey,
    namespace: &str,
    secret: &str,
    account: &Ref,
) -> Result<String, KeyError> {
    key.sign(&json!({
        "iss": LEGACY_ISSUER,
        "kubernetes.io/serviceaccount/namespace": namespace,
        "kubernetes.io/serviceaccount/secret.name": secret,
        "kubernetes.io/serviceaccount/service-account.name": account.name,
        "kubernetes.io/serviceaccount/service-account.uid": account.uid,
        "sub": service_account_user(namespace, &account.name),
    }))
}

/// The texts of a list; none if it is none.
pub(super) fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(|one| one.as_str().map(str::to_owned)).collect()
}
