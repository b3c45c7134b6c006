//! The world around the planner. It keeps what is true, and notes whatever must never happen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::catalogue::{annotations, conditions, labels};
use jiff::{SignedDuration, Timestamp};
use plan::agent::{Job, Outcome};
use plan::orchestrator;
use plan::secret::apply_changes;
use planner::{
    Beacon, CapiCluster, Cluster, Decision, Epoch, Impact, MachineName, MemberRemoval, Memo, Release,
    Snapshot, State, Why, decide, decide_with,
};

use crate::computer::{Computer, Distro, Kubelet, Work, config, variable, version};
use crate::spec;

pub(crate) struct World {
    pub(crate) now: Timestamp,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) state: State,
    pub(crate) computers: BTreeMap<String, Computer>,
    /// Machines that are members of etcd, as etcd knows them.
    pub(crate) members: BTreeSet<String>,
    /// Etcd clusters that were ever started.
    pub(crate) started: u32,
    pub(crate) memo: Memo,
    pub(crate) log: Vec<String>,
    pub(crate) violations: Vec<String>,
    pub(crate) last: Decision,
    next_number: u32,
    said: String,
    pub(crate) applied_spec: Option<api::rke::v1::RKEControlPlaneSpec>,
}

impl World {
    pub(crate) fn new(name: &str, version: &str) -> Self {
        World {
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            cluster: Arc::new(spec::cluster(name, version)),
            state: State {
                capi: Some(CapiCluster { infrastructure_provisioned: true, ..CapiCluster::default() }),
                has_kubeconfig: true,
                ..State::default()
            },
            computers: BTreeMap::new(),
            members: BTreeSet::new(),
            started: 0,
            memo: Memo::default(),
            log: Vec::new(),
            violations: Vec::new(),
            last: Decision::default(),
            next_number: 1,
            said: String::new(),
            applied_spec: None,
        }
    }

    pub(crate) fn say(&mut self, line: impl Into<String>) {
        self.log.push(line.into());
    }

    fn wrong(&mut self, what: impl Into<String>) {
        let what = what.into();
        self.say(format!("WRONG {what}"));
        self.violations.push(what);
    }

    pub(crate) fn edit(&mut self, change: impl FnOnce(&mut Cluster)) {
        let mut cluster = (*self.cluster).clone();
        change(&mut cluster);
        self.cluster = Arc::new(cluster);
    }

    pub(crate) fn add(&mut self, name: &str, roles: &[&str]) -> &mut Computer {
        let words = spec::role_labels(&self.cluster.name, name, roles);
        let number = self.next_number;
        self.next_number += 1;
        let computer = Computer {
            name: name.into(),
            number,
            machine_labels: words.clone(),
            bootstrap: planner::Bootstrap { labels: words, ..Default::default() },
            infrastructure_ready: true,
            has_hook: roles.contains(&"etcd"),
            alive: true,
            agent_up: true,
            revision: 1,
            ..Computer::default()
        };
        self.computers.entry(name.into()).or_insert(computer)
    }

    pub(crate) fn computer(&mut self, name: &str) -> &mut Computer {
        self.computers.get_mut(name).unwrap_or_else(|| panic!("no machine {name:?}"))
    }

    pub(crate) fn snapshot(&mut self) -> Snapshot {
        self.state.spec_is_applied = self.applied_spec.as_ref() == Some(&self.cluster.spec);
        self.state.agent_connected = self.serves();
        let machines = self.computers.values_mut();
        Snapshot {
            now: self.now,
            cluster: self.cluster.clone(),
            state: self.state.clone(),
            machines: machines
                .map(|computer| (MachineName::from(computer.name.as_str()), computer.gather()))
                .collect(),
        }
    }

    /// One question to the planner, and its answer done. Says whether there was anything to do.
    pub(crate) fn plan(&mut self) -> bool {
        let snapshot = self.snapshot();
        let decision = decide_with(&snapshot, &mut self.memo);
        if decision != self.last {
            assert_eq!(decision, decide(&snapshot), "a memo must change nothing");
        }
        for violation in &decision.refused {
            self.wrong(format!("linter: {violation}"));
        }
        let acted = self.act(&decision);
        let first = decision.waits.first();
        let words =
            first.map_or_else(|| "ready".to_owned(), |wait| format!("{}: {}", wait.code, wait.message));
        if words != self.said {
            self.say(format!("= {words}"));
            self.said = words;
        }
        self.last = decision;
        acted
    }

