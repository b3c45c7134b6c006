//! `herdsman sim`: simulated machines in a process of their own, registered as custom nodes.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use clock::{Clock, SystemClock};
use sim::World;
use sim::fleet::{self, Fleet};
use tokio::sync::Notify;

use crate::embedded::Stop;

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// URL of the server
    #[arg(long, value_name = "URL")]
    server: http::Uri,
    /// The registration token of a cluster, as in `herdsman node-command`; repeated, each cluster gets its machines
    #[arg(long, required = true)]
    token: Vec<String>,
    /// How many machines each cluster gets
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    machines: u32,
    /// How many of them are servers (etcd and control plane); the others are workers
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    servers: u32,
    /// Whatever is left to chance follows from this
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
    /// SHA-256 of what the server's /cacerts answers; by default the server is believed
    #[arg(long, value_name = "HEX")]
    ca_checksum: Option<String>,
    /// What the machines' names begin with
    #[arg(long, value_name = "TEXT", default_value = "sim")]
    prefix: String,
    /// Where the machines are kept; by default a directory that goes with the process
    #[arg(long, value_name = "DIRECTORY")]
    data_dir: Option<PathBuf>,
}

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let temporary = tempfile::Builder::new().prefix("herdsman-sim-").tempdir()?;
    let directory = arguments.data_dir.clone().unwrap_or_else(|| temporary.path().to_owned());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut stop = Stop::new()?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        crate::open_files::raise();
        let world = World::open(sim::Settings::new(directory, arguments.seed, clock)).await?;
        println!("seed {}", arguments.seed);
        let mut made = 0;
        for fleet in fleets(arguments, &world).await? {
            made += fleet::muster(&world, &fleet).await.context("a machine cannot be made")?;
        }
        println!("ready machines={} new={made}", arguments.machines as usize * arguments.token.len());
        stop.asked(&Notify::new()).await;
        world.stop().await;
        Ok(())
    })
}

/// The machines of each cluster. Those of several clusters have the cluster's number in their names.
async fn fleets(arguments: &Arguments, world: &World) -> anyhow::Result<Vec<Fleet>> {
    let ca_checksum = match &arguments.ca_checksum {
        Some(checksum) => checksum.clone(),
        None => fleet::checksum(world, &arguments.server)
            .await
            .map_err(|why| anyhow!("--server: {} does not answer: {why}", arguments.server))?,
    };
    let prefix = |index: usize| match arguments.token.len() {
        1 => arguments.prefix.clone(),
        _ => format!("{}{}", arguments.prefix, index + 1),
    };
    let fleet = |(index, token): (usize, &String)| Fleet {
        server: arguments.server.to_string().trim_end_matches('/').to_owned(),
        token: token.clone(),
        ca_checksum: ca_checksum.clone(),
        machines: arguments.machines,
        servers: arguments.servers,
        prefix: prefix(index),
    };
    Ok(arguments.token.iter().enumerate().map(fleet).collect())
}
