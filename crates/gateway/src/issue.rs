//! New tokens for agents, and the end of old ones.
//!
//! A token is shown once, to the node that registers, and kept as its hash in a Secret beside the machine's plan, which owns it. A
//! node that registers again gets another one; the ones before stay good until the new one is used, so that an
//! installation that breaks off half-way leaves the old agent at work.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api::catalogue::secrets::{keys, types};
use api::catalogue::{annotations, labels};
use api::names;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use clock::{Clock, Entropy};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kit::{Caches, Key, Object};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::json;

use crate::book::{self, PREFIX};
use crate::credential::{AgentToken, Hash};

/// The name under which we write.
pub(crate) const MANAGER: &str = "herdsman-gateway";

/// So many tokens of one plan may wait for their first use: a host that tries again and again does not fill the store.
const MOST_UNUSED: usize = 5;

/// A token could not be made or replaced.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} a token for {plan}")]
pub struct Error {
    what: &'static str,
    plan: Key,
    #[source]
    source: Box<kube::Error>,
}

/// A new token, and the Secret that knows it. It acts as the account of the plan's name.
fn make(plan: &Object, machine: &Object, entropy: &mut dyn Entropy) -> (String, Hash, serde_json::Value) {
    let mut bytes = [0; 32];
    entropy.fill(&mut bytes);
    let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes));
    let hash = Hash::of(&token);
    let labelled = json!({
        (labels::BACKUP): "true",
        (labels::MACHINE_NAME): machine.name(),
        (labels::CLUSTER_NAME): kit::machines::cluster(machine),
    });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": types::HERDSMAN_AGENT_TOKEN,
        "metadata": {
            "name": names::safe_concat(&[plan.name(), "token", &hash.short()]),
            "namespace": plan.namespace(),
            "labels": labelled,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": plan.name(), "uid": plan.uid()}],
        },
        "data": {
            (keys::HERDSMAN_HASH): STANDARD.encode(hash.hex()),
            (keys::HERDSMAN_ACCOUNT): STANDARD.encode(plan.name()),
        },
    });
    (token, hash, secret)
}

/// Makes a token for the agent of a machine, by which it reaches its plan. What is given is good; nothing, if that was not so within `patience`, and
/// nothing is left of it then: whoever comes again gets another one, and a server that lags is not given more to do by each who waits.
///
/// # Errors
/// If it cannot be kept.
pub async fn issue(
    caches: &Caches,
    entropy: &Mutex<dyn Entropy>,
    plan: &Object,
    machine: &Object,
    patience: Duration,
) -> Result<Option<String>, Error> {
    let failed = |source| Error { what: "make", plan: plan.key(), source: Box::new(source) };
    let (token, _, document) =
        make(plan, machine, &mut *entropy.lock().unwrap_or_else(PoisonError::into_inner));
    let api: Api<Secret> = Api::namespaced(caches.client().clone(), plan.namespace());
    let secret = serde_json::from_value(document).map_err(|error| failed(kube::Error::SerdeError(error)))?;
    let options = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
    let made = api.create(&options, &secret).await.map_err(failed)?;
    let uid = made.metadata.uid.clone().unwrap_or_default();
    let revision = made.metadata.resource_version.as_deref().and_then(|text| text.parse().ok());
    // Whoever asks for it finds it.
    let known = caches.of(&book::secrets()).expect_revision(revision.unwrap_or_default());
    if tokio::time::timeout(patience, known.wait()).await.is_err() {
        let made = Key::of(&made.metadata);
        tracing::warn!(plan = %plan.key(), "what the server knows of Secrets lags behind: a node has to come again");
        delete(caches, &made, &uid, &plan.key()).await?;
        return Ok(None);
    }
    Ok(Some(token))
}

/// Tokens of a plan, the last one first.
fn of_plan(caches: &Caches, plan: &Key, uid: &str) -> Vec<std::sync::Arc<Object>> {
    let mut all = caches.of(&book::secrets()).filed(&kit::index::owner(uid));
    all.retain(|secret| {
        secret.namespace() == plan.namespace && secret.document()["type"] == types::HERDSMAN_AGENT_TOKEN
    });
    all.sort_by_key(|secret| std::cmp::Reverse(secret.revision()));
    all
}

/// Deletes tokens that nobody came to use, but for the last ones.
///
/// # Errors
/// If the server refuses.
pub async fn forget_unused(caches: &Caches, plan: &Object) -> Result<(), Error> {
    let all = of_plan(caches, &plan.key(), plan.uid());
    let unused = all.iter().filter(|secret| secret.annotation(annotations::HERDSMAN_TOKEN_USED).is_none());
    for secret in unused.skip(MOST_UNUSED) {
        delete(caches, &secret.key(), secret.uid(), &plan.key()).await?;
    }
    Ok(())
}

