//! Tokens of ServiceAccounts are believed only as long as all that they are bound to is there.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kubeapi::authn::{ServiceAccount, User, split_service_account_user};
use serde::Deserialize;
use serde_json::Value;

use super::Auth;
use super::issue::{Bound, LEGACY_ISSUER, Ref};
use super::standing::key;

/// What marks a token in a Secret as no longer wanted.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
/// By how much clocks may differ, and how long after its deletion an object still counts, as upstream has it.
const LEEWAY_SECONDS: i64 = 60;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Claims {
    iss: String,
    sub: String,
    aud: Vec<String>,
    exp: Option<i64>,
    nbf: Option<i64>,
    iat: Option<i64>,
    jti: String,
    #[serde(rename = "kubernetes.io")]
    of_kubernetes: OfKubernetes,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    legacy_namespace: String,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    legacy_secret: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    legacy_account: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    legacy_uid: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OfKubernetes {
    namespace: String,
    serviceaccount: Ref,
    #[serde(flatten)]
    bound: Bound,
}

/// Whose a token is, and for which of the audiences asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Accepted {
    pub(super) user: User,
    pub(super) audiences: Vec<String>,
}

/// Why a token is not believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is none of a ServiceAccount of ours.
    NotOurs,
    /// It is, but not good; in upstream's words.
    Bad(String),
}

impl From<&str> for Refusal {
    fn from(why: &str) -> Self {
        Refusal::Bad(why.into())
    }
}

