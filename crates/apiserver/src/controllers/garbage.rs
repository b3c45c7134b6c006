//! Garbage collection: objects whose owners are gone go too.

mod action;
mod decision;
mod graph;

use std::collections::BTreeSet;
use std::time::Duration;

use super::client::Client;
use super::engine::{After, Controller, Work};
use super::metadata::{Metadata, OwnerReference};
use super::place::{Place, resource_of_kind};
use super::queue::Item;
use crate::registry::{DEFINITIONS, Origin, Registry};
use crate::store::{Event, Scope, Stored, View};
use action::Found;
use decision::{Decision, Dependents, Owner, decide};
use graph::Graph;

/// How many objects are worked on at a time, so that writes share commits.
const WIDTH: usize = 20;

/// The item that stands for all objects whose owners' kinds are not known. No key is empty.
const UNKNOWN_KINDS: &str = "";

/// A CRD is served a moment after it is stored: after it changes, unknown kinds are looked for again after these times.
const LOOK_AGAIN: [Duration; 3] =
    [Duration::from_millis(10), Duration::from_millis(100), Duration::from_secs(1)];

/// The garbage collector.
pub(super) struct Garbage {
    client: Client,
    graph: Graph,
    /// Objects that wait for the kind of an owner to exist.
    awaiting_kind: BTreeSet<Item>,
    looks_for_kinds: usize,
}

impl Garbage {
    pub(super) fn new(client: Client) -> Self {
        let graph = Graph::default();
        Garbage { client, graph, awaiting_kind: BTreeSet::new(), looks_for_kinds: 0 }
    }

    fn look_for_kinds(&mut self) -> After {
        let items = std::mem::take(&mut self.awaiting_kind).into_iter().collect();
        self.looks_for_kinds += 1;
        match LOOK_AGAIN.get(self.looks_for_kinds - 1) {
            Some(wait) => After::LookAndLater(items, *wait),
            None => After::Look(items),
        }
    }

    /// Decides what becomes of the object at a key, from the present.
    fn decide(&self, view: &View, registry: &Registry, stored: &Stored) -> Option<(Found, Decision)> {
        let place = Place::of(&stored.key)?;
        let resource = place.resource(registry)?.clone();
        let metadata = Metadata::of(stored);
        let dependents = Dependents {
            any: self.graph.dependents(&metadata.uid).next().is_some(),
            blocking: self.graph.is_blocked(&metadata.uid),
            waiting: self.graph.has_waiting_dependent(&metadata.uid),
        };
        let decision =
            decide(&metadata, dependents, |reference| look_up(view, registry, place.namespace, reference));
        let found = Found {
            resource,
            namespace: place.namespace.into(),
            name: place.name.into(),
            uid: metadata.uid,
            owners: metadata.owners,
            version: stored.modified.to_string(),
        };
        Some((found, decision))
    }
}

impl Controller for Garbage {
    fn name(&self) -> &'static str {
        "garbage collector"
    }

    fn width(&self) -> usize {
        WIDTH
    }

    fn begin(&mut self, view: &View) -> Vec<Item> {
        self.graph = Graph::default();
        self.awaiting_kind.clear();
        let mut look = BTreeSet::new();
        for stored in view.scan(&Scope::prefix("/registry/")) {
            if Place::of(&stored.key).is_some_and(|place| !is_ignored(&place)) {
                look.extend(self.graph.follow(&stored.key, None, Some(&Metadata::of(stored))));
            }
        }
        look.into_iter().collect()
    }

    fn note(&mut self, place: &Place<'_>, event: &Event) -> Vec<Item> {
        if is_ignored(place) {
            return Vec::new();
        }
        let [before, after] =
            [&event.previous, &event.current].map(|state| state.as_ref().map(|stored| Metadata::of(stored)));
        let mut look: Vec<Item> =
            self.graph.follow(&event.key, before.as_ref(), after.as_ref()).into_iter().collect();
        if after.is_none() {
            self.awaiting_kind.remove(&event.key);
        }
        if event.key.starts_with(DEFINITIONS) {
            self.looks_for_kinds = 0;
            look.push(UNKNOWN_KINDS.into());
        }
        look
    }

    fn start(&mut self, item: &Item) -> Work {
        if &**item == UNKNOWN_KINDS {
            return Box::pin(std::future::ready(Ok(self.look_for_kinds())));
        }
        let server = self.client.server();
        let (view, registry) = (server.store().view(), server.registry());
        let decided = view.get(item).and_then(|stored| self.decide(&view, &registry, stored));
        let dependents = match &decided {
            Some((found, Decision::Orphan)) => self.graph.dependents(&found.uid).cloned().collect(),
            Some((_, Decision::AwaitKind)) => {
                self.awaiting_kind.insert(item.clone());
                Vec::new()
            }
            _ => Vec::new(),
        };
        let (client, item) = (self.client.clone(), item.clone());
        Box::pin(async move {
            match decided {
                Some((found, decision)) => found.carry_out(&client, item, decision, dependents).await,
                None => Ok(After::Done),
            }
        })
    }
}

/// What there is at the place that a reference of an object in `namespace` names.
fn look_up(view: &View, registry: &Registry, namespace: &str, reference: &OwnerReference) -> Owner {
    let Some(resource) = resource_of_kind(registry, &reference.api_version, &reference.kind) else {
        return Owner::UnknownKind;
    };
    if matches!(&resource.origin, Origin::Builtin(one) if !one.stored) {
        return Owner::UnknownKind;
    }
    if resource.namespaced && namespace.is_empty() {
        return Owner::OutOfReach;
    }
    let Some(stored) = view.get(&resource.key(namespace, &reference.name)) else { return Owner::Absent };
    let owner = Metadata::of(stored);
    if owner.uid != reference.uid {
        Owner::Absent
    } else if owner.waits_for_dependents() {
        Owner::Waiting
    } else {
        Owner::Solid
    }
}

/// Events belong to nobody, and there are many.
fn is_ignored(place: &Place<'_>) -> bool {
    place.is("", "events") || place.is("events.k8s.io", "events")
}
