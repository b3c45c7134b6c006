//! What is measured, in which order, how often.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clock::{Clock, SystemClock};
use serde_json::json;

use super::contestant::{Contestant, get, good, request};
use super::objects::{self, Kind, Objects};
use super::{Pair, creates, events, lists};
use crate::client::{Server, Session};

/// Objects of each kind that are listed, and objects of both kinds that are there when memory is weighed.
const LISTED: usize = 10_000;
const ALL: usize = 50_000;
/// Objects that are created in one round.
const ROUND: usize = 2_500;
/// How long servers get to come to rest before they are weighed.
const REST: Duration = Duration::from_secs(5);

/// How often things are measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Starts on an empty directory.
    pub empty_starts: usize,
    /// Lists of each kind.
    pub lists: usize,
    /// Rounds of watching, and writes in each.
    pub watches: (usize, usize),
    /// Starts with all objects.
    pub full_starts: usize,
}

impl Plan {
    /// Enough to trust the figures.
    pub const WHOLE: Plan = Plan { empty_starts: 5, lists: 7, watches: (3, 60), full_starts: 3 };
    /// Enough to see whether a change was for the better.
    pub const QUICK: Plan = Plan { empty_starts: 2, lists: 3, watches: (1, 50), full_starts: 1 };
}

/// Both servers, ours first.
type Both<T> = [T; 2];
const WHO: Both<&str> = ["herdsman", "kubernetes"];

struct Bench {
    plan: Plan,
    objects: Arc<Objects>,
    contestants: Both<Contestant>,
    servers: Both<Server>,
    pairs: Vec<Pair>,
}

/// What can be measured alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Starts on an empty directory.
    EmptyStarts,
    /// Creates and lists.
    Lists,
    /// How long events take.
    Events,
    /// What all objects cost, in memory and at the start.
    Everything,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 4] = [Part::EmptyStarts, Part::Lists, Part::Events, Part::Everything];

    /// The part of a name.
    pub fn named(name: &str) -> Option<Self> {
        let names = ["empty-starts", "lists", "events", "everything"];
        Part::ALL.into_iter().zip(names).find(|(_, known)| *known == name).map(|(part, _)| part)
    }
}

/// Measures and shows each pair when it is there.
pub async fn run(plan: Plan, parts: &[Part], herdsman: &Path, mut show: impl FnMut(&Pair)) -> Result<()> {
    if parts.contains(&Part::EmptyStarts) {
        show(&empty_starts(plan, herdsman).await?);
    }
    if parts == [Part::EmptyStarts] {
        return Ok(());
    }
    let mut bench = Bench::start(plan, herdsman).await?;
    let fills = parts.contains(&Part::Lists) || parts.contains(&Part::Everything);
    if fills {
        bench.creates("listed", 0..LISTED).await?;
        bench.pairs.drain(..).for_each(|pair| show(&pair));
    }
    if parts.contains(&Part::Lists) {
        bench.lists().await?;
    }
    if parts.contains(&Part::Events) {
        bench.pairs.drain(..).for_each(|pair| show(&pair));
        bench.events().await?;
    }
    if parts.contains(&Part::Everything) {
        bench.pairs.drain(..).for_each(|pair| show(&pair));
        // Half of what is missing, of each kind.
        bench.creates("rest", 0..ALL / 2 - LISTED).await?;
        bench.pairs.clear();
        bench.memory().await?;
        bench.full_starts().await?;
    }
    bench.pairs.drain(..).for_each(|pair| show(&pair));
    Ok(())
}

async fn empty_starts(plan: Plan, herdsman: &Path) -> Result<Pair> {
    let mut seconds: Both<Vec<f64>> = Default::default();
    for _ in 0..plan.empty_starts {
        for (place, made) in
            [Contestant::herdsman(herdsman), Contestant::kubernetes()].into_iter().enumerate()
        {
            let mut contestant = made?;
            seconds[place].push(contestant.start().await?.1);
        }
    }
    Ok(pair("start_empty", "s", &seconds))
}

