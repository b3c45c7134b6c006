//! `herdsman kubeconfig CLUSTER`: the way to a cluster, for any kubectl.

use std::path::PathBuf;

use anyhow::{anyhow, bail};
use kit::KindId;

use super::ask::Ask;
use super::output;
use super::target::{self, Target, block_on};
use super::{kinds, node_command::decoded};

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which cluster: NAME or cluster/NAME
    #[arg(value_parser = target::cluster)]
    cluster: String,
    /// Write it to this file (0600) instead of printing it
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    #[command(flatten)]
    target: Target,
}

/// Prints it, or writes it to a file.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    block_on(async {
        let ask = Ask::new(&arguments.target).await?;
        let text = fetch(&ask, &arguments.cluster).await?;
        match &arguments.to {
            None => output::print(&text),
            Some(path) => {
                apiserver::files::replace_secret(path, text.as_bytes())?;
                println!("{}", path.display());
                Ok(())
            }
        }
    })
}

/// The kubeconfig of a cluster, as its Secret has it.
pub(crate) async fn fetch(ask: &Ask, cluster: &str) -> anyhow::Result<String> {
    ask.object(kinds::find("cluster")?, cluster).await?;
    let secrets = KindId::new("", "v1", "Secret", "secrets");
    let Some(secret) = ask.find(&secrets, &format!("{cluster}-kubeconfig")).await? else {
        bail!(
            "cluster {cluster:?} has no kubeconfig yet: its control plane is not there; `herdsman explain cluster/{cluster}` says what it waits for"
        );
    };
    let value = decoded(&secret["data"]["value"])
        .ok_or_else(|| anyhow!("Secret {cluster}-kubeconfig has no value"))?;
    Ok(value)
}