/// A token was used for the first time: this is noted, and those that were made before it end.
///
/// # Errors
/// If the server refuses.
pub async fn note_use(caches: &Caches, clock: &dyn Clock, token: &AgentToken) -> Result<(), Error> {
    let failed =
        |source| Error { what: "note the use of", plan: token.plan.clone(), source: Box::new(source) };
    let all = of_plan(caches, &token.plan, &token.plan_uid);
    let used = |secret: &Object| secret.annotation(annotations::HERDSMAN_TOKEN_USED).is_some();
    let Some(own) = all.iter().find(|secret| secret.key() == token.secret && !used(secret)) else {
        return Ok(());
    };
    let api: Api<Secret> = Api::namespaced(caches.client().clone(), &token.secret.namespace);
    let now: Timestamp = clock.now();
    let patch = json!({"metadata": {"annotations": {(annotations::HERDSMAN_TOKEN_USED): now.to_string()}}});
    let options = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    match api.patch(&token.secret.name, &options, &Patch::Merge(patch)).await {
        Err(error) if kit::write::code(&error) == Some(404) => return Ok(()),
        answer => answer.map(drop).map_err(failed)?,
    }
    // Nobody has written to one that is not used since it was made.
    for before in all.iter().filter(|other| used(other) || other.revision() < own.revision()) {
        delete(caches, &before.key(), before.uid(), &token.plan).await?;
    }
    Ok(())
}

async fn delete(caches: &Caches, secret: &Key, uid: &str, plan: &Key) -> Result<(), Error> {
    let api: Api<Secret> = Api::namespaced(caches.client().clone(), &secret.namespace);
    let preconditions = Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None });
    match api.delete(&secret.name, &DeleteParams { preconditions, ..DeleteParams::default() }).await {
        Err(error) if !matches!(kit::write::code(&error), Some(404 | 409)) => {
            Err(Error { what: "end", plan: plan.clone(), source: Box::new(error) })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use clock::SeededEntropy;
    use http::{Method, Request, Response};
    use kube::client::Body;

    use super::*;

    #[test]
    fn the_secret_knows_the_hash_and_not_the_token() {
        let plan = Object::from_document(json!({
            "metadata": {"namespace": "ns", "name": "m-machine-plan", "uid": "u",
                "labels": {"rke.cattle.io/machine-name": "other", "rke.cattle.io/cluster-name": "other"}},
        }))
        .unwrap();
        let (token, hash, secret) = make(&plan, &machine(), &mut SeededEntropy::new(1));
        assert!(token.starts_with(PREFIX) && token.len() == PREFIX.len() + 43, "{token}");
        assert!(!secret.to_string().contains(&token));
        assert_eq!(crate::credential::hashes(&Object::from_document(secret.clone()).unwrap()), [hash]);
        assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], "u");
        assert_eq!(secret["metadata"]["labels"]["rke.cattle.io/machine-name"], "m");
        let (other, _, again) = make(&plan, &machine(), &mut SeededEntropy::new(2));
        assert_ne!(token, other);
        assert_ne!(secret["metadata"]["name"], again["metadata"]["name"]);
    }

    fn machine() -> Object {
        let document = json!({"metadata": {"namespace": "ns", "name": "m"}, "spec": {"clusterName": "c"}});
        Object::from_document(document).unwrap()
    }

    fn plan() -> Object {
        Object::from_document(json!({"metadata": {"namespace": "ns", "name": "m-machine-plan", "uid": "u"}}))
            .unwrap()
    }

    /// A server that takes writes, and whose watches say nothing.
    fn lagging(asked: Arc<Mutex<Vec<String>>>) -> kube::Client {
        let service = tower::service_fn(move |request: Request<Body>| {
            let asked = asked.clone();
            async move {
                if request.method() == Method::GET {
                    std::future::pending::<()>().await;
                }
                asked.lock().unwrap().push(format!("{} {}", request.method(), request.uri().path()));
                let made = json!({"apiVersion": "v1", "kind": "Secret",
                    "metadata": {"namespace": "ns", "name": "token", "uid": "t", "resourceVersion": "7"}});
                Ok::<_, std::convert::Infallible>(Response::new(Body::from(made.to_string().into_bytes())))
            }
        });
        kube::Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_that_is_not_known_in_time_leaves_nothing_behind() {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let caches = Caches::new(lagging(asked.clone()), kit::index::entries);
        let entropy = Mutex::new(SeededEntropy::new(1));
        let issued = issue(&caches, &entropy, &plan(), &machine(), Duration::from_secs(10)).await;
        assert_eq!(issued.unwrap(), None);
        let url = "/api/v1/namespaces/ns/secrets";
        assert_eq!(*asked.lock().unwrap(), [format!("POST {url}"), format!("DELETE {url}/token")]);
    }
}
