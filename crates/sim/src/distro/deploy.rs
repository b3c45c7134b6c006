//! Manifests on servers: what lies in `server/manifests` is applied to the cluster, and goes when it is taken out of its file.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::process::Context;

/// After something that could not be applied, as the distributions look again.
const AGAIN: Duration = Duration::from_secs(15);
/// Who writes.
const MANAGER: &str = "deploy";

/// An object that a file has brought.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Deployed {
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
}

impl Deployed {
    fn of(document: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Deployed {
            api_version: text(&document["apiVersion"]),
            kind: text(&document["kind"]),
            namespace: text(&document["metadata"]["namespace"]),
            name: text(&document["metadata"]["name"]),
        }
    }
}

/// The kinds that the distributions bring.
pub(super) async fn definitions(cluster: &Cluster) -> Result<(), String> {
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client(MANAGER));
    let kinds = [
        ("helm.cattle.io", "HelmChart", "helmcharts", "Namespaced"),
        ("helm.cattle.io", "HelmChartConfig", "helmchartconfigs", "Namespaced"),
        ("k3s.cattle.io", "Addon", "addons", "Namespaced"),
        ("k3s.cattle.io", "ETCDSnapshotFile", "etcdsnapshotfiles", "Cluster"),
    ];
    for (group, kind, plural, scope) in kinds {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let document = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group, "scope": scope,
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
                }],
            },
        });
        let params = PatchParams::apply(MANAGER).force();
        let answer = crds.patch(&format!("{plural}.{group}"), &params, &Patch::Apply(&document)).await;
        answer.map_err(|error| agent::chain(&error))?;
    }
    Ok(())
}

/// Follows the manifests of a server for ever.
pub(super) async fn follow(context: &Context<'_>, cluster: &Arc<Cluster>) -> Infallible {
    let machine = context.machine;
    let directory = machine.root.locate(format!("{}/server/manifests", context.data_dir));
    let mut done: BTreeMap<String, String> = BTreeMap::new();
    let mut kinds = Kinds::default();
    loop {
        cluster.until(|cluster| cluster.has_api_at(&machine.name)).await;
        let mut good = true;
        for (file, content) in manifests(&directory) {
            if done.get(&file) == Some(&content) {
                continue;
            }
            match deploy(cluster, &mut kinds, &file, &content).await {
                Ok(()) => drop(done.insert(file, content)),
                Err(why) => {
                    machine.say(format!("cannot deploy {file}: {why}"));
                    good = false;
                }
            }
        }
        match good {
            true => machine.files_changed.notified().await,
            false => {
                let _ = tokio::time::timeout(AGAIN, machine.files_changed.notified()).await;
            }
        }
    }
}

/// Files below a directory, in order.
fn manifests(directory: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        for entry in std::fs::read_dir(&next).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_manifest =
                path.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json");
            if path.is_dir() {
                directories.push(path);
            } else if let Some(content) = is_manifest.then(|| std::fs::read_to_string(&path).ok()).flatten() {
                let name = path.strip_prefix(directory).unwrap_or(&path).display().to_string();
                found.insert(name, content);
            }
        }
    }
    found
}

/// Resources of kinds, as discovery said.
#[derive(Default)]
struct Kinds(BTreeMap<(String, String), (ApiResource, Scope)>);

impl Kinds {
    async fn api(&mut self, client: &kube::Client, object: &Deployed) -> Result<Api<DynamicObject>, String> {
        let key = (object.api_version.clone(), object.kind.clone());
        if !self.0.contains_key(&key) {
            let (group, version) = object.api_version.rsplit_once('/').unwrap_or(("", &object.api_version));
            let kind = GroupVersionKind::gvk(group, version, &object.kind);
            let (resource, capabilities) =
                pinned_kind(client, &kind).await.map_err(|error| agent::chain(&error))?;
            self.0.insert(key.clone(), (resource, capabilities.scope));
        }
        let (resource, scope) = &self.0[&key];
        let namespace = if object.namespace.is_empty() { "default" } else { &object.namespace };
        Ok(match scope {
            Scope::Cluster => Api::all_with(client.clone(), resource),
            Scope::Namespaced => Api::namespaced_with(client.clone(), namespace, resource),
        })
    }
}

/// Applies a file's documents, and removes what it brought before and does not have any more.
async fn deploy(cluster: &Cluster, kinds: &mut Kinds, file: &str, content: &str) -> Result<(), String> {
    let client = cluster.client("system:deploy");
    let mut documents: Vec<Value> = Vec::new();
    if !content.trim().is_empty() {
        documents = serde_saphyr::from_multiple(content).map_err(|error| error.to_string())?;
    }
    documents.retain(Value::is_object);
    let mut now = BTreeSet::new();
    for document in &documents {
        let object = Deployed::of(document);
        let api = kinds.api(&client, &object).await?;
        let params = PatchParams::apply(MANAGER).force();
        let answer = api.patch(&object.name, &params, &Patch::Apply(document)).await;
        answer.map_err(|error| format!("{} {}: {}", object.kind, object.name, agent::chain(&error)))?;
        now.insert(object);
    }
    let before = cluster.change(|kept| kept.deployed.get(file).cloned().unwrap_or_default())?;
    for object in before.difference(&now) {
        let api = kinds.api(&client, object).await?;
        match api.delete(&object.name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            answer => drop(answer.map_err(|error| agent::chain(&error))?),
        }
    }
    cluster.change(|kept| kept.deployed.insert(file.to_owned(), now)).map(drop)
}
