//! Clients that list and watch, on one thread, in an order that a seed decides: each is told exactly what happened in
//! its selection, and ends with what is there.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use apiserver::server::{EventType, Server, WatchEvent, Watching};
use apiserver::store::{LogHash, MemoryStore, Options, Revision};
use clock::{Entropy, SeededEntropy};
use futures_util::FutureExt;
use kubeapi::Status;
use serde_json::{Value, json};

use crate::support::{ask, ok, server_on, watch};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const LABELS: [&str; 3] = ["x", "y", "z"];
const NAMESPACES: [&str; 2] = ["default", "other"];

/// What is watched: a path, and selectors.
const SELECTIONS: [(&str, &str); 6] = [
    ("/api/v1/namespaces/default/configmaps", ""),
    ("/api/v1/configmaps", ""),
    ("/api/v1/namespaces/default/configmaps", "labelSelector=l%3Dx"),
    ("/api/v1/configmaps", "labelSelector=l+in+%28x%2Cy%29"),
    ("/api/v1/namespaces/other/configmaps", "fieldSelector=metadata.name%3Db"),
    ("/api/v1/configmaps", "labelSelector=l%21%3Dz&fieldSelector=metadata.namespace%3Ddefault"),
];

/// Objects by namespace and name.
type Objects = BTreeMap<(String, String), Value>;

fn place(object: &Value) -> (String, String) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap().to_owned();
    (text("namespace"), text("name"))
}

fn revision(object: &Value) -> i64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// The objects of a list, as a watch tells them.
fn objects(list: &Value) -> Objects {
    let items = list["items"].as_array().unwrap().iter().map(|item| {
        let mut object = json!({"kind": "ConfigMap", "apiVersion": "v1"});
        object.as_object_mut().unwrap().extend(item.as_object().unwrap().clone());
        (place(item), object)
    });
    items.collect()
}

/// All that a selection has ever held: at each revision, from the first on.
struct Past(BTreeMap<i64, Objects>);

impl Past {
    /// The next event of the selection above a revision.
    fn next(&self, after: i64) -> Option<(i64, WatchEvent)> {
        let pairs = self.0.range(after..).zip(self.0.range(after..).skip(1));
        pairs
            .into_iter()
            .find_map(|((_, before), (revision, now))| Some((*revision, difference(before, now, *revision)?)))
    }
}

fn difference(before: &Objects, now: &Objects, revision: i64) -> Option<WatchEvent> {
    let changed = now.iter().find(|(key, object)| before.get(key) != Some(object));
    let gone = before.iter().find(|(key, _)| !now.contains_key(*key));
    match (changed, gone) {
        (None, None) => None,
        (Some((key, object)), None) => {
            let event = if before.contains_key(key) { EventType::Modified } else { EventType::Added };
            Some(WatchEvent { event, object: object.clone() })
        }
        (None, Some((_, object))) => {
            let mut object = object.clone();
            object["metadata"]["resourceVersion"] = json!(revision.to_string());
            Some(WatchEvent { event: EventType::Deleted, object })
        }
        (Some(_), Some(_)) => panic!("two changes at revision {revision}"),
    }
}

/// A client as informers are.
struct Client {
    path: &'static str,
    selector: &'static str,
    /// Whether it gets its list from the watch.
    streams: bool,
    watching: Option<Watching>,
    /// The revision that its copy is as of; none until it has one.
    seen: Option<i64>,
    copy: Objects,
    relisted: u32,
}

impl Client {
    fn url(&self, more: &str) -> String {
        format!("{}?{}&{more}", self.path, self.selector)
    }

    /// Gets a watch to go on with, after a list if need be.
    async fn connect(&mut self, server: &Server) {
        if self.seen.is_none() && !self.streams {
            let list = ok(server, "GET", &self.url(""), Value::Null).await;
            (self.copy, self.seen) = (objects(&list), Some(revision(&list)));
        }
        let more = match self.seen {
            Some(seen) => format!("watch=1&allowWatchBookmarks=true&resourceVersion={seen}"),
            None => {
                self.copy.clear();
                "watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
                    .into()
            }
        };
        match watch(server, &self.url(&more)) {
            Ok(watching) => self.watching = Some(watching),
            Err(status) => self.expired(server, &status),
        }
    }

    /// What was to be told is forgotten, and a new list is needed.
    fn expired(&mut self, server: &Server, status: &Status) {
        assert_eq!((status.code, status.reason.as_str()), (410, "Expired"), "{}", status.message);
        let floor = server.store().view().floor();
        assert!(self.seen.is_some_and(|seen| seen < floor.0), "{:?} is not below {floor}", self.seen);
        (self.watching, self.seen) = (None, None);
        self.relisted += 1;
    }

    /// Takes an event if there is one, and says whether there may be more.
    async fn take(&mut self, server: &Server, past: &Past) -> bool {
        let Some(watching) = &mut self.watching else {
            self.connect(server).await;
            return true;
        };
        match watching.next().now_or_never() {
            None => return false,
            Some(Ok(Some(event))) => self.follow(event, past),
            Some(Ok(None)) => panic!("no CRD has changed"),
            Some(Err(status)) => self.expired(server, &status),
        }
        true
    }

    fn follow(&mut self, told: WatchEvent, past: &Past) {
        let Some(seen) = self.seen else {
            return self.follow_initial(told, past);
        };
        let (revision, expected) = past.next(seen).expect("something has happened");
        assert_eq!(told, expected, "after {seen}");
        self.seen = Some(revision);
        match told.event {
            EventType::Deleted => self.copy.remove(&place(&told.object)),
            _ => self.copy.insert(place(&told.object), told.object),
        };
    }

