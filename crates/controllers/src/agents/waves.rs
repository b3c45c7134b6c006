//! Which agents are asked next to take the server's binary. No IO.
//!
//! A wave is asked when the one before is over. The first is one agent; every further one has as many as run the binary already,
//! [`MOST`] at the most. Agents that refuse it, or do not come back in time, end the whole thing once there are too many of them
//! for those that took it well: a binary that is bad somewhere is not handed on.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kit::Key;
use plan::binary::{Binaries, Running, Wanted};

/// The largest wave.
const MOST: usize = 100;
/// How long an agent may take: it fetches, goes over, and may go back after five minutes.
const PATIENCE: SignedDuration = SignedDuration::from_mins(15);
/// One failure is let pass for so many agents that took the binary well.
const WELL_FOR_ONE_FAILURE: usize = 20;

/// An agent that says which binary it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Agent {
    /// Its plan Secret.
    pub(crate) key: Key,
    /// Its cluster.
    pub(crate) cluster: String,
    /// Whether it is on a machine of the control plane or of etcd.
    pub(crate) server: bool,
    /// Whether it may be asked now: its machine is well, and nobody holds it back.
    pub(crate) fit: bool,
    pub(crate) standing: Standing,
}

/// How an agent stands to the binary that the server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// It runs it, or the server has none for it.
    Current,
    /// It runs another one.
    Behind,
    /// It was asked, and has time.
    Asked(Timestamp),
    /// It was asked, and its time is over.
    Late,
    /// It has tried and gone back.
    Refused,
}

impl Standing {
    /// From what the server has and what the plan Secret says.
    pub(crate) fn of(
        offer: &Binaries,
        running: &Running,
        wanted: Option<&Wanted>,
        refused: Option<&str>,
        now: Timestamp,
    ) -> Self {
        let Some(binary) = offer.get(&running.architecture).filter(|one| **one != running.binary) else {
            return Standing::Current;
        };
        if refused == Some(binary) {
            return Standing::Refused;
        }
        let asked = wanted.filter(|wanted| wanted.binaries.get(&running.architecture) == Some(binary));
        match asked.map(|wanted| Timestamp::from_second(wanted.since).unwrap_or(now)) {
            None => Standing::Behind,
            Some(since) if since + PATIENCE <= now => Standing::Late,
            Some(since) => Standing::Asked(since),
        }
    }

    /// What it is called in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Standing::Current => "current",
            Standing::Behind => "behind",
            Standing::Asked(_) => "asked",
            Standing::Late => "late",
            Standing::Refused => "refused",
        }
    }
}

/// What is next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    /// Are asked now.
    pub(crate) ask: Vec<Key>,
    /// Nobody is asked any more: these did not take the binary.
    pub(crate) halted_by: Vec<Key>,
    /// When to look again, if nothing happens before.
    pub(crate) wake_at: Option<Timestamp>,
}

/// How soon it is looked again whether a machine that was not well is.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_mins(1);

/// Decides who is asked next.
pub(crate) fn decide(agents: &[Agent], now: Timestamp) -> Decision {
    let of = |so: fn(Standing) -> bool| agents.iter().filter(move |agent| so(agent.standing));
    let well = of(|standing| standing == Standing::Current).count();
    let failed = of(|standing| matches!(standing, Standing::Late | Standing::Refused));
    let failed: Vec<Key> = failed.map(|agent| agent.key.clone()).collect();
    if failed.len() * WELL_FOR_ONE_FAILURE > well {
        return Decision { halted_by: failed, ..Decision::default() };
    }
    let asked = |agent: &Agent| match agent.standing {
        Standing::Asked(since) => Some(since + PATIENCE),
        _ => None,
    };
    if let Some(until) = agents.iter().filter_map(asked).min() {
        return Decision { wake_at: Some(until), ..Decision::default() };
    }
    let behind: Vec<&Agent> = of(|standing| standing == Standing::Behind).collect();
    let ask = in_order(&behind).into_iter().take(well.clamp(1, MOST)).collect::<Vec<_>>();
    let wake_at = (ask.is_empty() && !behind.is_empty()).then(|| now + LOOK_AGAIN);
    Decision { ask, wake_at, ..Decision::default() }
}

