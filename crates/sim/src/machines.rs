//! Machines as a driver sees them: made, looked at, removed.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use crate::machine::{Machine, MachineName, Os, Record, save_script};
use crate::settings::Delays;
use crate::world::{Error, World};

/// What a machine is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateOptions {
    /// What it calls itself, if not by its name.
    pub hostname: Option<String>,
    /// Processors.
    pub cpus: u32,
    /// Memory.
    pub memory_mib: u64,
    /// How long things take on it, if not as usual.
    pub delays: Option<Delays>,
    /// What it runs at its first boot; may be given later by [`Machines::bootstrap`].
    pub script: Option<String>,
    /// The object that it is made for; empty for none. Two objects of the same name are told apart by it.
    pub owner: String,
}

impl Default for CreateOptions {
    fn default() -> Self {
        CreateOptions {
            hostname: None,
            cpus: 2,
            memory_mib: 4096,
            delays: None,
            script: None,
            owner: String::new(),
        }
    }
}

/// Where a machine is reached in the simulated network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// By its like.
    pub internal: Ipv4Addr,
}

/// The machines of a world.
#[derive(Clone, Debug)]
pub struct Machines(pub(crate) World);

impl Machines {
    /// Makes a machine and gives it power. It is on the disk when this returns.
    ///
    /// # Errors
    /// If the name is taken or none, or the disk does not take it.
    pub async fn create(&self, name: &str, options: CreateOptions) -> Result<Addresses, Error> {
        let world = &self.0.0;
        if !is_name(name) {
            return Err(Error::Name(name.to_owned()));
        }
        let delays = options.delays.unwrap_or(world.ground.settings.delays);
        if !delays.create.is_zero() {
            tokio::time::sleep(delays.create).await;
        }
        let mut all = world.all();
        if all.contains_key(name) {
            return Err(Error::Exists(name.to_owned()));
        }
        let address = world.next_address()?;
        let record = Record {
            name: name.into(),
            hostname: options.hostname.unwrap_or_default(),
            address,
            cpus: options.cpus,
            memory_mib: options.memory_mib,
            os: options.script.as_deref().map(Os::of_script).unwrap_or_default(),
            delays: options.delays,
            owner: options.owner,
        };
        let directory = world.directory().join(name);
        if let Some(script) = &options.script {
            save_script(&directory, script).map_err(Error::file(&directory))?;
        }
        record.save(&directory).map_err(Error::file(&directory))?;
        let machine = Arc::new(Machine::new(world.ground.clone(), directory, record));
        machine.say(format!("is made with address {address}"));
        machine.power_on();
        all.insert(machine.name.clone(), machine);
        Ok(Addresses { internal: address })
    }

    /// Gives a machine the script that it runs at its first boot, as a driver does that has no user data.
    ///
    /// # Errors
    /// If there is no such machine, or the disk does not take it.
    pub fn bootstrap(&self, name: &str, script: &str) -> Result<(), Error> {
        let machine = self.0.0.machine(name)?;
        machine.give_script(script).map_err(Error::file(&machine.directory))
    }

    /// The addresses of a machine; none if there is no such machine.
    pub fn addresses(&self, name: &str) -> Option<Addresses> {
        self.0.0.machine(name).ok().map(|machine| Addresses { internal: machine.address })
    }

    /// The object that a machine was made for, empty if for none; nothing if there is no such machine.
    pub fn owner(&self, name: &str) -> Option<String> {
        self.0.0.machine(name).ok().map(|machine| machine.record().owner)
    }

    /// The names of all machines.
    pub fn names(&self) -> Vec<MachineName> {
        self.0.0.all().keys().cloned().collect()
    }

    /// Whether a machine has power.
    ///
    /// # Errors
    /// If there is no such machine.
    pub fn is_on(&self, name: &str) -> Result<bool, Error> {
        Ok(self.0.0.machine(name)?.is_on())
    }

    /// Removes a machine with all that is on it. One that is not there is removed already.
    ///
    /// # Errors
    /// If its files cannot be removed.
    pub async fn remove(&self, name: &str) -> Result<(), Error> {
        self.remove_if(name, |_| true).await
    }

    /// The same if the object that the machine was made for is the right one.
    ///
    /// # Errors
    /// The same, and [`Error::Owned`] if it is not.
    pub async fn remove_if(&self, name: &str, is_right: impl FnOnce(&str) -> bool) -> Result<(), Error> {
        let world = &self.0.0;
        let Some(machine) = world.all().get(name).cloned() else { return Ok(()) };
        if !is_right(&machine.record().owner) {
            return Err(Error::Owned(name.to_owned()));
        }
        machine.power_off().await;
        match std::fs::remove_dir_all(&machine.directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::file(&machine.directory)(error));
            }
            _ => {}
        }
        let left: BTreeSet<MachineName> = {
            let mut all = world.all();
            all.remove(name);
            all.keys().cloned().collect()
        };
        machine.say("is removed");
        world.ground.clusters.forget(&machine.name, &left).await;
        Ok(())
    }
}

fn is_name(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    !name.is_empty() && name.len() <= 63 && name.bytes().all(good) && !name.starts_with(['-', '.'])
}
