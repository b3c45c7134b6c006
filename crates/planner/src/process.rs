//! The order of a pass: what has to be so before the next thing counts.
//!
//! | # | step | otherwise |
//! |---|---|---|
//! | 1 | the version can be read | wait |
//! | 2 | the Cluster API Cluster is there, and neither it nor the control plane is going | wait; let machines go |
//! | 3 | the infrastructure is provisioned, and nobody else writes plans | wait |
//! | 4 | join URLs are written down | |
//! | 5 | every role has a machine | wait; perhaps uninitialize |
//! | 6 | the tokens are there | wait |
//! | 7 | operations: snapshot, restore, certificates, encryption keys, in this order | their place; see [`operations`] |
//! | 8 | not paused | wait |
//! | 9 | an etcd machine with a plan is there, if a cluster was | wait for a restore |
//! | 10 | etcd machines that are going are let go | waits beside the others |
//! | 11 | an init node is elected | marks, next pass |
//! | 12 | tiers: bootstrap, etcd, control plane, worker | waits |

use std::collections::BTreeMap;

use api::catalogue::{annotations, conditions, labels, reasons};

use crate::decision::{Condition, Decision};
use crate::election::{self, Election};
use crate::epoch::{self, Epoch, Occasion};
use crate::impact::installer_image;
use crate::join::Joins;
use crate::members::Members;
use crate::memo::Memo;
use crate::snapshot::{Beacon, CapiCluster, Machine, MachineName, Snapshot};
use crate::tier::{Entry, Pass, Tier, Verdict};
use crate::version::Version;
use crate::wait::{Code, Wait};
use crate::{lint, removal};

/// Decides what to do next.
///
/// The same snapshot gives the same decision. Doing all of it, or any part of it, and asking again is always right: a
/// decision remembers nothing.
pub fn decide(snapshot: &Snapshot) -> Decision {
    decide_with(snapshot, &mut Memo::default())
}

/// The same decision, without rendering again what did not change since the memo's last one.
pub fn decide_with(snapshot: &Snapshot, memo: &mut Memo) -> Decision {
    let mut decision = Decision::default();
    let outcome = process(snapshot, memo, &mut decision);
    conclude(snapshot, outcome, &mut decision);
    decision.status.beacon = beacon(snapshot, &decision);
    memo.retain(&snapshot.machines);
    let violations = lint::lint(snapshot, &decision);
    if violations.is_empty() { decision } else { refuse(violations) }
}

/// Whoever is about to write plans takes the Beacon first, and gives it back when all is as it should be.
fn beacon(snapshot: &Snapshot, decision: &Decision) -> Option<bool> {
    let writes = !decision.writes.is_empty() || !decision.marks.is_empty() || !decision.cancels.is_empty();
    match snapshot.state.beacon {
        Beacon::Free if writes => Some(true),
        Beacon::Ours if decision.waits.is_empty() && !writes => Some(false),
        _ => None,
    }
}

/// Nothing is done that breaks a rule.
fn refuse(violations: Vec<lint::Violation>) -> Decision {
    let words: Vec<_> = violations.iter().map(ToString::to_string).collect();
    let message = format!("decision refused: {}", words.join("; "));
    let mut decision = Decision { refused: violations, ..Decision::default() };
    let condition = Condition { status: "False", reason: reasons::ERROR, message: message.clone() };
    decision.status.conditions.insert(conditions::READY, condition);
    decision.waits.push(Wait::cluster(Code::Refused, message));
    decision
}

/// How a pass ended.
enum Outcome {
    /// Every machine has what it should.
    Done,
    /// Nothing more to do until something changes.
    Waits(Wait),
    /// The cluster is going: nothing is said about it here.
    Deleting,
}