    fn act(&mut self, decision: &Decision) -> bool {
        let mut acted = false;
        if decision.make_tokens {
            self.edit(|cluster| cluster.tokens = Some(spec::tokens()));
            self.say("planner: tokens");
            acted = true;
        }
        if let Some(ours) = decision.status.beacon {
            acted = true;
            self.state.beacon = if ours { Beacon::Ours } else { Beacon::Free };
            self.say(format!("planner: beacon {}", if ours { "taken" } else { "given back" }));
        }
        let refused = self.conflicts(decision);
        for (name, marks) in decision.marks.iter().filter(|(name, _)| !refused.contains(*name)) {
            acted = true;
            for (label, value) in &marks.labels {
                let word = if value.is_some() { "" } else { "no " };
                self.say(format!("planner: {name} {word}{}", label.trim_start_matches("rke.cattle.io/")));
                let computer = self.computer(name.as_str());
                match value {
                    Some(value) => computer.bootstrap.labels.insert((*label).into(), value.clone()),
                    None => computer.bootstrap.labels.remove(*label),
                };
                computer.touch();
            }
            for (annotation, value) in marks.annotations.iter().chain(&marks.handshake) {
                let short = annotation.trim_start_matches("rke.cattle.io/");
                match (value, short) {
                    (Some(value), "join-url" | "joined-to") => {
                        self.say(format!("planner: {name} {short} {value}"))
                    }
                    (Some(_), _) => self.say(format!("planner: {name} {short}")),
                    (None, _) => self.say(format!("planner: {name} no {short}")),
                }
                let computer = self.computer(name.as_str());
                match marks.handshake.contains_key(annotation) {
                    true => computer.annotate(annotation, value.clone()),
                    false => computer.mark(annotation, value.clone()),
                }
            }
        }
        for (name, write) in decision.writes.iter().filter(|(name, _)| !refused.contains(*name)) {
            acted = true;
            let now = self.now;
            let impact =
                if write.why == Why::Initial { String::new() } else { format!(", {}", write.impact) };
            self.say(format!("planner: {name} plan ({}{impact})", write.why));
            if write.impact >= Impact::Restart {
                self.check_restart(name.as_str());
            }
            let computer = self.computer(name.as_str());
            computer.restart_due = write.impact >= Impact::Restart;
            let update = orchestrator::deliver(&computer.data, &write.plan, write.terms, now).unwrap();
            apply_changes(&mut computer.data, &update.data);
            for (annotation, value) in update.annotations {
                computer.annotations.insert(annotation.into(), value);
            }
            computer.touch();
        }
        for name in decision.cancels.difference(&refused) {
            acted = true;
            self.say(format!("planner: {name} plan called off"));
            let computer = self.computer(name.as_str());
            computer.data.insert(plan::secret::PLAN_STATE.into(), b"cancelled".to_vec());
            computer.touch();
        }
        for release in &decision.releases {
            acted = true;
            self.release(release);
        }
        acted | !refused.is_empty() | self.status(decision)
    }

    /// Machines to whose Secrets somebody else has just written: what was decided for them is not done.
    fn conflicts(&mut self, decision: &Decision) -> BTreeSet<MachineName> {
        let named = decision.marks.keys().chain(decision.writes.keys()).chain(&decision.cancels);
        let mut refused = BTreeSet::new();
        for name in named.collect::<BTreeSet<_>>() {
            let computer = self.computer(name.as_str());
            if computer.conflicts > 0 {
                computer.conflicts -= 1;
                computer.touch();
                refused.insert(name.clone());
                self.say(format!("planner: {name} somebody else was faster"));
            }
        }
        refused
    }

    fn release(&mut self, release: &Release) {
        match release {
            Release::RemoveMember { machine, .. } => {
                if !self.has_quorum_without(machine.as_str(), true) {
                    self.wrong(format!("the removal of {machine} costs etcd its quorum"));
                }
                self.say(format!("planner: {machine} etcd member asked out"));
                let computer = self.computer(machine.as_str());
                computer.node.as_mut().unwrap().removal = MemberRemoval::Asked;
                computer.touch();
            }
            Release::DropHook { machine, reason } => {
                self.check_drop(machine.as_str());
                self.say(format!("planner: {machine} released: {reason}"));
                let computer = self.computer(machine.as_str());
                computer.has_hook = false;
                computer.touch();
            }
        }
    }

