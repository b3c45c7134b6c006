//! Secrets that hold the token of a ServiceAccount.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubeapi::{Status, meta};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Mint;
use super::client::{At, Client, or_gone};
use super::engine::{After, Controller, Work};
use super::place::Place;
use super::queue::Item;
use crate::store::{Event, Scope, Stored, View};

const TOKEN: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// Machines of a large fleet ask for theirs all at once, and each waits for a write.
const WIDTH: usize = 64;

/// What a token is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenSecret<'a> {
    /// Of the account and of the Secret.
    pub namespace: &'a str,
    /// The account's name.
    pub account: &'a str,
    /// The account's UID.
    pub account_uid: &'a str,
    /// The Secret's name: the token is good as long as it exists.
    pub secret: &'a str,
}

/// Fills token Secrets, and removes those whose account is gone.
pub(super) struct Tokens {
    client: Client,
    ca: Arc<str>,
    mint: Mint,
    /// The token Secrets of each account.
    secrets: BTreeMap<Account, BTreeSet<Item>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Account {
    namespace: Box<str>,
    name: Box<str>,
}

impl Tokens {
    pub(super) fn new(client: Client, ca: Arc<str>, mint: Mint) -> Self {
        Tokens { client, ca, mint, secrets: BTreeMap::new() }
    }

    fn add(&mut self, account: Account, secret: Item) {
        self.secrets.entry(account).or_default().insert(secret);
    }

    fn remove(&mut self, account: &Account, secret: &Item) {
        let Some(secrets) = self.secrets.get_mut(account) else { return };
        secrets.remove(secret);
        if secrets.is_empty() {
            self.secrets.remove(account);
        }
    }

    /// A Secret changed. Gives it if it is to hold a token.
    fn note_secret(&mut self, namespace: &str, event: &Event) -> Option<Item> {
        if let Some(before) = event.previous.as_ref().and_then(|before| account_in(namespace, before)) {
            self.remove(&before, &event.key);
        }
        let account = event.current.as_ref().and_then(|current| account_in(namespace, current))?;
        self.add(account, event.key.clone());
        Some(event.key.clone())
    }
}

impl Controller for Tokens {
    fn name(&self) -> &'static str {
        "token controller"
    }

    fn width(&self) -> usize {
        WIDTH
    }

    fn begin(&mut self, view: &View) -> Vec<Item> {
        self.secrets.clear();
        for stored in view.scan(&Scope::prefix("/registry/core/secrets/")) {
            let namespace = Place::of(&stored.key).map(|place| place.namespace).unwrap_or_default();
            if let Some(account) = account_in(namespace, stored) {
                self.add(account, stored.key.clone());
            }
        }
        self.secrets.values().flatten().cloned().collect()
    }

    fn note(&mut self, place: &Place<'_>, event: &Event) -> Vec<Item> {
        match &event.current {
            _ if place.is("", "secrets") => self.note_secret(place.namespace, event).into_iter().collect(),
            None if place.is("", "serviceaccounts") => {
                let account = Account { namespace: place.namespace.into(), name: place.name.into() };
                self.secrets.get(&account).into_iter().flatten().cloned().collect()
            }
            _ => Vec::new(),
        }
    }

    fn start(&mut self, item: &Item) -> Work {
        let (client, ca, mint, key) = (self.client.clone(), self.ca.clone(), self.mint.clone(), item.clone());
        Box::pin(async move {
            if let Some(place) = Place::of(&key) {
                sync(&client, &ca, &mint, place).await?;
            }
            Ok(After::Done)
        })
    }
}

/// The account whose token a Secret is to hold, if it is one for tokens. Reads no more of it than that takes.
fn account_in(namespace: &str, secret: &Stored) -> Option<Account> {
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(rename = "type", borrow)]
        kind: Option<Cow<'a, str>>,
        #[serde(borrow)]
        metadata: Metadata<'a>,
    }
    #[derive(Deserialize)]
    struct Metadata<'a> {
        #[serde(borrow, default)]
        annotations: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
    }
    let value = secret.value();
    let secret: Typed<'_> = serde_json::from_slice(&value).ok()?;
    let annotations = secret.metadata.annotations.unwrap_or_default();
    let name = annotations.get(ACCOUNT_NAME).map(|name| &**name).unwrap_or_default();
    (secret.kind.as_deref() == Some(TOKEN))
        .then(|| Account { namespace: namespace.into(), name: name.into() })
}

