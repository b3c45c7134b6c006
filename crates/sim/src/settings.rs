//! What a world is made with.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clock::Clock;

use crate::network::Uplink;

/// What a world is made with.
#[derive(Clone)]
pub struct Settings {
    /// Where machines and clusters are kept. What is there already comes up again.
    pub directory: PathBuf,
    /// Whatever is left to chance follows from this.
    pub seed: u64,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The way from machines to servers that are not simulated.
    pub uplink: Arc<dyn Uplink>,
    /// How long things take, unless a machine says otherwise.
    pub delays: Delays,
    /// Where simulated clusters keep their objects.
    pub stores: Stores,
}

impl Settings {
    /// In a directory, over the real network, with short delays, and with clusters that survive the process.
    pub fn new(directory: impl Into<PathBuf>, seed: u64, clock: Arc<dyn Clock>) -> Self {
        Settings {
            directory: directory.into(),
            seed,
            clock,
            uplink: Arc::new(crate::network::Internet),
            delays: Delays::default(),
            stores: Stores::Sqlite,
        }
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("directory", &self.directory)
            .field("seed", &self.seed)
            .field("delays", &self.delays)
            .field("stores", &self.stores)
            .finish_non_exhaustive()
    }
}

/// Where simulated clusters keep their objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stores {
    /// On the disk: they survive the process.
    Sqlite,
    /// In memory: cheap, and a run can be replayed.
    Memory,
}

/// How long things take on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// From the order until there is a machine.
    pub create: Duration,
    /// From power to the first program.
    pub boot: Duration,
    /// The distribution's installer, without the start.
    pub install: Duration,
    /// The distribution, from its start until it serves.
    pub start: Duration,
}

impl Delays {
    /// Nothing takes any time.
    pub const NONE: Delays = Delays {
        create: Duration::ZERO,
        boot: Duration::ZERO,
        install: Duration::ZERO,
        start: Duration::ZERO,
    };

    /// All of them so many times as long.
    #[must_use]
    pub fn times(self, factor: u32) -> Self {
        Delays {
            create: self.create * factor,
            boot: self.boot * factor,
            install: self.install * factor,
            start: self.start * factor,
        }
    }
}

/// Short, so that people see what happens and do not wait for it.
impl Default for Delays {
    fn default() -> Self {
        Delays {
            create: Duration::from_millis(300),
            boot: Duration::from_millis(200),
            install: Duration::from_millis(200),
            start: Duration::from_millis(300),
        }
    }
}
