//! The rules that no decision may break, checked on every one of them.
//!
//! They are written apart from what decides, from the snapshot and the decision alone. A decision that breaks one is
//! refused: nothing of it is done.

use std::collections::BTreeSet;
use std::fmt;

use api::catalogue::annotations;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use plan::document::File;
use plan::orchestrator::Progress;

use crate::decision::{Decision, PlanWrite, Release, Why};
use crate::drain;
use crate::election::{is_bootstrapped, may_have_started};
use crate::impact::Impact;
use crate::members::{Members, is_healthy, is_member_well, is_voter, quorum};
use crate::snapshot::{Cluster, Machine, MachineName, Snapshot};
use crate::tier::Tier;

/// Bytes that a Secret's data may have.
const SECRET_LIMIT: usize = 1 << 20;
/// What the agent's outputs and the other keys need of them.
const RESERVE: usize = 128 << 10;
/// Bytes that a plan may have: the Secret holds it twice, as delivered and as applied.
pub const LARGEST_PLAN: usize = (SECRET_LIMIT - RESERVE) / 2;

/// The size of a plan that is too large.
pub(crate) fn too_large(bytes: usize) -> Option<usize> {
    (bytes > LARGEST_PLAN).then_some(bytes)
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// At which machine.
    pub machine: MachineName,
    /// What was seen.
    pub detail: String,
}

/// The rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// etcd keeps its quorum.
    Quorum,
    /// No more machines of a tier are disturbed than allowed.
    Concurrency,
    /// A node that is to be drained is drained before it is disturbed.
    DrainFirst,
    /// A secret is only in files that root alone reads.
    SecretInReadableFile,
    /// One server starts a cluster, and only where there is none.
    OneInit,
    /// A plan fits into its Secret.
    PlanSize,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}: {}", self.rule, self.machine, self.detail)
    }
}

/// Every rule that a decision breaks.
pub fn lint(snapshot: &Snapshot, decision: &Decision) -> Vec<Violation> {
    let mut found = Findings::default();
    if decision.writes.is_empty() && decision.releases.is_empty() {
        return found.0;
    }
    quorums(snapshot, decision, &mut found);
    concurrency(snapshot, decision, &mut found);
    inits(snapshot, decision, &mut found);
    let secrets = secrets(&snapshot.cluster);
    for (name, write) in &decision.writes {
        let Some(machine) = snapshot.machines.get(name) else { continue };
        drained(snapshot, name, machine, write, &mut found);
        for file in &write.plan.plan().files {
            readable(name, file, &secrets, &mut found);
        }
        if let Some(bytes) = too_large(write.plan.bytes().len()) {
            found.add(Rule::PlanSize, name, format!("{bytes} bytes, {LARGEST_PLAN} at most"));
        }
    }
    found.0
}

#[derive(Default)]
struct Findings(Vec<Violation>);

impl Findings {
    fn add(&mut self, rule: Rule, machine: &MachineName, detail: impl Into<String>) {
        self.0.push(Violation { rule, machine: machine.clone(), detail: detail.into() });
    }
}

/// Machines whose distribution restarts by this decision. A plan that failed is tried again on a machine that is out of
/// service anyway.
fn disturbing<'a>(
    snapshot: &'a Snapshot,
    decision: &'a Decision,
) -> impl Iterator<Item = (&'a MachineName, &'a Machine)> {
    let writes = decision.writes.iter().filter(|(_, write)| write.impact >= Impact::Restart);
    writes.filter_map(|(name, _)| Some((name, snapshot.machines.get(name)?.as_ref())))
}

fn quorums(snapshot: &Snapshot, decision: &Decision, found: &mut Findings) {
    let members = Members::of(snapshot);
    let count = members.count();
    let asked: Vec<_> = decision
        .releases
        .iter()
        .filter(|release| matches!(release, Release::RemoveMember { .. }))
        .map(|release| release.machine().clone())
        .collect();
    let restarted: Vec<_> = disturbing(snapshot, decision)
        .filter(|(_, machine)| is_voter(machine) && is_member_well(machine))
        .map(|(name, _)| name.clone())
        .collect();
    let voters: Vec<_> = disturbing(snapshot, decision).filter(|(_, machine)| is_voter(machine)).collect();
    if let [(first, _), (second, _), ..] = voters.as_slice() {
        found.add(Rule::Quorum, second, format!("two etcd members restart at once, {first} the other"));
    }
    if let [first, second, ..] = asked.as_slice() {
        found.add(Rule::Quorum, second, format!("two etcd members are removed at once, {first} the other"));
    }
    for name in &asked {
        if members.is_removing() {
            found.add(Rule::Quorum, name, "another etcd member is being removed");
        }
        let left = count.saturating_sub(1);
        if left == 0 || members.healthy_beside(name, &restarted) < quorum(left) {
            found.add(Rule::Quorum, name, format!("the {left} members left would have no quorum"));
        }
    }
    for name in &restarted {
        let taken: Vec<_> = restarted.iter().chain(&asked).filter(|other| *other != name).cloned().collect();
        let needed = quorum(count).min(count - 1);
        let healthy = members.healthy_beside(name, &taken);
        if healthy < needed {
            found.add(Rule::Quorum, name, format!("restarts with {healthy} healthy beside it of {count}"));
        }
    }
    for release in &decision.releases {
        let Release::DropHook { machine: name, .. } = release else { continue };
        let Some(machine) = snapshot.machines.get(name) else { continue };
        if is_voter(machine) && !may_go(snapshot, machine) {
            found.add(Rule::Quorum, name, "a voting member is let go");
        }
    }
}