async fn sync(client: &Client, ca: &str, mint: &Mint, place: Place<'_>) -> Result<(), Status> {
    let at = At::core("secrets", place.namespace, place.name);
    let Some(mut secret) = or_gone(client.get(at).await)? else { return Ok(()) };
    let Some((name, uid)) = account_of(&secret) else { return Ok(()) };
    let account = or_gone(client.get(At::core("serviceaccounts", place.namespace, &name)).await)?;
    let account_uid = account.as_ref().map(|account| meta::text(account, "uid"));
    let Some(account_uid) = account_uid.filter(|found| uid.is_empty() || *found == uid) else {
        let options = json!({"preconditions": {"uid": meta::text(&secret, "uid")}});
        return match or_gone(client.delete(at, options).await) {
            // Another Secret of that name is another matter.
            Err(status) if status.code == 409 => Ok(()),
            other => other.map(drop),
        };
    };
    let wanted = TokenSecret { namespace: place.namespace, account: &name, account_uid, secret: place.name };
    if fill(&mut secret, ca, &wanted, || mint(&wanted))? {
        or_gone(client.update(at, secret).await)?;
    }
    Ok(())
}

/// Name and, if it is told, UID of the account that a token Secret is for.
fn account_of(secret: &Value) -> Option<(String, String)> {
    let annotation =
        |name: &str| secret["metadata"]["annotations"][name].as_str().unwrap_or_default().to_owned();
    let name = annotation(ACCOUNT_NAME);
    let wanted = secret["type"] == TOKEN && !name.is_empty();
    wanted.then(|| (name, annotation(ACCOUNT_UID)))
}

/// Gives a Secret what it lacks. Gives whether it lacked something.
fn fill(
    secret: &mut Value,
    ca: &str,
    wanted: &TokenSecret<'_>,
    token: impl FnOnce() -> Result<String, Status>,
) -> Result<bool, Status> {
    let empty = |field: &str| secret["data"][field].as_str().unwrap_or_default().is_empty();
    let ca = STANDARD.encode(ca);
    let lacks_ca = !ca.is_empty() && secret["data"]["ca.crt"] != ca.as_str();
    let (lacks_namespace, lacks_token) = (empty("namespace"), empty("token"));
    if !(lacks_ca || lacks_namespace || lacks_token) {
        return Ok(false);
    }
    if !secret["data"].is_object() {
        secret["data"] = json!({});
    }
    if lacks_ca {
        secret["data"]["ca.crt"] = ca.into();
    }
    if lacks_namespace {
        secret["data"]["namespace"] = STANDARD.encode(wanted.namespace).into();
    }
    if lacks_token {
        secret["data"]["token"] = STANDARD.encode(token()?).into();
    }
    secret["metadata"]["annotations"][ACCOUNT_NAME] = wanted.account.into();
    secret["metadata"]["annotations"][ACCOUNT_UID] = wanted.account_uid.into();
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_gets_what_it_lacks() {
        let wanted = TokenSecret { namespace: "n", account: "a", account_uid: "u", secret: "s" };
        let full = json!({"ca.crt": STANDARD.encode("ca"), "namespace": STANDARD.encode("n"), "token": STANDARD.encode("t")});
        let with = |data: Value| json!({"metadata": {"annotations": {ACCOUNT_NAME: "a"}}, "type": TOKEN, "data": data});
        let less = |field: &str, value: Value| {
            let mut data = full.clone();
            data[field] = value;
            data
        };
        for (case, data, lacks) in [
            ("nothing", full.clone(), false),
            ("all", Value::Null, true),
            ("the CA", less("ca.crt", STANDARD.encode("old").into()), true),
            ("the namespace", less("namespace", "".into()), true),
            ("the token", less("token", Value::Null), true),
        ] {
            let mut secret = with(data);
            let filled = fill(&mut secret, "ca", &wanted, || Ok("t".into())).unwrap();
            assert_eq!(filled, lacks, "{case}");
            assert_eq!(secret["data"], full, "{case}");
            assert_eq!(secret["metadata"]["annotations"][ACCOUNT_UID] == "u", lacks, "{case}");
        }
        let mut secret = with(less("namespace", "".into()));
        let kept = fill(&mut secret, "ca", &wanted, || Err(Status::internal("there is a token already")));
        assert_eq!(kept, Ok(true));
    }

    #[test]
    fn only_token_secrets_count() {
        let secret =
            |kind: &str, annotations: Value| json!({"type": kind, "metadata": {"annotations": annotations}});
        let named = json!({ACCOUNT_NAME: "a"});
        assert_eq!(account_of(&secret(TOKEN, named.clone())), Some(("a".into(), String::new())));
        let exact = json!({ACCOUNT_NAME: "a", ACCOUNT_UID: "u"});
        assert_eq!(account_of(&secret(TOKEN, exact)), Some(("a".into(), "u".into())));
        assert_eq!(account_of(&secret("Opaque", named)), None);
        assert_eq!(account_of(&secret(TOKEN, json!({}))), None);
    }
}