    fn status(&mut self, decision: &Decision) -> bool {
        let before = self.state.clone();
        if let Some(initialized) = decision.status.initialized {
            self.state.initialized = initialized;
            self.say(format!("planner: control plane initialized={initialized}"));
        }
        if decision
            .status
            .conditions
            .get(conditions::BOOTSTRAPPED)
            .is_some_and(|found| found.status == "True")
        {
            self.state.bootstrapped = true;
        }
        if let Some(epoch) = decision.status.epoch {
            self.state.epoch = Some(epoch);
            assert!(epoch <= Epoch::NEWEST);
        }
        if decision.status.spec_applied {
            self.applied_spec = Some(self.cluster.spec.clone());
        }
        if let Some(capi) = self.state.capi.as_mut().filter(|_| decision.status.unpause) {
            capi.paused = false;
        }
        before != self.state || decision.status.spec_applied
    }

    /// etcd has a quorum.
    pub(crate) fn has_quorum(&self) -> bool {
        let up = self.members.iter().filter(|name| self.is_up(name)).count();
        up > self.members.len() / 2
    }

    /// etcd would have one without a machine, which is removed from it or just down.
    fn has_quorum_without(&self, name: &str, removed: bool) -> bool {
        let others = self.members.iter().filter(|member| *member != name);
        let count = if removed { others.clone().count() } else { self.members.len() };
        others.filter(|member| self.is_up(member)).count() > count / 2
    }

    /// The cluster goes, or no etcd machine is wanted.
    fn is_given_up(&self) -> bool {
        let staying = |computer: &Computer| computer.is_etcd() && computer.deleting_since.is_none();
        let left = self.computers.values().any(staying);
        let deleting = self.state.capi.is_some_and(|capi| capi.deleting);
        deleting || (!left && self.state.etcd_wanted.unwrap_or(0) == 0)
    }

    fn check_drop(&mut self, name: &str) {
        let costs = self.members.contains(name) && self.has_quorum() && !self.has_quorum_without(name, false);
        if costs && !self.is_given_up() && !self.computers[name].force_remove && self.members.len() > 1 {
            self.wrong(format!("the end of {name} costs etcd its quorum"));
        }
    }

    fn is_up(&self, name: &str) -> bool {
        self.computers.get(name).is_some_and(|computer| computer.alive && computer.distro.stamp.is_some())
    }

    /// A control plane answers.
    pub(crate) fn serves(&self) -> bool {
        let control_plane = |computer: &Computer| computer.is_control_plane() && self.is_up(&computer.name);
        self.has_quorum() && self.computers.values().any(control_plane)
    }

    /// Everybody but the planner does what is due. Says whether anything happened.
    pub(crate) fn others(&mut self) -> bool {
        let names: Vec<String> = self.computers.keys().cloned().collect();
        let mut busy = false;
        for name in &names {
            busy |= self.agent(name);
            busy |= self.upkeep(name);
        }
        for name in &names {
            busy |= self.kubelet(name) | self.drainer(name) | self.etcd(name) | self.capi(name);
        }
        busy
    }

    fn agent(&mut self, name: &str) -> bool {
        let now = self.now;
        let computer = self.computer(name);
        if !computer.alive || !computer.agent_up {
            return false;
        }
        match computer.agent(now) {
            None => false,
            Some(Work::Apply(job)) => {
                let succeeded = self.apply(name, &job);
                self.say(format!("agent {name}: {}", if succeeded { "applied" } else { "failed" }));
                let none = BTreeMap::new();
                let outcome = if succeeded { Outcome::Succeeded(none) } else { Outcome::Failed(none) };
                self.computer(name).applied(&job, outcome, now);
                // The report is on its way at once.
                self.agent(name);
                true
            }
            Some(Work::Tend(chores)) => {
                let up = self.is_up(name) && (!self.computers[name].is_server() || self.has_quorum());
                let before = self.computers[name].data.clone();
                self.computer(name).tended(&chores, up, now);
                // The results are written at once; what is due after that has its turn in the next round.
                let _ = self.computer(name).agent(now);
                self.computers[name].data != before
            }
        }
    }

    /// The installer and the distribution. Says whether the plan succeeds.
    fn apply(&mut self, name: &str, job: &Job) -> bool {
        let plan = job.document.plan().clone();
        let computer = self.computer(name);
        computer.restart_due = false;
        if computer.failures > 0 {
            computer.failures -= 1;
            return false;
        }
        computer.distro.installs += 1;
        let stamp = variable(&plan, "RESTART_STAMP");
        if computer.distro.stamp.as_ref() == Some(&stamp) {
            return true;
        }
        let first = computer.distro.stamp.is_none();
        let config = config(&plan);
        let server = config.get("server").and_then(|url| url.as_str()).map(str::to_owned);
        if first && !self.join(name, server.as_deref()) {
            return false;
        }
        if !first {
            self.restart(name);
        }
        let version = version(&plan);
        let computer = self.computer(name);
        let Distro { restarts, .. } = computer.distro;
        self.say(format!("distro {name}: {} {version}", if first { "starts" } else { "restarts" }));
        let computer = self.computer(name);
        computer.distro.stamp = Some(stamp);
        computer.distro.version = version;
        computer.distro.restarts = restarts + u32::from(!first);
        true
    }

