//! One machine: its plan Secret, its agent (the real logic of crate `plan`), and the distribution on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use plan::agent::{Chores, Job, Local, Outcome, Report, Seen, Source, Step, Tended, decide};
use plan::periodic::Run;
use plan::secret::{Data, PlanSecret, apply_changes};
use planner::{Address, Bootstrap, Infra, Machine, MemberRemoval, Node, PlanView, Trouble};
use serde_json::Value;

/// One machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Computer {
    pub(crate) name: String,
    pub(crate) number: u32,
    pub(crate) machine_labels: BTreeMap<String, String>,
    /// What its RKEBootstrap says.
    pub(crate) bootstrap: Bootstrap,
    /// Annotations of its plan Secret.
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) data: Data,
    pub(crate) revision: u64,
    pub(crate) infra: Infra,
    pub(crate) infrastructure_ready: bool,
    pub(crate) deleting_since: Option<Timestamp>,
    pub(crate) has_hook: bool,
    pub(crate) force_remove: bool,
    /// The server runs at all.
    pub(crate) alive: bool,
    /// Its agent runs.
    pub(crate) agent_up: bool,
    /// A plan is on its way that restarts the distribution.
    pub(crate) restart_due: bool,
    /// Its server could not be made.
    pub(crate) broken: bool,
    /// So many writes to its Secret come too late from here on.
    pub(crate) conflicts: u32,
    /// So many applies fail from here on.
    pub(crate) failures: u32,
    /// Probes that fail.
    pub(crate) sick: Vec<String>,
    pub(crate) local: Local,
    pub(crate) disk: Option<Report>,
    pub(crate) distro: Distro,
    pub(crate) node: Option<Kubelet>,
    pub(crate) cache: Option<Arc<Machine>>,
    /// The Secret as read at a revision.
    pub(crate) read: Option<(u64, PlanSecret)>,
    /// The revision that upkeep has seen.
    pub(crate) kept: u64,
}

/// The distribution on a machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Distro {
    pub(crate) stamp: Option<String>,
    pub(crate) version: String,
    pub(crate) restarts: u32,
    /// Restarts while the node took pods.
    pub(crate) rude_restarts: u32,
    pub(crate) installs: u32,
}

/// The node that others see.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kubelet {
    pub(crate) version: String,
    pub(crate) cordoned: bool,
    pub(crate) drains: u32,
    pub(crate) removal: MemberRemoval,
}

impl Computer {
    pub(crate) fn has(&self, label: &str) -> bool {
        self.bootstrap.labels.get(label).is_some_and(|value| value == "true")
    }

    pub(crate) fn is_etcd(&self) -> bool {
        self.has(api::catalogue::labels::ETCD_ROLE)
    }

    pub(crate) fn is_control_plane(&self) -> bool {
        self.has(api::catalogue::labels::CONTROL_PLANE_ROLE)
    }

    pub(crate) fn is_server(&self) -> bool {
        self.is_etcd() || self.is_control_plane()
    }

    pub(crate) fn address(&self) -> String {
        format!("10.0.0.{}", self.number)
    }

    /// Whoever writes forgets what was read.
    pub(crate) fn touch(&mut self) {
        self.revision += 1;
        self.cache = None;
    }

    pub(crate) fn note(&self, annotation: &str) -> Option<&String> {
        self.annotations.get(annotation).filter(|value| !value.is_empty())
    }

    pub(crate) fn annotate(&mut self, annotation: &str, value: Option<String>) {
        match value {
            Some(value) => self.annotations.insert(annotation.to_owned(), value),
            None => self.annotations.remove(annotation),
        };
        self.touch();
    }

    pub(crate) fn mark(&mut self, annotation: &str, value: Option<String>) {
        match value {
            Some(value) => self.bootstrap.annotations.insert(annotation.to_owned(), value),
            None => self.bootstrap.annotations.remove(annotation),
        };
        self.touch();
    }

    /// The machine as the planner's shell would gather it.
    pub(crate) fn gather(&mut self) -> Arc<Machine> {
        if let Some(cached) = &self.cache {
            return cached.clone();
        }
        let node = self.node.as_ref().map(|kubelet| Node {
            name: self.name.clone(),
            provider_id: format!("sim://{}", self.name),
            kubelet_version: kubelet.version.clone(),
            addresses: vec![Address { kind: "InternalIP".into(), address: self.address() }],
            ready: Some(self.alive),
            lost: !self.alive,
            removal: kubelet.removal,
        });
        let trouble = |message: &str| Trouble { failing: true, message: message.into() };
        let trouble = match () {
            () if self.broken => Some(trouble("failed creating server: out of quota")),
            () if !self.alive => Some(trouble("node is not healthy")),
            () => None,
        };
        let machine = Arc::new(Machine {
            id: format!("uid-{}", self.name),
            labels: self.machine_labels.clone(),
            deleting_since: self.deleting_since,
            phase_failed: self.broken,
            infrastructure_ready: self.infrastructure_ready && !self.broken,
            trouble,
            has_hook: self.has_hook,
            force_remove: self.force_remove,
            infra: self.infra.clone(),
            node,
            bootstrap: self.bootstrap.clone(),
            plan: PlanView::read(self.annotations.clone(), &self.data),
        });
        self.cache = Some(machine.clone());
        machine
    }

