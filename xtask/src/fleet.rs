//! `cargo xtask fleet`: machines that a real K3s runs on, for the Docker of this machine.

use std::process::Command;

use anyhow::Context as _;
use peers::command::run as run_program;
use peers::{Peer, fleet, k3s};

use crate::image::{self, Which};
use crate::peers::took;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Give Docker nothing, only make it
    #[arg(long)]
    no_load: bool,
    /// What Docker calls it
    #[arg(long, default_value = fleet::IMAGE)]
    image: String,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    for peer in [Peer::K3s, Peer::NodeImage, Peer::Fleet] {
        peer.available().with_context(|| format!("{} cannot be had here", peer.name()))?;
        let provided = peer.provide()?;
        println!(
            "fleet {} {} {} ({})",
            peer.name(),
            provided.version,
            provided.path.display(),
            took(provided.took)
        );
    }
    if arguments.no_load {
        return Ok(());
    }
    let docker = || Command::new("docker");
    run_program(docker().args(["version", "--format", "{{.Server.Version}}"])).context(
        "no Docker answers; start it (`systemctl start docker`), set DOCKER_HOST, or pass --no-load",
    )?;
    let agents = image::build(Which::ClusterAgent)?;
    let agents: Vec<&std::path::Path> = agents.iter().map(|path| path.as_path()).collect();
    fleet::load(docker, &arguments.image, &agents)?;
    println!("fleet image {} with K3s {}", arguments.image, k3s::VERSIONS.join(" and "));
    println!("next: herdsman quickstart --driver docker");
    Ok(())
}
