use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use apiserver::store::{LogHash, Revision};
use clock::{Entropy, SeededEntropy};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::controller::{self, Action};
use kube::runtime::reflector::Store as Cache;
use kube::runtime::utils::Backoff;
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::json;

use crate::world::World;

/// How a run went.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) log: LogHash,
    pub(crate) revision: Revision,
    pub(crate) writes: usize,
    pub(crate) cuts: usize,
    pub(crate) compactions: usize,
    pub(crate) mistakes: Vec<String>,
}

/// Simulates a span of time.
pub(crate) async fn run(seed: u64, span: Duration) -> Outcome {
    let world = World::new(seed).await;
    let (shaky, service) = world.shaky_client("controller", seed);
    let controller = Controller::new(parents(&shaky), watcher::Config::default().any_semantic());
    let cache = controller.store();
    let secrets = Api::<Secret>::namespaced(shaky.clone(), "default");
    let done: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    let context = Arc::new(Context { client: shaky.clone(), created: done.clone() });
    let running = controller
        // What the library draws by itself cannot be replayed: its waits, and the order of reconciles side by side.
        .trigger_backoff(AfterASecond)
        .with_config(controller::Config::default().concurrency(1))
        .owns(secrets, watcher::Config::default())
        .run(reconcile, |_, error: &kube::Error, _| panic!("{error}"), context)
        .for_each(|_| std::future::ready(()));
    let running = tokio::spawn(running);
    let mut life = Life { client: world.client("user"), entropy: SeededEntropy::new(seed), created: 0 };
    let (mut writes, mut compactions) = (0, 0);
    let begin = world.clock.monotonic();
    while world.clock.monotonic().since(begin) < span {
        tokio::time::sleep(Duration::from_secs(life.entropy.below(120).into())).await;
        writes += usize::from(life.write().await);
        if life.entropy.below(40) == 0 {
            world.store.compact(world.store.view().head()).await.unwrap();
            compactions += 1;
        }
    }
    // Longer than any connection lasts: whatever was cut off has come back.
    tokio::time::sleep(Duration::from_secs(1800)).await;
    let created = done.lock().unwrap().clone();
    let mistakes = mistakes(&world, &cache, &created).await;
    running.abort();
    let revision = world.store.view().head();
    let log = world.store.log_hash().await.unwrap();
    let cuts = service.cuts.load(Ordering::Relaxed);
    world.instance.stop().await;
    Outcome { log, revision, writes, cuts, compactions, mistakes }
}

fn parents(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

/// How long a watch that broke waits before it comes back.
#[derive(Clone, Copy)]
struct AfterASecond;

impl Iterator for AfterASecond {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_secs(1))
    }
}

impl Backoff for AfterASecond {
    fn reset(&mut self) {}
}

struct Context {
    client: Client,
    /// How often a child was created for a parent, by the parent's UID.
    created: Arc<Mutex<BTreeMap<String, usize>>>,
}

/// Each ConfigMap with the label gets a Secret with the same text, which goes with it.
async fn reconcile(parent: Arc<ConfigMap>, context: Arc<Context>) -> Result<Action, kube::Error> {
    let secrets = Api::<Secret>::namespaced(context.client.clone(), "default");
    let name = parent.name_any();
    let (Some(owner), Some(uid)) = (parent.controller_owner_ref(&()), parent.uid()) else {
        return Ok(Action::await_change());
    };
    if !name.starts_with("parent-") || parent.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let text = parent.data.as_ref().and_then(|data| data.get("text")).cloned().unwrap_or_default();
    let wanted = BTreeMap::from([("text".to_owned(), text)]);
    match secrets.get_opt(&name).await? {
        None => {
            let metadata =
                ObjectMeta { name: Some(name), owner_references: Some(vec![owner]), ..ObjectMeta::default() };
            let secret = Secret { metadata, string_data: Some(wanted), ..Secret::default() };
            secrets.create(&PostParams::default(), &secret).await?;
            *context.created.lock().unwrap().entry(uid).or_default() += 1;
        }
        Some(secret) => {
            let kept = secret.data.unwrap_or_default().remove("text").map(|text| text.0);
            if kept.as_deref() != wanted.get("text").map(String::as_bytes) {
                let patch = Patch::Merge(json!({"stringData": wanted}));
                match secrets.patch(&name, &PatchParams::default(), &patch).await {
                    // Garbage collection was faster.
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    other => drop(other?),
                }
            }
        }
    }
    Ok(Action::await_change())
}

/// Somebody who creates, changes and deletes parents.
struct Life {
    client: Client,
    entropy: SeededEntropy,
    created: usize,
}

impl Life {
    /// Gives whether something was written.
    async fn write(&mut self) -> bool {
        let parents = parents(&self.client);
        let all = parents.list(&ListParams::default()).await.unwrap();
        let names: Vec<String> =
            all.iter().map(|one| one.name_any()).filter(|name| name.starts_with("parent-")).collect();
        let text = format!("text {}", self.entropy.below(1000));
        if names.len() < 5 || (names.len() < 40 && self.entropy.below(3) == 0) {
            let name = format!("parent-{}", self.created);
            self.created += 1;
            let parent = json!({"metadata": {"name": name}, "data": {"text": text}});
            let parent = serde_json::from_value(parent).unwrap();
            return parents.create(&PostParams::default(), &parent).await.is_ok();
        }
        let chosen = usize::try_from(self.entropy.below(u32::try_from(names.len()).unwrap())).unwrap();
        match self.entropy.below(3) {
            0 => parents.delete(&names[chosen], &DeleteParams::background()).await.is_ok(),
            _ => {
                let patch = Patch::Merge(json!({"data": {"text": text}}));
                parents.patch(&names[chosen], &PatchParams::default(), &patch).await.is_ok()
            }
        }
    }
}

/// What is not as it should be in the end.
async fn mistakes(world: &World, cache: &Cache<ConfigMap>, created: &BTreeMap<String, usize>) -> Vec<String> {
    let client = world.client("judge");
    let mut found = Vec::new();
    let parents = parents(&client).list(&ListParams::default()).await.unwrap().items;
    let mut seen: Vec<(String, Option<String>)> =
        cache.state().iter().map(|one| (one.name_any(), one.resource_version())).collect();
    seen.sort();
    let mut there: Vec<(String, Option<String>)> =
        parents.iter().map(|one| (one.name_any(), one.resource_version())).collect();
    there.sort();
    if seen != there {
        found.push(format!("the controller sees {seen:?} and not {there:?}"));
    }
    let secrets = Api::<Secret>::namespaced(client, "default").list(&ListParams::default()).await.unwrap();
    let mut children: BTreeMap<String, String> = secrets
        .iter()
        .map(|one| {
            let data = one.data.as_ref().and_then(|data| data.get("text"));
            (one.name_any(), data.map(|text| String::from_utf8(text.0.clone()).unwrap()).unwrap_or_default())
        })
        .collect();
    for parent in parents.iter().filter(|one| one.name_any().starts_with("parent-")) {
        let text = parent.data.as_ref().and_then(|data| data.get("text"));
        match children.remove(&parent.name_any()) {
            child if child.as_ref() == text => {}
            child => found.push(format!("{} says {text:?}, its child {child:?}", parent.name_any())),
        }
        let times = created.get(&parent.uid().unwrap_or_default()).copied().unwrap_or_default();
        if times != 1 {
            found.push(format!("the child of {} was created {times} times", parent.name_any()));
        }
    }
    found.extend(children.keys().map(|name| format!("{name} has lost its parent")));
    found
}
