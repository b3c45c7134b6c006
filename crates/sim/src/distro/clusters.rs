//! All clusters of a world: founded by their first server, kept in a directory each, gone with the last machine that has
//! their data.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use apiserver::instance::{Instance, Parts};
use apiserver::pki::{Keys, Pki};
use apiserver::store::{MemoryStore, Options, SqliteStore, Store};

use super::cluster::{Base, Cluster, Kept};
use super::process::Context;
use super::{deploy, files};
use crate::ground::Ground;
use crate::machine::{MachineName, replace};
use crate::settings::Stores;

const FILE: &str = "cluster.json";

/// All clusters of a world.
#[derive(Default)]
pub(crate) struct Clusters {
    all: Mutex<BTreeMap<String, Arc<Cluster>>>,
    /// One at a time begins: the second is to see the first.
    founding: tokio::sync::Mutex<()>,
}

impl Clusters {
    fn all(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Cluster>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<Cluster>> {
        self.all().get(id).cloned()
    }

    pub(crate) fn list(&self) -> Vec<Arc<Cluster>> {
        self.all().values().cloned().collect()
    }

    /// A new cluster, whose first member the machine is to become.
    ///
    /// # Errors
    /// If servers of another cluster have the same token: then somebody had two servers begin a cluster that was to be one.
    pub(crate) async fn found(&self, context: &Context<'_>) -> Result<Arc<Cluster>, String> {
        let _turn = self.founding.lock().await;
        let (machine, token) = (context.machine, context.config.text("token"));
        if let Some(other) = self.list().into_iter().find(|other| other.is_server_token(token)) {
            if other.members().len() == 0 {
                return Ok(other);
            }
            machine.say("would begin a cluster that is there already");
            return Err(format!("simulated: cluster {} has begun with this token already", other.id));
        }
        let runtime = context.process.runtime;
        let (mut id, mut number) = (format!("{runtime}-{}", machine.name), 1);
        while self.get(&id).is_some() {
            number += 1;
            id = format!("{runtime}-{}-{number}", machine.name);
        }
        let kept = Kept {
            id: id.clone(),
            runtime,
            server_token: token.to_owned(),
            agent_token: context.config.text("agent-token").to_owned(),
            members: Default::default(),
            deployed: BTreeMap::new(),
        };
        let directory = directory(&machine.ground, &id);
        std::fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
        files::give_authority(context, &directory)?;
        let cluster = open(&machine.ground, kept).await?;
        save(&cluster.base, &cluster.change(|kept| kept.clone())?)?;
        self.all().insert(id, cluster.clone());
        cluster.say(format!("begins on {}", machine.name));
        Ok(cluster)
    }

    /// Those that the world's directory has.
    pub(crate) async fn load(&self, ground: &Ground) -> Result<(), String> {
        if ground.settings.stores == Stores::Memory {
            return Ok(());
        }
        let parent = ground.settings.directory.join("clusters");
        let entries = std::fs::read_dir(&parent).into_iter().flatten().flatten();
        let mut directories: Vec<_> = entries.map(|entry| entry.path()).collect();
        directories.sort();
        for directory in directories {
            let Ok(bytes) = std::fs::read(directory.join(FILE)) else { continue };
            let path = directory.display();
            let kept: Kept = serde_json::from_slice(&bytes).map_err(|error| format!("{path}: {error}"))?;
            let cluster = open(ground, kept).await?;
            self.all().insert(cluster.id.clone(), cluster);
        }
        Ok(())
    }

    /// A machine is gone for good; `live` are those that are left. Clusters that nobody has any data of go with it.
    pub(crate) async fn forget(&self, machine: &MachineName, live: &BTreeSet<MachineName>) {
        for cluster in self.list() {
            if cluster.forget(machine, live) {
                self.all().remove(&cluster.id);
                cluster.say("is gone");
                cluster.stop().await;
                // The store may be open for a moment longer; what is left then is cleared by nobody but does no harm.
                let _ = std::fs::remove_dir_all(&cluster.base.directory);
            }
        }
    }

    pub(crate) async fn stop(&self) {
        let all = std::mem::take(&mut *self.all());
        for cluster in all.into_values() {
            cluster.stop().await;
        }
    }
}

fn directory(ground: &Ground, id: &str) -> std::path::PathBuf {
    ground.settings.directory.join("clusters").join(id)
}

/// Opens a cluster's keys and store, and starts its API server.
async fn open(ground: &Ground, kept: Kept) -> Result<Arc<Cluster>, String> {
    let directory = directory(ground, &kept.id);
    let clock = ground.settings.clock.clone();
    let chance = |what: &str| ground.chance.of(&format!("{} {what}", kept.id));
    let failed = |error: &dyn std::error::Error| format!("{}: {}", kept.id, agent::chain(error));
    let keys = Keys::open(&directory, clock.as_ref(), &mut chance("keys")).map_err(|error| failed(&error))?;
    let pki = Pki::new(keys, clock.clone(), Box::new(chance("pki"))).map_err(|error| failed(&error))?;
    let store: Arc<dyn Store> = match ground.settings.stores {
        Stores::Memory => Arc::new(MemoryStore::new(Options::default(), clock.clone())),
        Stores::Sqlite => {
            let store = SqliteStore::open(&directory, Options::default(), clock.clone());
            Arc::new(store.map_err(|error| failed(&error))?)
        }
    };
    let signing = pki.signing_key().map_err(|error| failed(&error))?;
    let parts = Parts::new(store, clock.clone(), Box::new(chance("objects")), pki.ca_certificate(), signing);
    let instance = Instance::start(parts).await.map_err(|status| status.message.clone())?;
    let base = Base {
        directory,
        durable: ground.settings.stores == Stores::Sqlite,
        network: ground.network.clone(),
        log: ground.log.clone(),
        trusts: ground.trusts.clone(),
        chance: ground.chance,
        clock,
    };
    let cluster = Arc::new(Cluster::new(kept, base, Arc::new(pki), instance));
    deploy::definitions(&cluster).await?;
    cluster.keep_up();
    Ok(cluster)
}

/// Puts on the disk what is kept of a cluster, if it is to survive.
pub(super) fn save(base: &Base, kept: &Kept) -> Result<(), String> {
    match base.durable {
        true => write(&base.directory, kept).map_err(|error| format!("{}: {error}", kept.id)),
        false => Ok(()),
    }
}

fn write(directory: &Path, kept: &Kept) -> std::io::Result<()> {
    replace(&directory.join(FILE), &serde_json::to_vec(kept)?)
}
