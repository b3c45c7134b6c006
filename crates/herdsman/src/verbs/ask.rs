//! Requests, with answers that help.

use anyhow::{Context as _, anyhow, bail};
use kit::KindId;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::Value;

use super::kinds::{Word, nearest};
use super::target::Target;

/// Who stands in the managed fields of what the command line writes.
pub(crate) const MANAGER: &str = "herdsman-cli";

/// How often an object is looked at anew that others were faster to change.
const TRIES: usize = 10;

/// Asks about objects of one namespace.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

impl Ask {
    pub(crate) async fn new(target: &Target) -> anyhow::Result<Self> {
        Ok(Ask { client: target.client().await?, namespace: target.namespace.clone() })
    }

    /// Objects of a kind here.
    pub(crate) fn api(&self, kind: &KindId, namespaced: bool) -> Api<DynamicObject> {
        match namespaced {
            true => Api::namespaced_with(self.client.clone(), &self.namespace, &kind.resource()),
            false => Api::all_with(self.client.clone(), &kind.resource()),
        }
    }

    /// One object. If there is none, the nearest name is told.
    pub(crate) async fn object(&self, word: &Word, name: &str) -> anyhow::Result<Value> {
        let api = self.api(&word.id(), word.namespaced);
        if let Some(object) = api.get_opt(name).await.map_err(explained)? {
            return Ok(serde_json::to_value(object)?);
        }
        let there = api.list(&ListParams::default()).await.map_err(explained)?;
        let names: Vec<&str> = there.items.iter().filter_map(|one| one.metadata.name.as_deref()).collect();
        let place = if word.namespaced { format!(" in namespace {}", self.namespace) } else { String::new() };
        let what = word.name();
        match nearest(name, names.iter().copied()) {
            Some(near) => bail!("there is no {what} {name:?}{place}; did you mean {near:?}?"),
            None if names.is_empty() => bail!("there is no {what} {name:?}{place}; there is none at all"),
            None => bail!("there is no {what} {name:?}{place}; there are: {}", names.join(", ")),
        }
    }

    /// An object that need not be there.
    pub(crate) async fn find(&self, kind: &KindId, name: &str) -> anyhow::Result<Option<Value>> {
        let found = self.api(kind, true).get_opt(name).await.map_err(explained)?;
        found.map(serde_json::to_value).transpose().context("an object cannot be read")
    }

    /// Objects of a kind, by labels. A kind that the server does not have has none.
    pub(crate) async fn list(&self, kind: &KindId, labels: &str) -> anyhow::Result<Vec<Value>> {
        let answer = self.api(kind, true).list(&ListParams::default().labels(labels)).await;
        let found = match answer {
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Vec::new()),
            answer => answer.map_err(explained)?,
        };
        let read = |one: DynamicObject| {
            let mut one = serde_json::to_value(one)?;
            one["apiVersion"] = kind.api_version().into();
            one["kind"] = kind.kind.clone().into();
            Ok(one)
        };
        found.items.into_iter().map(read).collect()
    }

    /// Changes an object by what it looks like now. Controllers write to it, too: if one was faster, it is looked at again.
    pub(crate) async fn edit(
        &self,
        word: &Word,
        name: &str,
        change: impl Fn(&Value) -> anyhow::Result<Value>,
    ) -> anyhow::Result<()> {
        let options = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let api = self.api(&word.id(), word.namespaced);
        for _ in 0..TRIES {
            let patch = change(&self.object(word, name).await?)?;
            match api.patch(name, &options, &Patch::Merge(patch)).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                answer => return answer.map(drop).map_err(explained),
            }
        }
        bail!("{} {name:?} is changed by others all the time: try again later", word.name())
    }

    /// Changes an object, if it is still as it was seen. Warnings of the server are printed.
    pub(crate) async fn patch(
        &self,
        word: &Word,
        name: &str,
        patch: &Value,
        dry_run: bool,
    ) -> anyhow::Result<Value> {
        let options = PatchParams { dry_run, field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let api = self.api(&word.id(), word.namespaced);
        let changed = api.patch(name, &options, &Patch::Merge(patch)).await.map_err(explained)?;
        Ok(serde_json::to_value(changed)?)
    }
}

/// A client's error in words that say what to do.
pub(crate) fn explained(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow!("{}", status.message),
        other => {
            let hint = "is the server running? `herdsman up` starts one";
            anyhow::Error::new(other).context(format!("the server is not reached ({hint})"))
        }
    }
}
