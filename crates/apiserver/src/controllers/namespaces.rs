//! Namespaces that go: first all that is in them, then they themselves.

mod conditions;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kubeapi::{Status, meta};
use serde_json::{Value, json};

use super::client::{At, Client, or_gone};
use super::engine::{After, Controller, Work};
use super::metadata::Metadata;
use super::place::Place;
use super::queue::Item;
use crate::registry::{Registry, Resource};
use crate::store::{Event, Scope, View};
use conditions::Remains;

/// The finalizer in a namespace's spec that is ours to take off.
const FINALIZER: &str = "kubernetes";

/// How many seconds whoever owns a finalizer is given before anybody looks again, if nothing happens before.
const FINALIZER_SECONDS: i64 = 15;

const WIDTH: usize = 10;

/// Empties namespaces that are being deleted.
pub(super) struct Namespaces {
    client: Client,
    going: BTreeSet<Item>,
}

impl Namespaces {
    pub(super) fn new(client: Client) -> Self {
        Namespaces { client, going: BTreeSet::new() }
    }
}

impl Controller for Namespaces {
    fn name(&self) -> &'static str {
        "namespace controller"
    }

    fn width(&self) -> usize {
        WIDTH
    }

    fn begin(&mut self, view: &View) -> Vec<Item> {
        let scope = Scope::prefix("/registry/core/namespaces/");
        let going = view.scan(&scope).filter(|stored| Metadata::of(stored).is_being_deleted());
        self.going = going.filter_map(|stored| Some(Place::of(&stored.key)?.name.into())).collect();
        self.going.iter().cloned().collect()
    }

    fn note(&mut self, place: &Place<'_>, event: &Event) -> Vec<Item> {
        if place.is("", "namespaces") {
            if event.current.as_ref().is_some_and(|stored| Metadata::of(stored).is_being_deleted()) {
                self.going.insert(place.name.into());
                return vec![place.name.into()];
            }
            self.going.remove(place.name);
        } else if let Some(namespace) = self.going.get(place.namespace) {
            return vec![namespace.clone()];
        }
        Vec::new()
    }

    fn start(&mut self, item: &Item) -> Work {
        let (client, name) = (self.client.clone(), item.clone());
        Box::pin(async move { empty(&client, &name).await })
    }
}

/// Deletes all that is in a namespace, tells how far it is, and lets it go once it is empty.
async fn empty(client: &Client, name: &str) -> Result<After, Status> {
    let Some(mut namespace) = or_gone(client.get(At::namespace(name)).await)? else { return Ok(After::Done) };
    let finalizers = namespace["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
    if !meta::is_being_deleted(&namespace) || finalizers.is_empty() {
        return Ok(After::Done);
    }
    let now = client.server().clock().now();
    let deleted: Option<Timestamp> =
        namespace["metadata"]["deletionTimestamp"].as_str().and_then(|time| time.parse().ok());
    let mut emptying = Emptying {
        client,
        namespace: name,
        elapsed: deleted.map_or(0, |deleted| now.as_second() - deleted.as_second()),
        estimate: 0,
        remains: Remains::default(),
    };
    emptying.delete_content().await;
    let Emptying { estimate, remains, .. } = emptying;
    if remains.tell(&mut namespace, now) || namespace["status"]["phase"] != "Terminating" {
        namespace["status"]["phase"] = json!("Terminating");
        let told = client.update(At::namespace(name).sub("status"), namespace).await;
        match or_gone(told)? {
            Some(told) => namespace = told,
            None => return Ok(After::Done),
        }
    }
    if !remains.errors.is_empty() {
        return Err(Status::internal(remains.errors.join(", ")));
    }
    if estimate > 0 {
        return Ok(After::Later(Duration::from_secs(estimate.unsigned_abs() / 2 + 1)));
    }
    let mut others: Vec<Value> = finalizers.into_iter().filter(|one| one != FINALIZER).collect();
    others.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
    namespace["spec"]["finalizers"] = others.into();
    or_gone(client.update(At::namespace(name).sub("finalize"), namespace).await)?;
    Ok(After::Done)
}

/// A namespace that is being emptied.
struct Emptying<'a> {
    client: &'a Client,
    namespace: &'a str,
    /// Seconds since its deletion began.
    elapsed: i64,
    /// Seconds that what is left may take.
    estimate: i64,
    remains: Remains,
}

