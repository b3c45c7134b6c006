//! The world: everything that is simulated, in one directory.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use crate::distro::{Clusters, Downstream};
use crate::events::{Event, Log};
use crate::ground::{Chance, Ground};
use crate::machine::{Machine, MachineName, Record, replace};
use crate::machines::Machines;
use crate::network::Network;
use crate::settings::Settings;
use crate::upstream::Trusts;

/// Why something could not be done to the world.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory of the world.
    #[error("{}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A cluster that was there cannot be opened again.
    #[error("a simulated cluster cannot be opened: {0}")]
    Cluster(String),
    /// A name that no host can have.
    #[error("machine {0:?}: a name has lower-case letters, digits, dashes and dots, and at most 63 of them")]
    Name(String),
    /// There is one already.
    #[error("there is a machine {0:?} already")]
    Exists(String),
    /// It was made for another object.
    #[error("machine {0:?} belongs to another object of the same name")]
    Owned(String),
    /// There is none.
    #[error("there is no machine {0:?}")]
    NoMachine(String),
    /// All addresses are taken.
    #[error("there is no address left for another machine")]
    NoAddress,
}

impl Error {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::File { path, source }
    }
}

/// What is kept of the world itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    /// How often it was opened.
    openings: u64,
    /// The number of the next machine.
    next: u32,
}

/// Everything that is simulated. Clones are the same world; it ends with [`World::stop`].
#[derive(Clone)]
pub struct World(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) ground: Arc<Ground>,
    kept: Mutex<Kept>,
    machines: Mutex<BTreeMap<MachineName, Arc<Machine>>>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("settings", &self.0.ground.settings).finish_non_exhaustive()
    }
}

impl World {
    /// Opens the world in a directory, and makes it if it is not there. Machines that were there have power again.
    ///
    /// # Errors
    /// If what is kept there cannot be read.
    pub async fn open(settings: Settings) -> Result<Self, Error> {
        let path = settings.directory.join("world.json");
        std::fs::create_dir_all(&settings.directory).map_err(Error::file(&settings.directory))?;
        let mut kept = match std::fs::read(&path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map_err(io::Error::from).map_err(Error::file(&path))?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Kept::default(),
            Err(error) => return Err(Error::file(&path)(error)),
        };
        kept.openings += 1;
        save(&settings, &kept)?;
        let log = Log::new(settings.clock.clone());
        let ground = Arc::new(Ground {
            network: Network::new(settings.uplink.clone()),
            log,
            trusts: Arc::new(Trusts::default()),
            clusters: Clusters::default(),
            // The first opening is the seed itself: what a test sees is what it asked for.
            chance: Chance { seed: settings.seed ^ (kept.openings - 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) },
            settings,
        });
        ground.clusters.load(&ground).await.map_err(Error::Cluster)?;
        let world = World(Arc::new(Inner { ground, kept: Mutex::new(kept), machines: Mutex::default() }));
        world.0.load()?;
        Ok(world)
    }

    /// The machines, as a driver makes and removes them.
    pub fn machines(&self) -> Machines {
        Machines(self.clone())
    }

    /// The simulated clusters.
    pub fn clusters(&self) -> Vec<Downstream> {
        self.0.ground.clusters.list().into_iter().map(Downstream).collect()
    }

    /// What happened, the newest last.
    pub fn events(&self) -> Vec<Event> {
        self.0.ground.log.all()
    }

    /// Ends everything: machines lose their power, clusters close their stores.
    pub async fn stop(&self) {
        let all: Vec<_> = self.0.all().values().cloned().collect();
        for machine in all {
            machine.power_off().await;
        }
        self.0.ground.clusters.stop().await;
    }

    /// Takes a machine's power, as if its plug was pulled.
    ///
    /// # Errors
    /// If there is no such machine.
    pub async fn crash(&self, machine: &str) -> Result<(), Error> {
        let machine = self.0.machine(machine)?;
        machine.say("loses its power");
        machine.power_off().await;
        Ok(())
    }

    /// Gives a machine power again.
    ///
    /// # Errors
    /// If there is no such machine.
    pub fn power_on(&self, machine: &str) -> Result<(), Error> {
        self.0.machine(machine)?.power_on();
        Ok(())
    }

