//! All drivers of a process.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::Driver;

/// Drivers by name. Clones share them.
#[derive(Clone, Default)]
pub struct Drivers {
    known: BTreeMap<String, Arc<dyn Driver>>,
}

impl Drivers {
    /// The same with one more; one of the same name is replaced.
    #[must_use]
    pub fn with(mut self, driver: impl Driver) -> Self {
        self.known.insert(driver.name().to_owned(), Arc::new(driver));
        self
    }

    /// A driver.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Driver>> {
        self.known.get(name)
    }

    /// All of them, by name.
    pub fn all(&self) -> impl Iterator<Item = &Arc<dyn Driver>> {
        self.known.values()
    }
}

impl fmt::Debug for Drivers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.known.keys()).finish()
    }
}
