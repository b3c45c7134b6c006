//! A driver that does as it is told, and servers that are counted.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use machine::{Driver, Failure, Flag, FlagValue, Order, Output, Server, Special, Working};

/// What becomes of a command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// It takes a while and goes well.
    Well,
    /// A check refuses it.
    Refused,
    /// A server is there, but not usable; or it does not go.
    HalfWay,
    /// It never ends.
    Never,
}

/// What there is: everybody sees the same.
#[derive(Default)]
pub(crate) struct Servers {
    /// By name: what it was asked to run.
    pub(crate) there: BTreeMap<String, String>,
    /// What becomes of the next commands; all others go well.
    pub(crate) next: VecDeque<Outcome>,
    pub(crate) creates: u32,
    pub(crate) removes: u32,
    /// The arguments and the environment of the last command.
    pub(crate) last: Order,
}

#[derive(Clone, Default)]
pub(crate) struct Scripted(pub(crate) Arc<Mutex<Servers>>);

/// How long a server takes to come or go.
const TAKES: Duration = Duration::from_secs(3);

impl Driver for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    fn flags(&self) -> Vec<Flag> {
        let flag = |name: &str, value| Flag {
            name: format!("scripted-{name}"),
            usage: format!("The {name}."),
            value,
        };
        vec![
            flag("size", FlagValue::Text("small".into())),
            flag("cpus", FlagValue::Number(2)),
            flag("fast", FlagValue::Switch),
            flag("tag", FlagValue::List(Vec::new())),
            flag("key-file", FlagValue::Text(String::new())),
            flag("token", FlagValue::Text(String::new())),
        ]
    }

    fn special(&self) -> Special {
        Special {
            files: Special::read_files("sshKey:keyFile"),
            private: vec!["token".into()],
            ..Special::default()
        }
    }

    fn check<'a>(&'a self, _: &'a Order) -> Working<'a, ()> {
        let refused = self.0.lock().unwrap().next.front() == Some(&Outcome::Refused);
        if refused {
            self.0.lock().unwrap().next.pop_front();
        }
        Box::pin(async move { if refused { Err(Failure::Check("no quota left".into())) } else { Ok(()) } })
    }

    fn create<'a>(&'a self, order: &'a Order, output: &'a Output) -> Working<'a, Server> {
        Box::pin(async move {
            let outcome = {
                let mut servers = self.0.lock().unwrap();
                servers.creates += 1;
                servers.last = order.clone();
                servers.next.pop_front().unwrap_or(Outcome::Well)
            };
            output.say("asking the cloud");
            tokio::time::sleep(TAKES).await;
            let before = self.0.lock().unwrap().there.insert(order.name.clone(), order.bootstrap.clone());
            assert_eq!(before, None, "a second server of the same name");
            match outcome {
                Outcome::Never => std::future::pending().await,
                Outcome::HalfWay => Err(Failure::Failed("the cloud is out of disks".into())),
                _ => Ok(Server { address: "10.0.0.1".into(), ..Server::default() }),
            }
        })
    }

    fn remove<'a>(&'a self, order: &'a Order, _: &'a Output) -> Working<'a, ()> {
        Box::pin(async move {
            let outcome = {
                let mut servers = self.0.lock().unwrap();
                servers.removes += 1;
                servers.last = order.clone();
                servers.next.pop_front().unwrap_or(Outcome::Well)
            };
            tokio::time::sleep(TAKES).await;
            match outcome {
                Outcome::Well => {
                    self.0.lock().unwrap().there.remove(&order.name);
                    Ok(())
                }
                Outcome::Never => std::future::pending().await,
                _ => Err(Failure::Failed("the cloud says no".into())),
            }
        })
    }
}
