//! One machine: what is kept of it, and its life from power to power.

mod clock;
mod record;

use std::fmt;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent::machine::Root;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::faults::Faults;
use crate::ground::Ground;
use crate::register;
use crate::settings::Delays;
use crate::systemd::Systemd;

pub(crate) use self::clock::MachineClock;
pub(crate) use self::record::{Record, load_script, replace, save_script};

/// Name of a machine; its host name too, unless it has another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MachineName(String);

impl MachineName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for MachineName {
    fn from(name: &str) -> Self {
        MachineName(name.into())
    }
}

impl std::borrow::Borrow<str> for MachineName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MachineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Its operating system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Os {
    /// Linux.
    #[default]
    Linux,
    /// Windows: a worker of RKE2.
    Windows,
}

/// One machine.
pub(crate) struct Machine {
    pub(crate) name: MachineName,
    pub(crate) address: Ipv4Addr,
    pub(crate) directory: PathBuf,
    /// Its file system.
    pub(crate) root: Root,
    pub(crate) clock: Arc<MachineClock>,
    pub(crate) ground: Arc<Ground>,
    pub(crate) systemd: Systemd,
    /// Told when files of the distribution may have changed.
    pub(crate) files_changed: Notify,
    record: Mutex<Record>,
    faults: Mutex<Faults>,
    script_given: Notify,
    life: Mutex<Option<JoinHandle<()>>>,
}

impl Machine {
    pub(crate) fn new(ground: Arc<Ground>, directory: PathBuf, record: Record) -> Self {
        Machine {
            name: record.name.clone(),
            address: record.address,
            root: Root::at(directory.join("root")),
            directory,
            clock: Arc::new(MachineClock::new(ground.settings.clock.clone())),
            ground,
            systemd: Systemd::default(),
            files_changed: Notify::new(),
            record: Mutex::new(record),
            faults: Mutex::default(),
            script_given: Notify::new(),
            life: Mutex::new(None),
        }
    }

    pub(crate) fn record(&self) -> Record {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes what is kept of it, on the disk first.
    pub(crate) fn keep(&self, change: impl FnOnce(&mut Record)) -> std::io::Result<()> {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = record.clone();
        change(&mut next);
        next.save(&self.directory)?;
        *record = next;
        Ok(())
    }

    pub(crate) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn os(&self) -> Os {
        self.record().os
    }

    pub(crate) fn say(&self, what: impl Into<String>) {
        self.ground.log.say(self.name.as_str(), what);
    }

    /// Passes a delay; slow machines take longer.
    pub(crate) async fn pause(&self, delay: impl FnOnce(&Delays) -> Duration) {
        let delays = self.record().delays.unwrap_or(self.ground.settings.delays);
        let delay = delay(&delays) * self.faults().slowness.max(1);
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
    }

    /// A file of the machine; none if it is not there.
    pub(crate) fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        std::fs::read(self.root.locate(path)).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Writes a file of the machine that only root reads.
    pub(crate) fn write(&self, path: impl AsRef<Path>, content: &str) -> std::io::Result<()> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let path = self.root.locate(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
        std::io::Write::write_all(&mut file, content.as_bytes())
    }

    /// Gives it power; nothing happens if it has.
    pub(crate) fn power_on(self: &Arc<Self>) {
        let mut life = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        if life.as_ref().is_none_or(JoinHandle::is_finished) {
            *life = Some(tokio::spawn(self.clone().live()));
        }
    }

    /// Takes its power; all that ran is gone when this returns.
    pub(crate) async fn power_off(&self) {
        let life = self.life.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(life) = life {
            life.abort();
            let _ = life.await;
        }
        self.systemd.stop_all().await;
    }

    pub(crate) fn is_on(&self) -> bool {
        let life = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        life.as_ref().is_some_and(|life| !life.is_finished())
    }

    /// Gives it the script that it runs at its first boot.
    pub(crate) fn give_script(&self, script: &str) -> std::io::Result<()> {
        save_script(&self.directory, script)?;
        self.keep(|record| record.os = Os::of_script(script))?;
        self.script_given.notify_one();
        Ok(())
    }

    async fn live(self: Arc<Self>) {
        self.pause(|delays| delays.boot).await;
        let _presence = self.ground.network.up(self.address);
        self.say("boots");
        while !register::is_done(&self) {
            match load_script(&self.directory) {
                None => self.script_given.notified().await,
                Some(script) => {
                    if let Err(error) = register::run(&self, &script).await {
                        self.say(format!("the bootstrap script fails: {error}"));
                        // Nobody runs it again by itself: another script may come.
                        self.script_given.notified().await;
                    }
                }
            }
        }
        self.systemd.start_enabled(&self);
        std::future::pending().await
    }
}
