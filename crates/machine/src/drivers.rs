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
    /// The drivers that this crate has: `docker` and `ssh`.
    pub fn built_in() -> Self {
        Drivers::default().with(crate::docker::Docker).with(crate::ssh::Ssh)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_begins_with_its_driver() {
        let drivers = Drivers::built_in();
        assert_eq!(drivers.all().map(|driver| driver.name()).collect::<Vec<_>>(), ["docker", "ssh"]);
        for driver in drivers.all() {
            let kinds = api::machine::Driver::named(driver.name()).unwrap();
            let schemas = provisioning::machine::flags::schemas(&kinds, &driver.flags(), &driver.special());
            let (schema, _) = schemas.unwrap();
            assert_eq!(schema.spec.resource_fields.len(), driver.flags().len());
            for flag in driver.flags() {
                assert!(
                    flag.name.starts_with(&format!("{}-", driver.name())) && !flag.usage.is_empty(),
                    "{flag:?}"
                );
            }
        }
    }
}
