//! The agent on a simulated machine: the real one, with what the machine has in place of a system.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use agent::apply::Applier;
use agent::authority::{self, Authority};
use agent::client::Client;
use agent::config::{Config, Connection, DEFAULT_PATH};
use agent::journal::Journal;
use agent::kubeconfig::Kubeconfig;
use agent::machine::{Later, Machine as Computer};
use agent::moved::{self, Notice};
use agent::remote::{Observer, Remote};
use agent::watch::Place;

use crate::executor::Shell;
use crate::images::Installers;
use crate::machine::Machine;
use crate::prober::Asks;
use crate::systemd::AGENT;
use crate::upstream::Upstream;

/// Runs the agent until it cannot go on. Says why.
pub(crate) async fn run(machine: &Arc<Machine>) -> String {
    match follow(machine).await {
        Ok(never) => match never {},
        Err(error) => agent::chain(error.as_ref()),
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

async fn follow(machine: &Arc<Machine>) -> Result<Infallible, Failure> {
    let root = &machine.root;
    let config = Config::load(&root.locate(DEFAULT_PATH))?;
    let applier = Arc::new(Applier::new(computer(machine), &config));
    loop {
        let connection = Connection::load(&root.locate(&config.connection_info_file))?;
        let place = Place::new(&connection.namespace, &connection.secret).ok_or("no place for a plan")?;
        let journal = Journal::open(root, &config.state_directory)?;
        let kubeconfig = Kubeconfig::parse(&connection.kubeconfig)?;
        let client = client(machine, &kubeconfig)?;
        let file = root.locate(&config.connection_info_file);
        let authority = Authority::new(&kubeconfig, file, ways(machine, &kubeconfig));
        let observer = Arc::new(Follows { machine: machine.clone(), config: config.clone() });
        let applier = applier.clone();
        Remote { client, place, applier, journal, observer, authority }.run().await;
    }
}

fn client(machine: &Machine, kubeconfig: &Kubeconfig) -> Result<Client, Failure> {
    let ground = &machine.ground;
    let tls = ground.trusts.authority(kubeconfig.ca.as_deref())?;
    let upstream = Upstream::new(ground.network.clone(), machine.address, &kubeconfig.server, tls);
    Ok(Client::new(Arc::new(upstream), &kubeconfig.server, kubeconfig.token.as_deref())?)
}

/// Ways to the server that trust given authorities and nobody else.
fn ways(machine: &Arc<Machine>, kubeconfig: &Kubeconfig) -> authority::Ways {
    let (machine, server) = (machine.clone(), kubeconfig.server.clone());
    Box::new(move |pem| {
        let tls = machine.ground.trusts.authority(Some(pem)).map_err(|error| agent::chain(&error))?;
        Ok(Arc::new(Upstream::new(machine.ground.network.clone(), machine.address, &server, tls)))
    })
}

/// Goes where the server goes.
struct Follows {
    machine: Arc<Machine>,
    config: Config,
}

impl Observer for Follows {
    fn moved<'a>(&'a self, notice: &'a Notice) -> Later<'a, bool> {
        Box::pin(async move {
            let reach = async |kubeconfig: &Kubeconfig| {
                client(&self.machine, kubeconfig).map_err(|error| agent::chain(error.as_ref()))
            };
            match moved::go(&self.machine.root, &self.config, notice, reach).await {
                Ok(gone) => gone,
                Err(error) => {
                    self.machine.say(format!("the server has moved: {}", agent::chain(&error)));
                    false
                }
            }
        })
    }
}

/// The machine as the agent sees it.
fn computer(machine: &Arc<Machine>) -> Computer {
    let process = machine.faults().next_process();
    let mut environment = vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())];
    let more = machine.read(format!("/etc/systemd/system/{AGENT}.env")).unwrap_or_default();
    let pairs = more.lines().filter_map(|line| line.split_once('='));
    environment.extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let chance = machine.ground.chance.of(&format!("{} agent {process}", machine.name));
    Computer {
        root: machine.root.clone(),
        executor: Arc::new(Shell::new(machine.clone(), process)),
        images: Arc::new(Installers::new(machine.clone())),
        prober: Arc::new(Asks::new(machine.clone())),
        clock: machine.clock.clone(),
        entropy: Arc::new(Mutex::new(Box::new(chance))),
        environment,
        process,
    }
}
