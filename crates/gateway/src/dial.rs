//! The way to clusters for our controllers: through their tunnel where they have one, else straight.

use std::time::Duration;

use kit::Key;
use kit::access::{Dial, DialError, Dialling, Direct};
use kube::config::Kubeconfig;

use crate::downstream::Downstreams;
use crate::route;

/// How long a tunnel is waited for before the wait is told. Whoever dials waits in a task of its own: a cluster is reached the moment
/// its agent dials in.
const PATIENCE: Duration = Duration::from_secs(600);

/// Dials clusters.
///
/// A kubeconfig whose server is our own proxy (`<url>/k8s/clusters/<id>`) means the tunnel of that cluster, which is then used in this
/// process, with the cluster's own account: our certificate, our port and the kubeconfig's token are not needed. Only a cluster's own id
/// counts: with another's in a kubeconfig nothing is reached, and nothing is learned of it. Every other kubeconfig means what it says.
#[derive(Clone, Debug)]
pub struct TunnelDial {
    downstreams: Downstreams,
}

impl TunnelDial {
    /// Through these tunnels.
    pub fn new(downstreams: Downstreams) -> Self {
        TunnelDial { downstreams }
    }
}

/// The cluster behind the current context's server, if that is a proxy of ours.
fn proxied(kubeconfig: &Kubeconfig) -> Option<String> {
    let current = kubeconfig.current_context.as_deref()?;
    let context = kubeconfig.contexts.iter().find(|one| one.name == current)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|one| one.name == context.cluster)?.cluster.as_ref()?;
    let url: http::Uri = cluster.server.as_deref()?.parse().ok()?;
    route::proxied_cluster(&url).map(str::to_owned)
}

impl Dial for TunnelDial {
    fn dial<'a>(&'a self, cluster: &'a Key, kubeconfig: Kubeconfig) -> Dialling<'a> {
        let Some(id) = proxied(&kubeconfig) else { return Direct.dial(cluster, kubeconfig) };
        Box::pin(async move {
            self.downstreams.lineage().wait_synced().await;
            if !self.downstreams.lineage().is_of(&id, cluster) {
                return Err(DialError::Kubeconfig(OTHERS.into()));
            }
            let failed = |why: String| DialError::Client(Box::new(kube::Error::Service(why.into())));
            let reached = tokio::time::timeout(PATIENCE, self.downstreams.wait_for(&id)).await;
            reached.map_err(|_| failed(not_connected(&id)))?;
            self.downstreams.client(&id).await.map_err(|error| failed(error.to_string()))
        })
    }

    fn awaits(&self, cluster: &Key, kubeconfig: &Kubeconfig) -> Option<String> {
        let id = proxied(kubeconfig).filter(|id| self.downstreams.lineage().is_of(id, cluster))?;
        (!self.downstreams.connected(&id)).then(|| not_connected(&id))
    }
}

/// Said of an id that is not the cluster's own, whether or not there is one.
const OTHERS: &str = "its server is the proxy of another cluster: give the address of the cluster's own API";

fn not_connected(id: &str) -> String {
    format!("the agent of cluster {id} is not connected")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_kubeconfig_of_ours_means_the_tunnel() {
        let config = |server: &str, current: &str| -> Kubeconfig {
            serde_json::from_value(json!({
                "clusters": [{"name": "cluster", "cluster": {"server": server}}],
                "users": [{"name": "user", "user": {"token": "t"}}],
                "contexts": [{"name": "default", "context": {"cluster": "cluster", "user": "user"}}],
                "current-context": current,
            }))
            .unwrap()
        };
        let ours = "https://herd.example.com/k8s/clusters/c-m-abcdefgh";
        assert_eq!(proxied(&config(ours, "default")).as_deref(), Some("c-m-abcdefgh"));
        assert_eq!(proxied(&config("https://10.0.0.1:6443", "default")), None);
        assert_eq!(proxied(&config(ours, "other")), None);
        assert_eq!(proxied(&Kubeconfig::default()), None);
    }
}
