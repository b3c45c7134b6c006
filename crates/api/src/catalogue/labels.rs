//! Labels.

words! {
    // Rancher: what a machine is.
    /// Name of the provisioning cluster, on machines, plan Secrets, templates and snapshots.
    CLUSTER_NAME = "rke.cattle.io/cluster-name";
    /// `true` on what runs etcd.
    ETCD_ROLE = "rke.cattle.io/etcd-role";
    /// `true` on what runs the control plane.
    CONTROL_PLANE_ROLE = "rke.cattle.io/control-plane-role";
    /// `true` on what takes pods.
    WORKER_ROLE = "rke.cattle.io/worker-role";
    /// `linux` or `windows`.
    OS = "cattle.io/os";
    /// Name of the machine's pool, as the user wrote it.
    MACHINE_POOL_NAME = "rke.cattle.io/rke-machine-pool-name";
    /// Hash of a machine template's content, 8 hex digits.
    MACHINE_TEMPLATE_HASH = "rke.cattle.io/machine-template-hash";
    /// `true` on the plan Secret of the node that started the cluster.
    INIT_NODE = "rke.cattle.io/init-node";
    /// On a control plane: the machine id that must start the cluster.
    INIT_NODE_MACHINE_ID = "rke.cattle.io/init-node-machine-id";
    /// The id that the node agent made for itself.
    MACHINE_ID = "rke.cattle.io/machine-id";
    /// Name of the Machine, on what belongs to it.
    MACHINE_NAME = "rke.cattle.io/machine-name";
    /// Namespace of the Machine, on what belongs to it.
    MACHINE_NAMESPACE = "rke.cattle.io/machine-namespace";
    /// On a downstream Node: UID of its Machine.
    MACHINE_UID = "rke.cattle.io/machine";
    /// Name that the node shall have.
    NODE_NAME = "rke.cattle.io/node-name";
    /// Name of the RKEBootstrap, on its ServiceAccounts.
    BOOTSTRAP_NAME = "rke.cattle.io/rkebootstrap-name";
    /// `bootstrap` or `plan`: what a ServiceAccount is for.
    SERVICE_ACCOUNT_ROLE = "rke.cattle.io/service-account-role";
    /// On the plan ServiceAccount: name of its Secret.
    PLAN_SECRET_NAME = "rke.cattle.io/plan-secret-name";
    /// Name of the Machine, on the infrastructure machine and its Jobs.
    CAPI_MACHINE_NAME = "rke.cattle.io/capi-machine-name";
    /// On a provisioning Job: group of the infrastructure machine.
    INFRA_MACHINE_GROUP = "rke.cattle.io/infra-machine-group";
    /// On a provisioning Job: version of the infrastructure machine.
    INFRA_MACHINE_VERSION = "rke.cattle.io/infra-machine-version";
    /// On a provisioning Job: kind of the infrastructure machine.
    INFRA_MACHINE_KIND = "rke.cattle.io/infra-machine-kind";
    /// On a provisioning Job: name of the infrastructure machine.
    INFRA_MACHINE_NAME = "rke.cattle.io/infra-machine-name";
    /// `true` on a Job that deletes a server.
    INFRA_REMOVE = "rke.cattle.io/infra-remove";

    // Rancher: lifecycle references, on plan Secrets and downstream Nodes.
    /// Group of the cluster object that a plan belongs to.
    PLAN_CLUSTER_GROUP = "plan.cattle.io/cluster-group";
    /// Kind of that cluster object.
    PLAN_CLUSTER_KIND = "plan.cattle.io/cluster-kind";
    /// Name of that cluster object.
    PLAN_CLUSTER_NAME = "plan.cattle.io/cluster-name";
    /// Group of the machine object that a plan belongs to.
    PLAN_MACHINE_GROUP = "plan.cattle.io/machine-group";
    /// Kind of that machine object.
    PLAN_MACHINE_KIND = "plan.cattle.io/machine-kind";
    /// Name of that machine object.
    PLAN_MACHINE_NAME = "plan.cattle.io/machine-name";

    // Rancher: hooks of operations. The value is the delegate that the operation waits for.
    /// Before an operation begins.
    HOOK_PHASE_PENDING_PREFIX = "pending.phase.hook.operation.cattle.io/";
    /// When an operation begins.
    HOOK_PHASE_IN_PROGRESS_PREFIX = "in-progress.phase.hook.operation.cattle.io/";
    /// When an operation is called off.
    HOOK_PHASE_CANCELED_PREFIX = "canceled.phase.hook.operation.cattle.io/";
    /// When an operation ends badly.
    HOOK_PHASE_FAILED_PREFIX = "failed.phase.hook.operation.cattle.io/";
    /// When an operation ends well.
    HOOK_PHASE_SUCCEEDED_PREFIX = "succeeded.phase.hook.operation.cattle.io/";
    /// Before the checks of a snapshot or restore.
    HOOK_STEP_PREFLIGHT_PREFIX = "preflight.step.hook.operation.cattle.io/";
    /// Before a snapshot is saved.
    HOOK_STEP_SAVE_PREFIX = "save.step.hook.operation.cattle.io/";
    /// Before nodes return to their usual plans, or servers restart.
    HOOK_STEP_RESTART_PREFIX = "restart.step.hook.operation.cattle.io/";
    /// Before the distribution stops.
    HOOK_STEP_SHUTDOWN_PREFIX = "shutdown.step.hook.operation.cattle.io/";
    /// Before a node goes back to a snapshot.
    HOOK_STEP_RESTORE_PREFIX = "restore.step.hook.operation.cattle.io/";
    /// Before pods with old state are deleted.
    HOOK_STEP_POST_RESTORE_POD_CLEANUP_PREFIX = "post-restore-pod-cleanup.step.hook.operation.cattle.io/";
    /// Before the other nodes join again.
    HOOK_STEP_INITIAL_RESTART_CLUSTER_PREFIX = "initial-restart-cluster.step.hook.operation.cattle.io/";
    /// Before nodes without machines are deleted.
    HOOK_STEP_POST_RESTORE_NODE_CLEANUP_PREFIX = "post-restore-node-cleanup.step.hook.operation.cattle.io/";
    /// Before every node returns to its usual plan.
    HOOK_STEP_RESTART_CLUSTER_PREFIX = "restart-cluster.step.hook.operation.cattle.io/";
    /// Before keys rotate.
    HOOK_STEP_ROTATE_PREFIX = "rotate.step.hook.operation.cattle.io/";

    // Rancher: the rest.
    /// `true` on what Rancher's backup includes.
    BACKUP = "resources.cattle.io/backup";
    /// `true` on a definition whose objects a cluster's deletion waits for.
    CLUSTER_INDEXED = "auth.cattle.io/cluster-indexed";
    /// Of Rancher's apply: `false` is never pruned.
    OBJECTSET_PRUNE = "objectset.rio.cattle.io/prune";
    /// Of Rancher's apply: hash of the owner.
    OBJECTSET_HASH = "objectset.rio.cattle.io/hash";
    /// On the token Secret of a ServiceAccount: the account's name.
    SERVICE_ACCOUNT_NAME = "cattle.io/service-account.name";
    /// On a DynamicSchema: name of the node driver.
    NODE_DRIVER_NAME = "io.cattle.node_driver.name";
    /// On a Fleet cluster: name of the management cluster.
    MANAGEMENT_CLUSTER_NAME = "management.cattle.io/cluster-name";
    /// On a Fleet cluster: name that users see.
    MANAGEMENT_CLUSTER_DISPLAY_NAME = "management.cattle.io/cluster-display-name";
    /// On a Token: name of the user.
    TOKEN_USER_ID = "authn.management.cattle.io/token-userId";
    /// On a Token: what it is for.
    TOKEN_KIND = "authn.management.cattle.io/kind";
    /// On a management cluster: the Cluster API cluster it was imported from.
    CAPI_CLUSTER_OWNER = "cluster-api.cattle.io/capi-cluster-owner";
    /// Namespace of that cluster.
    CAPI_CLUSTER_OWNER_NAMESPACE = "cluster-api.cattle.io/capi-cluster-owner-ns";

    // Cluster API.
    /// On a provider's definition: versions that fulfil the contract v1beta1.
    CONTRACT_V1BETA1 = "cluster.x-k8s.io/v1beta1";
    /// On a provider's definition: versions that fulfil the contract v1beta2.
    CONTRACT_V1BETA2 = "cluster.x-k8s.io/v1beta2";
    /// On a definition: `clusterctl move` takes its objects along. The value is empty.
    CLUSTERCTL = "clusterctl.cluster.x-k8s.io";
    /// On a definition: which provider it belongs to, such as `infrastructure-rke`.
    PROVIDER = "cluster.x-k8s.io/provider";
    /// Name of the cluster, on everything of it.
    CAPI_CLUSTER_NAME = "cluster.x-k8s.io/cluster-name";
    /// On control-plane Machines; the value is empty.
    CAPI_CONTROL_PLANE = "cluster.x-k8s.io/control-plane";
    /// On Machines that a control-plane object made: its name.
    CAPI_CONTROL_PLANE_NAME = "cluster.x-k8s.io/control-plane-name";
    /// Name of the MachineSet, hashed if it is no label value.
    CAPI_SET_NAME = "cluster.x-k8s.io/set-name";
    /// Name of the MachineDeployment, hashed if it is no label value.
    CAPI_DEPLOYMENT_NAME = "cluster.x-k8s.io/deployment-name";
    /// Name of the MachinePool, hashed if it is no label value.
    CAPI_POOL_NAME = "cluster.x-k8s.io/pool-name";
    /// Tells the MachineSets of a MachineDeployment apart.
    CAPI_MACHINE_TEMPLATE_HASH = "machine-template-hash";
    /// Which manager looks after an object.
    CAPI_WATCH_FILTER = "cluster.x-k8s.io/watch-filter";
    /// On Nodes that the infrastructure may take away.
    CAPI_INTERRUPTIBLE = "cluster.x-k8s.io/interruptible";
    /// On Pods: `skip` or `wait-completed`, how a drain treats them.
    CAPI_DRAIN = "cluster.x-k8s.io/drain";
}