fn process(snapshot: &Snapshot, memo: &mut Memo, decision: &mut Decision) -> Outcome {
    let version = match snapshot.cluster.spec.kubernetes_version.parse::<Version>() {
        Ok(version) => version,
        Err(error) => return Outcome::Waits(Wait::cluster(Code::VersionInvalid, error.to_string())),
    };
    let capi = match owner(snapshot, decision) {
        Ok(capi) => capi,
        Err(outcome) => return outcome,
    };
    if let Beacon::Held(owner) = &snapshot.state.beacon {
        let message = format!("waiting for {owner} to give back the plans of the machines");
        return Outcome::Waits(Wait::cluster(Code::BeaconHeld, message));
    }
    let joins = Joins::of(version.runtime(), snapshot);
    write_join_urls(snapshot, &joins, decision);
    if let Some(wait) = roles(snapshot, decision) {
        return Outcome::Waits(wait);
    }
    decision.status.conditions.insert(conditions::PROVISIONED, Condition::met(""));
    if let Some(wait) = tokens(snapshot, decision).or_else(|| operations(snapshot)) {
        return Outcome::Waits(wait);
    }
    if capi.paused || snapshot.state.paused {
        let message = "CAPI cluster or RKEControlPlane is paused";
        return Outcome::Waits(Wait::cluster(Code::Paused, message));
    }
    if let Some(wait) = replaced(snapshot, decision) {
        return Outcome::Waits(wait);
    }
    let members = let_go(snapshot, &joins, decision);
    let init = match election::elect(snapshot, &joins) {
        Election::Stays(init) => init,
        Election::Changes { mark, clear } => return Outcome::Waits(marks(decision, &mark, &clear)),
        Election::Wait(wait) => return Outcome::Waits(wait),
    };
    let fresh = !election::is_bootstrapped(snapshot);
    let joins = joins.around(snapshot, &init, fresh);
    reconcile(Ground { snapshot, version: &version, joins, members, init: &init }, memo, decision)
}

/// Lets etcd machines go that are going, and says how etcd stands then.
fn let_go(snapshot: &Snapshot, joins: &Joins, decision: &mut Decision) -> Members {
    let members = Members::of(snapshot);
    let removals = removal::removals(snapshot, joins, &members);
    // A member that is about to be asked out counts as being removed for whatever else this pass does.
    let members = if removals.releases.is_empty() { members } else { members.while_removing() };
    decision.releases = removals.releases;
    decision.cancels = removals.cancels;
    decision.waits = removals.waits;
    decision.wake_at = removals.wake_at;
    members
}

/// What tiers stand on.
struct Ground<'a> {
    snapshot: &'a Snapshot,
    version: &'a Version,
    joins: Joins,
    members: Members,
    init: &'a MachineName,
}

/// The owner, if it stays and has its infrastructure.
fn owner(snapshot: &Snapshot, decision: &mut Decision) -> Result<CapiCluster, Outcome> {
    let Some(capi) = snapshot.state.capi else {
        return Err(Outcome::Waits(Wait::cluster(Code::CapiClusterMissing, "CAPI cluster does not exist")));
    };
    if capi.deleting || snapshot.state.deleting {
        decision.status.unpause = capi.deleting && capi.paused;
        decision.releases = removal::all(snapshot, "the cluster is being deleted");
        return Err(Outcome::Deleting);
    }
    if !capi.infrastructure_provisioned {
        let wait = Wait::cluster(Code::InfrastructureNotReady, "waiting for infrastructure ready");
        return Err(Outcome::Waits(wait));
    }
    Ok(capi)
}

fn write_join_urls(snapshot: &Snapshot, joins: &Joins, decision: &mut Decision) {
    for (name, machine) in &snapshot.machines {
        if let Some(url) = joins.url(name).filter(|url| machine.note(annotations::JOIN_URL) != Some(url)) {
            let marks = decision.marks.entry(name.clone()).or_default();
            marks.annotations.insert(annotations::JOIN_URL, Some(url.to_owned()));
        }
    }
}

/// Every role needs a machine that stays; a cluster that is there goes on without workers. If no etcd machine is there and
/// none is to come, the cluster is given up until somebody restores it; while one is to come, the last one is kept.
fn roles(snapshot: &Snapshot, decision: &mut Decision) -> Option<Wait> {
    let staying = || snapshot.machines.values().filter(|machine| !machine.is_deleting());
    let has = |role: fn(&Machine) -> bool| staying().any(|machine| role(machine));
    let etcd = has(|machine| machine.roles().etcd);
    let worker = snapshot.state.initialized || has(|machine| machine.roles().worker);
    if etcd && worker && has(|machine| machine.roles().control_plane) {
        return None;
    }
    let missing = "waiting for at least one control plane, etcd, and worker node to be registered";
    decision.status.conditions.insert(conditions::STABLE, not_stable());
    let going = snapshot.machines.values().any(|machine| machine.roles().etcd && machine.is_deleting());
    let to_come = snapshot.state.etcd_wanted.is_some_and(|wanted| wanted > 0);
    if etcd || to_come {
        return Some(Wait::cluster(Code::RolesMissing, missing));
    }
    if snapshot.state.initialized {
        decision.status.initialized = Some(false);
        let place = format!("{}/{}", snapshot.cluster.namespace, snapshot.cluster.name);
        return Some(Wait::cluster(Code::Uninitializing, format!("uninitializing rkecontrolplane {place}")));
    }
    decision.status.uninitialize_capi = true;
    if snapshot.state.capi.is_some_and(|capi| capi.control_plane_initialized) {
        let place = format!("{}/{}", snapshot.cluster.namespace, snapshot.cluster.spec.cluster_name);
        return Some(Wait::cluster(Code::Uninitializing, format!("uninitializing CAPI cluster: {place}")));
    }
    decision.releases = removal::all(snapshot, "no etcd machine is wanted any more");
    Some(if going {
        Wait::cluster(Code::EtcdMachinesDeleting, "waiting for all etcd machines to be deleted")
    } else {
        Wait::cluster(Code::RolesMissing, missing)
    })
}

