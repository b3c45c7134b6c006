//! The agent as a service: what the configuration enables, all at once.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outbound::tls::Trust;
use tokio::sync::Mutex;

use crate::apply::Applier;
use crate::authority::{self, Authority};
use crate::client::Client;
use crate::config::{self, Config, Connection};
use crate::disk;
use crate::journal::Journal;
use crate::kubeconfig::{self, Kubeconfig};
use crate::local::Local;
use crate::machine::{Later, Machine};
use crate::moved::{self, Notice};
use crate::remote::{Observer, Remote};
use crate::start;
use crate::systemd;
use crate::update::{self, Event, Followed, Keeper, Verdict};
use crate::watch::Place;

/// Why the service cannot be.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Connection info.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// The kubeconfig in it.
    #[error("kubeConfig")]
    Kubeconfig(#[from] kubeconfig::Error),
    /// Names in it.
    #[error("namespace {0:?} and secretName {1:?} are not names of a Secret")]
    Place(String, String),
    /// The first contact with the server.
    #[error(transparent)]
    Start(#[from] start::Error),
    /// The state directory.
    #[error("state directory")]
    State(#[from] disk::Error),
}

/// Why the service ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Another binary is in the place of this one: go over to it.
    Replaced(PathBuf),
}

/// Runs what the configuration enables, until another binary is to take over. `binary` is that of this process;
/// without it there is no looking after binaries.
pub async fn run(
    config: &Config,
    strict: bool,
    machine: Machine,
    binary: Option<PathBuf>,
) -> Result<End, Error> {
    let applier = Arc::new(Applier::new(machine, config));
    let local = async {
        if config.local_enabled {
            Local::new(applier.clone(), &config.local_plan_directory).run().await;
        }
        std::future::pending::<Infallible>().await
    };
    if !config.remote_enabled {
        systemd::ready(&applier.machine().environment);
        match local.await {}
    }
    tokio::select! {
        biased;
        result = remote(config, strict, applier.clone(), binary) => result,
        never = local => match never {},
    }
}

async fn remote(
    config: &Config,
    strict: bool,
    applier: Arc<Applier>,
    binary: Option<PathBuf>,
) -> Result<End, Error> {
    let machine = applier.machine().clone();
    let service = Service::new(&machine, config, strict, binary.clone());
    let work = async {
        loop {
            follow(config, strict, &applier, &service).await?;
            // Another server: all over again, with the files that lead there.
            if !service.moved.swap(false, Ordering::Relaxed) {
                return Ok::<_, Error>(());
            }
        }
    };
    tokio::select! {
        biased;
        () = service.trial() => {}
        result = work => result?,
    }
    Ok(End::Replaced(binary.unwrap_or_default()))
}

/// Follows the plan Secret on one server until the service ends it.
async fn follow(
    config: &Config,
    strict: bool,
    applier: &Arc<Applier>,
    service: &Arc<Service>,
) -> Result<(), Error> {
    let machine = applier.machine();
    let connection = Connection::load(&machine.root.locate(&config.connection_info_file))?;
    let place = Place::new(&connection.namespace, &connection.secret)
        .ok_or_else(|| Error::Place(connection.namespace.clone(), connection.secret.clone()))?;
    let kubeconfig = Kubeconfig::parse(&connection.kubeconfig)?;
    let journal = Journal::open(&machine.root, &config.state_directory)?;
    let client = start::client(&kubeconfig, strict, machine).await?;
    let file = machine.root.locate(&config.connection_info_file);
    let authority = Authority::new(&kubeconfig, file, ways(&kubeconfig, machine));
    let (applier, observer) = (applier.clone(), service.clone());
    Remote { client, place, applier, journal, observer, authority }.run().await;
    Ok(())
}

/// Ways to the server that trust given authorities and nobody else.
fn ways(kubeconfig: &Kubeconfig, machine: &Machine) -> authority::Ways {
    let (kubeconfig, machine) = (kubeconfig.clone(), machine.clone());
    Box::new(move |pem| {
        let trust = Trust { authorities: Some(pem.to_vec()), ..Trust::default() };
        let network = start::network(&kubeconfig, &trust, &machine);
        Ok(Arc::new(network.map_err(|error| crate::chain(&error))?))
    })
}

/// Tells the service manager when the server has been reached, follows it, and looks after the binary.
struct Service {
    machine: Machine,
    config: Config,
    strict: bool,
    /// The files lead to another server.
    moved: AtomicBool,
    ready: AtomicBool,
    keeper: Option<Mutex<Keeper>>,
}

impl Service {
    fn new(machine: &Machine, config: &Config, strict: bool, binary: Option<PathBuf>) -> Arc<Self> {
        let keeper = binary.and_then(|binary| {
            let keeper = Keeper::new(machine.clone(), binary, &config.state_directory);
            keeper.inspect_err(complain).ok().map(Mutex::new)
        });
        let (moved, ready) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Service { machine: machine.clone(), config: config.clone(), strict, moved, ready, keeper })
    }

    /// Ends when this binary has failed its trial and the one before is back.
    async fn trial(&self) {
        let mut event = Event::Started;
        loop {
            match self.happened(event).await {
                Verdict::FallBack => return,
                Verdict::Keep => std::future::pending().await,
                Verdict::Until(until) => {
                    let left = until.duration_since(self.machine.clock.now());
                    tokio::time::sleep(Duration::try_from(left).unwrap_or_default()).await;
                }
            }
            event = Event::Waited;
        }
    }

    /// What goes wrong here does not keep the agent from its work.
    async fn happened(&self, event: Event) -> Verdict {
        let Some(keeper) = &self.keeper else { return Verdict::Keep };
        let verdict = keeper.lock().await.happened(event);
        verdict.inspect_err(complain).unwrap_or(Verdict::Keep)
    }
}

fn complain(error: &update::Error) {
    tracing::error!(error = %crate::chain(error), "the agent's binary is not looked after");
}

impl Observer for Service {
    fn connected(&self) -> Later<'_, ()> {
        Box::pin(async {
            if !self.ready.swap(true, Ordering::Relaxed) {
                systemd::ready(&self.machine.environment);
                self.happened(Event::Connected).await;
            }
        })
    }

    fn at_rest(&self) -> Later<'_, bool> {
        Box::pin(async {
            let Some(keeper) = &self.keeper else { return false };
            keeper.lock().await.found_another().await.inspect_err(complain).unwrap_or(false)
        })
    }

    fn binary<'a>(&'a self, client: &'a Client, wanted: &'a str) -> Later<'a, Followed> {
        Box::pin(async move {
            match &self.keeper {
                Some(keeper) => keeper.lock().await.follow(client, wanted).await,
                None => Followed::default(),
            }
        })
    }

    fn moved<'a>(&'a self, notice: &'a Notice) -> Later<'a, bool> {
        Box::pin(async move {
            let reach = async |kubeconfig: &Kubeconfig| {
                let strict = self.strict || kubeconfig.ca.is_some();
                start::client(kubeconfig, strict, &self.machine).await.map_err(|error| crate::chain(&error))
            };
            let gone = moved::go(&self.machine.root, &self.config, notice, reach).await;
            let gone = gone.inspect_err(|error| {
                tracing::warn!(error = %crate::chain(error), "the server has moved, but cannot be followed yet");
            });
            let gone = gone.unwrap_or(false);
            self.moved.fetch_or(gone, Ordering::Relaxed);
            gone
        })
    }
}
