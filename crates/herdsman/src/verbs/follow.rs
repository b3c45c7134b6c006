//! Watching a cluster become what was asked for.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use clock::{Deadline, SystemClock};
use kit::{Cache, Caches, Key, KindId};
use serde_json::Value;
use tokio::sync::Notify;

use super::ask::Ask;
use super::kinds;
use super::progress::{Bars, Lines, Progress, Show};

/// What verbs that change a cluster take.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Wait {
    /// Show what happens until the cluster is as asked for
    #[arg(long)]
    wait: bool,
    /// Give up waiting after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1800, requires = "wait")]
    timeout: u64,
}

impl Wait {
    /// Waits if that was asked for.
    pub(crate) async fn follow(&self, ask: &Ask, cluster: &str) -> anyhow::Result<()> {
        match self.wait {
            true => follow(ask, cluster, Duration::from_secs(self.timeout)).await,
            false => Ok(()),
        }
    }
}

/// Shows what happens to a cluster until it is as asked for.
pub(crate) async fn follow(ask: &Ask, cluster: &str, within: Duration) -> anyhow::Result<()> {
    let watched = Watched::start(ask)?;
    let deadline = Deadline::after(&SystemClock, within);
    // What is there is shown, not how it becomes known.
    let _ = tokio::time::timeout(deadline.left(&SystemClock), watched.known()).await;
    let mut show: Box<dyn Show> = match std::io::stderr().is_terminal() {
        true => Box::new(Bars::new()),
        false => Box::new(Lines::default()),
    };
    loop {
        let changed = watched.changed.notified();
        let progress = watched.progress(&ask.namespace, cluster);
        show.show(&progress);
        if progress.done {
            show.end();
            return Ok(());
        }
        let left = deadline.left(&SystemClock);
        if tokio::time::timeout(left, changed).await.is_err() {
            show.end();
            bail!(
                "cluster {cluster:?} is not as asked for after {} s: {}. It goes on; `herdsman explain cluster/{cluster}` says what it waits for",
                within.as_secs(),
                progress.message
            );
        }
    }
}

/// What is looked at.
struct Watched {
    clusters: Arc<Cache>,
    control_planes: Arc<Cache>,
    machines: Arc<Cache>,
    changed: Arc<Notify>,
    /// The watches end with it.
    _caches: Caches,
}

impl Watched {
    fn start(ask: &Ask) -> anyhow::Result<Self> {
        let caches = Caches::within(ask.client.clone(), kit::index::entries, Some(ask.namespace.clone()));
        let changed: Arc<Notify> = Arc::default();
        let of = |id: KindId| {
            let cache = caches.of(&id);
            let told = changed.clone();
            cache.listen("follow", || Arc::new(move |_| told.notify_one()));
            cache
        };
        let clusters = of(kinds::find("cluster")?.id());
        let control_planes = of(kinds::find("controlplane")?.id());
        let machines = of(kinds::find("machine")?.id());
        Ok(Watched { clusters, control_planes, machines, changed, _caches: caches })
    }

    /// Waits until everything that is there is known.
    async fn known(&self) {
        for cache in [&self.clusters, &self.control_planes, &self.machines] {
            cache.wait_synced().await;
        }
    }

    fn progress(&self, namespace: &str, cluster: &str) -> Progress {
        let machines = self.machines.filed(&kit::index::cluster(namespace, cluster));
        let machines: Vec<&Value> = machines.iter().map(|one| one.document()).collect();
        let key = Key::new(namespace, cluster);
        let (found, control_plane) = (self.clusters.get(&key), self.control_planes.get(&key));
        let document = |object: &Option<Arc<kit::Object>>| object.as_ref().map(|one| one.document().clone());
        Progress::of(document(&found).as_ref(), document(&control_plane).as_ref(), &machines)
    }
}