/// Tokens are made once. With machines that have plans, missing ones are lost, and making others would cut the nodes
/// off and the snapshots too.
fn tokens(snapshot: &Snapshot, decision: &mut Decision) -> Option<Wait> {
    if snapshot.cluster.tokens.is_some() || snapshot.cluster.spec.unmanaged_config {
        return None;
    }
    if snapshot.machines.values().any(|machine| machine.plan.has_plan) {
        let secret = api::names::cluster_state_secret(&snapshot.cluster.name);
        let message = format!(
            "Secret {}/{secret} does not exist although machines have plans",
            snapshot.cluster.namespace
        );
        return Some(Wait::cluster(Code::TokensLost, message));
    }
    decision.make_tokens = true;
    Some(Wait::cluster(Code::TokensMissing, "waiting for cluster tokens to be made"))
}

/// The place of operations: each has its turn here, keeps the rest of the pass waiting while it is active, and is not
/// stopped by a pause. None is built yet; a request is not passed over in silence.
fn operations(snapshot: &Snapshot) -> Option<Wait> {
    let operation = snapshot.state.operations.first()?;
    let message = format!("{} asks for an operation that is not supported yet", operation.field());
    Some(Wait::cluster(Code::OperationUnsupported, message))
}

/// Every member is gone, and others took their machines' place.
fn replaced(snapshot: &Snapshot, decision: &mut Decision) -> Option<Wait> {
    let member = |machine: &Machine| machine.roles().etcd && machine.plan.has_plan;
    if !election::is_bootstrapped(snapshot) || snapshot.machines.values().any(|machine| member(machine)) {
        return None;
    }
    decision.status.conditions.insert(conditions::STABLE, not_stable());
    let message = "rkecontrolplane was already initialized but no etcd machines exist that have plans, indicating the \
                   etcd plane has been entirely replaced. Restoration from etcd snapshot is required.";
    Some(Wait::cluster(Code::EtcdPlaneReplaced, message))
}

fn not_stable() -> Condition {
    Condition { status: "False", reason: reasons::WAITING, message: String::new() }
}

fn marks(decision: &mut Decision, mark: &MachineName, clear: &[MachineName]) -> Wait {
    let mut set = |name: &MachineName, value: Option<String>| {
        decision.marks.entry(name.clone()).or_default().labels.insert(labels::INIT_NODE, value);
    };
    set(mark, Some("true".into()));
    clear.iter().for_each(|name| set(name, None));
    decision.report.init = Some(mark.clone());
    Wait::cluster(Code::InitNodeElecting, format!("elected {mark} as init node"))
}

fn reconcile(ground: Ground<'_>, memo: &mut Memo, decision: &mut Decision) -> Outcome {
    let Ground { snapshot, version, joins, members, init } = ground;
    let epoch = choose_epoch(snapshot, decision);
    decision.report.init = Some(init.clone());
    if joins.url(init).is_some() {
        decision.status.conditions.insert(conditions::BOOTSTRAPPED, Condition::met(""));
    }
    let mut tiers: BTreeMap<Tier, Vec<Entry<'_>>> = BTreeMap::new();
    let staying = snapshot.machines.iter().filter(|(_, machine)| !machine.is_deleting());
    for (name, machine) in staying {
        let Some(tier) = Tier::of(machine, name == init) else { continue };
        let Some(placement) = joins.placement(name, machine) else { continue };
        let desired = memo.desired((epoch, version), &snapshot.cluster, name, machine, &placement);
        tiers.entry(tier).or_default().push(Entry { name, machine, placement, desired });
    }
    let old_servers = old_servers(&tiers);
    let mut pass =
        Pass { snapshot, version, members: &members, disturbed: Vec::new(), old_servers, decision };
    let verdict = walk(&mut pass, &joins, &tiers);
    not_reached(snapshot, init, decision);
    match verdict {
        Verdict::Ready => Outcome::Done,
        Verdict::Waits(wait) | Verdict::Troubled(wait) => Outcome::Waits(wait),
    }
}

