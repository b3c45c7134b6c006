//! Types of conditions. A word that several kinds use stands here once.

words! {
    // Common.
    /// The object does what it is for.
    READY = "Ready";
    /// The object has what it needs, for as long as it needs.
    AVAILABLE = "Available";
    /// Nothing is done to the object.
    PAUSED = "Paused";
    /// The object is going.
    DELETING = "Deleting";

    // Rancher: provisioning and management clusters, control planes.
    /// The management cluster is made.
    CREATED = "Created";
    /// The Cluster API objects are made.
    RKE_CLUSTER = "RKECluster";
    /// The last change has reached every node.
    UPDATED = "Updated";
    /// The cluster has what it takes to start.
    PROVISIONED = "Provisioned";
    /// Something is being done.
    RECONCILING = "Reconciling";
    /// Nothing goes on any more.
    STALLED = "Stalled";
    /// Something is waited for.
    WAITING = "Waiting";
    /// Nothing has begun, of clusters; or an operation has not begun.
    PENDING = "Pending";
    /// Everything of the cluster is gone.
    REMOVED = "Removed";
    /// The autoscaler runs.
    CLUSTER_AUTOSCALER_DEPLOYMENT_READY = "ClusterAutoscalerDeploymentReady";
    /// Every node has what the spec says.
    RECONCILED = "Reconciled";
    /// No disturbance is under way.
    STABLE = "Stable";
    /// A first node has started the cluster.
    BOOTSTRAPPED = "Bootstrapped";
    /// The upgrade controller runs in the cluster.
    SYSTEM_UPGRADE_CONTROLLER_READY = "SystemUpgradeControllerReady";
    /// The cluster's agent is connected.
    CONNECTED = "Connected";
    /// The cluster's agent is deployed.
    AGENT_DEPLOYED = "AgentDeployed";
    /// What must be in the cluster before its network is.
    PRE_BOOTSTRAPPED = "PreBootstrapped";
    /// The cluster's secrets are where they belong.
    SECRETS_MIGRATED = "SecretsMigrated";
    /// The cluster's agent has an account.
    SERVICE_ACCOUNT_MIGRATED = "ServiceAccountMigrated";

    // Rancher: machines.
    /// The Job that makes the server.
    CREATE_JOB = "CreateJob";
    /// The Job that deletes the server.
    DELETE_JOB = "DeleteJob";
    /// The node agent has applied the plan.
    PLAN_APPLIED = "PlanApplied";

    // Rancher: operations.
    /// The operation runs.
    IN_PROGRESS = "InProgress";
    /// The operation ended well.
    SUCCEEDED = "Succeeded";
    /// The operation ended badly.
    FAILED = "Failed";
    /// The operation was called off.
    CANCELED = "Canceled";

    // Rancher: node drivers.
    /// The driver's program is there.
    DOWNLOADED = "Downloaded";
    /// The driver's program is in place.
    INSTALLED = "Installed";
    /// The driver is in use.
    ACTIVE = "Active";
    /// The driver is out of use.
    INACTIVE = "Inactive";

    // Cluster API: Cluster.
    /// The downstream API answers.
    REMOTE_CONNECTION_PROBE = "RemoteConnectionProbe";
    /// The infrastructure is there.
    INFRASTRUCTURE_READY = "InfrastructureReady";
    /// The control plane answers.
    CONTROL_PLANE_AVAILABLE = "ControlPlaneAvailable";
    /// The control plane has answered once.
    CONTROL_PLANE_INITIALIZED = "ControlPlaneInitialized";
    /// Workers are available.
    WORKERS_AVAILABLE = "WorkersAvailable";
    /// Control-plane machines are ready.
    CONTROL_PLANE_MACHINES_READY = "ControlPlaneMachinesReady";
    /// Worker machines are ready.
    WORKER_MACHINES_READY = "WorkerMachinesReady";
    /// Control-plane machines are as the spec says.
    CONTROL_PLANE_MACHINES_UP_TO_DATE = "ControlPlaneMachinesUpToDate";
    /// Worker machines are as the spec says.
    WORKER_MACHINES_UP_TO_DATE = "WorkerMachinesUpToDate";
    /// Machines are being replaced.
    ROLLING_OUT = "RollingOut";
    /// Machines are being added.
    SCALING_UP = "ScalingUp";
    /// Machines are being removed.
    SCALING_DOWN = "ScalingDown";
    /// Unhealthy machines are being replaced.
    REMEDIATING = "Remediating";
    /// The topology is in place.
    TOPOLOGY_RECONCILED = "TopologyReconciled";

    // Cluster API: MachineDeployment, MachineSet.
    /// Machines are ready.
    MACHINES_READY = "MachinesReady";
    /// Machines are as the spec says.
    MACHINES_UP_TO_DATE = "MachinesUpToDate";

    // Cluster API: Machine.
    /// The bootstrap data is there.
    BOOTSTRAP_CONFIG_READY = "BootstrapConfigReady";
    /// The node is ready.
    NODE_READY = "NodeReady";
    /// The node is ready and under no pressure.
    NODE_HEALTHY = "NodeHealthy";
    /// The machine is as the spec says.
    UP_TO_DATE = "UpToDate";
    /// The machine changes in place.
    UPDATING = "Updating";
    /// Health checks find nothing wrong.
    HEALTH_CHECK_SUCCEEDED = "HealthCheckSucceeded";
    /// The owner has replaced the machine.
    OWNER_REMEDIATED = "OwnerRemediated";
    /// Somebody else has repaired the machine.
    EXTERNALLY_REMEDIATED = "ExternallyRemediated";

    // Cluster API: MachineHealthCheck.
    /// Few enough machines are unhealthy.
    REMEDIATION_ALLOWED = "RemediationAllowed";

    // Cluster API v1beta1.
    /// Cluster: the control plane is ready.
    CONTROL_PLANE_READY = "ControlPlaneReady";
    /// Machine: the bootstrap data is there.
    BOOTSTRAP_READY = "BootstrapReady";
    /// Machine: the node is drained.
    DRAINING_SUCCEEDED = "DrainingSucceeded";
    /// Machine: hooks before the drain are gone.
    PRE_DRAIN_DELETE_HOOK_SUCCEEDED = "PreDrainDeleteHookSucceeded";
    /// Machine: hooks before the deletion are gone.
    PRE_TERMINATE_DELETE_HOOK_SUCCEEDED = "PreTerminateDeleteHookSucceeded";
    /// Machine: volumes are detached.
    VOLUME_DETACH_SUCCEEDED = "VolumeDetachSucceeded";
    /// MachineSet: machines are made.
    MACHINES_CREATED = "MachinesCreated";
    /// MachineSet: the number is right.
    RESIZED = "Resized";
    /// MachineDeployment: its newest set is ready.
    MACHINE_SET_READY = "MachineSetReady";
    /// MachineHealthCheck: the template of external repairs is there.
    EXTERNAL_REMEDIATION_TEMPLATE_AVAILABLE = "ExternalRemediationTemplateAvailable";
    /// MachineHealthCheck: the request of an external repair is made.
    EXTERNAL_REMEDIATION_REQUEST_AVAILABLE = "ExternalRemediationRequestAvailable";
}
