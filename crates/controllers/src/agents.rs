//! Agents follow the server: once it has another binary for them than they run, they are asked to take it, wave by wave.
//!
//! Who is asked is decided in `waves`; the agent's side is in crate `agent` (`update`). An administrator stops it with the
//! Setting `agent-updates` (`off`), and keeps one machine out of it with the annotation `herdsman.io/hold-agent` on its Machine.

mod waves;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::capi::v1beta2::{Cluster, Machine};
use api::catalogue::secrets::types;
use api::rke::v1::RKEBootstrap;
use jiff::Timestamp;
use kit::events::{Events, Severity};
use kit::machines::{self, Planned};
use kit::runner::Controller;
use kit::{Cache, Change, Ended, Key, Object, Pace, Queue, Turn};
use plan::binary::{Binaries, REFUSED, RUNNING, Running, WANTED, Wanted};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use serde_json::json;

pub use crate::error::Error;
use crate::objects::{Objects, listen};
use crate::settings::Settings;
use crate::{Parts, until};
use waves::{Agent, Standing, decide};

/// Under which name this group writes.
const MANAGER: &str = "herdsman-agents";
/// The Setting that stops it.
pub const SETTING: &str = "agent-updates";
/// Annotation of a Machine whose agent stays what it is.
pub const HOLD: &str = "herdsman.io/hold-agent";
/// The fleet is looked at as a whole, and not more often than this.
const PACE: Duration = Duration::from_secs(2);

/// How many agents stand how to the server's binary. Register [`StandingsCollector`] without a prefix: the name is whole.
#[derive(Debug, Default)]
pub struct Standings(Mutex<BTreeMap<&'static str, i64>>);

impl Standings {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, i64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For a registry: clones of one [`Standings`] count the same.
#[derive(Clone, Debug)]
pub struct StandingsCollector(pub Arc<Standings>);

impl Collector for StandingsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let help = "Node agents by how they stand to the binary that this server has for them";
        let mut metric = encoder.encode_descriptor("herdsman_agents", help, None, MetricType::Gauge)?;
        for (state, count) in self.0.lock().iter() {
            ConstGauge::new(*count).encode(metric.encode_family(&[("state", *state)])?)?;
        }
        Ok(())
    }
}

/// What this group works with beside what all do.
#[derive(Clone, Debug, Default)]
pub struct Offer {
    /// The binaries that this server gives out.
    pub binaries: Binaries,
    /// Counts.
    pub standings: Arc<Standings>,
}

struct Context {
    clock: Arc<dyn clock::Clock>,
    offer: Offer,
    objects: Objects,
    settings: Settings,
    events: Events,
    secrets: Arc<Cache>,
    machines: Arc<Cache>,
    bootstraps: Arc<Cache>,
    clusters: Arc<Cache>,
    queue: Arc<Queue>,
}

/// Everything is one thing to look at.
fn fleet() -> Key {
    Key::new("", "agents")
}

/// Asks agents to take the binaries that this server has, until the future is dropped. One that has none asks nobody.
pub async fn run(parts: Parts, offer: Offer) {
    if offer.binaries.is_empty() {
        return std::future::pending().await;
    }
    let objects = Objects::new(&parts.caches, MANAGER);
    let client = parts.caches.client().clone();
    let context = Arc::new(Context {
        offer,
        settings: Settings::new(&objects),
        events: Events::new(client, parts.clock.clone(), parts.entropy.clone(), MANAGER),
        secrets: objects.built_in("Secret"),
        machines: objects.of::<Machine>(),
        bootstraps: objects.of::<RKEBootstrap>(),
        clusters: objects.of::<Cluster>(),
        queue: Arc::new(Queue::new(parts.clock.clone(), Pace { interval: PACE, ..Pace::default() })),
        clock: parts.clock,
        objects,
    });
    let all = [
        &context.secrets,
        &context.machines,
        &context.bootstraps,
        &context.clusters,
        context.settings.cache(),
    ];
    for cache in all {
        cache.wait_synced().await;
    }
    listen(&context.secrets, "agents", &context, |context, change| {
        if says_otherwise(change) {
            context.queue.add(fleet());
        }
    });
    listen(context.settings.cache(), "agents", &context, |context, change| {
        if change.object().name() == SETTING {
            context.queue.add(fleet());
        }
    });
    context.queue.add(fleet());
    kit::runner::run(Arc::new(Agents(context.clone())), context.queue.clone(), 1).await;
}