    fn restart(&mut self, name: &str) {
        let computer = self.computer(name);
        if computer.node.as_ref().is_some_and(|node| !node.cordoned) {
            computer.distro.rude_restarts += 1;
        }
    }

    /// An order to restart is judged when it is given: what dies after that is nobody's order.
    fn check_restart(&mut self, name: &str) {
        let count = self.members.len();
        let serves = |member: &&String| self.is_up(member) && !self.computers[*member].restart_due;
        let others = self.members.iter().filter(|member| *member != name).filter(serves).count();
        let up = self.members.contains(name) && self.is_up(name);
        // One of one or two cannot be restarted without it.
        if count > 2 && up && others + 1 > count / 2 && others <= count / 2 {
            self.wrong(format!("{name} is to restart with {others} of {count} etcd members beside it"));
        }
    }

    /// A first start: it begins a cluster, or joins one.
    fn join(&mut self, name: &str, server: Option<&str>) -> bool {
        let Some(url) = server else {
            if !self.members.is_empty() {
                self.wrong(format!("{name} starts a second cluster beside {:?}", self.members));
            }
            self.members.insert(name.to_owned());
            self.started += 1;
            return true;
        };
        let host = url.trim_start_matches("https://").split(':').next().unwrap_or_default().to_owned();
        let target =
            self.computers.values().find(|computer| computer.address() == host && computer.is_server());
        let reachable = target.is_some_and(|target| self.is_up(&target.name)) && self.has_quorum();
        if reachable && self.computers[name].is_etcd() {
            self.members.insert(name.to_owned());
        }
        reachable
    }

    /// What follows from the agent's writes.
    fn upkeep(&mut self, name: &str) -> bool {
        let now = self.now;
        let computer = self.computer(name);
        if computer.kept == computer.revision {
            return false;
        }
        computer.kept = computer.revision;
        let update = orchestrator::upkeep(&computer.data, &computer.annotations, now);
        if update.is_empty() {
            return false;
        }
        apply_changes(&mut computer.data, &update.data);
        for (annotation, value) in update.annotations {
            computer.annotations.insert(annotation.into(), value);
        }
        computer.touch();
        true
    }

    /// Nodes register once a control plane answers.
    fn kubelet(&mut self, name: &str) -> bool {
        let serves = self.serves();
        let up = self.is_up(name);
        let computer = self.computer(name);
        if !serves || !up || !computer.agent_up {
            return false;
        }
        let version = computer.distro.version.clone();
        match &mut computer.node {
            Some(node) if node.version == version => false,
            Some(node) => {
                node.version = version;
                computer.touch();
                true
            }
            None => {
                computer.node = Some(Kubelet { version, ..Kubelet::default() });
                computer.touch();
                self.say(format!("node {name}: registers"));
                true
            }
        }
    }

    /// The drainer's half of the handshake; hooks are answered from outside.
    fn drainer(&mut self, name: &str) -> bool {
        let strategy = self.cluster.spec.configuration.upgrade_strategy.clone();
        let serves = self.serves();
        let computer = self.computer(name);
        let options = if computer.is_server() {
            strategy.control_plane_drain_options
        } else {
            strategy.worker_drain_options
        };
        let Some(asked) = computer.note(annotations::DRAIN_OPTIONS).cloned().filter(|_| serves) else {
            return false;
        };
        let answered = |computer: &Computer, hooks: &[api::rke::v1::DrainHook]| {
            hooks.iter().all(|hook| computer.note(&hook.annotation) == Some(&asked))
        };
        if computer.note(annotations::UNCORDON).is_some() {
            if !options.post_drain_hooks.is_empty() && computer.note(annotations::POST_DRAIN).is_none() {
                computer.annotate(annotations::POST_DRAIN, Some(asked));
                self.say(format!("drainer {name}: asks post-drain hooks"));
                return true;
            }
            if !answered(computer, &options.post_drain_hooks) {
                return false;
            }
            let hooks = options.pre_drain_hooks.iter().chain(&options.post_drain_hooks);
            let hooks: Vec<String> = hooks.map(|hook| hook.annotation.clone()).collect();
            for key in [annotations::DRAIN_OPTIONS, annotations::DRAIN_DONE, annotations::PRE_DRAIN]
                .into_iter()
                .chain([annotations::POST_DRAIN, annotations::UNCORDON])
                .chain(hooks.iter().map(String::as_str))
            {
                computer.annotate(key, None);
            }
            computer.node.as_mut().unwrap().cordoned = false;
            self.say(format!("drainer {name}: uncordoned"));
            return true;
        }
        if computer.note(annotations::DRAIN_DONE) == Some(&asked) {
            return false;
        }
        computer.node.as_mut().unwrap().cordoned = true;
        if !options.pre_drain_hooks.is_empty() && computer.note(annotations::PRE_DRAIN) != Some(&asked) {
            computer.annotate(annotations::PRE_DRAIN, Some(asked));
            self.say(format!("drainer {name}: cordoned, asks pre-drain hooks"));
            return true;
        }
        if !answered(computer, &options.pre_drain_hooks) {
            return false;
        }
        computer.node.as_mut().unwrap().drains += 1;
        computer.annotate(annotations::DRAIN_DONE, Some(asked));
        self.say(format!("drainer {name}: drained"));
        true
    }