fn pair(name: &str, unit: &'static str, rounds: &Both<Vec<f64>>) -> Pair {
    for (who, rounds) in WHO.into_iter().zip(rounds) {
        let rounds: Vec<String> = rounds.iter().map(|value| format!("{value:.2}")).collect();
        eprintln!("{name} {who}: {} {unit}", rounds.join(" "));
    }
    Pair::new(name, unit, &rounds[0], &rounds[1])
}

/// Namespaces and the custom kind.
async fn furnish(server: &Server) -> Result<()> {
    let session = Session::new(server.clone());
    for namespace in ["listed", "rest", "watched"] {
        let body = json!({"metadata": {"name": namespace}}).to_string();
        good(&session.send(&request("POST", "/api/v1/namespaces", body.into())).await?)?;
    }
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let body = objects::definition().to_string();
    good(&session.send(&request("POST", definitions, body.into())).await?)?;
    let path = Kind::Custom.path("listed");
    let begin = SystemClock.monotonic();
    while session.send(&get(&path)).await?.status != 200 {
        ensure!(SystemClock.monotonic().since(begin) < REST * 4, "the custom kind is not served");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

impl Bench {
    async fn start(plan: Plan, herdsman: &Path) -> Result<Self> {
        let mut contestants = [Contestant::herdsman(herdsman)?, Contestant::kubernetes()?];
        let [ours, theirs] = &mut contestants;
        let servers = [ours.start().await?.0, theirs.start().await?.0];
        for server in &servers {
            furnish(server).await?;
        }
        Ok(Bench { plan, objects: Arc::default(), contestants, servers, pairs: Vec::new() })
    }

    async fn creates(&mut self, namespace: &str, range: std::ops::Range<usize>) -> Result<()> {
        for kind in Kind::ALL {
            let mut rates: Both<Vec<f64>> = Default::default();
            for start in range.clone().step_by(ROUND) {
                let round = start..(start + ROUND).min(range.end);
                for (place, server) in self.servers.iter().enumerate() {
                    let rate = creates::create(server, &self.objects, kind, namespace, round.clone()).await?;
                    rates[place].push(rate);
                }
            }
            self.pairs.push(pair(&format!("creates_{}", kind.word()), "/s", &rates));
        }
        Ok(())
    }

    async fn lists(&mut self) -> Result<()> {
        for kind in Kind::ALL {
            let path = kind.path("listed");
            let mut times: Both<Vec<f64>> = Default::default();
            for server in &self.servers {
                lists::count(server, &path, LISTED).await?;
            }
            for _ in 0..self.plan.lists {
                for (place, server) in self.servers.iter().enumerate() {
                    times[place].push(lists::list(server, &path).await?);
                }
            }
            self.pairs.push(pair(&format!("list_{}", kind.word()), "ms", &times));
        }
        Ok(())
    }

    async fn events(&mut self) -> Result<()> {
        let (rounds, writes) = self.plan.watches;
        for kind in Kind::ALL {
            let mut times: Both<Vec<f64>> = Default::default();
            for _ in 0..rounds {
                for (place, server) in self.servers.iter().enumerate() {
                    let latency = events::latency(server, &self.objects, kind, "watched", writes).await;
                    let latency = latency.with_context(|| format!("{} of {}", kind.word(), WHO[place]))?;
                    times[place].push(latency);
                }
            }
            self.pairs.push(pair(&format!("event_p99_{}", kind.word()), "ms", &times));
        }
        Ok(())
    }

    async fn memory(&mut self) -> Result<()> {
        tokio::time::sleep(REST).await;
        let [ours, theirs] = &self.contestants;
        self.pairs.push(pair("memory", "MB", &[vec![ours.resident()?], vec![theirs.resident()?]]));
        Ok(())
    }

    async fn full_starts(&mut self) -> Result<()> {
        let mut seconds: Both<Vec<f64>> = Default::default();
        for _ in 0..self.plan.full_starts {
            for (place, contestant) in self.contestants.iter_mut().enumerate() {
                seconds[place].push(contestant.start().await?.1);
            }
        }
        self.pairs.push(pair("start_full", "s", &seconds));
        Ok(())
    }
}
