//! Namespaces.

words! {
    /// Provisioning clusters, unless users choose otherwise.
    FLEET_DEFAULT = "fleet-default";
    /// The provisioning cluster of the server's own cluster.
    FLEET_LOCAL = "fleet-local";
    /// The server, and downstream the agents.
    CATTLE_SYSTEM = "cattle-system";
    /// Cloud credentials of old.
    CATTLE_GLOBAL_DATA = "cattle-global-data";
    /// Kubernetes' own.
    KUBE_SYSTEM = "kube-system";
}
