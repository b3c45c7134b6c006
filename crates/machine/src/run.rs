//! A command line carried out by a driver of our own, as rancher-machine would.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::command::{self, Verb};
use crate::record::{self, Record};
use crate::{Command, Driver, Drivers, Failure, Order, Output};

/// It went well.
pub const SUCCESS: i32 = 0;
/// It did not.
pub const FAILURE: i32 = 1;
/// A check found a reason before anything was made.
pub const CHECK_FAILED: i32 = provisioning::machine::outcome::PRE_CREATE_CHECK_FAILED;

/// Carries out a command. `storage` is the directory with the state, unpacked; it is written as the work goes on, and what
/// is in it when the work ends or is dropped is what is to be kept.
///
/// Gives rancher-machine's exit code; what there is to say goes to `output`, the reason of a failure last.
pub async fn run(
    drivers: &Drivers,
    command: &Command,
    environment: BTreeMap<String, String>,
    storage: &Path,
    output: &Output,
) -> i32 {
    let done = match &command.verb {
        Verb::Create { driver, script, hostname, flags } => {
            let name = &command.name;
            let hostname = if hostname.is_empty() { name } else { hostname };
            let creation = Creation { driver, script, hostname, flags, name, environment };
            create(drivers, creation, storage, output).await
        }
        Verb::Remove => remove(drivers, &command.name, environment, storage, output).await,
    };
    match done {
        Ok(()) => SUCCESS,
        Err(failure) => {
            output.say(failure.to_string());
            match failure {
                Failure::Check(_) => CHECK_FAILED,
                Failure::Failed(_) => FAILURE,
            }
        }
    }
}

struct Creation<'a> {
    driver: &'a str,
    script: &'a str,
    hostname: &'a str,
    flags: &'a [String],
    name: &'a str,
    environment: BTreeMap<String, String>,
}

async fn create(
    drivers: &Drivers,
    creation: Creation<'_>,
    storage: &Path,
    output: &Output,
) -> Result<(), Failure> {
    let driver = known(drivers, creation.driver)?;
    if !is_name(creation.name) || !is_name(creation.hostname) {
        return Err(Failure::Check(format!(
            "{:?} or {:?} is no name for a server",
            creation.name, creation.hostname
        )));
    }
    if Record::read(storage, creation.name).map_err(failed)?.is_some() {
        return Err(Failure::Failed(format!("Host already exists: {:?}", creation.name)));
    }
    let order = Order {
        name: creation.name.into(),
        hostname: creation.hostname.into(),
        arguments: command::arguments(driver.name(), &driver.flags(), creation.flags)
            .map_err(|error| Failure::Check(error.to_string()))?,
        bootstrap: script(creation.script)?,
        directory: record::directory(storage, creation.name),
        environment: creation.environment,
    };
    output.say("Running pre-create checks...");
    driver.check(&order).await?;
    // From here on something may exist: whoever removes it has to know.
    let record = Record::begun(storage, driver.name(), &order);
    record.write(storage).map_err(failed)?;
    output.say(format!("Creating machine {}...", order.name));
    // After the record is written, whatever the driver says leaves something to clean up.
    let server =
        driver.create(&order, output).await.map_err(|failure| Failure::Failed(failure.to_string()))?;
    record.made(&order, &server).write(storage).map_err(failed)?;
    output.say(format!("Machine {} is there: {}", order.name, server.address));
    Ok(())
}

async fn remove(
    drivers: &Drivers,
    name: &str,
    environment: BTreeMap<String, String>,
    storage: &Path,
    output: &Output,
) -> Result<(), Failure> {
    output.say(format!("About to remove {name}"));
    let Some(record) = Record::read(storage, name).map_err(failed)? else {
        return Err(Failure::Failed(format!("Docker machine {name:?} does not exist.")));
    };
    let driver = known(drivers, &record.driver_name)?;
    let order = Order {
        name: name.into(),
        hostname: name.into(),
        arguments: record.arguments(),
        bootstrap: String::new(),
        directory: record::directory(storage, name),
        environment,
    };
    driver.remove(&order, output).await.map_err(|failure| Failure::Failed(failure.to_string()))?;
    let cannot = |error| Failure::Failed(format!("cannot remove {}: {error}", order.directory.display()));
    fs::remove_dir_all(&order.directory).map_err(cannot)?;
    output.say(format!("Successfully removed {name}"));
    Ok(())
}

fn known<'a>(drivers: &'a Drivers, name: &str) -> Result<&'a dyn Driver, Failure> {
    let found = drivers.get(name).map(|driver| &**driver);
    found.ok_or_else(|| Failure::Check(format!("there is no driver {name:?} here")))
}

/// Names become names of files and hosts, and words of scripts.
fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    name.starts_with(|first: char| first.is_ascii_alphanumeric()) && name.bytes().all(plain)
}

