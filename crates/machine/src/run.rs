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

/// A command for one machine, and what it works with.
#[derive(Debug)]
pub struct Task<'a> {
    /// The command.
    pub command: &'a Command,
    /// The machine's driver. A state that names another driver is not followed: users can write it.
    pub driver: &'a str,
    /// The infrastructure machine, as `namespace/name/uid`.
    pub owner: &'a str,
    /// Credentials, by the names of environment variables.
    pub environment: BTreeMap<String, String>,
    /// The directory with the state, unpacked; it is written as the work goes on, and what is in it when the work ends or is
    /// dropped is what is to be kept.
    pub storage: &'a Path,
    /// The directory with the files that the command names; no others are read.
    pub files: &'a Path,
}

/// Carries out a command.
///
/// Gives rancher-machine's exit code; what there is to say goes to `output`, the reason of a failure last.
pub async fn run(drivers: &Drivers, task: Task<'_>, output: &Output) -> i32 {
    let done = match &task.command.verb {
        Verb::Create { driver, script, hostname, flags } => {
            let hostname = if hostname.is_empty() { &task.command.name } else { hostname };
            let creation = Creation { driver, script, hostname, flags };
            create(drivers, &task, creation, output).await
        }
        Verb::Remove => remove(drivers, &task, output).await,
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
}

impl Task<'_> {
    /// An order for this machine, without anything said of the server.
    fn order(&self) -> Order {
        let name = &self.command.name;
        Order {
            name: name.clone(),
            hostname: name.clone(),
            directory: record::directory(self.storage, name),
            environment: self.environment.clone(),
            files: self.files.to_owned(),
            owner: self.owner.to_owned(),
            ..Order::default()
        }
    }
}

async fn create(
    drivers: &Drivers,
    task: &Task<'_>,
    creation: Creation<'_>,
    output: &Output,
) -> Result<(), Failure> {
    let (storage, name) = (task.storage, &task.command.name);
    let driver = known(drivers, of_machine(task, creation.driver)?)?;
    if !is_name(name) || !is_name(creation.hostname) {
        return Err(Failure::Check(format!("{name:?} or {:?} is no name for a server", creation.hostname)));
    }
    if Record::read(storage, name).map_err(failed)?.is_some() {
        return Err(Failure::Failed(format!("Host already exists: {name:?}")));
    }
    let arguments = command::arguments(driver.name(), &driver.flags(), creation.flags)
        .map_err(|error| Failure::Check(error.to_string()))?;
    let mut order = Order { hostname: creation.hostname.into(), arguments, ..task.order() };
    if !creation.script.is_empty() {
        order.bootstrap = order.file(creation.script)?;
    }
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

async fn remove(drivers: &Drivers, task: &Task<'_>, output: &Output) -> Result<(), Failure> {
    let (storage, name) = (task.storage, &task.command.name);
    output.say(format!("About to remove {name}"));
    let Some(record) = Record::read(storage, name).map_err(failed)? else {
        return Err(Failure::Failed(format!("Docker machine {name:?} does not exist.")));
    };
    let driver = known(drivers, of_machine(task, &record.driver_name)?)?;
    let instance = record.driver.get("InstanceId").and_then(|id| id.as_str()).unwrap_or_default().to_owned();
    let order = Order { arguments: record.arguments(), instance, ..task.order() };
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

/// The machine's driver, if the command or the state names no other one.
fn of_machine<'a>(task: &Task<'a>, named: &str) -> Result<&'a str, Failure> {
    match task.driver == named {
        true => Ok(task.driver),
        false => Err(Failure::Failed(other_driver(task.driver, named))),
    }
}

/// What is said of a state that another driver wrote.
pub fn other_driver(driver: &str, named: &str) -> String {
    format!("the state of a {driver} machine names the driver {named:?}: nothing is done with it")
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

    /// A driver that nobody asks for.
    struct Other;

    impl Driver for Other {
        fn name(&self) -> &str {
            "other"
        }

        fn flags(&self) -> Vec<Flag> {
            Vec::new()
        }

        fn create<'a>(&'a self, _: &'a Order, _: &'a Output) -> Working<'a, Server> {
            unreachable!("a machine has one driver")
        }

        fn remove<'a>(&'a self, _: &'a Order, _: &'a Output) -> Working<'a, ()> {
            unreachable!("a machine has one driver")
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
            let (storage, files) = (self.storage.path(), self.storage.path());
            let task = Task {
                command: &command,
                driver: "obedient",
                owner: "n/m/u",
                environment: BTreeMap::new(),
                storage,
                files,
            };
            run(&Drivers::default().with(Obedient).with(Other), task, &output).await
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
        assert_eq!(stage.run("create --driver=obedient ../m").await, CHECK_FAILED);
        assert_eq!(stage.run("create --driver=obedient --hostname-override=$(reboot) m").await, CHECK_FAILED);
        assert_eq!(stage.run("create --driver=obedient --obedient-do=fail m").await, FAILURE);
        assert_eq!(stage.last(), "half way");
        assert!(stage.record().is_some(), "it may be there: its removal has to know");
        assert_eq!(stage.run("rm -y m").await, SUCCESS);
    }

    #[tokio::test]
    async fn a_state_names_its_own_driver() {
        let stage = Stage::new();
        assert_eq!(stage.run("create --driver=other m").await, FAILURE);
        assert_eq!(stage.run("create --driver=obedient m").await, SUCCESS);
        let mut record = stage.record().unwrap();
        record.driver_name = "other".into();
        record.write(stage.storage.path()).unwrap();
        assert_eq!(stage.run("rm -y m").await, FAILURE);
        assert!(stage.last().contains("names the driver \"other\""), "{}", stage.last());
    }

    #[tokio::test]
    async fn a_script_elsewhere_is_not_read() {
        let (stage, elsewhere) = (Stage::new(), tempfile::tempdir().unwrap());
        let canary = elsewhere.path().join("encryption.key");
        fs::write(&canary, "canary").unwrap();
        let line = format!("create --driver=obedient --custom-install-script={} m", canary.display());
        assert_eq!(stage.run(&line).await, CHECK_FAILED);
        assert_eq!(stage.record(), None);
        assert!(!stage.said.lock().unwrap().iter().any(|line| line.contains("canary\"")));
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