    fn seen(&mut self) -> Seen {
        let revision = self.revision;
        if self.read.as_ref().is_none_or(|(at, _)| *at != revision) {
            self.read = Some((revision, PlanSecret::read(&self.data)));
        }
        Seen {
            uid: self.name.clone(),
            resource_version: self.revision.to_string(),
            source: Source::Live,
            secret: self.read.clone().unwrap().1,
        }
    }

    /// What the agent does next, with its own bookkeeping done; none if it waits.
    pub(crate) fn agent(&mut self, now: Timestamp) -> Option<Work> {
        loop {
            let seen = self.seen();
            let (step, local) = decide(&seen, &self.local, now);
            self.remember(local);
            match step {
                Step::Wait { .. } => return None,
                Step::Reread => {}
                Step::Write(write, changes) => {
                    apply_changes(&mut self.data, &changes);
                    self.touch();
                    let answer = self.seen();
                    self.remember(self.local.written(&write, &answer));
                }
                Step::Apply(job) => return Some(Work::Apply(job)),
                Step::Tend(chores) => return Some(Work::Tend(chores)),
            }
        }
    }

    fn remember(&mut self, local: Local) {
        self.disk = local.report().cloned();
        self.local = local;
    }

    /// The agent's process starts anew.
    pub(crate) fn restart_agent(&mut self) {
        self.local = Local::resume(self.disk.clone());
    }

    pub(crate) fn applied(&mut self, job: &Job, outcome: Outcome, now: Timestamp) {
        let local = self.local.applied(job, outcome, now);
        self.remember(local);
    }

    pub(crate) fn tended(&mut self, chores: &Chores, up: bool, now: Timestamp) {
        let plan = chores.document.plan();
        let runs = chores.periodic.iter().map(|index| {
            let name = plan.periodic_instructions[*index].common.name.as_str();
            let stdout = match name {
                "capture-address" => {
                    let url = format!("https://{}:2379", self.address());
                    serde_json::json!({"members": [{"name": self.name, "clientURLs": [url]}]}).to_string()
                }
                _ => self.name.clone(),
            };
            let exit_code = if up { 0 } else { 1 };
            (*index, Run { stdout: stdout.into(), stderr: Vec::new(), exit_code }, now)
        });
        let runs: Vec<_> = if up { runs.collect() } else { runs.take(1).collect() };
        let answers = chores.probes.iter().map(|name| (name.clone(), up && !self.sick.contains(name)));
        let tended = Tended { runs, answers: answers.collect() };
        let local = self.local.tended(chores, tended, now);
        self.remember(local);
    }
}

/// Something that the agent does to its machine.
pub(crate) enum Work {
    Apply(Box<Job>),
    Tend(Box<Chores>),
}

/// The config that a plan brings.
pub(crate) fn config(plan: &plan::Plan) -> Value {
    let files = plan.files.iter().filter(|file| file.path.ends_with("/50-rancher.yaml"));
    let mut parsed = files.map(|file| serde_json::from_slice(&file.decoded().unwrap()).unwrap());
    parsed.next().unwrap_or(Value::Null)
}

/// A variable of the installer.
pub(crate) fn variable(plan: &plan::Plan, ends: &str) -> String {
    let all = plan.instructions.iter().flat_map(|instruction| &instruction.common.env);
    let pairs = all.filter_map(|entry| entry.split_once('='));
    pairs
        .filter(|(name, _)| name.ends_with(ends))
        .map(|(_, value)| value.to_owned())
        .next()
        .unwrap_or_default()
}

/// The version that a plan installs.
pub(crate) fn version(plan: &plan::Plan) -> String {
    let image =
        plan.instructions.first().map(|instruction| instruction.common.image.clone()).unwrap_or_default();
    let tag = image.rsplit(':').next().unwrap_or_default().to_owned();
    tag.replacen("-k3s", "+k3s", 1).replacen("-rke2", "+rke2", 1)
}
