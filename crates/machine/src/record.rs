//! `config.json`: one server, as rancher-machine writes it down and others read it.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::archive::{self, MACHINES};
use crate::{Arguments, Order, Server};

/// Version of the format.
const VERSION: u32 = 3;

/// One server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Record {
    config_version: u32,
    /// What the driver knows.
    pub driver: Map<String, Value>,
    /// Which driver it is.
    pub driver_name: String,
    host_options: Value,
    /// The server's name.
    pub name: String,
}

/// Why a record is not read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// It is not what it should be.
    #[error("{} is not a server's record: {source}", path.display())]
    Shape {
        /// Which file.
        path: PathBuf,
        /// What does not fit.
        source: serde_json::Error,
    },
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] archive::Error),
}

/// Where everything of a server is, in a storage directory.
pub fn directory(storage: &Path, name: &str) -> PathBuf {
    storage.join(MACHINES).join(name)
}

/// The driver that a server's record names; none if there is no record.
///
/// # Errors
/// If it cannot be read.
pub fn driver(storage: &Path, name: &str) -> Result<Option<String>, Error> {
    let path = directory(storage, name).join("config.json");
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::Read { path, source }),
    };
    let record: Value = serde_json::from_slice(&bytes).map_err(|source| Error::Shape { path, source })?;
    Ok(Some(record["DriverName"].as_str().unwrap_or_default().to_owned()))
}

impl Record {
    /// A server that is about to be made.
    pub fn begun(storage: &Path, driver: &str, order: &Order) -> Self {
        let known = json!({
            "MachineName": order.name, "StorePath": storage, "IPAddress": "", "Arguments": order.arguments,
        });
        let options = json!({"Driver": "", "Memory": 0, "Disk": 0, "HostnameOverride": order.hostname});
        Record {
            config_version: VERSION,
            driver: known.as_object().cloned().unwrap_or_default(),
            driver_name: driver.into(),
            host_options: options,
            name: order.name.clone(),
        }
    }

    /// The same once the server is there.
    #[must_use]
    pub fn made(mut self, order: &Order, server: &Server) -> Self {
        let mut say = |field: &str, value: Value| self.driver.insert(field.into(), value);
        say("InstanceId", json!(server.id));
        say("IPAddress", json!(server.address));
        say("PrivateIPAddress", json!(server.private_address));
        say("IPv6Address", json!(server.ipv6_address));
        if let Some(ssh) = &server.ssh {
            say("SSHUser", json!(ssh.user));
            say("SSHPort", json!(ssh.port));
            if !ssh.key.is_empty() {
                say("SSHKeyPath", json!(order.directory.join(&ssh.key)));
            }
        }
        self
    }

    /// What was said of the server when it was made.
    pub fn arguments(&self) -> Arguments {
        self.driver.get("Arguments").and_then(|all| Arguments::deserialize(all).ok()).unwrap_or_default()
    }

    /// The record of a server; nothing if there is none.
    ///
    /// # Errors
    /// If it is there and cannot be read.
    pub fn read(storage: &Path, name: &str) -> Result<Option<Self>, Error> {
        let path = directory(storage, name).join("config.json");
        match fs::read(&path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map(Some).map_err(|source| Error::Shape { path, source })
            }
            Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Read { path, source }),
        }
    }

    /// Writes it down.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, storage: &Path) -> Result<(), Error> {
        let directory = directory(storage, &self.name);
        let path = directory.join("config.json");
        fs::create_dir_all(&directory).map_err(|source| Error::Read { path: directory, source })?;
        let text =
            serde_json::to_vec_pretty(self).map_err(|source| Error::Shape { path: path.clone(), source })?;
        Ok(archive::write_private(&path, &text)?)
    }
}
