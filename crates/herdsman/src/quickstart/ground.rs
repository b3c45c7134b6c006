//! What the machines of a quickstart stand on: nothing if they are simulated; else a Docker, a network in it, an image.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use machine::docker::{self, HOST, Host};

/// The version that `cargo xtask fleet` builds, which can be pulled as well.
pub(super) const VERSION: &str = "v1.35.0+k3s3";
/// What `cargo xtask fleet` calls the machines' image.
const IMAGE: &str = "herdsman-node-k3s:latest";
/// The network that is made; it and all machines in it go in the end if nobody keeps a record of them.
const NETWORK: &str = "herdsman-quickstart";
/// What nodes download, as `cargo xtask dist` makes it.
const AGENT: &str = "rancher-system-agent-amd64";

/// What can be said of Docker.
#[derive(Debug, clap::Args)]
pub(super) struct Docker {
    /// With --driver docker: the machines' image, one with systemd, sh and curl; pulled if it is not there
    #[arg(long, value_name = "IMAGE", default_value = IMAGE)]
    image: String,
    /// With --driver docker: where Docker is
    #[arg(long, value_name = "URL", env = "DOCKER_HOST", default_value = HOST)]
    docker_host: String,
    /// With --driver docker: a directory with the agent that nodes download, as `cargo xtask dist` makes it
    #[arg(long, value_name = "DIRECTORY")]
    assets: Option<PathBuf>,
}

/// What machines stand on.
pub(super) struct Ground {
    /// Where they reach the server.
    pub(super) address: IpAddr,
    /// Where the agent is that they download.
    pub(super) assets: Vec<PathBuf>,
    /// The driver, if it is to be enabled.
    pub(super) docker: Option<docker::Docker>,
    /// What their driver is told.
    pub(super) options: Vec<String>,
    /// To be cleared in the end.
    made: Option<(Host, String)>,
}

impl Ground {
    /// Simulated machines need nothing.
    pub(super) fn nothing() -> Self {
        Ground {
            address: Ipv4Addr::LOCALHOST.into(),
            assets: Vec::new(),
            docker: None,
            options: Vec::new(),
            made: None,
        }
    }

    /// Removes machines and network.
    pub(super) async fn clear(self) -> anyhow::Result<()> {
        let Some((host, network)) = self.made else { return Ok(()) };
        println!("removing the machines");
        host.clear(&network)
            .await
            .with_context(|| format!("something is left in Docker, in network {network}"))
    }
}

impl Docker {
    /// Finds out whether there can be machines, before anything is started. What is made for those that stay has a name of
    /// which there is one.
    pub(super) async fn prepare(&self, stays: bool) -> anyhow::Result<Ground> {
        let host = Host::reach(&self.docker_host).await.context(
            "--driver docker needs Docker: install it (Debian: apt-get install docker.io), start it (systemctl start \
             docker), or say where it is with --docker-host",
        )?;
        // Any other image can be pulled; nobody else has this one.
        if self.image == IMAGE && !host.has_image(IMAGE).await? {
            bail!(
                "Docker has no image {IMAGE}: `cargo xtask fleet` in Herdsman's repository makes it; or name an image with \
                 systemd, sh and curl with --image"
            );
        }
        let assets = self.assets()?;
        let network = if stays { NETWORK.to_owned() } else { format!("{NETWORK}-{}", std::process::id()) };
        let address = host.network(&network).await?;
        let options = [("image", &self.image), ("network", &network)];
        Ok(Ground {
            address,
            assets,
            docker: Some(docker::Docker { host: self.docker_host.clone(), ..docker::Docker::default() }),
            options: options.map(|(key, value)| format!("{key}={value}")).to_vec(),
            made: (!stays).then_some((host, network)),
        })
    }

    /// Where the agent is: as was said, beside this program, or where cargo has this program and `xtask dist` the agent.
    fn assets(&self) -> anyhow::Result<Vec<PathBuf>> {
        let program = std::env::current_exe().unwrap_or_default();
        let beside = program.parent().map(Path::to_owned);
        let built = beside.as_deref().and_then(Path::parent).map(|target| target.join("dist"));
        let places = match &self.assets {
            Some(directory) => vec![directory.clone()],
            None => beside.into_iter().chain(built).collect(),
        };
        match places.into_iter().find(|place| place.join(AGENT).is_file()) {
            Some(place) => Ok(vec![place]),
            None => bail!(
                "there is no {AGENT} for machines to download: `cargo xtask dist` makes it; name its directory with --assets"
            ),
        }
    }
}