/// A voting member goes only with its cluster, by force, or when no etcd is wanted at all.
fn may_go(snapshot: &Snapshot, machine: &Machine) -> bool {
    let state = &snapshot.state;
    let cluster_goes = state.deleting || state.capi.is_some_and(|capi| capi.deleting);
    let staying = |machine: &&std::sync::Arc<Machine>| machine.roles().etcd && !machine.is_deleting();
    let given_up =
        snapshot.machines.values().filter(staying).count() == 0 && state.etcd_wanted.unwrap_or(0) == 0;
    let born = is_bootstrapped(snapshot) && (state.has_kubeconfig || Members::of(snapshot).count() > 1);
    cluster_goes || machine.force_remove || given_up || !born
}

fn concurrency(snapshot: &Snapshot, decision: &Decision, found: &mut Findings) {
    let init = decision.report.init.as_ref();
    for tier in [Tier::Etcd, Tier::ControlPlane, Tier::Worker] {
        let of_tier = |name: &MachineName, machine: &Machine| {
            !machine.is_deleting() && Tier::of(machine, Some(name) == init) == Some(tier)
        };
        let all = snapshot.machines.iter().filter(|(name, machine)| of_tier(name, machine)).count();
        let Some(limit) = tier.concurrency(snapshot, all) else { continue };
        let out = |machine: &Machine| {
            machine.plan.has_plan
                && (machine.plan.progress != Progress::Applied || drain::is_under_way(machine))
        };
        let before =
            snapshot.machines.iter().filter(|(name, machine)| of_tier(name, machine) && out(machine)).count();
        // Whoever was in service and is disturbed now, or is to be drained for it.
        let drains = decision
            .marks
            .iter()
            .filter(|(_, marks)| marks.handshake.contains_key(annotations::DRAIN_OPTIONS));
        let drained = drains.filter_map(|(name, _)| Some((name, snapshot.machines.get(name)?.as_ref())));
        let fresh: BTreeSet<_> = disturbing(snapshot, decision)
            .chain(drained)
            .filter(|(name, machine)| of_tier(name, machine) && !out(machine) && is_healthy(machine))
            .map(|(name, _)| name)
            .collect();
        if let Some(first) = fresh.first().filter(|_| before + fresh.len() > limit) {
            let total = before + fresh.len();
            found.add(
                Rule::Concurrency,
                first,
                format!("{total} {} machines at once, {limit} at most", tier.as_str()),
            );
        }
    }
}

/// A plan without `server` starts a cluster.
fn inits(snapshot: &Snapshot, decision: &Decision, found: &mut Findings) {
    let initial = decision.writes.iter().filter(|(_, write)| write.why == Why::Initial);
    let mut starting = initial.filter(|(name, write)| {
        let server = snapshot.machines.get(*name).is_some_and(|machine| machine.roles().is_server());
        server && !joins(write)
    });
    if let Some((name, _)) = starting.next() {
        for (other, _) in starting {
            found.add(Rule::OneInit, other, format!("starts a cluster, and so does {name}"));
        }
        let lives = |(other, machine): (&MachineName, &std::sync::Arc<Machine>)| {
            other != name && machine.roles().etcd && may_have_started(machine)
        };
        if snapshot.machines.iter().any(lives) {
            found.add(Rule::OneInit, name, "starts a cluster beside one that exists");
        }
    }
}

fn joins(write: &PlanWrite) -> bool {
    let configs = write.plan.plan().files.iter().filter(|file| file.path.ends_with("/50-rancher.yaml"));
    let mut parsed =
        configs.filter_map(|file| serde_json::from_slice::<serde_json::Value>(&file.decoded().ok()?).ok());
    parsed.any(|config| config.get("server").is_some())
}

fn drained(
    snapshot: &Snapshot,
    name: &MachineName,
    machine: &Machine,
    write: &PlanWrite,
    found: &mut Findings,
) {
    if write.impact != Impact::DrainRestart {
        return;
    }
    let options = machine.handshake(annotations::DRAIN_OPTIONS);
    let done = options.is_some() && machine.handshake(annotations::DRAIN_DONE) == options;
    let again = write.why == Why::Retry;
    if !done && !again {
        let machines = snapshot.machines.len();
        found.add(
            Rule::DrainFirst,
            name,
            format!("disturbed before it was drained, in a cluster of {machines}"),
        );
    }
}

/// Everything that must not be read by others, as text.
fn secrets(cluster: &Cluster) -> Vec<Vec<u8>> {
    let tokens = cluster.tokens.iter().flat_map(|tokens| [&tokens.server, &tokens.agent]);
    let mut all: Vec<Vec<u8>> = tokens.map(|token| token.clone().into_bytes()).collect();
    all.extend(cluster.agent.iter().map(|agent| agent.token.clone().into_bytes()));
    let hidden =
        |key: &str| key.contains("assword") || key.contains("secretKey") || key == "tls.key" || key == "auth";
    let parts = cluster.secrets.values().flat_map(|secret| &secret.data).filter(|(key, _)| hidden(key));
    all.extend(parts.map(|(_, value)| value.clone()));
    all.retain(|secret| secret.len() >= 8);
    all
}

fn readable(name: &MachineName, file: &File, secrets: &[Vec<u8>], found: &mut Findings) {
    let open = file.mode().is_ok_and(|mode| mode & 0o077 != 0);
    if !open || file.directory {
        return;
    }
    let content = file.decoded().unwrap_or_default();
    let holds = |needle: &[u8]| content.windows(needle.len()).any(|window| window == needle);
    if secrets.iter().any(|secret| holds(secret) || holds(BASE64_STANDARD.encode(secret).as_bytes())) {
        found.add(Rule::SecretInReadableFile, name, format!("{} has mode {}", file.path, file.permissions));
    }
}
