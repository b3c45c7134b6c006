//! Tiers: which machines get their plans in which order, how many at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::catalogue::annotations;
use jiff::{SignedDuration, Timestamp};
use plan::orchestrator::{Health, Limit, Progress, Terms};

use crate::decision::{Condition, Decision, Marks, PlanWrite, Why};
use crate::desired::{Placement, Rendered};
use crate::drain::{self, Drain};
use crate::impact::{Difference, impact, installer_image, restarts};
use crate::members::Members;
use crate::memo::Desired;
use crate::retry;
use crate::snapshot::{Machine, MachineName, Snapshot};
use crate::version::Version;
use crate::wait::{Code, Wait};

/// How long later tiers wait for a machine that does not get well.
pub(crate) const PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// The tiers, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// The machine that starts the cluster.
    Bootstrap,
    /// The other etcd machines.
    Etcd,
    /// Control-plane machines without etcd.
    ControlPlane,
    /// Workers.
    Worker,
}

impl Tier {
    /// In the words of messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Tier::Bootstrap => "bootstrap",
            Tier::Etcd => "etcd",
            Tier::ControlPlane => "control plane",
            Tier::Worker => "worker",
        }
    }

    /// The tier of a machine; none for one without a role.
    pub(crate) fn of(machine: &Machine, init: bool) -> Option<Tier> {
        let roles = machine.roles();
        match () {
            () if init => Some(Tier::Bootstrap),
            () if roles.etcd => Some(Tier::Etcd),
            () if roles.control_plane => Some(Tier::ControlPlane),
            () if roles.worker => Some(Tier::Worker),
            () => None,
        }
    }

    /// What a machine of this tier waits for that has no plan.
    pub(crate) fn before(self) -> &'static str {
        match self {
            Tier::Bootstrap | Tier::Etcd => "waiting for bootstrap etcd to be available",
            Tier::ControlPlane => "waiting for etcd to be available",
            Tier::Worker => "waiting for control plane to be available",
        }
    }

    /// How many of so many may be disturbed at a time; none is no limit.
    pub(crate) fn concurrency(self, snapshot: &Snapshot, machines: usize) -> Option<usize> {
        let strategy = &snapshot.cluster.spec.configuration.upgrade_strategy;
        match self {
            Tier::Bootstrap | Tier::Etcd => Some(1),
            Tier::ControlPlane => concurrency(&strategy.control_plane_concurrency, machines),
            Tier::Worker => concurrency(&strategy.worker_concurrency, machines),
        }
    }
}

/// A number, a percentage rounded up, `0` for no limit, nothing for one.
pub(crate) fn concurrency(text: &str, machines: usize) -> Option<usize> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.parse().ok().map(|percent: usize| (machines * percent).div_ceil(100).max(1)),
        None if text.is_empty() => Some(1),
        None => text.parse().ok(),
    };
    match number {
        Some(0) => None,
        // Admission refuses what is neither; the careful reading of it is one at a time.
        None => Some(1),
        some => some,
    }
}

/// One machine of a tier.
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a MachineName,
    pub(crate) machine: &'a Arc<Machine>,
    pub(crate) placement: Placement,
    pub(crate) desired: Desired,
}

impl Entry<'_> {
    /// It is not in service, or not known to be.
    pub(crate) fn is_unavailable(&self) -> bool {
        let plan = &self.machine.plan;
        let unhealthy = self.desired.difference == Difference::Equal && plan.health != Health::Healthy;
        plan.has_plan
            && (plan.progress != Progress::Applied || drain::is_under_way(self.machine) || unhealthy)
    }
}

/// Where a machine is.
enum Standing {
    Ready,
    /// It keeps later tiers waiting.
    Waits(Wait),
    Drains(Wait),
    Uncordons(Wait),
    /// It is reported, and the others go on.
    Fails(Wait),
    NotReady(Wait),
    /// Its change waits for others, also of later tiers.
    Held(Wait),
}

/// What a tier came to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    Ready,
    /// Later tiers go on; the wait is reported at the end.
    Troubled(Wait),
    /// Later tiers wait.
    Waits(Wait),
}