    /// Kills a machine's agent; its system starts it again after five seconds.
    ///
    /// # Errors
    /// If there is no such machine.
    pub async fn kill_agent(&self, machine: &str) -> Result<(), Error> {
        let machine = self.0.machine(machine)?;
        machine.say("the agent is killed");
        // Whether it comes up again is not waited for.
        drop(machine.systemd.restart(&machine, crate::systemd::AGENT).await);
        Ok(())
    }

    /// Separates machines from all others: they reach each other, and servers outside unless they are to be `offline`.
    /// What was on its way is kept for half a minute; then connections break.
    ///
    /// # Errors
    /// If there is no such machine.
    pub fn partition(&self, machines: &[&str], offline: bool) -> Result<(), Error> {
        let found: Result<Vec<_>, _> = machines.iter().map(|name| self.0.machine(name)).collect();
        let found = found?;
        let Some(first) = found.first() else { return Ok(()) };
        for machine in &found {
            machine.say(if offline {
                "is cut off from everybody else"
            } else {
                "is cut off from other machines"
            });
        }
        let hosts: Vec<Ipv4Addr> = found.iter().map(|machine| machine.address).collect();
        self.0.ground.network.separate(&hosts, first.address.to_bits(), offline);
        Ok(())
    }

    /// Ends all partitions.
    pub fn heal(&self) {
        self.0.ground.log.say("network", "is whole again");
        self.0.ground.network.heal();
    }

    /// Lets the next runs of the distribution's installer on a machine fail.
    ///
    /// # Errors
    /// If there is no such machine.
    pub fn fail_installs(&self, machine: &str, times: u32) -> Result<(), Error> {
        self.0.machine(machine)?.faults().failing_installs = times;
        Ok(())
    }

    /// Lets a machine find no images, or find them again.
    ///
    /// # Errors
    /// If there is no such machine.
    pub fn hide_images(&self, machine: &str, hidden: bool) -> Result<(), Error> {
        self.0.machine(machine)?.faults().no_images = hidden;
        Ok(())
    }

    /// Makes a machine so many times slower.
    ///
    /// # Errors
    /// If there is no such machine.
    pub fn slow_down(&self, machine: &str, times: u32) -> Result<(), Error> {
        self.0.machine(machine)?.faults().slowness = times;
        Ok(())
    }

    /// Sets a machine's clock off by something.
    ///
    /// # Errors
    /// If there is no such machine.
    pub fn skew_clock(&self, machine: &str, by: SignedDuration) -> Result<(), Error> {
        self.0.machine(machine)?.clock.set_off(by);
        Ok(())
    }
}

impl Inner {
    pub(crate) fn all(&self) -> MutexGuard<'_, BTreeMap<MachineName, Arc<Machine>>> {
        self.machines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn machine(&self, name: &str) -> Result<Arc<Machine>, Error> {
        self.all().get(name).cloned().ok_or_else(|| Error::NoMachine(name.to_owned()))
    }

    /// Where machines are kept.
    pub(crate) fn directory(&self) -> PathBuf {
        self.ground.settings.directory.join("machines")
    }

    /// The address of the next machine. None is given twice.
    pub(crate) fn next_address(&self) -> Result<Ipv4Addr, Error> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = kept.clone();
        next.next += 1;
        // 10.42.0.0/16, without the first and the last of each 256.
        let (high, low) = ((next.next - 1) / 254, (next.next - 1) % 254 + 1);
        let (Ok(high), Ok(low)) = (u8::try_from(high), u8::try_from(low)) else {
            return Err(Error::NoAddress);
        };
        save(&self.ground.settings, &next)?;
        *kept = next;
        Ok(Ipv4Addr::new(10, 42, high, low))
    }

    fn load(&self) -> Result<(), Error> {
        let directory = self.directory();
        let entries = std::fs::read_dir(&directory).into_iter().flatten().flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let Some(record) = Record::load(&path).map_err(Error::file(&path))? else { continue };
            let machine = Arc::new(Machine::new(self.ground.clone(), path, record));
            machine.power_on();
            self.all().insert(machine.name.clone(), machine);
        }
        Ok(())
    }
}

fn save(settings: &Settings, kept: &Kept) -> Result<(), Error> {
    let path = settings.directory.join("world.json");
    let bytes = serde_json::to_vec(kept).map_err(io::Error::from).map_err(Error::file(&path))?;
    replace(&path, &bytes).map_err(Error::file(&path))
}
