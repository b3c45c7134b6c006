//! One of the two servers: what is asked of it, and done to it.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use api::catalogue::{annotations, settings};
use api::management::Owner;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::core::ApiResource;
use kube::{Client, Error};
use plan::secret::{AGENT_EXPECTED_ANNOTATION, MOVED_TO_ANNOTATION};
use serde_json::{Value, json};

use super::inventory::is_paused;
use super::item::{COPY_OF, Fate, Item};
use crate::verbs::ask::{MANAGER, explained};

/// On a cluster that we have paused, and nobody before us.
const PAUSED_BY_US: &str = "herdsman.io/paused-by-move";
const PROVISIONING: &str = "provisioning.cattle.io";
const CAPI: &str = "cluster.x-k8s.io";
const MANAGEMENT: &str = "management.cattle.io";

/// How often an object is tried that others write meanwhile.
const ATTEMPTS: usize = 50;

/// Where a server is reached by nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) url: String,
    pub(super) ca: String,
}

/// A server.
pub(super) struct Side {
    pub(super) client: Client,
    /// For people.
    pub(super) name: String,
}

fn core(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: String::new(),
        version: "v1".into(),
        api_version: "v1".into(),
        kind: kind.into(),
        plural: plural.into(),
    }
}

/// An object that is not there is none; what else is wrong is.
fn unless_missing<T>(answer: Result<T, Error>) -> anyhow::Result<Option<T>> {
    match answer {
        Err(Error::Api(status)) if status.code == 404 => Ok(None),
        answer => answer.map(Some).map_err(explained),
    }
}

impl Side {
    fn api(&self, item: &Item) -> Api<DynamicObject> {
        match item.namespaced {
            true => Api::namespaced_with(self.client.clone(), item.namespace(), &item.resource),
            false => Api::all_with(self.client.clone(), &item.resource),
        }
    }

    async fn patch(&self, item: &Item, patch: &Value) -> anyhow::Result<()> {
        let options = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let answer = self.api(item).patch(item.name(), &options, &Patch::Merge(patch)).await;
        unless_missing(answer).with_context(|| format!("cannot change {} at {}", item.title(), self.name))?;
        Ok(())
    }

    /// What makes this server another than any other.
    pub(super) async fn identity(&self) -> anyhow::Result<String> {
        let answer = self.namespaces().get("kube-system").await.map_err(explained);
        let found = answer.with_context(|| format!("{} is not reached", self.name))?;
        Ok(found.metadata.uid.unwrap_or_default())
    }