/// What is common to the machines of a pass.
pub(crate) struct Pass<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) version: &'a Version,
    pub(crate) members: &'a Members,
    /// Etcd machines that this pass disturbs.
    pub(crate) disturbed: Vec<MachineName>,
    /// Servers that fail run another image than the desired one: workers must not overtake them.
    pub(crate) old_servers: bool,
    pub(crate) decision: &'a mut Decision,
}

impl Pass<'_> {
    /// Goes through a tier in the order of names.
    pub(crate) fn tier(&mut self, tier: Tier, entries: &[Entry<'_>]) -> Verdict {
        let limit = tier.concurrency(self.snapshot, entries.len());
        let mut unavailable = entries.iter().filter(|entry| entry.is_unavailable()).count();
        let mut sorted: BTreeMap<u8, Vec<(&MachineName, Wait)>> = BTreeMap::new();
        for entry in entries {
            let standing = self.machine(tier, entry, limit, &mut unavailable);
            let standing = self.patience(entry, standing);
            let (group, wait) = match standing {
                Standing::Ready => {
                    let met = Condition::met(api::catalogue::reasons::RECONCILED);
                    self.decision.machines.insert(entry.name.clone(), met);
                    continue;
                }
                Standing::Uncordons(wait) => (0, wait),
                Standing::Drains(wait) => (1, wait),
                Standing::Waits(wait) => (2, wait),
                Standing::Fails(wait) => (3, wait),
                Standing::NotReady(wait) => (4, wait),
                Standing::Held(wait) => (5, wait),
            };
            let wait = wait.since(entry.machine.plan.delivered_at);
            self.decision.machines.insert(entry.name.clone(), Condition::waiting(&wait.message));
            sorted.entry(group).or_default().push((entry.name, wait));
        }
        let verdict = verdict(tier, &sorted);
        self.decision.waits.extend(sorted.into_values().flatten().map(|(_, wait)| wait));
        verdict
    }

    fn machine(
        &mut self,
        tier: Tier,
        entry: &Entry<'_>,
        limit: Option<usize>,
        unavailable: &mut usize,
    ) -> Standing {
        let (name, machine) = (entry.name, entry.machine);
        if !machine.infrastructure_ready {
            let words = machine.trouble.as_ref().map(|trouble| trouble.message.clone());
            let words = words.unwrap_or_else(|| "waiting for machine infrastructure".into());
            return Standing::NotReady(Wait::machine(Code::MachineInfrastructure, name, words));
        }
        let rendered = match &entry.desired.rendered {
            Ok(rendered) => rendered,
            Err(error @ crate::RenderError::DriverConfig(_)) => return Standing::NotReady(error.wait(name)),
            Err(error) => return Standing::Waits(error.wait(name)),
        };
        self.decision.report.warnings.extend(rendered.warnings.iter().cloned());
        if entry.desired.difference != Difference::Equal
            && let Some(size) = crate::lint::too_large(rendered.document.bytes().len())
        {
            let message =
                format!("the plan has {size} bytes, {} fit into its Secret", crate::lint::LARGEST_PLAN);
            return Standing::Fails(Wait::machine(Code::PlanTooLarge, name, message));
        }
        match entry.desired.difference {
            Difference::Absent => {
                self.write(entry, rendered, Why::Initial);
                let message = "waiting for agent to check in and apply initial plan";
                return Standing::Waits(Wait::machine(Code::AgentNotCheckedIn, name, message));
            }
            Difference::Minor => {
                self.write(entry, rendered, Why::Minor);
                let wait = Wait::machine(Code::PlanNotApplied, name, "waiting for plan to be applied");
                return Standing::Waits(wait);
            }
            Difference::Change => {
                if let Some(standing) = self.change(tier, entry, rendered, limit, unavailable) {
                    return standing;
                }
            }
            Difference::Equal => {}
        }
        self.standing(tier, entry, rendered)
    }

    /// Brings a changed plan on its way; none if it is not this machine's turn and the machine is otherwise judged as
    /// it is.
    fn change(
        &mut self,
        tier: Tier,
        entry: &Entry<'_>,
        rendered: &Arc<Rendered>,
        limit: Option<usize>,
        unavailable: &mut usize,
    ) -> Option<Standing> {
        let (name, machine, plan) = (entry.name, entry.machine, &entry.machine.plan);
        let cluster = &self.snapshot.cluster;
        let machines = self.snapshot.machines.len();
        let counted = entry.is_unavailable();
        let never_well =
            plan.progress == Progress::Applied && !plan.probes_passed && plan.health != Health::Healthy;
        let turn = drain::is_under_way(machine)
            || plan.progress == Progress::Failed
            || limit.is_none_or(|limit| *unavailable < limit)
            || never_well;
        if !turn {
            let message = format!("waiting for its turn among {} nodes", tier.as_str());
            return Some(Standing::Waits(Wait::machine(Code::Turn, name, message)));
        }
        if tier == Tier::Worker
            && self.old_servers
            && installer_image(plan.applied.as_deref()) != installer_image(Some(&rendered.document))
        {
            let message = "waiting for failing servers to be upgraded first";
            return Some(Standing::Waits(Wait::machine(Code::VersionSkew, name, message)));
        }
        let effect = impact(cluster, machines, machine, rendered);
        if effect >= crate::Impact::Restart && !self.members.may_disturb(name, machine, &self.disturbed) {
            let message = "waiting for etcd members to be healthy before this one restarts";
            // Members of later tiers that are not well must not wait for this one.
            return Some(Standing::Held(Wait::machine(Code::QuorumHold, name, message)));
        }
        if machine.roles().etcd {
            self.disturbed.push(name.clone());
        }
        if !counted {
            *unavailable += 1;
        }
        match drain::before_change(cluster, machines, machine, rendered) {
            Drain::Ask(options) => {
                self.annotate(name, annotations::DRAIN_OPTIONS, options);
                Some(Standing::Drains(Wait::machine(Code::NodeDraining, name, "draining node")))
            }
            Drain::Waiting => {
                let wait = Wait::machine(Code::NodeDraining, name, "draining node");
                let error = machine.handshake(annotations::DRAIN_ERROR);
                // A tunnel that is away for a moment is nobody's news.
                let error = error.filter(|error| !error.contains("error trying to reach service"));
                Some(Standing::Drains(match error {
                    Some(error) => Wait { message: format!("draining node: {error}"), ..wait },
                    None => wait,
                }))
            }
            Drain::Done => {
                self.write(entry, rendered, Why::Change);
                Some(Standing::Drains(Wait::machine(Code::PlanNotApplied, name, "drain completed")))
            }
            Drain::NotNeeded => {
                self.write(entry, rendered, Why::Change);
                let message = "waiting for plan to be applied";
                Some(Standing::Waits(Wait::machine(Code::PlanNotApplied, name, message)))
            }
        }
    }

    /// Judges a machine whose plan is the desired one.
    fn standing(&mut self, tier: Tier, entry: &Entry<'_>, rendered: &Arc<Rendered>) -> Standing {
        let (name, machine, plan) = (entry.name, entry.machine, &entry.machine.plan);
        let wait = |code: Code, message: &str| Wait::machine(code, name, message);
        match plan.progress {
            Progress::NoPlan => return Standing::Waits(wait(Code::PlanAbsent, tier.before())),
            Progress::Failed => return self.failed(entry, rendered),
            Progress::Applied => {}
            _ if plan.applied.is_none() => {
                let message = "waiting for agent to check in and apply initial plan";
                return Standing::Waits(wait(Code::AgentNotCheckedIn, message));
            }
            Progress::Retrying => {
                let seen = format!("failed {} times, the agent tries again", plan.failures);
                return Standing::Waits(
                    wait(Code::PlanNotApplied, "waiting for plan to be applied").seen(seen),
                );
            }
            Progress::Pending | Progress::InProgress => {
                return Standing::Waits(wait(Code::PlanNotApplied, "waiting for plan to be applied"));
            }
            Progress::Cancelled => {
                // Nobody of ours calls plans off: deliver again.
                self.write(entry, rendered, Why::Retry);
                return Standing::Waits(wait(Code::PlanNotApplied, "waiting for plan to be applied"));
            }
        }
        match &plan.health {
            Health::Healthy => {}
            Health::Unknown => return Standing::Waits(wait(Code::ProbesUnhealthy, "waiting for probes")),
            Health::Unhealthy(names) => {
                let message = format!("waiting for probes: {}", names.join(", "));
                return Standing::Waits(wait(Code::ProbesUnhealthy, &message));
            }
        }
        if drain::is_under_way(machine) {
            if let Some(options) = drain::uncordon(machine) {
                self.annotate(name, annotations::UNCORDON, options);
            }
            return Standing::Uncordons(wait(Code::NodeUncordoning, "waiting for uncordon to finish"));
        }
        self.in_sync(entry)
    }

    /// Judges a machine whose plan is applied and whose probes are well.
    fn in_sync(&self, entry: &Entry<'_>) -> Standing {
        let (name, machine, state) = (entry.name, entry.machine, &self.snapshot.state);
        if let Some(node) = &machine.node {
            let kubelet = node.kubelet_version.parse::<Version>();
            if state.agent_connected
                && kubelet.is_ok_and(|kubelet| kubelet.numbers() != self.version.numbers())
            {
                let wait = Wait::machine(Code::KubeletVersion, name, "waiting for kubelet to update");
                return Standing::Waits(wait.seen(format!("kubelet reports {}", node.kubelet_version)));
            }
            let infra = &machine.infra;
            let both = !infra.provider_id.is_empty() && !node.provider_id.is_empty();
            if infra.native && both && infra.provider_id != node.provider_id {
                let message = format!(
                    "node has providerID {}, its infrastructure machine {}",
                    node.provider_id, infra.provider_id
                );
                return Standing::Fails(Wait::machine(Code::ProviderIdMismatch, name, message));
            }
        }
        if machine.roles().control_plane && self.snapshot.cluster.pre_bootstrap {
            let message = "waiting for cluster pre-bootstrap to complete";
            return Standing::Waits(Wait::machine(Code::PreBootstrap, name, message));
        }
        if machine.roles().control_plane && !state.agent_connected {
            let wait =
                Wait::machine(Code::ClusterAgentDisconnected, name, "waiting for cluster agent to connect");
            // A cluster that works must not stand still because its tunnel does.
            return if state.initialized { Standing::NotReady(wait) } else { Standing::Waits(wait) };
        }
        if let Some(trouble) = &machine.trouble {
            let wait = Wait::machine(Code::MachineInfrastructure, name, &trouble.message);
            return if trouble.failing { Standing::Fails(wait) } else { Standing::NotReady(wait) };
        }
        Standing::Ready
    }

    /// A machine of a working cluster that does not get well for long is reported, and the others go on.
    fn patience(&mut self, entry: &Entry<'_>, standing: Standing) -> Standing {
        let Standing::Waits(wait) = standing else { return standing };
        let stuck =
            [Code::AgentNotCheckedIn, Code::PlanNotApplied, Code::ProbesUnhealthy, Code::KubeletVersion];
        let delivered =
            entry.machine.plan.delivered_at.filter(|_| !self.decision.writes.contains_key(entry.name));
        let Some(until) = delivered.and_then(|delivered| delivered.checked_add(PATIENCE).ok()) else {
            return Standing::Waits(wait);
        };
        if !self.snapshot.state.initialized || !stuck.contains(&wait.code) {
            return Standing::Waits(wait);
        }
        if until <= self.snapshot.now {
            return Standing::Fails(wait);
        }
        self.wake(until);
        Standing::Waits(wait)
    }

    /// A plan that failed is delivered again when its pause is over.
    fn failed(&mut self, entry: &Entry<'_>, rendered: &Arc<Rendered>) -> Standing {
        let (plan, now) = (&entry.machine.plan, self.snapshot.now);
        let wait = Wait::machine(Code::PlanFailed, entry.name, "failure while applying plan");
        let seen = if !plan.waits_for_delivery {
            format!("failed {} times, the agent tries again", plan.failures)
        } else {
            let due = retry::due(plan, now);
            let safe = || self.members.may_disturb(entry.name, entry.machine, &self.disturbed);
            if due <= now && restarts(entry.machine, rendered) && !safe() {
                format!("failed {} times, waits for etcd members to be healthy", plan.failures)
            } else if due <= now {
                self.write(entry, rendered, Why::Retry);
                if entry.machine.roles().etcd && restarts(entry.machine, rendered) {
                    self.disturbed.push(entry.name.clone());
                }
                format!("failed {} times, delivered again", plan.failures)
            } else {
                self.wake(due);
                format!("failed {} times, next try at {due}", plan.failures)
            }
        };
        // Before the cluster works, what comes later needs this machine.
        let wait = wait.seen(seen);
        if self.snapshot.state.initialized { Standing::Fails(wait) } else { Standing::Waits(wait) }
    }

    fn wake(&mut self, at: Timestamp) {
        self.decision.wake_at = Some(self.decision.wake_at.map_or(at, |known| known.min(at)));
    }

    fn annotate(&mut self, name: &MachineName, annotation: &'static str, value: String) {
        let marks: &mut Marks = self.decision.marks.entry(name.clone()).or_default();
        marks.handshake.insert(annotation, Some(value));
    }

    fn write(&mut self, entry: &Entry<'_>, rendered: &Arc<Rendered>, why: Why) {
        let machines = self.snapshot.machines.len();
        let effect = match why {
            Why::Retry if restarts(entry.machine, rendered) => crate::Impact::Restart,
            _ => impact(&self.snapshot.cluster, machines, entry.machine, rendered),
        };
        let threshold = if entry.machine.is_windows() { 5 } else { 1 };
        let terms = Terms {
            max_failures: Limit::Unlimited,
            failure_threshold: Limit::Times(threshold),
            probe_period: None,
        };
        let joined = entry.placement.server.clone();
        if entry.machine.joined_to() != joined.as_deref() {
            let marks = self.decision.marks.entry(entry.name.clone()).or_default();
            marks.annotations.insert(annotations::JOINED_TO, joined);
        }
        let write = PlanWrite { plan: rendered.document.clone(), terms, why, impact: effect };
        self.decision.writes.insert(entry.name.clone(), write);
    }
}

