//! A Docker before there are servers in it: for whoever prepares the ground, and clears it.

use std::net::IpAddr;

use serde_json::Value;

use super::container::LABEL;
use super::engine::Engine;
use super::failed;
use crate::Failure;

/// A Docker that answers.
#[derive(Clone, Debug)]
pub struct Host(Engine);

impl Host {
    /// The Docker at `unix:///path/of/a/socket`.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn reach(host: &str) -> Result<Self, Failure> {
        let engine = Engine::at(host).map_err(failed)?;
        engine.ping().await.map_err(failed)?;
        Ok(Host(engine))
    }

    /// Whether an image is there, so that nothing has to be pulled.
    pub async fn has_image(&self, image: &str) -> Result<bool, Failure> {
        self.0.has_image(image).await.map_err(failed)
    }

    /// This machine's address in a network of that name. The network is made if it is not there.
    pub async fn network(&self, name: &str) -> Result<IpAddr, Failure> {
        let network = match self.0.network(name).await.map_err(failed)? {
            Some(network) => network,
            None => {
                self.0.create_network(name).await.map_err(failed)?;
                self.0.network(name).await.map_err(failed)?.unwrap_or_default()
            }
        };
        let gateways = network.pointer("/IPAM/Config").and_then(Value::as_array).into_iter().flatten();
        let gateway = gateways.filter_map(|one| one["Gateway"].as_str()?.parse().ok()).next();
        gateway.ok_or_else(|| Failure::Failed(format!("network {name}: this machine has no address in it")))
    }

    /// Removes every server in a network, and the network.
    pub async fn clear(&self, network: &str) -> Result<(), Failure> {
        let Some(known) = self.0.network(network).await.map_err(failed)? else { return Ok(()) };
        for container in self.0.labelled(LABEL, network).await.map_err(failed)? {
            self.0.remove(&container).await.map_err(failed)?;
        }
        self.0.remove_network(known["Id"].as_str().unwrap_or(network)).await.map_err(failed)
    }
}
