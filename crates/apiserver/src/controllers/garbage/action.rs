//! What is decided, done by requests.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use jiff::Timestamp;
use kubeapi::Status;
use kubeapi::meta::ORPHAN_FINALIZER;
use kubeapi::request::Propagation;
use serde_json::{Value, json};

use super::super::client::{At, Client, or_gone};
use super::super::engine::After;
use super::super::metadata::{Metadata, OwnerReference};
use super::super::place::Place;
use super::super::queue::Item;
use super::WIDTH;
use super::decision::Decision;
use crate::registry::Resource;

/// An object that something is to be done with.
pub(super) struct Found {
    pub(super) resource: Arc<Resource>,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) owners: Vec<OwnerReference>,
    pub(super) version: String,
}

impl Found {
    fn at(&self) -> At<'_> {
        At::of(&self.resource, &self.namespace, &self.name)
    }

    /// Does what was decided. `dependents` are those to be released.
    pub(super) async fn carry_out(
        &self,
        client: &Client,
        item: Item,
        decision: Decision,
        dependents: Vec<Item>,
    ) -> Result<After, Status> {
        match decision {
            Decision::Keep | Decision::AwaitKind => {}
            Decision::Complain(owner) => self.complain(client, &owner).await,
            Decision::Orphan => {
                let release = |key: Item| disown(client, key, std::slice::from_ref(&self.uid));
                stream::iter(dependents).map(release).buffer_unordered(WIDTH).try_collect::<()>().await?;
                self.release(client, ORPHAN_FINALIZER).await?;
            }
            Decision::Release(finalizer) => self.release(client, finalizer).await?,
            Decision::Disown(uids) => disown(client, item, &uids).await?,
            Decision::Unblock => {
                change_owners(client, item.clone(), |owners| {
                    owners.iter_mut().for_each(|owner| owner["blockOwnerDeletion"] = false.into());
                })
                .await?;
                return Ok(After::Look(vec![item]));
            }
            Decision::Delete(propagation) => self.delete(client, propagation).await?,
        }
        Ok(After::Done)
    }

    /// Deletes the object as it was when this was decided. A change of anything but its owners does not matter.
    async fn delete(&self, client: &Client, propagation: Propagation) -> Result<(), Status> {
        let policy = match propagation {
            Propagation::Orphan => "Orphan",
            Propagation::Foreground => "Foreground",
            Propagation::Background => "Background",
        };
        let mut options = json!({
            "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy,
            "preconditions": {"uid": self.uid, "resourceVersion": self.version},
        });
        match or_gone(client.delete(self.at(), options.clone()).await) {
            Err(status) if status.code == 409 => {
                let view = client.server().store().view();
                let key = self.resource.key(&self.namespace, &self.name);
                let Some(now) = view.get(&key).map(|stored| Metadata::of(stored)) else { return Ok(()) };
                if now.uid != self.uid || now.owners != self.owners {
                    return Err(status);
                }
                options["preconditions"] = json!({"uid": self.uid});
                or_gone(client.delete(self.at(), options).await).map(drop)
            }
            other => other.map(drop),
        }
    }

    /// Takes a finalizer off the object.
    async fn release(&self, client: &Client, finalizer: &str) -> Result<(), Status> {
        let Some(object) = or_gone(client.get(self.at()).await)? else { return Ok(()) };
        let metadata = &object["metadata"];
        let mut finalizers = metadata["finalizers"].as_array().cloned().unwrap_or_default();
        if metadata["uid"] != self.uid.as_str() || !finalizers.iter().any(|one| one == finalizer) {
            return Ok(());
        }
        finalizers.retain(|one| one != finalizer);
        let change = json!({"metadata": {
            "resourceVersion": metadata["resourceVersion"], "finalizers": finalizers,
        }});
        or_gone(client.patch(self.at(), change).await).map(drop)
    }

    /// Leaves a word for whoever made a reference that leads nowhere.
    async fn complain(&self, client: &Client, owner: &OwnerReference) {
        let now = client.server().clock().now();
        let event = invalid_namespace(self, owner, now);
        if let Err(status) = client.create(At::core("events", "default", ""), event).await {
            // That one was there before is as good; and nothing depends on it.
            tracing::debug!(error = %status.message, "no event about an owner out of reach");
        }
    }
}

/// The Event that tells of a reference from an object without a namespace to a kind that has them.
fn invalid_namespace(object: &Found, owner: &OwnerReference, now: Timestamp) -> Value {
    let OwnerReference { api_version, kind, name, uid, .. } = owner;
    let time = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    json!({
        "apiVersion": "v1", "kind": "Event",
        // One for each such reference, however often it is met.
        "metadata": {"name": format!("{}.{uid}", object.name), "namespace": "default"},
        "involvedObject": {
            "apiVersion": object.resource.group_version().to_string(), "kind": object.resource.kind,
            "name": object.name, "uid": object.uid,
        },
        "type": "Warning", "reason": "OwnerRefInvalidNamespace", "count": 1,
        "message": format!(
            "ownerRef [{api_version}/{kind}, namespace: , name: {name}, uid: {uid}] does not exist in namespace \"\""
        ),
        "source": {"component": "garbage-collector-controller"},
        "firstTimestamp": time, "lastTimestamp": time,
    })
}

/// Takes the references to these owners off the object at a key.
async fn disown(client: &Client, key: Item, uids: &[String]) -> Result<(), Status> {
    change_owners(client, key, |owners| {
        owners.retain(|owner| !uids.iter().any(|uid| owner["uid"] == uid.as_str()));
    })
    .await
}

/// Changes the references of the object at a key, if it is still there.
async fn change_owners(
    client: &Client,
    key: Item,
    change: impl FnOnce(&mut Vec<Value>),
) -> Result<(), Status> {
    let registry = client.server().registry();
    let Some(place) = Place::of(&key) else { return Ok(()) };
    let Some(resource) = place.resource(&registry) else { return Ok(()) };
    let at = At::of(resource, place.namespace, place.name);
    let Some(object) = or_gone(client.get(at).await)? else { return Ok(()) };
    let metadata = &object["metadata"];
    let before = metadata["ownerReferences"].as_array().cloned().unwrap_or_default();
    let mut after = before.clone();
    change(&mut after);
    if after == before {
        return Ok(());
    }
    let owners = if after.is_empty() { Value::Null } else { after.into() };
    let change = json!({"metadata": {
        "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"], "ownerReferences": owners,
    }});
    or_gone(client.patch(at, change).await).map(drop)
}
