//! Where a driver's flags come from.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::catalogue::annotations;
use api::machine::Driver;
use api::management::v3::NodeDriver;
use machine::download::Proxies;
use machine::{Flag, Special, download, plugin};

use super::context::Context;

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
    /// The driver is one of ours that is not enabled.
    #[error("{0}")]
    Off(String),
    /// rancher-machine does not say what it is.
    #[error("{} --version: {words}", program.display())]
    Version {
        /// Which program.
        program: PathBuf,
        /// What went wrong.
        words: String,
    },
    /// The driver is not to be had.
    #[error(transparent)]
    Download(#[from] download::Error),
    /// The driver's program does not tell its flags.
    #[error(transparent)]
    Plugin(#[from] plugin::Error),
    /// The driver's program was not asked to the end.
    #[error("asking the driver was interrupted")]
    Interrupted,
}

/// Who knows a driver's flags.
pub(super) enum Source {
    /// We do.
    Ours(Arc<dyn machine::Driver>),
    /// rancher-machine does.
    RancherMachine { driver: String, program: Option<PathBuf> },
    /// Nobody: it is not enabled, and this is what to do about it.
    Off(String),
    /// A program that is downloaded.
    Download {
        driver: String,
        url: String,
        checksum: String,
        directory: PathBuf,
        proxies: Box<Proxies>,
        authorities: String,
    },
}

impl Source {
    pub(super) fn of(context: &Context, node_driver: &NodeDriver, driver: &Driver) -> Self {
        let (settings, spec) = (&context.settings, &node_driver.spec);
        let name = driver.name();
        if !spec.url.starts_with(LOCAL) {
            return Source::Download {
                driver: name,
                url: spec.url.clone(),
                checksum: spec.checksum.clone(),
                directory: settings.downloads.clone(),
                proxies: Box::new(crate::jobs::proxies(&settings.environment)),
                authorities: context.server.borrow().ca_certificates.clone(),
            };
        }
        match (settings.drivers.get(&name), machine::drivers::off(&name)) {
            (Some(ours), _) => Source::Ours(ours.clone()),
            (None, Some(words)) => Source::Off(words),
            (None, None) => {
                Source::RancherMachine { driver: name, program: settings.rancher_machine.clone() }
            }
        }
    }

    pub(super) fn is_ours(&self) -> bool {
        matches!(self, Source::Ours(_))
    }

    /// The version of the program that has a local driver; a download is told by its checksum.
    pub(super) async fn version(&self) -> Result<String, Error> {
        match self {
            Source::Ours(_) => Ok(env!("CARGO_PKG_VERSION").to_owned()),
            Source::Off(words) => Err(Error::Off(words.clone())),
            Source::Download { .. } => Ok(String::new()),
            Source::RancherMachine { driver, program } => {
                let program = program.as_deref().ok_or_else(|| Error::NoProgram(driver.clone()))?;
                rancher_machine_version(program).await
            }
        }
    }

    pub(super) async fn flags(&self) -> Result<Vec<Flag>, Error> {
        let (program, driver) = match self {
            Source::Ours(driver) => return Ok(driver.flags()),
            Source::Off(words) => return Err(Error::Off(words.clone())),
            Source::RancherMachine { driver, program } => {
                (program.clone().ok_or_else(|| Error::NoProgram(driver.clone()))?, driver.clone())
            }
            Source::Download { driver, url, checksum, directory, proxies, authorities } => {
                let wanted = download::Wanted { driver, url, checksum, authorities };
                let kept = download::provide(directory, &wanted, proxies).await?;
                (kept.join(download::program_name(driver)), driver.clone())
            }
        };
        let asked = tokio::task::spawn_blocking(move || plugin::flags(&program, &driver)).await;
        Ok(asked.map_err(|_| Error::Interrupted)??)
    }
}

async fn rancher_machine_version(program: &Path) -> Result<String, Error> {
    let failed = |words: String| Error::Version { program: program.into(), words };
    let output = tokio::process::Command::new(program).arg("--version").kill_on_drop(true).output().await;
    let output = output.map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    // "rancher-machine version v0.15.0, build abc".
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
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
