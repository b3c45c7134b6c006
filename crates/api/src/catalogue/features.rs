//! Names of Features that change what the provisioning flows do.

words! {
    /// This whole machinery; on by default.
    PROVISIONING_V2 = "provisioningv2";
    /// RKE2 and K3s clusters; on by default, and locked while there is one.
    RKE2 = "rke2";
    /// Secrets reach a cluster before its network does; off by default.
    PRE_BOOTSTRAP = "provisioningprebootstrap";
    /// Snapshots of downstream clusters show upstream; on by default.
    SNAPSHOT_BACK_POPULATION = "v2prov-etcd-snapshot-backpopulate";
    /// Fleet workspaces follow clusters; on by default.
    FLEET_WORKSPACE_BACK_POPULATION = "provisioningv2-fleet-workspace-back-population";
    /// The autoscaler may decide the size of pools.
    CLUSTER_AUTOSCALING = "cluster-autoscaling";
    /// Management of many clusters; without it there are no node drivers.
    MULTI_CLUSTER_MANAGEMENT = "multi-cluster-management";
    /// Fleet.
    FLEET = "fleet";
    /// Tokens are stored as hashes.
    TOKEN_HASHING = "token-hashing";
    /// Priority and disruption of agents can be changed.
    AGENT_SCHEDULING_CUSTOMIZATION = "cluster-agent-scheduling-customization";
    /// Registration tokens have a lifetime.
    REGISTRATION_TOKEN_ROTATION = "crt-token-ttl-rotation";
    /// Operations work on imported clusters.
    IMPORTED_DAY2_OPERATIONS = "imported-day-2-ops";
    /// The Harvester driver.
    HARVESTER = "harvester";
}