    fn follow_initial(&mut self, told: WatchEvent, past: &Past) {
        if told.event == EventType::Bookmark {
            assert_eq!(told.object["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
            let revision = revision(&told.object);
            assert_eq!(self.copy, past.0[&revision], "as of {revision}");
            self.seen = Some(revision);
        } else {
            assert_eq!(told.event, EventType::Added);
            assert!(self.copy.insert(place(&told.object), told.object).is_none(), "told twice");
        }
    }

    /// Takes a bookmark, which has to be true.
    fn mark(&mut self, past: &Past) {
        let bookmark = self.watching.as_ref().and_then(Watching::bookmark);
        let (Some(bookmark), Some(seen)) = (bookmark, self.seen) else { return };
        let marked = revision(&bookmark.object);
        assert!(marked >= seen, "back from {seen} to {marked}");
        assert!(past.next(seen).is_none_or(|(next, _)| next > marked), "not all was told before {marked}");
        self.seen = Some(marked);
    }
}

/// A server, and clients that work on it and follow it.
struct World {
    server: Server,
    clients: Vec<Client>,
    pasts: Vec<Past>,
    entropy: SeededEntropy,
}

impl World {
    async fn new(seed: u64) -> Self {
        let options = Options { watch_buffer: 5, ..Options::default() };
        let server = server_on(|clock| Arc::new(MemoryStore::new(options, clock))).await;
        ok(&server, "POST", "/api/v1/namespaces", json!({"metadata": {"name": "other"}})).await;
        let client = |streams| {
            move |(path, selector)| Client {
                path,
                selector,
                streams,
                watching: None,
                seen: None,
                copy: Objects::new(),
                relisted: 0,
            }
        };
        let clients: Vec<_> = SELECTIONS
            .into_iter()
            .map(client(false))
            .chain(SELECTIONS.into_iter().map(client(true)))
            .collect();
        let pasts = clients.iter().map(|_| Past(BTreeMap::new())).collect();
        let mut world = World { server, clients, pasts, entropy: SeededEntropy::new(seed) };
        world.note().await;
        world
    }

    /// Keeps what each selection holds at the present revision.
    async fn note(&mut self) {
        let head = self.server.store().view().head().0;
        for (client, past) in self.clients.iter().zip(&mut self.pasts) {
            if let Entry::Vacant(missing) = past.0.entry(head) {
                let list = ok(&self.server, "GET", &client.url(""), Value::Null).await;
                missing.insert(objects(&list));
            }
        }
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.entropy.below(u32::try_from(choices.len()).unwrap()) as usize]
    }

    async fn write(&mut self) {
        let (namespace, name, label) = (self.one_of(&NAMESPACES), self.one_of(&NAMES), self.one_of(&LABELS));
        let all = format!("/api/v1/namespaces/{namespace}/configmaps");
        let (one, method) = (format!("{all}/{name}"), self.one_of(&["POST", "PUT", "merge", "DELETE"]));
        let body = json!({"metadata": {"name": name, "labels": {"l": label}}});
        let (url, body) = match method {
            "POST" => (&all, Some(body)),
            "DELETE" => (&one, None),
            _ => (&one, Some(body)),
        };
        // What is there already, or not there, is refused: no matter.
        let _ = ask(&self.server, method, url, body).await;
        self.note().await;
    }

    async fn step(&mut self) {
        let client = self.entropy.below(u32::try_from(self.clients.len()).unwrap()) as usize;
        match self.entropy.below(20) {
            0..9 => self.write().await,
            9..16 => {
                for _ in 0..self.entropy.below(8) {
                    self.clients[client].take(&self.server, &self.pasts[client]).await;
                }
            }
            16 => self.clients[client].mark(&self.pasts[client]),
            17 | 18 => self.clients[client].watching = None,
            _ => {
                let behind = i64::from(self.entropy.below(12));
                let floor = Revision(self.server.store().view().head().0 - behind);
                self.server.store().compact(floor).await.unwrap();
            }
        }
    }

    /// Lets all clients catch up. Gives how often they had to list again, and what the store's log was.
    async fn end(mut self) -> (u32, LogHash) {
        let head = self.server.store().view().head().0;
        for (client, past) in self.clients.iter_mut().zip(&self.pasts) {
            while client.take(&self.server, past).await {}
            assert_eq!(client.copy, past.0[&head], "{} {}", client.path, client.selector);
            client.mark(past);
            assert_eq!(client.seen, Some(head));
        }
        let relisted = self.clients.iter().map(|client| client.relisted).sum();
        (relisted, self.server.store().log_hash().await.unwrap())
    }
}

async fn run(seed: u64) -> (u32, LogHash) {
    let mut world = World::new(seed).await;
    for _ in 0..250 {
        world.step().await;
    }
    world.end().await
}

#[tokio::test]
async fn a_reflector_is_told_what_happened_and_ends_equal_to_the_store() {
    let mut relisted = 0;
    for seed in 0..12 {
        println!("seed {seed}");
        relisted += run(seed).await.0;
    }
    assert!(relisted > 0, "no watch ever expired");
}

#[tokio::test]
async fn a_seed_gives_the_same_run_again() {
    assert_eq!(run(7).await, run(7).await);
    assert_ne!(run(7).await, run(8).await);
}
