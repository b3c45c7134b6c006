//! A machine, a server and an orchestrator that are as unlucky as can be: random plans, failures, crashes, conflicts,
//! lost answers, late news, restored servers, Secrets made again. Whatever happens:
//!
//! - with `plan-state`, a delivery whose result is known is not run again;
//! - what an agent writes about a plan is what happened to it: a failed one is never reported applied;
//! - when all is quiet, the Secret has the result of the last run of its plan: none is lost;
//! - at rest nothing is run and nothing is written, in both flows.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use plan::agent::{Delivery, Local, Outcome, Report, Seen, Source, Step, Tended, decide};
use plan::document::{Instruction, OneTimeInstruction, PeriodicInstruction, Probe};
use plan::orchestrator::{self, Limit, Terms};
use plan::periodic::Run;
use plan::secret::{self, Changes, Data, PlanSecret, PlanState, apply_changes};
use plan::{Checksum, Document, Plan};
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Event {
    /// The orchestrator delivers one of a few plans.
    Deliver(usize),
    /// The orchestrator calls the plan off, or writes what follows from the agent's reports.
    Cancel,
    Upkeep,
    /// The agent does what it is told, with this going wrong.
    Step(Fault),
    /// The watch tells the agent of the newest state, or of one that many states ago.
    Notify(usize),
    /// The agent is killed and started again.
    Restart,
    /// The server is restored to a state that many writes ago, revisions included.
    Restore(usize),
    /// The Secret is deleted and made again, with its contents or with the plan alone.
    Recreate(bool),
    Seconds(i64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// The instructions of the plan fail.
    PlanFails,
    /// Something keeps the agent from applying.
    Postponed,
    /// Killed in the middle of the instructions.
    KilledWhileApplying,
    /// Killed after the instructions, before the result is on disk.
    KilledBeforeDisk,
    /// Killed with the result on disk, before it is written to the server.
    KilledAfterDisk,
    /// The server takes the write, the agent does not learn of it.
    AnswerLost,
    /// The server does not answer.
    ServerAway,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let fault = prop_oneof![
        6 => Just(Fault::None),
        3 => Just(Fault::PlanFails),
        1 => Just(Fault::Postponed),
        1 => Just(Fault::KilledWhileApplying),
        1 => Just(Fault::KilledBeforeDisk),
        1 => Just(Fault::KilledAfterDisk),
        1 => Just(Fault::AnswerLost),
        1 => Just(Fault::ServerAway),
    ];
    let event = prop_oneof![
        4 => (0..PLANS).prop_map(Event::Deliver),
        1 => Just(Event::Cancel),
        3 => Just(Event::Upkeep),
        24 => fault.prop_map(Event::Step),
        8 => Just(Event::Notify(0)),
        2 => (1..4_usize).prop_map(Event::Notify),
        2 => Just(Event::Restart),
        1 => (1..8_usize).prop_map(Event::Restore),
        1 => any::<bool>().prop_map(Event::Recreate),
        3 => prop_oneof![1..60_i64, Just(-3600)].prop_map(Event::Seconds),
    ];
    vec(event, 0..100)
}

const PLANS: usize = 4;

/// Two plain plans, one with a probe, one with a periodic instruction.
fn document(index: usize) -> Document {
    let name = format!("run-{index}");
    let common = Instruction { name: name.clone(), command: "c".into(), ..Instruction::default() };
    let once =
        OneTimeInstruction { common: common.clone(), save_output: true, ..OneTimeInstruction::default() };
    let periodic = PeriodicInstruction { common, ..PeriodicInstruction::default() };
    let probe = Probe { initial_delay_seconds: 2, ..Probe::default() };
    Document::encode(Plan {
        instructions: vec![once],
        periodic_instructions: if index == 2 { vec![periodic] } else { Vec::new() },
        probes: if index == 3 { BTreeMap::from([(name, probe)]) } else { BTreeMap::new() },
        ..Plan::default()
    })
}

struct Server {
    uid: u32,
    version: u64,
    data: Data,
    history: Vec<(u64, Data)>,
    writes: u32,
}

impl Server {
    fn put(&mut self, changes: &Changes) {
        self.history.push((self.version, self.data.clone()));
        self.version += 1;
        self.writes += 1;
        apply_changes(&mut self.data, changes);
    }

    fn seen(&self, source: Source) -> Seen {
        self.seen_at(self.version, &self.data, source)
    }

    fn seen_at(&self, version: u64, data: &Data, source: Source) -> Seen {
        let (uid, resource_version) = (self.uid.to_string(), version.to_string());
        Seen { uid, resource_version, source, secret: PlanSecret::read(data) }
    }
}

/// A run of a plan on the machine that came to its end.
#[derive(Clone, Debug)]
struct Ran {
    delivery: Delivery,
    succeeded: bool,
    /// What the world was at, so that a run before a restore is not asked for after it.
    epoch: u32,
}

struct World {
    with_state: bool,
    server: Server,
    now: Timestamp,
    local: Local,
    seen: Seen,
    disk: Option<Report>,
    /// Counted on the machine, whatever anybody says about it.
    runs: u32,
    last: BTreeMap<Checksum, bool>,
    ran: Option<Ran>,
    /// The delivery whose result is on disk, until the next one is claimed.
    settled: Option<Delivery>,
    epoch: u32,
}

impl World {
    fn new(with_state: bool) -> Self {
        let server = Server { uid: 1, version: 1000, data: Data::new(), history: Vec::new(), writes: 0 };
        World {
            with_state,
            now: Timestamp::from_second(1_800_000_000).unwrap(),
            local: Local::default(),
            seen: server.seen(Source::Watch),
            server,
            disk: None,
            runs: 0,
            last: BTreeMap::new(),
            ran: None,
            settled: None,
            epoch: 0,
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Deliver(index) => self.deliver(index),
            Event::Cancel if self.with_state && self.server.data.contains_key(secret::PLAN) => {
                self.epoch += 1;
                let word = PlanState::Cancelled.as_str().as_bytes().to_vec();
                self.server.put(&Changes::from([(secret::PLAN_STATE, Some(word))]));
            }
            Event::Cancel => {}
            Event::Upkeep => {
                let update = orchestrator::upkeep(&self.server.data, &BTreeMap::new(), self.now);
                if !update.data.is_empty() {
                    self.server.put(&update.data);
                }
            }
            Event::Step(fault) => {
                self.step(fault);
            }
            Event::Notify(0) => self.seen = self.server.seen(Source::Watch),
            Event::Notify(ago) => {
                if let Some((version, data)) = self.server.history.iter().rev().nth(ago - 1) {
                    self.seen = self.server.seen_at(*version, data, Source::Watch);
                }
            }
            Event::Restart => self.restart(),
            Event::Restore(ago) => self.restore(ago),
            Event::Recreate(full) => self.recreate(full),
            Event::Seconds(seconds) => self.now += SignedDuration::from_secs(seconds),
        }
    }

    fn deliver(&mut self, index: usize) {
        self.epoch += 1;
        let terms = Terms { max_failures: Limit::Unlimited, ..Terms::default() };
        let mut update = orchestrator::deliver(&self.server.data, &document(index), terms, self.now).unwrap();
        if !self.with_state {
            update.data.remove(secret::PLAN_STATE);
        }
        self.server.put(&update.data);
    }

    fn restart(&mut self) {
        self.local = Local::resume(self.disk.clone());
        self.seen = self.server.seen(Source::Watch);
    }

    /// Connections break, and the agent lists again.
    fn restore(&mut self, ago: usize) {
        let at = self.server.history.len().saturating_sub(ago);
        if let Some((version, data)) = self.server.history.get(at).cloned() {
            self.epoch += 1;
            self.server.history.truncate(at);
            (self.server.version, self.server.data) = (version, data);
            self.seen = self.server.seen(Source::Watch);
        }
    }

    fn recreate(&mut self, full: bool) {
        self.epoch += 1;
        self.server.uid += 1;
        self.server.history.clear();
        if !full {
            self.server.data.retain(|key, _| key == secret::PLAN);
            if self.with_state && self.server.data.contains_key(secret::PLAN) {
                self.server.data.insert(secret::PLAN_STATE.into(), b"pending".to_vec());
            }
        }
        self.server.version = 5;
        self.seen = self.server.seen(Source::Watch);
    }

    /// One question and its answer. Says whether there was anything to do.
    fn step(&mut self, fault: Fault) -> bool {
        let (step, local) = decide(&self.seen, &self.local, self.now);
        self.remember(local);
        match step {
            Step::Wait { .. } => return false,
            Step::Reread => self.seen = self.server.seen(Source::Live),
            Step::Write(write, changes) => match fault {
                Fault::ServerAway => {}
                Fault::KilledAfterDisk => self.restart(),
                _ if self.conflict() => self.seen = self.server.seen(Source::Live),
                _ => {
                    self.check_write(&changes);
                    if changes.contains_key(secret::PLAN_REVISION) {
                        self.settled = None;
                    }
                    self.server.put(&changes);
                    if fault != Fault::AnswerLost {
                        self.seen = self.server.seen(Source::Live);
                        self.remember(self.local.written(&write, &self.seen));
                    }
                }
            },
            Step::Apply(job) => self.apply(&job, fault),
            Step::Tend(chores) => {
                let runs = chores.periodic.iter().map(|index| (*index, Run::default(), self.now)).collect();
                let answers = chores.probes.iter().map(|name| (name.clone(), true)).collect();
                self.remember(self.local.tended(&chores, Tended { runs, answers }, self.now));
            }
        }
        true
    }

    /// What has to survive is on disk before anything else happens.
    fn remember(&mut self, local: Local) {
        self.disk = local.report().cloned();
        self.local = local;
    }

    fn conflict(&self) -> bool {
        let server = (self.server.uid.to_string(), self.server.version.to_string());
        server != (self.seen.uid.clone(), self.seen.resource_version.clone())
    }

    fn apply(&mut self, job: &plan::agent::Job, fault: Fault) {
        if fault == Fault::Postponed {
            return self.remember(self.local.applied(job, Outcome::Postponed(None), self.now));
        }
        if self.with_state {
            assert_ne!(self.settled.as_ref(), Some(&job.delivery), "run again although its result is known");
        }
        self.runs += 1;
        if fault == Fault::KilledWhileApplying {
            return self.restart();
        }
        let succeeded = fault != Fault::PlanFails;
        self.last.insert(job.delivery.checksum, succeeded);
        if fault == Fault::KilledBeforeDisk {
            return self.restart();
        }
        let outputs = BTreeMap::from([("run".to_owned(), self.runs.to_string().into_bytes())]);
        let outcome = if succeeded { Outcome::Succeeded(outputs) } else { Outcome::Failed(outputs) };
        self.remember(self.local.applied(job, outcome, self.now));
        self.settled = Some(job.delivery.clone());
        let epoch = if self.conflict() { u32::MAX } else { self.epoch };
        self.ran = Some(Ran { delivery: job.delivery.clone(), succeeded, epoch });
        if fault == Fault::KilledAfterDisk {
            self.restart();
        }
    }

    /// Whatever the agent says about a plan is what last happened to it on the machine.
    fn check_write(&self, changes: &Changes) {
        let text =
            |key| changes.get(key).and_then(Option::as_ref).map(|v| String::from_utf8(v.clone()).unwrap());
        let checksum = self.seen.secret.checksum.unwrap();
        let last = self.last.get(&checksum).copied();
        match text(secret::PLAN_STATE).as_deref() {
            Some("succeeded") => assert_eq!(last, Some(true), "reported applied"),
            Some("failed") => assert_eq!(last, Some(false), "reported failed"),
            Some(other) => assert_eq!(other, "in-progress"),
            None => {}
        }
        if text(secret::APPLIED_CHECKSUM).is_some_and(|applied| applied == checksum.to_string()) {
            assert_eq!(last, Some(true), "reported applied");
        }
        if text(secret::FAILED_CHECKSUM).is_some_and(|failed| failed == checksum.to_string()) {
            assert_eq!(last, Some(false), "reported failed");
        }
        for key in [secret::PLAN, secret::MAX_FAILURES, secret::FAILURE_THRESHOLD, secret::APPLIED_PLAN] {
            assert!(!changes.contains_key(key), "not the agent's key: {key}");
        }
    }

    /// Nothing goes wrong any more, and what was put off is due.
    fn quiet(&mut self) {
        self.now += SignedDuration::from_secs(301);
        if self.conflict() {
            self.seen = self.server.seen(Source::Watch);
        }
        for _ in 0..50 {
            if !self.step(Fault::None) {
                return;
            }
        }
        panic!("it does not come to rest: {:?}", self.seen);
    }

    /// All is quiet: the last result is in the Secret, unless the world has moved on since.
    fn check_result(&self) {
        let secret = PlanSecret::read(&self.server.data);
        if self.with_state && secret.checksum.is_some() {
            assert!(!matches!(secret.state, Some(PlanState::Pending | PlanState::InProgress)), "{secret:?}");
        }
        let Some(ran) = self.ran.as_ref().filter(|ran| ran.epoch == self.epoch) else { return };
        assert_eq!(secret.checksum, Some(ran.delivery.checksum));
        assert_eq!(
            (secret.plan_applied(), secret.plan_failed()),
            (ran.succeeded, !ran.succeeded),
            "{secret:?}"
        );
        if self.with_state {
            let word = if ran.succeeded { PlanState::Succeeded } else { PlanState::Failed };
            assert_eq!(secret.state, Some(word));
        }
        let output = if ran.succeeded { &secret.applied_output } else { &secret.failed_output };
        assert!(output.get().is_some_and(|output| output["run"] == self.runs.to_string().into_bytes()));
    }

    /// A while in which nobody else does anything.
    fn check_rest(&mut self) {
        let plan = self.seen.secret.plan.get().map(|document| document.plan().clone()).unwrap_or_default();
        let (runs, writes) = (self.runs, self.server.writes);
        for _ in 0..4 {
            self.quiet();
        }
        assert_eq!(self.runs, runs, "run at rest");
        if plan.periodic_instructions.is_empty() && plan.probes.is_empty() {
            assert_eq!(self.server.writes, writes, "written at rest");
        }
    }
}

/// A failed plan in flow L is tried again by itself: let it succeed before looking at rest.
fn settle(world: &mut World) {
    world.quiet();
    world.now += SignedDuration::from_secs(7200);
    world.quiet();
}

proptest! {
    #[test]
    fn with_plan_state(events in events()) {
        let mut world = World::new(true);
        events.into_iter().for_each(|event| world.happens(event));
        world.quiet();
        world.check_result();
        settle(&mut world);
        world.check_rest();
        let runs = world.runs;
        world.restart();
        world.quiet();
        prop_assert_eq!(world.runs, runs, "a start of the agent runs nothing");
    }

    #[test]
    fn without_plan_state(events in events()) {
        let mut world = World::new(false);
        events.into_iter().for_each(|event| world.happens(event));
        world.quiet();
        world.check_result();
        settle(&mut world);
        let has_plan = world.seen.secret.checksum.is_some();
        prop_assert_eq!(world.seen.secret.plan_applied(), has_plan, "in the end every plan is applied");
        world.check_rest();
        let runs = world.runs;
        world.restart();
        world.quiet();
        prop_assert_eq!(world.runs, runs + u32::from(has_plan), "a start of the agent runs the plan once");
    }
}