fn script(path: &str) -> Result<String, Failure> {
    if path.is_empty() {
        return Ok(String::new());
    }
    fs::read_to_string(path)
        .map_err(|error| Failure::Check(format!("cannot read the bootstrap script: {error}")))
}

fn failed(error: record::Error) -> Failure {
    Failure::Failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::{Flag, FlagValue, Server, Working};

    /// Does as its argument says.
    struct Obedient;

    impl Driver for Obedient {
        fn name(&self) -> &str {
            "obedient"
        }

        fn flags(&self) -> Vec<Flag> {
            let flag = |name: &str| Flag {
                name: format!("obedient-{name}"),
                usage: String::new(),
                value: FlagValue::Text(String::new()),
            };
            vec![flag("do")]
        }

        fn check<'a>(&'a self, order: &'a Order) -> Working<'a, ()> {
            Box::pin(async {
                match order.arguments.text("do") {
                    Some("refuse") => Err(Failure::Check("no quota".into())),
                    _ => Ok(()),
                }
            })
        }

        fn create<'a>(&'a self, order: &'a Order, output: &'a Output) -> Working<'a, Server> {
            Box::pin(async {
                output.say(format!("runs {:?}", order.bootstrap));
                match order.arguments.text("do") {
                    Some("fail") => Err(Failure::Check("half way".into())),
                    _ => Ok(Server { address: "10.0.0.1".into(), ..Server::default() }),
                }
            })
        }

        fn remove<'a>(&'a self, order: &'a Order, _: &'a Output) -> Working<'a, ()> {
            Box::pin(async {
                match order.arguments.text("do") {
                    Some("stay") => Err(Failure::Failed("it stays".into())),
                    _ => Ok(()),
                }
            })
        }
    }

    struct Stage {
        storage: tempfile::TempDir,
        said: Arc<Mutex<Vec<String>>>,
    }

    impl Stage {
        fn new() -> Self {
            Stage { storage: tempfile::tempdir().unwrap(), said: Arc::default() }
        }

        async fn run(&self, line: &str) -> i32 {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let (command, said) = (Command::parse(&words).unwrap(), self.said.clone());
            let output = Output::new(move |line| said.lock().unwrap().push(line.to_owned()));
            run(&Drivers::default().with(Obedient), &command, BTreeMap::new(), self.storage.path(), &output)
                .await
        }

        fn record(&self) -> Option<Record> {
            Record::read(self.storage.path(), "m").unwrap()
        }

        fn last(&self) -> String {
            self.said.lock().unwrap().last().cloned().unwrap_or_default()
        }
    }

    #[tokio::test]
    async fn a_server_comes_and_goes() {
        let stage = Stage::new();
        let script = stage.storage.path().join("script");
        fs::write(&script, "#!/bin/sh").unwrap();
        let line = format!("create --driver=obedient --custom-install-script={} m", script.display());
        assert_eq!(stage.run(&line).await, SUCCESS);
        assert!(stage.said.lock().unwrap().contains(&"runs \"#!/bin/sh\"".to_owned()));
        let record = stage.record().unwrap();
        assert_eq!(record.driver["IPAddress"], "10.0.0.1");
        assert_eq!((record.driver_name.as_str(), record.name.as_str()), ("obedient", "m"));
        assert_eq!(stage.run(&line).await, FAILURE, "there is one already");
        assert_eq!(stage.run("rm -y --update-config m").await, SUCCESS);
        assert_eq!(stage.record(), None);
        assert_eq!(
            stage.run("rm -y --update-config m").await,
            FAILURE,
            "as rancher-machine: nothing is known of it"
        );
    }

    #[tokio::test]
    async fn exit_codes_tell_whether_something_is_left() {
        let stage = Stage::new();
        assert_eq!(stage.run("create --driver=obedient --obedient-do=refuse m").await, CHECK_FAILED);
        assert_eq!((stage.record(), stage.last().as_str()), (None, "no quota"));
        assert_eq!(stage.run("create --driver=obedient --obedient-size=2 m").await, CHECK_FAILED);
        assert_eq!(stage.run("create --driver=other m").await, CHECK_FAILED);
        assert_eq!(stage.run("create --driver=obedient ../m").await, CHECK_FAILED);
        assert_eq!(stage.run("create --driver=obedient --hostname-override=$(reboot) m").await, CHECK_FAILED);
        assert_eq!(stage.run("create --driver=obedient --obedient-do=fail m").await, FAILURE);
        assert_eq!(stage.last(), "half way");
        assert!(stage.record().is_some(), "it may be there: its removal has to know");
        assert_eq!(stage.run("rm -y m").await, SUCCESS);
    }

    #[tokio::test]
    async fn arguments_are_remembered_for_the_removal() {
        let stage = Stage::new();
        assert_eq!(stage.run("create --driver=obedient --obedient-do=stay m").await, SUCCESS);
        assert_eq!(stage.run("rm -y m").await, FAILURE);
        assert_eq!(stage.last(), "it stays");
        assert!(stage.record().is_some());
    }
}
