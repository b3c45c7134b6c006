//! `herdsman upgrade`: another version of Kubernetes.

use anyhow::bail;
use serde_json::json;

use super::ask::Ask;
use super::follow;
use super::kinds;
use super::target::{self, Target, block_on};

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which cluster: NAME or cluster/NAME
    #[arg(value_parser = target::cluster)]
    cluster: String,
    /// The version, such as v1.34.2+k3s1
    #[arg(long = "kubernetes-version", alias = "version", value_name = "VERSION")]
    version: String,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    wait: follow::Wait,
}

/// Writes the version. The server refuses what cannot be.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    block_on(async {
        let ask = Ask::new(&arguments.target).await?;
        let word = kinds::find("cluster")?;
        let cluster = ask.object(word, &arguments.cluster).await?;
        let now = cluster["spec"]["kubernetesVersion"].as_str().unwrap_or_default();
        if now == arguments.version {
            println!("cluster/{} has version {now} already", arguments.cluster);
            return Ok(());
        }
        if cluster["spec"]["rkeConfig"].is_null() {
            bail!("cluster {:?} is not one that was made here: its version is its own", arguments.cluster);
        }
        let patch = json!({"spec": {"kubernetesVersion": arguments.version}});
        ask.patch(word, &arguments.cluster, &patch, false).await?;
        println!("cluster/{} goes from {now} to {}", arguments.cluster, arguments.version);
        arguments.wait.follow(&ask, &arguments.cluster).await
    })
}
