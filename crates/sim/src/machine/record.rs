//! What is kept of a machine beside its files.

use std::io;
use std::net::Ipv4Addr;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{MachineName, Os};
use crate::settings::Delays;

const FILE: &str = "machine.json";
const SCRIPT: &str = "bootstrap-script";

/// What is kept of a machine beside its files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    pub(crate) name: MachineName,
    /// Empty: its name.
    #[serde(default)]
    pub(crate) hostname: String,
    pub(crate) address: Ipv4Addr,
    pub(crate) cpus: u32,
    pub(crate) memory_mib: u64,
    #[serde(default)]
    pub(crate) os: Os,
    #[serde(default, with = "delays")]
    pub(crate) delays: Option<Delays>,
    /// The object that it was made for; empty for none, and for machines of older versions.
    #[serde(default)]
    pub(crate) owner: String,
}

impl Record {
    /// What it calls itself.
    pub(crate) fn hostname(&self) -> &str {
        if self.hostname.is_empty() { self.name.as_str() } else { &self.hostname }
    }

    /// The one in a machine's directory; none if it is not there.
    pub(crate) fn load(directory: &Path) -> io::Result<Option<Self>> {
        match std::fs::read(directory.join(FILE)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whole or not at all.
    pub(crate) fn save(&self, directory: &Path) -> io::Result<()> {
        std::fs::create_dir_all(directory)?;
        replace(&directory.join(FILE), &serde_json::to_vec(self)?)
    }
}

/// The script that a machine runs at its first boot: it is long, and read once.
pub(crate) fn load_script(directory: &Path) -> Option<String> {
    std::fs::read_to_string(directory.join(SCRIPT)).ok()
}

/// Gives a machine its script.
pub(crate) fn save_script(directory: &Path, script: &str) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    replace(&directory.join(SCRIPT), script.as_bytes())
}

/// Puts content in the place of a file's, whole or not at all. It holds what opens doors: nobody else reads it.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let part = path.with_extension("part");
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&part)?;
    io::Write::write_all(&mut file, content)?;
    std::fs::rename(part, path)
}

/// Delays as milliseconds.
mod delays {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use crate::settings::Delays;

    pub(super) fn serialize<S: Serializer>(
        delays: &Option<Delays>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let milliseconds = |delays: &Delays| {
            [delays.create, delays.boot, delays.install, delays.start]
                .map(|delay| u64::try_from(delay.as_millis()).unwrap_or(u64::MAX))
        };
        delays.as_ref().map(milliseconds).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Delays>, D::Error> {
        let delays = Option::<[u64; 4]>::deserialize(deserializer)?;
        Ok(delays.map(|delays| {
            let [create, boot, install, start] = delays.map(Duration::from_millis);
            Delays { create, boot, install, start }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_survives() {
        let directory = tempfile::tempdir().unwrap();
        let record = Record {
            name: "m".into(),
            hostname: "host".into(),
            address: Ipv4Addr::new(10, 42, 0, 1),
            cpus: 2,
            memory_mib: 4096,
            os: Os::Windows,
            delays: Some(Delays::default()),
            owner: "n/m/u".into(),
        };
        record.save(directory.path()).unwrap();
        assert_eq!(Record::load(directory.path()).unwrap(), Some(record));
        assert_eq!(Record::load(&directory.path().join("other")).unwrap(), None);
    }
}