/// Workers before servers, and of each cluster one before any cluster has its second.
fn in_order(behind: &[&Agent]) -> Vec<Key> {
    let mut seen: BTreeMap<(bool, &str), usize> = BTreeMap::new();
    let mut fit: Vec<&&Agent> = behind.iter().filter(|agent| agent.fit).collect();
    fit.sort_by_key(|agent| &agent.key);
    let mut ranked: Vec<(bool, usize, &Key)> = Vec::new();
    for agent in fit {
        let rank = seen.entry((agent.server, &agent.cluster)).or_default();
        ranked.push((agent.server, *rank, &agent.key));
        *rank += 1;
    }
    ranked.sort();
    ranked.into_iter().map(|(_, _, key)| key.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn agent(name: &str, standing: Standing) -> Agent {
        let cluster = name.split('-').next().unwrap_or_default().to_owned();
        Agent { key: Key::new("n", name), cluster, server: name.contains("-s"), fit: true, standing }
    }

    fn names(keys: &[Key]) -> Vec<&str> {
        keys.iter().map(|key| key.name.as_str()).collect()
    }

    #[test]
    fn standings() {
        let offer = Binaries::from([("amd64".to_owned(), "new".to_owned())]);
        let running = |architecture: &str, binary: &str| Running {
            architecture: architecture.into(),
            binary: binary.into(),
        };
        let asked = |binary: &str, minutes: i64| Wanted {
            since: (now() - SignedDuration::from_mins(minutes)).as_second(),
            binaries: Binaries::from([("amd64".to_owned(), binary.to_owned())]),
        };
        let since = now() - SignedDuration::from_mins(14);
        for (running, wanted, refused, standing, why) in [
            (running("amd64", "new"), None, None, Standing::Current, "it runs it"),
            (running("amd64", "new"), Some(asked("new", 99)), Some("new"), Standing::Current, "at last"),
            (running("s390x", "old"), None, None, Standing::Current, "there is none for it"),
            (running("amd64", "old"), None, None, Standing::Behind, "nobody asked"),
            (
                running("amd64", "old"),
                Some(asked("older", 99)),
                Some("older"),
                Standing::Behind,
                "another time",
            ),
            (running("amd64", "old"), Some(asked("new", 14)), None, Standing::Asked(since), "it has time"),
            (running("amd64", "old"), Some(asked("new", 15)), None, Standing::Late, "its time is over"),
            (running("amd64", "old"), Some(asked("new", 1)), Some("new"), Standing::Refused, "it went back"),
        ] {
            assert_eq!(Standing::of(&offer, &running, wanted.as_ref(), refused, now()), standing, "{why}");
        }
    }

    #[test]
    fn waves_double_while_all_goes_well() {
        let mut agents: Vec<Agent> = (0..1000)
            .map(|number| agent(&format!("c{}-w{number:04}", number % 7), Standing::Behind))
            .collect();
        let mut waves = Vec::new();
        loop {
            let asked = decide(&agents, now()).ask;
            if asked.is_empty() {
                break;
            }
            waves.push(asked.len());
            for agent in agents.iter_mut().filter(|agent| asked.contains(&agent.key)) {
                agent.standing = Standing::Asked(now());
            }
            assert!(decide(&agents, now()).ask.is_empty(), "the wave before is not over");
            assert_eq!(decide(&agents, now()).wake_at, Some(now() + PATIENCE));
            for agent in agents.iter_mut().filter(|agent| asked.contains(&agent.key)) {
                agent.standing = Standing::Current;
            }
        }
        assert_eq!(waves[..9], [1, 1, 2, 4, 8, 16, 32, 64, 100]);
        assert_eq!(waves.iter().sum::<usize>(), 1000);
        assert_eq!(decide(&agents, now()), Decision::default(), "there is nothing more to do");
    }

    #[test]
    fn a_bad_binary_goes_no_further() {
        let first = [agent("a-w1", Standing::Refused), agent("a-w2", Standing::Behind)];
        let decision = decide(&first, now());
        assert_eq!((names(&decision.halted_by), decision.ask), (vec!["a-w1"], vec![]));
        // Where many took it well, one that did not is that one's trouble.
        let mut many: Vec<Agent> = (0..20).map(|n| agent(&format!("b-w{n}"), Standing::Current)).collect();
        many.extend([agent("a-w1", Standing::Late), agent("a-w2", Standing::Behind)]);
        assert_eq!(names(&decide(&many, now()).ask), ["a-w2"]);
        many.push(agent("a-w3", Standing::Refused));
        assert_eq!(names(&decide(&many, now()).halted_by), ["a-w1", "a-w3"]);
    }

    #[test]
    fn workers_come_first_and_clusters_take_turns() {
        let mut agents: Vec<Agent> =
            ["a-s1", "a-w1", "a-w2", "b-w1", "b-s1"].map(|name| agent(name, Standing::Behind)).into();
        agents.extend((0..50).map(|n| agent(&format!("c-w{n:02}"), Standing::Current)));
        assert_eq!(names(&decide(&agents, now()).ask), ["a-w1", "b-w1", "a-w2", "a-s1", "b-s1"]);
        // A machine that is not well is asked when it is.
        agents[1].fit = false;
        assert_eq!(names(&decide(&agents, now()).ask), ["a-w2", "b-w1", "a-s1", "b-s1"]);
        let ill = Agent { fit: false, ..agent("a-w1", Standing::Behind) };
        assert_eq!(decide(&[ill], now()).wake_at, Some(now() + LOOK_AGAIN));
    }
}