    /// Where nodes reach it, as it says itself.
    pub(super) async fn address(&self) -> anyhow::Result<Address> {
        let kind = ApiResource {
            group: MANAGEMENT.into(),
            version: "v3".into(),
            api_version: format!("{MANAGEMENT}/v3"),
            kind: "Setting".into(),
            plural: "settings".into(),
        };
        let settings: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind);
        let text = async |name: &str| {
            let found = unless_missing(settings.get(name).await)?;
            let text = found.and_then(|one| Some(one.data["default"].as_str()?.to_owned()));
            anyhow::Ok(text.unwrap_or_default())
        };
        let address = Address { url: text(settings::SERVER_URL).await?, ca: text(settings::CA_CERTS).await? };
        if address.url.is_empty() {
            bail!(
                "{} does not say where nodes reach it: is `herdsman up` or `herdsman server` running there?",
                self.name
            );
        }
        Ok(address)
    }

    /// Stops all controllers from touching clusters; says how many they are.
    pub(super) async fn pause(&self, items: &[Item]) -> anyhow::Result<usize> {
        let mut count = 0;
        for item in items {
            let stop = match () {
                () if item.is(PROVISIONING, "Cluster") => {
                    json!({"metadata": {"annotations": {annotations::PAUSED: "true", PAUSED_BY_US: "true"}}})
                }
                () if item.is(CAPI, "Cluster") => {
                    json!({"metadata": {"annotations": {PAUSED_BY_US: "true"}}, "spec": {"paused": true}})
                }
                () => continue,
            };
            if !is_paused(item) {
                self.patch(item, &stop).await?;
            }
            count += usize::from(item.is(PROVISIONING, "Cluster"));
        }
        Ok(count)
    }

    /// Lets controllers go on with what we have paused.
    pub(super) async fn resume(&self, items: &[Item]) -> anyhow::Result<()> {
        let ours = items.iter().filter(|item| item.annotation(PAUSED_BY_US).is_some());
        for item in ours {
            let patch = match item.is(CAPI, "Cluster") {
                true => json!({"metadata": {"annotations": {PAUSED_BY_US: null}}, "spec": {"paused": null}}),
                false => {
                    json!({"metadata": {"annotations": {PAUSED_BY_US: null, annotations::PAUSED: null}}})
                }
            };
            self.patch(item, &patch).await?;
        }
        Ok(())
    }

    /// Objects of the same names that are not copies of these.
    pub(super) async fn strangers(&self, items: &[Item]) -> anyhow::Result<Vec<String>> {
        let mut found = Vec::new();
        for item in items.iter().filter(|item| item.fate == Fate::Moves) {
            let there = unless_missing(self.api(item).get(item.name()).await)?;
            let copy_of = |one: &DynamicObject| one.metadata.annotations.as_ref()?.get(COPY_OF).cloned();
            if there.is_some_and(|there| copy_of(&there).as_deref() != Some(item.uid())) {
                found.push(item.title());
            }
            if self.is_foreign_namespace(item).await? {
                found.push(format!("Namespace {}", item.name()));
            }
        }
        Ok(found)
    }

    /// Whether the namespace of a management cluster exists here and was made for another cluster, or for none.
    async fn is_foreign_namespace(&self, item: &Item) -> anyhow::Result<bool> {
        let Some(owner) = item.made_for() else { return Ok(false) };
        let found = unless_missing(self.namespaces().get(item.name()).await)?;
        let made_for = |found: &DynamicObject| {
            let notes = found.metadata.annotations.as_ref();
            Owner::of(|key| notes?.get(key).map(String::as_str))
        };
        let ours = |found: DynamicObject| {
            made_for(&found).is_some_and(|found| found.is_at(&owner.namespace, &owner.name))
        };
        Ok(found.is_some_and(|found| !ours(found)))
    }

    fn namespaces(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &core("Namespace", "namespaces"))
    }

    /// Makes copies, owners first. `uids` learns what they are called here. Says how many are new.
    pub(super) async fn receive(
        &self,
        items: &[Item],
        uids: &mut BTreeMap<String, String>,
    ) -> anyhow::Result<usize> {
        let mut count = 0;
        for item in items.iter().filter(|item| !uids.contains_key(item.uid())).collect::<Vec<_>>() {
            self.ensure_namespace(item.namespace(), None).await?;
            if let Some(owner) = item.made_for_there(uids) {
                self.ensure_namespace(item.name(), Some(&owner)).await?;
            }
            let there = self.make(item, uids).await;
            let there = there.with_context(|| format!("cannot make {} at {}", item.title(), self.name))?;
            uids.insert(item.uid().to_owned(), there.metadata.uid.unwrap_or_default());
            count += 1;
        }
        Ok(count)
    }

    async fn make(&self, item: &Item, uids: &BTreeMap<String, String>) -> anyhow::Result<DynamicObject> {
        let (api, copy) = (self.api(item), item.copy(uids));
        let options = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        let made = match api.create(&options, &serde_json::from_value(copy.clone())?).await {
            Err(Error::Api(status)) if status.code == 409 && status.reason == "AlreadyExists" => {
                let there = api.get(item.name()).await.map_err(explained)?;
                if item.fate == Fate::Shared {
                    return Ok(there);
                }
                // Half a move before us, or a controller that has found its owner already.
                let mut copy = copy;
                copy["metadata"]["resourceVersion"] = there.metadata.resource_version.into();
                let copy = serde_json::from_value(copy)?;
                api.replace(item.name(), &options, &copy).await.map_err(explained)?
            }
            answer => answer.map_err(explained)?,
        };
        let status = &item.document["status"];
        if item.has_status && status.is_object() {
            let options = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
            let patch = Patch::Merge(json!({"status": status}));
            api.patch_status(item.name(), &options, &patch).await.map_err(explained)?;
        }
        Ok(made)
    }

    /// Makes a namespace unless it is there; one of a management cluster says for whom it was made.
    async fn ensure_namespace(&self, name: &str, owner: Option<&Owner>) -> anyhow::Result<()> {
        let namespaces = self.namespaces();
        if name.is_empty() || unless_missing(namespaces.get(name).await)?.is_some() {
            return Ok(());
        }
        let mut wanted = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        if let Some(owner) = owner {
            wanted["metadata"]["annotations"] = json!({annotations::HERDSMAN_OWNER: owner.to_string()});
        }
        let made = namespaces.create(&PostParams::default(), &serde_json::from_value(wanted)?).await;
        made.map_err(explained)
            .with_context(|| format!("cannot make the namespace {name} at {}", self.name))?;
        Ok(())
    }

    /// Tells agents where the server is.
    pub(super) async fn tell(&self, plans: &[Item], there: &Address) -> anyhow::Result<()> {
        let notice = json!({"url": there.url, "ca": there.ca}).to_string();
        let patch = json!({"metadata": {"annotations": {MOVED_TO_ANNOTATION: notice}}});
        for plan in plans {
            self.patch(plan, &patch).await?;
        }
        Ok(())
    }

    /// Plans whose agents have not come here yet.
    pub(super) async fn awaited<'a>(&self, plans: &'a [Item]) -> anyhow::Result<Vec<&'a Item>> {
        let mut missing = Vec::new();
        for plan in plans {
            let found = unless_missing(self.api(plan).get(plan.name()).await)?;
            let notes = found.and_then(|found| found.metadata.annotations).unwrap_or_default();
            if notes.contains_key(AGENT_EXPECTED_ANNOTATION) {
                missing.push(plan);
            }
        }
        Ok(missing)
    }

    /// Forgets what has been moved, owners last. Nothing that it stands for is touched: nobody looks after it here.
    pub(super) async fn forget(&self, items: &[Item]) -> anyhow::Result<usize> {
        let gone: Vec<&Item> = items.iter().rev().filter(|item| item.fate == Fate::Moves).collect();
        for item in &gone {
            let forgotten = self.forget_one(item).await;
            forgotten.with_context(|| format!("cannot forget {} at {}", item.title(), self.name))?;
        }
        self.forget_namespaces(&gone).await?;
        Ok(gone.len())
    }

    /// Takes finalizers off and deletes in one go: an object that is being deleted, if only for a moment, would have a
    /// controller do away with what it stands for.
    async fn forget_one(&self, item: &Item) -> anyhow::Result<()> {
        let api = self.api(item);
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let options = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        for _ in 0..ATTEMPTS {
            let Some(freed) = unless_missing(api.patch(item.name(), &options, &free).await)? else {
                return Ok(());
            };
            let as_freed = Preconditions { resource_version: freed.metadata.resource_version, uid: None };
            let options = DeleteParams::background().preconditions(as_freed);
            match api.delete(item.name(), &options).await {
                // Somebody was faster, and may have put a finalizer on.
                Err(Error::Api(status)) if status.code == 409 => {}
                answer => return unless_missing(answer).map(drop),
            }
        }
        bail!("somebody changes it again and again")
    }

    /// Each management cluster has a namespace of its own.
    async fn forget_namespaces(&self, items: &[&Item]) -> anyhow::Result<()> {
        let namespaces = self.namespaces();
        for item in items.iter().filter(|item| item.is_management()) {
            if self.is_foreign_namespace(item).await? {
                continue;
            }
            unless_missing(namespaces.delete(item.name(), &DeleteParams::default()).await)?;
        }
        Ok(())
    }

    /// Clusters of these that have no connection here.
    pub(super) async fn unconnected<'a>(&self, items: &'a [Item]) -> anyhow::Result<Vec<&'a Item>> {
        let mut missing = Vec::new();
        for item in items.iter().filter(|item| item.is_management() && is_connected(&item.document)) {
            let found = unless_missing(self.api(item).get(item.name()).await)?;
            let found = found.map(serde_json::to_value).transpose()?.unwrap_or_default();
            if !is_connected(&found) {
                missing.push(item);
            }
        }
        Ok(missing)
    }
}

fn is_connected(cluster: &Value) -> bool {
    let conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|one| one["type"] == "Connected" && one["status"] == "True")
}