/// What a tier says as a whole: the first group that has anybody.
fn verdict(tier: Tier, groups: &BTreeMap<u8, Vec<(&MachineName, Wait)>>) -> Verdict {
    let Some((group, waits)) = groups.first_key_value() else { return Verdict::Ready };
    let name = tier.as_str();
    let list = names(&waits.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>());
    let detail = match waits.as_slice() {
        [(_, wait)] => format!(": {}", wait.message),
        _ => String::new(),
    };
    let evidence = match waits.as_slice() {
        [(_, wait)] => wait.evidence.clone(),
        _ => None,
    };
    let wait = |code, text: String| Wait { evidence, ..Wait::cluster(code, text) };
    match group {
        0 => {
            Verdict::Waits(wait(Code::TierUncordoning, format!("uncordoning {name} node(s) {list}{detail}")))
        }
        1 => Verdict::Waits(wait(Code::TierDraining, format!("draining {name} node(s) {list}{detail}"))),
        2 => {
            Verdict::Waits(wait(Code::TierConfiguring, format!("configuring {name} node(s) {list}{detail}")))
        }
        3 => Verdict::Troubled(wait(Code::TierFailing, format!("failing {name} machine(s) {list}{detail}"))),
        4 => {
            Verdict::Troubled(wait(Code::TierNonReady, format!("non-ready {name} machine(s) {list}{detail}")))
        }
        _ => Verdict::Troubled(wait(
            Code::TierConfiguring,
            format!("configuring {name} node(s) {list}{detail}"),
        )),
    }
}

/// Up to three names, and how many more.
pub(crate) fn names(all: &[&str]) -> String {
    match all {
        [first, second, third, more @ ..] if !more.is_empty() => {
            format!("{first},{second},{third} and {} more", more.len())
        }
        _ => all.join(","),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrency_is_a_number_a_share_or_no_limit() {
        let table = [
            ("", 7, Some(1)),
            ("1", 7, Some(1)),
            ("2", 7, Some(2)),
            ("0", 7, None),
            ("50%", 7, Some(4)),
            ("10%", 3, Some(1)),
            ("100%", 3, Some(3)),
            ("1%", 0, Some(1)),
            ("x", 7, Some(1)),
        ];
        for (text, machines, expected) in table {
            assert_eq!(concurrency(text, machines), expected, "{text} of {machines}");
        }
    }

    #[test]
    fn three_names_are_enough() {
        assert_eq!(names(&["a", "b", "c"]), "a,b,c");
        assert_eq!(names(&["a", "b", "c", "d", "e"]), "a,b,c and 2 more");
    }
}