/// Whether an agent has said something of its binary.
fn says_otherwise(change: &Change) -> bool {
    let said = |object: &Option<Arc<Object>>| {
        let note = |name| Some(object.as_ref()?.annotation(name)?.to_owned());
        [note(RUNNING), note(REFUSED)]
    };
    said(&change.before) != said(&change.after)
}

struct Agents(Arc<Context>);

impl Controller for Agents {
    type Error = Error;

    fn name(&self) -> &'static str {
        "agents"
    }

    async fn reconcile(&self, _: &Key, turn: &Turn) -> Result<Ended, Error> {
        let context = &self.0;
        let now = context.clock.now();
        let agents = context.agents(now);
        context.count(&agents);
        if context.settings.text(SETTING) == "off" {
            return Ok(Ended::Well);
        }
        let decision = decide(&agents, now);
        for key in &decision.halted_by {
            context.complain(key).await;
        }
        if !decision.ask.is_empty() {
            tracing::info!(agents = decision.ask.len(), "asking agents to take the server's binary");
        }
        let wanted = Wanted { since: now.as_second(), binaries: context.offer.binaries.clone() }.text();
        for key in &decision.ask {
            let patch = json!({"metadata": {"annotations": {WANTED: wanted}}});
            context.objects.writer().patch(turn, &context.secrets, key, patch).await?;
        }
        Ok(match decision.ask.is_empty() {
            true => until(now, decision.wake_at),
            false => Ended::Again(PACE),
        })
    }
}

impl Context {
    /// Every agent that says which binary it runs.
    fn agents(&self, now: Timestamp) -> Vec<Agent> {
        let plans = self.secrets.all();
        plans.iter().filter(|secret| is_plan(secret)).filter_map(|secret| self.agent(secret, now)).collect()
    }

    fn agent(&self, secret: &Object, now: Timestamp) -> Option<Agent> {
        let running = Running::read(secret.annotation(RUNNING)?)?;
        let wanted = secret.annotation(WANTED).and_then(Wanted::read);
        let refused = secret.annotation(REFUSED);
        let planned = self.planned(&secret.key())?;
        Some(Agent {
            key: secret.key(),
            cluster: planned.cluster().to_owned(),
            server: planned.is_server(),
            fit: self.is_fit(&planned.machine),
            standing: Standing::of(&self.offer.binaries, &running, wanted.as_ref(), refused, now),
        })
    }

    fn planned(&self, secret: &Key) -> Option<Planned> {
        machines::of_plan(&self.machines, &self.bootstraps, secret)
    }

    /// Whether a machine's agent may be asked now.
    fn is_fit(&self, machine: &Object) -> bool {
        let document = machine.document();
        let conditions = document["status"]["conditions"].as_array().into_iter().flatten();
        let ready = conditions.filter(|one| one["type"] == "NodeReady").any(|one| one["status"] == "True");
        let cluster = document["spec"]["clusterName"].as_str().unwrap_or_default();
        let cluster = self.clusters.get(&Key::new(machine.namespace(), cluster));
        let paused = cluster.is_none_or(|cluster| cluster.document()["spec"]["paused"] == true);
        ready && !paused && !machine.deleting() && machine.annotation(HOLD).is_none()
    }

    fn count(&self, agents: &[Agent]) {
        let names = ["current", "behind", "asked", "late", "refused"];
        let mut counts: BTreeMap<&'static str, i64> = names.map(|name| (name, 0)).into();
        for agent in agents {
            *counts.entry(agent.standing.name()).or_default() += 1;
        }
        *self.offer.standings.lock() = counts;
    }

    /// Says where to look.
    async fn complain(&self, plan: &Key) {
        let Some(Planned { machine, .. }) = self.planned(plan) else { return };
        tracing::warn!(
            machine = machine.name(),
            "an agent did not take the server's binary: no other is asked"
        );
        let words = "the agent did not take the server's binary, so no other agent is asked: see journalctl -u \
                     rancher-system-agent on the machine";
        let kind = self.machines.kind();
        self.events.tell(kind, &machine, Severity::Warning, "AgentUpdateFailed", words).await;
    }
}

fn is_plan(secret: &Object) -> bool {
    secret.document()["type"] == types::MACHINE_PLAN
}
