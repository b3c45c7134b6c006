//! Where a driver's flags come from.

use std::sync::Arc;

use api::catalogue::annotations;
use api::machine::Driver;
use api::management::v3::NodeDriver;
use machine::{Flag, Special};

use super::Settings;

/// Fields of a credential that anybody may see. Rancher's words, without a group before them.
const PUBLIC: &str = "publicCredentialFields";
const PRIVATE: &str = "privateCredentialFields";
const PASSWORDS: &str = "passwordFields";
const OPTIONAL: &str = "optionalCredentialFields";

/// What a driver's URL begins with if it needs no download.
pub(super) const LOCAL: &str = "local://";

/// Why flags are not known.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The driver is in a program that is not here.
    #[error(
        "driver {0:?} comes with rancher-machine, which is not here: install it and name it with --machine-binary, or put it on the PATH"
    )]
    NoProgram(String),
}

/// Who knows a driver's flags.
pub(super) enum Source {
    /// We do.
    Ours(Arc<dyn machine::Driver>),
    /// rancher-machine does.
    RancherMachine { driver: String },
}

impl Source {
    pub(super) fn of(settings: &Settings, node_driver: &NodeDriver, driver: &Driver) -> Self {
        let name = driver.name();
        let local = node_driver.spec.url.starts_with(LOCAL);
        match settings.drivers.get(&name).filter(|_| local) {
            Some(ours) => Source::Ours(ours.clone()),
            None => Source::RancherMachine { driver: name },
        }
    }

    pub(super) fn is_ours(&self) -> bool {
        matches!(self, Source::Ours(_))
    }

    /// The version of the program that has a local driver.
    pub(super) async fn version(&self) -> Result<String, Error> {
        match self {
            Source::Ours(_) => Ok(env!("CARGO_PKG_VERSION").to_owned()),
            Source::RancherMachine { driver } => Err(Error::NoProgram(driver.clone())),
        }
    }

    pub(super) async fn flags(&self) -> Result<Vec<Flag>, Error> {
        match self {
            Source::Ours(driver) => Ok(driver.flags()),
            Source::RancherMachine { driver } => Err(Error::NoProgram(driver.clone())),
        }
    }
}

/// Which fields are not like the others: from the driver's annotations.
pub(super) fn special(driver: &NodeDriver) -> Special {
    let mark = |key: &str| {
        let marks = driver.metadata.annotations.as_ref();
        marks.and_then(|marks| marks.get(key)).map(String::as_str).unwrap_or_default()
    };
    let names = |key: &str| {
        let names = mark(key).split(',').map(str::trim).filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    };
    Special {
        files: Special::read_files(mark(annotations::FILE_TO_FIELD_ALIASES)),
        public: names(PUBLIC),
        private: names(PRIVATE),
        passwords: names(PASSWORDS),
        optional: names(OPTIONAL),
    }
}

/// The annotations that say so.
pub(super) fn marks(special: &Special) -> Vec<(&'static str, String)> {
    let files: Vec<String> =
        special.files.iter().map(|(schema, driver)| format!("{schema}:{driver}")).collect();
    let all = [
        (annotations::FILE_TO_FIELD_ALIASES, files.join(",")),
        (PUBLIC, special.public.join(",")),
        (PRIVATE, special.private.join(",")),
        (PASSWORDS, special.passwords.join(",")),
        (OPTIONAL, special.optional.join(",")),
    ];
    all.into_iter().filter(|(_, names)| !names.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_say_what_is_special() {
        let special = Special {
            files: Special::read_files("sshKey:keyFile"),
            public: vec!["user".into()],
            private: vec!["token".into(), "secret".into()],
            ..Special::default()
        };
        let mut driver = NodeDriver::default();
        let marks = marks(&special);
        assert_eq!(marks.len(), 3);
        driver.metadata.annotations =
            Some(marks.into_iter().map(|(key, value)| (key.to_owned(), value)).collect());
        assert_eq!(super::special(&driver), special);
    }
}
