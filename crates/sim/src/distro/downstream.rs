//! A simulated cluster, from outside.

use std::sync::Arc;

use super::cluster::Cluster;

/// A simulated cluster, for tests and tools. Products reach it through its tunnel.
#[derive(Clone)]
pub struct Downstream(pub(crate) Arc<Cluster>);

impl std::fmt::Debug for Downstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Downstream").field(&self.0.id).finish()
    }
}

impl Downstream {
    /// What the world calls it: the distribution and the machine that began it.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// A client with all rights, which works whether or not the cluster has a quorum: it reads the store.
    pub fn client(&self) -> kube::Client {
        self.0.client("simulation")
    }

    /// Whether its API answers anybody.
    pub fn serves(&self) -> bool {
        self.0.endpoint(None).is_some()
    }

    /// The machines that are members of its etcd, whether or not they run.
    pub fn members(&self) -> Vec<crate::MachineName> {
        self.0.members().iter().map(|(machine, _)| machine.clone()).collect()
    }
}
