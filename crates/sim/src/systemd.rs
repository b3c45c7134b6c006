//! The units of a machine: what runs, is started again when it ends, and comes up at every boot.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::distro::{self, Process};
use crate::machine::Machine;
use crate::{service, tunnel_service};

/// The agent's unit.
pub(crate) const AGENT: &str = "rancher-system-agent";
/// What every unit here says: `RestartSec=5s`.
const RESTART: Duration = Duration::from_secs(5);

/// Whether a unit came up; in words why not.
pub(crate) type Started = Result<(), String>;

/// The units of a machine.
#[derive(Default)]
pub(crate) struct Systemd(Mutex<BTreeMap<String, JoinHandle<()>>>);

impl Systemd {
    fn units(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, JoinHandle<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts every unit whose file is there.
    pub(crate) fn start_enabled(&self, machine: &Arc<Machine>) {
        let directory = machine.root.locate("/etc/systemd/system");
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut units: Vec<String> =
            names.filter_map(|name| name.strip_suffix(".service").map(str::to_owned)).collect();
        units.sort();
        for unit in units {
            self.spawn(machine, &unit);
        }
    }

    pub(crate) fn is_active(&self, unit: &str) -> bool {
        self.units().get(unit).is_some_and(|task| !task.is_finished())
    }

    /// Stops a unit; it is gone when this returns.
    pub(crate) async fn stop(&self, unit: &str) {
        let task = self.units().remove(unit);
        if let Some(task) = task {
            task.abort();
            let _ = task.await;
        }
    }

    pub(crate) async fn stop_all(&self) {
        let all = std::mem::take(&mut *self.units());
        for task in all.values() {
            task.abort();
        }
        for task in all.into_values() {
            let _ = task.await;
        }
    }

    /// Starts a unit anew. The answer comes when it is up, or its first try failed.
    pub(crate) async fn restart(&self, machine: &Arc<Machine>, unit: &str) -> oneshot::Receiver<Started> {
        self.stop(unit).await;
        self.spawn(machine, unit)
    }

    fn spawn(&self, machine: &Arc<Machine>, unit: &str) -> oneshot::Receiver<Started> {
        let (sender, started) = oneshot::channel();
        let task = tokio::spawn(run(machine.clone(), unit.to_owned(), sender));
        if let Some(old) = self.units().insert(unit.to_owned(), task) {
            old.abort();
        }
        started
    }
}

/// A unit until it is stopped: its program again and again.
async fn run(machine: Arc<Machine>, unit: String, started: oneshot::Sender<Started>) {
    let mut started = Some(started);
    loop {
        let ended = match Process::of_unit(&unit) {
            Some(process) => distro::run(&machine, process, &mut started).await,
            None if unit == AGENT => {
                tell(&mut started, Ok(()));
                service::run(&machine).await
            }
            None if tunnel_service::is_unit(&unit) => {
                tell(&mut started, Ok(()));
                tunnel_service::run(&machine).await
            }
            None => return tell(&mut started, Err(format!("Unit {unit}.service could not be found."))),
        };
        machine.say(format!("{unit} ends: {ended}"));
        tell(&mut started, Err(ended));
        tokio::time::sleep(RESTART).await;
    }
}

/// Answers whoever started the unit, the first time.
pub(crate) fn tell(started: &mut Option<oneshot::Sender<Started>>, how: Started) {
    if let Some(started) = started.take() {
        // Nobody may be waiting.
        let _ = started.send(how);
    }
}