/// What of an object decides about tokens.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Found {
    metadata: FoundMeta,
    data: FoundData,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct FoundMeta {
    uid: String,
    deletion_timestamp: Option<String>,
    labels: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FoundData {
    token: Value,
}

impl Auth {
    /// Whose token this is, if it is good for one of the audiences.
    pub(super) fn service_account(&self, token: &str, audiences: &[String]) -> Result<Accepted, Refusal> {
        let key = self.key.as_ref().ok_or(Refusal::NotOurs)?;
        let unproven: Claims =
            jsonwebtoken::dangerous::insecure_decode_claims(token).map_err(|_| Refusal::NotOurs)?;
        if unproven.iss != LEGACY_ISSUER && unproven.iss != self.issuer {
            return Err(Refusal::NotOurs);
        }
        let claims: Claims = key.open(token)?;
        let theirs = if claims.aud.is_empty() { &self.audiences } else { &claims.aud };
        let common: Vec<String> = theirs.iter().filter(|one| audiences.contains(one)).cloned().collect();
        if common.is_empty() {
            let quoted = |list: &[String]| {
                let list: Vec<String> = list.iter().map(|one| format!("{one:?}")).collect();
                format!("[{}]", list.join(" "))
            };
            return Err(Refusal::Bad(format!(
                "token audiences {} is invalid for the target audiences {}",
                quoted(theirs),
                quoted(audiences)
            )));
        }
        let account = match claims.iss == LEGACY_ISSUER {
            true => self.of_secret(token, &claims)?,
            false => self.of_request(&claims)?,
        };
        Ok(Accepted { user: account.user(), audiences: common })
    }

    /// The objects, by their keys, that a token of an account names beside the account. The token has been believed before.
    pub(super) fn bound_to(&self, token: &str) -> Vec<String> {
        let Ok(claims) = jsonwebtoken::dangerous::insecure_decode_claims::<Claims>(token) else {
            return Vec::new();
        };
        let OfKubernetes { namespace, bound, .. } = &claims.of_kubernetes;
        let legacy = (!claims.legacy_secret.is_empty())
            .then(|| key("secrets", &claims.legacy_namespace, &claims.legacy_secret));
        let secret = bound.secret.as_ref().map(|one| key("secrets", namespace, &one.name));
        let pod = bound.pod.as_ref().map(|one| key("pods", namespace, &one.name));
        let node = bound.node.as_ref().map(|one| key("nodes", "", &one.name));
        [legacy, secret, pod, node].into_iter().flatten().collect()
    }

    /// The account of a token that was asked for.
    fn of_request(&self, claims: &Claims) -> Result<ServiceAccount, Refusal> {
        let now = self.server.clock().now();
        check_times(claims, now)?;
        let OfKubernetes { namespace, serviceaccount: account, bound } = &claims.of_kubernetes;
        let found = self
            .found("serviceaccounts", namespace, &account.name)
            .ok_or_else(|| Refusal::Bad(format!("serviceaccounts {:?} not found", account.name)))?;
        if found.metadata.uid != account.uid {
            return Err(Refusal::Bad(format!(
                "service account UID ({}) does not match claim ({})",
                found.metadata.uid, account.uid
            )));
        }
        if is_gone(&found, now) {
            let why = format!("service account {namespace}/{} has been deleted", account.name);
            return Err(Refusal::Bad(why));
        }
        if let Some(secret) = &bound.secret {
            self.check_bound("secret", namespace, secret, now)?;
        }
        match (&bound.pod, &bound.node) {
            (Some(pod), _) => self.check_bound("pod", namespace, pod, now)?,
            (None, Some(node)) => self.check_bound("node", "", node, now)?,
            (None, None) => {}
        }
        let pair = |one: Ref| (one.name, one.uid);
        Ok(ServiceAccount {
            namespace: namespace.clone(),
            name: account.name.clone(),
            uid: account.uid.clone(),
            pod: bound.pod.clone().map(pair),
            node: bound.node.clone().map(|one| (one.name, Some(one.uid).filter(|uid| !uid.is_empty()))),
            credential_id: (!claims.jti.is_empty()).then(|| format!("JTI={}", claims.jti)),
        })
    }

    /// A token goes with the object that it is bound to.
    fn check_bound(&self, kind: &str, namespace: &str, bound: &Ref, now: Timestamp) -> Result<(), Refusal> {
        let found = self.found(&format!("{kind}s"), namespace, &bound.name);
        let found = found.ok_or("service account token has been invalidated")?;
        if found.metadata.uid != bound.uid {
            return Err(Refusal::Bad(format!(
                "{kind} UID ({}) does not match service account {kind} ref claim ({})",
                found.metadata.uid, bound.uid
            )));
        }
        match is_gone(&found, now) {
            true => Err("service account token has been invalidated".into()),
            false => Ok(()),
        }
    }

    /// The account of a token that is kept in a Secret.
    fn of_secret(&self, token: &str, claims: &Claims) -> Result<ServiceAccount, Refusal> {
        let (namespace, account) = (&claims.legacy_namespace, &claims.legacy_account);
        let missing = [
            (&claims.sub, "sub"),
            (namespace, "namespace"),
            (&claims.legacy_secret, "secretName"),
            (account, "serviceAccountName"),
            (&claims.legacy_uid, "serviceAccountUID"),
        ];
        if let Some((_, name)) = missing.into_iter().find(|(value, _)| value.is_empty()) {
            return Err(Refusal::Bad(format!("{name} claim is missing")));
        }
        if split_service_account_user(&claims.sub) != Some((namespace, account)) {
            return Err("sub claim is invalid".into());
        }
        let secret = self.found("secrets", namespace, &claims.legacy_secret);
        let secret = secret.filter(|secret| secret.metadata.deletion_timestamp.is_none());
        let secret = secret.ok_or("Token has been invalidated")?;
        if !holds(&secret, token) {
            return Err("Token does not match server's copy".into());
        }
        let found = self
            .found("serviceaccounts", namespace, account)
            .ok_or_else(|| Refusal::Bad(format!("serviceaccounts {account:?} not found")))?;
        if found.metadata.deletion_timestamp.is_some() {
            return Err(Refusal::Bad(format!("ServiceAccount {namespace}/{account} has been deleted")));
        }
        if found.metadata.uid != claims.legacy_uid {
            return Err(Refusal::Bad(format!(
                "ServiceAccount UID ({}) does not match claim ({})",
                found.metadata.uid, claims.legacy_uid
            )));
        }
        if secret.metadata.labels.get(INVALID_SINCE).is_some_and(|since| !since.is_empty()) {
            return Err(Refusal::Bad(format!(
                "the token in secret {namespace}/{secret} for service account {namespace}/{account} has been marked invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the '{INVALID_SINCE}' label from the secret to temporarily allow use of this token",
                secret = claims.legacy_secret
            )));
        }
        Ok(ServiceAccount {
            namespace: namespace.clone(),
            name: account.clone(),
            uid: claims.legacy_uid.clone(),
            ..ServiceAccount::default()
        })
    }

    /// A core object, as far as it matters here.
    fn found(&self, plural: &str, namespace: &str, name: &str) -> Option<Found> {
        let view = self.server.store().view();
        let stored = view.get(&key(plural, namespace, name))?;
        serde_json::from_slice(&stored.value()).ok()
    }
}

/// An object counts a little longer than it should be there: the deletion may be seen elsewhere first.
fn is_gone(found: &Found, now: Timestamp) -> bool {
    let deleted = found.metadata.deletion_timestamp.as_deref().map(str::parse::<Timestamp>);
    deleted.is_some_and(|at| at.is_ok_and(|at| at.as_second() < now.as_second() - LEEWAY_SECONDS))
}

fn holds(secret: &Found, token: &str) -> bool {
    let kept = secret.data.token.as_str().and_then(|text| STANDARD.decode(text).ok());
    kept.is_some_and(|kept| kept == token.as_bytes())
}

fn check_times(claims: &Claims, now: Timestamp) -> Result<(), Refusal> {
    let milliseconds = |seconds: i64| seconds.saturating_mul(1000);
    let (now, leeway) = (now.as_millisecond(), milliseconds(LEEWAY_SECONDS));
    let is_future = |time: Option<i64>| time.is_some_and(|time| now + leeway < milliseconds(time));
    match claims {
        _ if is_future(claims.nbf) => Err("service account token is not valid yet".into()),
        _ if claims.exp.is_some_and(|exp| now - leeway > milliseconds(exp)) => {
            Err("service account token has expired".into())
        }
        _ if is_future(claims.iat) => Err("service account token is issued in the future".into()),
        _ => Ok(()),
    }
}
