//! All drivers of a process.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::Driver;
use crate::docker::Docker;
use crate::ssh::Ssh;

/// Drivers by name. Clones share them.
#[derive(Clone, Default)]
pub struct Drivers {
    known: BTreeMap<String, Arc<dyn Driver>>,
}

impl Drivers {
    /// The drivers that this crate has: `ssh`, and `docker` where the server's operator enables it.
    pub fn built_in(docker: Option<Docker>, ssh: Ssh) -> Self {
        let all = Drivers::default().with(ssh);
        match docker {
            Some(docker) => all.with(docker),
            None => all,
        }
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

/// What to do about a driver of this crate that is not enabled; nothing of other drivers.
pub fn off(driver: &str) -> Option<String> {
    let words = "driver docker is off: start the server with --enable-driver docker";
    (driver == "docker").then(|| words.to_owned())
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
        let names =
            |drivers: &Drivers| drivers.all().map(|driver| driver.name().to_owned()).collect::<Vec<_>>();
        assert_eq!(
            names(&Drivers::built_in(None, Ssh::default())),
            ["ssh"],
            "a container is no boundary: docker is the operator's to enable"
        );
        let drivers = Drivers::built_in(Some(Docker::default()), Ssh::default());
        assert_eq!(names(&drivers), ["docker", "ssh"]);
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
