//! Finalizers.

words! {
    /// Provisioning cluster: its control plane goes first.
    RKE_CLUSTER_REMOVE = "wrangler.cattle.io/rke-cluster-remove";
    /// Provisioning cluster: management and Cluster API objects go first.
    PROVISIONING_CLUSTER_REMOVE = "wrangler.cattle.io/provisioning-cluster-remove";
    /// Provisioning cluster: every object that is indexed by cluster goes first.
    CAPI_RESOURCES_CLEANUP = "auth.cattle.io/capi-resources-cleanup";
    /// Management cluster: its provisioning cluster goes first.
    MGMT_CLUSTER_REMOVE = "wrangler.cattle.io/mgmt-cluster-remove";
    /// Control plane: its machines go first.
    RKE_CONTROL_PLANE_REMOVE = "wrangler.cattle.io/rke-control-plane-remove";
    /// Bootstrap: the etcd member goes first.
    RKE_BOOTSTRAP_ETCD_REMOVAL = "wrangler.cattle.io/rke-bootstrap-etcd-removal";
    /// Infrastructure machine: its server goes first.
    MACHINE_PROVISION_REMOVE = "wrangler.cattle.io/machine-provision-remove";
    /// Custom machine; nothing is waited for.
    UNMANAGED_MACHINE = "wrangler.cattle.io/unmanaged-machine";

    /// Cluster API's Cluster.
    CLUSTER = "cluster.cluster.x-k8s.io";
    /// Cluster API's Machine.
    MACHINE = "machine.cluster.x-k8s.io";
    /// Cluster API's MachineSet.
    MACHINE_SET = "cluster.x-k8s.io/machineset";
    /// Cluster API's MachineDeployment.
    MACHINE_DEPLOYMENT = "cluster.x-k8s.io/machinedeployment";
    /// MachineSet of a cluster with a topology.
    MACHINE_SET_TOPOLOGY = "machineset.topology.cluster.x-k8s.io";
    /// MachineDeployment of a cluster with a topology.
    MACHINE_DEPLOYMENT_TOPOLOGY = "machinedeployment.topology.cluster.x-k8s.io";
}