/// The tiers, and what has to be so between them.
fn walk(pass: &mut Pass<'_>, joins: &Joins, tiers: &BTreeMap<Tier, Vec<Entry<'_>>>) -> Verdict {
    let state = &pass.snapshot.state;
    let mut trouble = None;
    let mut go = |pass: &mut Pass<'_>, tier: Tier| match pass
        .tier(tier, tiers.get(&tier).map_or(&[], Vec::as_slice))
    {
        Verdict::Ready => None,
        Verdict::Troubled(wait) => {
            trouble.get_or_insert(wait);
            None
        }
        waits => Some(waits),
    };
    if let Some(waits) = go(pass, Tier::Bootstrap) {
        return waits;
    }
    if joins.target().is_none() {
        let first = trouble.map_or_else(|| "waiting for".to_owned(), |wait| format!("{} and", wait.message));
        let message = format!("{first} join url to be available on bootstrap node");
        return Verdict::Waits(Wait::cluster(Code::JoinUrlUnknown, message));
    }
    for tier in [Tier::Etcd, Tier::ControlPlane] {
        if let Some(waits) = go(pass, tier) {
            return waits;
        }
    }
    if !joins.has_control_plane() {
        let message = "waiting for control plane to be available";
        return Verdict::Waits(Wait::cluster(Code::ControlPlaneUnavailable, message));
    }
    if !state.initialized {
        pass.decision.status.initialized = Some(true);
        let message = "marking control plane as initialized";
        return Verdict::Waits(Wait::cluster(Code::ControlPlaneInitializing, message));
    }
    match go(pass, Tier::Worker) {
        Some(waits) => waits,
        None => trouble.map_or(Verdict::Ready, Verdict::Troubled),
    }
}

/// Machines without a plan that no tier got to.
fn not_reached(snapshot: &Snapshot, init: &MachineName, decision: &mut Decision) {
    for (name, machine) in &snapshot.machines {
        let idle = !machine.is_deleting() && !machine.plan.has_plan && !decision.machines.contains_key(name);
        let Some(tier) = Tier::of(machine, name == init).filter(|_| idle) else { continue };
        decision.machines.insert(name.clone(), Condition::waiting(tier.before()));
        decision.waits.push(Wait::machine(Code::PlanAbsent, name, tier.before()));
    }
}

/// A server runs another version than the desired one.
fn old_servers(tiers: &BTreeMap<Tier, Vec<Entry<'_>>>) -> bool {
    let servers = tiers.iter().filter(|(tier, _)| **tier != Tier::Worker).flat_map(|(_, entries)| entries);
    servers.filter_map(|entry| Some((entry, entry.desired.rendered.as_ref().ok()?))).any(
        |(entry, rendered)| {
            let applied = installer_image(entry.machine.plan.applied.as_deref());
            applied.is_some() && applied != installer_image(Some(&rendered.document))
        },
    )
}

fn choose_epoch(snapshot: &Snapshot, decision: &mut Decision) -> Epoch {
    let state = &snapshot.state;
    let occasion = Occasion {
        fresh: !snapshot.machines.values().any(|machine| machine.plan.has_plan),
        changed: !state.spec_is_applied,
        requested: state.epoch_requested,
    };
    let epoch = epoch::choose(state.epoch, Epoch::NEWEST, occasion);
    decision.status.epoch = (state.epoch != Some(epoch)).then_some(epoch);
    decision.report.epoch = Some(epoch);
    epoch
}

/// The conditions that follow from how a pass ended.
fn conclude(snapshot: &Snapshot, outcome: Outcome, decision: &mut Decision) {
    let Decision { status, waits, .. } = decision;
    let mut set = |type_, condition| status.conditions.insert(type_, condition);
    for type_ in [conditions::SCALING_UP, conditions::SCALING_DOWN, conditions::ROLLING_OUT] {
        // Machines are Cluster API's to count.
        set(type_, Condition { status: "False", reason: "NotSupported", message: String::new() });
    }
    match outcome {
        Outcome::Deleting => {
            waits.insert(0, Wait::cluster(Code::ClusterDeleting, "waiting for machines to be deleted"));
        }
        Outcome::Waits(wait) => {
            set(conditions::READY, Condition::waiting(&wait.message));
            if !snapshot.state.spec_is_applied {
                let message = "RKEControlPlane has not been fully reconciled yet";
                set(conditions::RECONCILED, Condition::waiting(message));
            }
            waits.insert(0, wait);
        }
        Outcome::Done => {
            for type_ in [conditions::READY, conditions::STABLE, conditions::RECONCILED] {
                set(type_, Condition::met(""));
            }
            status.spec_applied = !snapshot.state.spec_is_applied;
        }
    }
}
