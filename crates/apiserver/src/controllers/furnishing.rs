//! What every namespace has: a ServiceAccount `default` and the ConfigMap `kube-root-ca.crt`.

use std::sync::Arc;

use kubeapi::Status;
use serde_json::{Value, json};

use super::client::{At, Client, namespace_goes, or_gone};
use super::engine::{After, Controller, Work};
use super::place::Place;
use super::queue::Item;
use crate::store::{Event, Scope, View};

pub(super) const ACCOUNT: &str = "default";
pub(super) const ROOT_CA: &str = "kube-root-ca.crt";

const DESCRIPTION: &str = "kubernetes.io/description";
const WHAT_IT_IS: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

const WIDTH: usize = 5;

/// Furnishes namespaces.
pub(super) struct Furnishing {
    client: Client,
    ca: Arc<str>,
}

impl Furnishing {
    pub(super) fn new(client: Client, ca: Arc<str>) -> Self {
        Furnishing { client, ca }
    }
}

impl Controller for Furnishing {
    fn name(&self) -> &'static str {
        "namespace furnisher"
    }

    fn width(&self) -> usize {
        WIDTH
    }

    fn begin(&mut self, view: &View) -> Vec<Item> {
        let scope = Scope::prefix("/registry/core/namespaces/");
        view.scan(&scope).filter_map(|stored| Some(Place::of(&stored.key)?.name.into())).collect()
    }

    fn note(&mut self, place: &Place<'_>, event: &Event) -> Vec<Item> {
        let present = event.current.is_some();
        let namespace = match (place.group, place.plural, place.name) {
            ("", "namespaces", name) if present => name,
            ("", "serviceaccounts", ACCOUNT) if !present => place.namespace,
            ("", "configmaps", ROOT_CA) => place.namespace,
            _ => return Vec::new(),
        };
        vec![namespace.into()]
    }

    fn start(&mut self, item: &Item) -> Work {
        let (client, ca, namespace) = (self.client.clone(), self.ca.clone(), item.clone());
        Box::pin(async move {
            furnish(&client, &namespace, &ca).await?;
            Ok(After::Done)
        })
    }
}

/// Gives a namespace what it lacks, unless it is going.
pub(super) async fn furnish(client: &Client, namespace: &str, ca: &str) -> Result<(), Status> {
    let Some(owner) = or_gone(client.get(At::namespace(namespace)).await)? else { return Ok(()) };
    if owner["status"]["phase"] != "Active" {
        return Ok(());
    }
    let account = At::core("serviceaccounts", namespace, ACCOUNT);
    if or_gone(client.get(account).await)?.is_none() {
        create(client, account, json!({"metadata": {"name": ACCOUNT, "namespace": namespace}})).await?;
    }
    let at = At::core("configmaps", namespace, ROOT_CA);
    let Some(mut map) = or_gone(client.get(at).await)? else {
        return create(client, at, new_root_ca(namespace, ca)).await;
    };
    if mend_root_ca(&mut map, ca) {
        or_gone(client.update(at, map).await)?;
    }
    Ok(())
}

/// Creates an object, unless somebody was faster or the namespace is going.
async fn create(client: &Client, at: At<'_>, object: Value) -> Result<(), Status> {
    match client.create(at, object).await {
        Err(status) if status.reason == "AlreadyExists" || namespace_goes(&status) => Ok(()),
        other => other.map(drop),
    }
}

fn new_root_ca(namespace: &str, ca: &str) -> Value {
    json!({
        "metadata": {"name": ROOT_CA, "namespace": namespace, "annotations": {DESCRIPTION: WHAT_IT_IS}},
        "data": {"ca.crt": ca},
    })
}

/// Makes a ConfigMap what it should be. Gives whether it was not.
fn mend_root_ca(map: &mut Value, ca: &str) -> bool {
    let data = json!({"ca.crt": ca});
    let described = map["metadata"]["annotations"][DESCRIPTION].as_str().is_some_and(|text| !text.is_empty());
    if described && map["data"] == data {
        return false;
    }
    map["data"] = data;
    if !map["metadata"]["annotations"].is_object() {
        map["metadata"]["annotations"] = json!({});
    }
    map["metadata"]["annotations"][DESCRIPTION] = WHAT_IT_IS.into();
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_root_ca_is_mended() {
        let good = new_root_ca("n", "ca");
        let cases = [
            ("as it should be", good.clone(), false),
            ("another CA", new_root_ca("n", "other"), true),
            ("no data", json!({"metadata": good["metadata"]}), true),
            ("more data", json!({"metadata": good["metadata"], "data": {"ca.crt": "ca", "x": "y"}}), true),
            (
                "no description",
                json!({"metadata": {"name": ROOT_CA, "namespace": "n"}, "data": good["data"]}),
                true,
            ),
        ];
        for (case, mut map, wanted) in cases {
            assert_eq!(mend_root_ca(&mut map, "ca"), wanted, "{case}");
            assert_eq!(map, good, "{case}");
        }
        let mut other = good.clone();
        other["metadata"]["annotations"] = json!({DESCRIPTION: "mine", "x": "y"});
        assert!(!mend_root_ca(&mut other, "ca"), "any description will do");
    }
}
