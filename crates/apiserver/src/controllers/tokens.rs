//! Secrets that hold the token of a ServiceAccount.

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

const WIDTH: usize = 5;

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
}

impl Tokens {
    pub(super) fn new(client: Client, ca: Arc<str>, mint: Mint) -> Self {
        Tokens { client, ca, mint }
    }

    /// The keys of all token Secrets whose keys start with `prefix`.
    fn token_secrets(view: &View, prefix: String) -> Vec<Item> {
        let scope = Scope::prefix(prefix);
        view.scan(&scope).filter(|stored| is_token(stored)).map(|stored| stored.key.clone()).collect()
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
        Tokens::token_secrets(view, "/registry/core/secrets/".to_owned())
    }

    fn note(&mut self, place: &Place<'_>, event: &Event) -> Vec<Item> {
        match &event.current {
            Some(secret) if place.is("", "secrets") && is_token(secret) => vec![event.key.clone()],
            None if place.is("", "serviceaccounts") => {
                let view = self.client.server().store().view();
                Tokens::token_secrets(&view, format!("/registry/core/secrets/{}/", place.namespace))
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

/// Reads no more of a Secret than its type.
fn is_token(secret: &Stored) -> bool {
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(rename = "type", borrow)]
        kind: Option<std::borrow::Cow<'a, str>>,
    }
    let typed = serde_json::from_slice::<Typed<'_>>(&secret.value);
    typed.is_ok_and(|secret| secret.kind.as_deref() == Some(TOKEN))
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
