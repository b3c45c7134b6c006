//! Whatever happens, in whatever order: no machine ever has two servers, none is left behind, and every machine that is
//! to go goes.

use api::capi::v1beta2 as capi;
use api::rke::v1::RKEMachineStatus;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// What may happen while a Job runs, or nothing does.
#[derive(Clone, Copy, Debug)]
enum Event {
    Completes,
    /// The driver gives up half way: a server is there, and the state knows of it.
    FailsHalfWay,
    FailsEarly,
    FailsCheck,
    TimePasses,
    NodeJoins,
    IsDeleted,
    /// The controller loses what it was about to do.
    Crashes,
}

const EVENTS: [Event; 8] = [
    Event::Completes,
    Event::FailsHalfWay,
    Event::FailsEarly,
    Event::FailsCheck,
    Event::TimePasses,
    Event::NodeJoins,
    Event::IsDeleted,
    Event::Crashes,
];

struct World {
    infra: Machine,
    machine: capi::Machine,
    cluster: capi::Cluster,
    job: Option<JobView>,
    server: bool,
    going: bool,
    gone: bool,
    jobs: u32,
    now: Timestamp,
}

impl World {
    fn new() -> Self {
        let infra = json!({
            "apiVersion": "rke-machine.cattle.io/v1", "kind": "SimMachine",
            "metadata": {"name": "m", "namespace": "n", "labels": {"rke.cattle.io/capi-machine-name": "m"}},
        });
        let mut machine = capi::Machine::default();
        machine.metadata.name = Some("m".into());
        machine.spec.bootstrap.data_secret_name = Some("b".into());
        let mut cluster = capi::Cluster::default();
        let mut status = capi::ClusterStatus::default();
        status.initialization.infrastructure_provisioned = Some(true);
        cluster.status = Some(status);
        World {
            infra: serde_json::from_value(infra).unwrap(),
            machine,
            cluster,
            job: None,
            server: false,
            going: false,
            gone: false,
            jobs: 0,
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
        }
    }

    /// One step of the controller. A crash comes between the decision and the last of its writes.
    fn step(&mut self, crashes: bool) -> Result<bool, TestCaseError> {
        match self.going {
            true => self.remove(crashes),
            false => self.create(crashes),
        }
    }

    fn create(&mut self, crashes: bool) -> Result<bool, TestCaseError> {
        let step = create(&CreateFacts {
            infra: &self.infra,
            machine: Some(&self.machine),
            cluster: Some(&self.cluster),
            job: self.job.as_ref(),
            state_is_empty: !self.server,
            program: Some(&Program::default()),
            policy: &Policy::default(),
            now: self.now,
        });
        match step {
            Create::Status { status, failures, .. } => {
                if let Some(failures) = failures {
                    let marks = self.infra.metadata.annotations.get_or_insert_default();
                    marks.insert("herdsman.io/create-failures".into(), failures.to_string());
                }
                Ok(!crashes && self.write(*status))
            }
            Create::Settled(status) => {
                self.job = None;
                Ok(!crashes && self.write(*status))
            }
            Create::Run { cleans_up } => {
                self.job = None;
                if !crashes {
                    prop_assert!(cleans_up || !self.server, "a second server");
                    self.start(cleans_up);
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn remove(&mut self, crashes: bool) -> Result<bool, TestCaseError> {
        let step = remove(&RemoveFacts {
            infra: &self.infra,
            namespace_goes: false,
            owned_by_set: false,
            job: self.job.as_ref(),
            state_is_empty: !self.server,
            policy: &Policy::default(),
            now: self.now,
        });
        match step {
            Remove::Release | Remove::Prune => {
                prop_assert!(!self.server, "a server is left behind");
                let runs =
                    self.job.as_ref().is_some_and(|job| job.state == JobState::Running && !job.deletes);
                prop_assert!(!runs, "a server may yet be made");
                self.gone = true;
                Ok(false)
            }
            Remove::Status { status, .. } => Ok(!crashes && self.write(*status)),
            Remove::Run => {
                self.job = None;
                if !crashes {
                    self.start(true);
                }
                Ok(true)
            }
            Remove::Pause { .. } => Ok(false),
        }
    }

    fn start(&mut self, deletes: bool) {
        self.jobs += 1;
        let uid = self.jobs.to_string();
        self.job = Some(JobView { name: "j".into(), uid, deletes, state: JobState::Running });
    }

    fn write(&mut self, status: RKEMachineStatus) -> bool {
        let changed = self.infra.status.as_ref() != Some(&status);
        self.infra.status = Some(status);
        changed
    }

    /// Everything that the controller can do without anybody else.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..30 {
            if self.gone || !self.step(false)? {
                return Ok(());
            }
        }
        prop_assert!(false, "it does not settle");
        Ok(())
    }

    fn happens(&mut self, event: Event) -> Result<(), TestCaseError> {
        match event {
            Event::TimePasses => self.now = self.now.checked_add(SignedDuration::from_mins(31)).unwrap(),
            Event::NodeJoins if self.server => self.infra.spec.provider_id = "sim://m".into(),
            Event::IsDeleted => self.going = true,
            Event::Crashes => return self.step(true).map(drop),
            _ => self.job_ends(event),
        }
        Ok(())
    }

    fn job_ends(&mut self, event: Event) {
        let now = self.now;
        let Some(job) = self.job.as_mut().filter(|job| job.state == JobState::Running) else { return };
        let failed = |code| JobState::Failed { at: now, exit_code: Some(code), message: "words".into() };
        (job.state, self.server) = match (event, job.deletes) {
            (Event::Completes, deletes) => (JobState::Complete, !deletes),
            (Event::FailsHalfWay, _) => (failed(1), true),
            (Event::FailsEarly, deletes) => (failed(1), deletes && self.server),
            (Event::FailsCheck, false) => (failed(3), false),
            _ => return,
        };
        // A driver that knows of no server cannot delete one, and says so.
        if job.deletes && !self.server && job.state != JobState::Complete {
            job.state = failed(1);
        }
    }
}

#[test]
fn no_server_is_lost() {
    let events = proptest::collection::vec(proptest::sample::select(EVENTS.to_vec()), 0..40);
    let outcome = samples::runner(400).run(&events, |events| {
        let mut world = World::new();
        for event in events {
            world.settle()?;
            world.happens(event)?;
            if world.gone {
                return Ok(());
            }
        }
        // From here on everything works: the machine goes.
        world.going = true;
        for _ in 0..20 {
            world.settle()?;
            if world.gone {
                return Ok(());
            }
            world.happens(Event::Completes)?;
            world.happens(Event::TimePasses)?;
        }
        prop_assert!(false, "the machine does not go: {:?} {:?}", world.infra.status, world.job);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