    /// The distribution removes members that it is asked to, while it has a quorum.
    fn etcd(&mut self, name: &str) -> bool {
        let asked = |computer: &Computer| {
            computer.node.as_ref().is_some_and(|node| node.removal == MemberRemoval::Asked)
        };
        if !asked(&self.computers[name]) || !self.has_quorum() {
            return false;
        }
        self.members.remove(name);
        let computer = self.computer(name);
        computer.node.as_mut().unwrap().removal = MemberRemoval::Done;
        computer.distro.stamp = None;
        computer.touch();
        self.say(format!("etcd: {name} removed"));
        true
    }

    /// Machines that are going and have no hook are gone.
    fn capi(&mut self, name: &str) -> bool {
        let computer = &self.computers[name];
        if computer.deleting_since.is_none() || computer.has_hook {
            return false;
        }
        let unseen = computer.node.is_none() && !self.state.bootstrapped;
        self.computers.remove(name);
        if self.is_given_up() {
            self.members.remove(name);
        }
        if unseen && self.members.len() == 1 && self.members.remove(name) {
            // It started and nobody ever saw it: another starts in its place.
            self.started -= 1;
        }
        self.say(format!("machine {name}: gone"));
        true
    }

    /// Goes on until nothing happens by itself any more; passes pauses up to `patience`.
    pub(crate) fn run(&mut self, patience: SignedDuration) {
        let end = self.now + patience;
        let mut pause = 5;
        for _ in 0..1_000 {
            let planned = self.plan();
            let moved = self.others();
            if planned || moved {
                self.now += SignedDuration::from_secs(1);
                pause = 5;
                continue;
            }
            let settled = self.last.waits.is_empty();
            // Probes and retries come with time.
            let next = self.last.wake_at.unwrap_or(self.now).max(self.now + SignedDuration::from_secs(pause));
            pause = (pause * 2).min(60);
            if settled || next > end {
                return;
            }
            self.now = next;
        }
        self.wrong("never comes to rest");
    }

    /// How often each machine was drained, restarted, and given another plan.
    pub(crate) fn disturbances(&self) -> BTreeMap<String, [u32; 3]> {
        let of = |computer: &Computer| {
            let drains = computer.node.as_ref().map_or(0, |node| node.drains);
            [drains, computer.distro.restarts, computer.distro.installs]
        };
        self.computers.iter().map(|(name, computer)| (name.clone(), of(computer))).collect()
    }

    /// What a machine went through since.
    pub(crate) fn impact_since(&self, before: &BTreeMap<String, [u32; 3]>, name: &str) -> Impact {
        let now = self.disturbances();
        let (Some(before), Some(now)) = (before.get(name), now.get(name)) else { return Impact::Replace };
        let more = |index: usize| now[index] > before[index];
        match () {
            () if more(0) => Impact::DrainRestart,
            () if more(1) => Impact::Restart,
            () if more(2) => Impact::Files,
            () => Impact::None,
        }
    }

    /// Time passes, and everybody does what is due, whether or not anything is.
    pub(crate) fn pass(&mut self, seconds: i64) {
        for _ in 0..(seconds + 4) / 5 {
            self.plan();
            self.others();
            self.now += SignedDuration::from_secs(5);
        }
    }

    pub(crate) fn delete(&mut self, name: &str) {
        let now = self.now;
        let computer = self.computer(name);
        computer.deleting_since.get_or_insert(now);
        computer.touch();
    }

    pub(crate) fn init(&self) -> Option<&str> {
        let marked = self.computers.values().find(|computer| computer.has(labels::INIT_NODE));
        marked.map(|computer| computer.name.as_str())
    }
}
