//! `herdsman-agent tunnel` on a simulated machine: a unit beside the agent, so that a cluster is reached before any pod runs.
//! It reads `/etc/rancher/agent/tunnel.yaml` and what that names, anew for each session.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use http::Uri;
use serde::Deserialize;
use tunnel::Target;
use tunnel::client::Backoff;
use tunnel::serve::{Dial, Io, Later};

use crate::line::{self, Offer};
use crate::machine::Machine;
use crate::network::Network;
use crate::upstream::Upstream;

const PATH: &str = "/etc/rancher/agent/tunnel.yaml";

/// Whether a unit is a tunnel's.
pub(crate) fn is_unit(name: &str) -> bool {
    name.ends_with("tunnel")
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    server_url: String,
    token_file: String,
    #[serde(default)]
    ca_file: Option<String>,
    cluster_address: String,
    cluster_token_file: String,
    cluster_ca_file: String,
}

/// Keeps sessions for ever, or says why it cannot.
pub(crate) async fn run(machine: &Arc<Machine>) -> String {
    let mut chance = machine.ground.chance.of(&format!("{} tunnel", machine.name));
    let (mut backoff, mut registered, mut said) = (Backoff::default(), false, String::new());
    let clock = machine.ground.settings.clock.clone();
    loop {
        let began = clock.monotonic();
        let (Ok(why) | Err(why)) = session(machine, &mut registered).await;
        if why != said {
            machine.say(format!("tunnel: {why}"));
            said = why;
        }
        tokio::time::sleep(backoff.next(clock.monotonic().since(began), &mut chance)).await;
    }
}

async fn session(machine: &Arc<Machine>, registered: &mut bool) -> Result<String, String> {
    let read = |path: &str| machine.read(path).ok_or_else(|| format!("cannot read {path}"));
    let config: Config = serde_saphyr::from_str(&read(PATH)?).map_err(|error| format!("{PATH}: {error}"))?;
    let server: Uri = config.server_url.parse().map_err(|_| format!("{:?} is no URL", config.server_url))?;
    let authority = config.ca_file.as_deref().map(&read).transpose()?;
    let ground = &machine.ground;
    let tls = ground.trusts.authority(authority.as_deref().map(str::as_bytes));
    let tls = tls.map_err(|error| agent::chain(&error))?;
    let way = Upstream::new(ground.network.clone(), machine.address, &server, tls);
    let offer = Offer {
        token: read(&config.token_file)?.trim().into(),
        account: read(&config.cluster_token_file)?.trim().to_owned(),
        authority: read(&config.cluster_ca_file)?,
        server: config.server_url,
        address: config.cluster_address,
    };
    let dial = Around { network: ground.network.clone(), from: machine.address };
    let entropy = Box::new(ground.chance.of(&format!("{} tunnel session", machine.name)));
    let clock = ground.settings.clock.clone();
    line::hold(way, offer, dial, clock, entropy, registered, || machine.say("tunnel is connected")).await
}

/// The simulated network around a machine.
struct Around {
    network: Network,
    from: Ipv4Addr,
}

impl Dial for Around {
    fn dial(&self, target: Target) -> Later<'static, io::Result<Box<dyn Io>>> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidInput, format!("{} is no place", target.address));
        let place = target.address.rsplit_once(':').and_then(|(host, port)| {
            let host = match host {
                "localhost" | "127.0.0.1" => self.from,
                other => other.parse().ok()?,
            };
            Some((host, port.parse().ok()?))
        });
        let wire = place.ok_or_else(wrong).and_then(|place| self.network.connect(self.from, place));
        Box::pin(std::future::ready(wire.map(|wire| Box::new(wire) as Box<dyn Io>)))
    }
}