impl Emptying<'_> {
    /// Deletes everything, Pods before all else.
    async fn delete_content(&mut self) {
        let mut resources = deletable(&self.client.server().registry());
        if let Some(pods) = resources.remove(&(String::new(), "pods".to_owned())) {
            let left = self.delete_all(&pods).await;
            if left > 0 {
                // What else there is waits for the Pods, and is not told of meanwhile.
                self.remains.objects.clear();
                self.remains.finalizers.clear();
                return;
            }
        }
        for resource in resources.values() {
            self.delete_all(resource).await;
        }
    }

    /// Deletes all objects of one resource. Gives how many are left.
    async fn delete_all(&mut self, resource: &Resource) -> usize {
        let store = self.client.server().store();
        let scope = Scope::prefix(resource.prefix(self.namespace));
        let view = store.view();
        let mut there = view.scan(&scope).peekable();
        if there.peek().is_none() {
            return 0;
        }
        let grace = match resource.group.is_empty() && resource.plural == "pods" {
            true => there.filter_map(|stored| grace_period(&stored.value())).max().unwrap_or(0),
            false => 0,
        };
        let grace = if self.elapsed >= grace { 0 } else { grace };
        let deleted = self.delete_collection(resource).await;
        if let Err(status) = deleted {
            self.estimate = self.estimate.max(grace);
            self.remains.errors.push(status.message);
            return 0;
        }
        let view = store.view();
        let mut left = 0;
        let mut held = false;
        for stored in view.scan(&scope) {
            left += 1;
            for finalizer in Metadata::of(stored).finalizers {
                held = true;
                *self.remains.finalizers.entry(finalizer).or_default() += 1;
            }
        }
        if left == 0 {
            return 0;
        }
        *self.remains.objects.entry(resource_name(resource)).or_default() += left;
        match (grace, held) {
            (0, true) => self.estimate = self.estimate.max(FINALIZER_SECONDS),
            (0, false) => self.remains.errors.push(format!(
                "unexpected items still remain in namespace: {} for gvr: {}/{}, Resource={}",
                self.namespace, resource.group, resource.version, resource.plural
            )),
            (grace, _) => self.estimate = self.estimate.max(grace),
        }
        left
    }

    /// One request for all, or one for each where the resource knows no other.
    async fn delete_collection(&self, resource: &Resource) -> Result<(), Status> {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
        let all = At::of(resource, self.namespace, "");
        match self.client.delete_collection(all, options.clone()).await {
            Err(status) if matches!(status.code, 404 | 405) => {}
            other => return other.map(drop),
        }
        let view = self.client.server().store().view();
        for stored in view.scan(&Scope::prefix(resource.prefix(self.namespace))) {
            let name = Place::of(&stored.key).map_or("", |place| place.name);
            match self.client.delete(At { name, ..all }, options.clone()).await {
                Err(status) if !matches!(status.code, 404 | 405) => return Err(status),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The resources with objects in namespaces that can be deleted, by group and plural, each in one version.
fn deletable(registry: &Registry) -> BTreeMap<(String, String), Arc<Resource>> {
    let mut chosen: BTreeMap<(String, String), Arc<Resource>> = BTreeMap::new();
    let in_namespaces = registry.iter().filter(|one| one.namespaced);
    for resource in in_namespaces.filter(|one| one.verbs.iter().any(|verb| verb == "delete")) {
        let place = (resource.group.clone(), resource.plural.clone());
        if resource.version == resource.storage_version || !chosen.contains_key(&place) {
            chosen.insert(place, resource.clone());
        }
    }
    chosen
}

fn resource_name(resource: &Resource) -> String {
    format!("{}.{}", resource.plural, resource.group)
}

/// The seconds that a Pod may take to end; none if it has ended.
fn grace_period(pod: &[u8]) -> Option<i64> {
    let pod: Value = serde_json::from_slice(pod).ok()?;
    let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    pod["spec"]["terminationGracePeriodSeconds"].as_i64().filter(|_| !ended)
}
