//! Reasons of conditions. A word that several conditions use stands here once.

words! {
    // Common.
    /// Something failed; the message says what.
    ERROR = "Error";
    /// Something is waited for; the message says what.
    WAITING = "Waiting";
    /// Ready.
    READY = "Ready";
    /// Not ready.
    NOT_READY = "NotReady";
    /// Whether ready is not known.
    READY_UNKNOWN = "ReadyUnknown";
    /// Available.
    AVAILABLE = "Available";
    /// Not available.
    NOT_AVAILABLE = "NotAvailable";
    /// Whether available is not known.
    AVAILABLE_UNKNOWN = "AvailableUnknown";
    /// As the spec says.
    UP_TO_DATE = "UpToDate";
    /// Not as the spec says.
    NOT_UP_TO_DATE = "NotUpToDate";
    /// Whether as the spec says is not known.
    UP_TO_DATE_UNKNOWN = "UpToDateUnknown";
    /// Paused.
    PAUSED = "Paused";
    /// Not paused.
    NOT_PAUSED = "NotPaused";
    /// The deletion has begun.
    DELETING = "Deleting";
    /// Not being deleted.
    NOT_DELETING = "NotDeleting";
    /// Gone.
    DELETED = "Deleted";
    /// Everything that had to go first is gone.
    DELETION_COMPLETED = "DeletionCompleted";
    /// The deletion fails.
    DELETION_FAILED = "DeletionFailed";
    /// Something failed that should not.
    INTERNAL_ERROR = "InternalError";
    /// The one who should say so has not.
    NOT_YET_REPORTED = "NotYetReported";
    /// The one who said so gave no reason.
    NO_REASON_REPORTED = "NoReasonReported";
    /// The one who said so said it wrongly.
    INVALID_CONDITION_REPORTED = "InvalidConditionReported";
    /// A referred object is not there.
    OBJECT_DOES_NOT_EXIST = "ObjectDoesNotExist";
    /// A referred object was there and is gone.
    OBJECT_DELETED = "ObjectDeleted";
    /// There are no machines.
    NO_REPLICAS = "NoReplicas";

    // Rancher: clusters and machines.
    /// The cluster's agent is not connected.
    DISCONNECTED = "Disconnected";
    /// The machine has what the planner wants.
    RECONCILED = "Reconciled";
    /// The plan is applied.
    PLAN_APPLIED = "PlanApplied";
    /// The server could not be made.
    CREATE_ERROR = "CreateError";
    /// The server could not be deleted.
    DELETE_ERROR = "DeleteError";

    // Rancher: operations.
    /// There is no such cluster.
    CLUSTER_NOT_FOUND = "ClusterNotFound";
    /// Somebody else took the lock.
    BEACON_LOST = "BeaconLost";
    /// The status names a step that there is not.
    UNKNOWN_STEP = "UnknownStep";
    /// The status names a phase that there is not.
    UNKNOWN_PHASE = "UnknownPhase";
    /// Machines have not registered.
    WAITING_FOR_REGISTRATION = "WaitingForRegistration";
    /// Somebody else has the lock.
    WAITING_FOR_BEACON = "WaitingForBeacon";
    /// Nodes are applying plans.
    WAITING_FOR_PLAN_APPLIED = "WaitingForPlanApplied";
    /// A hook holds the operation.
    WAITING_FOR_DELEGATE = "WaitingForDelegate";
    /// A node could not apply its plan.
    PLAN_FAILED = "PlanFailed";
    /// Done.
    FINISHED = "Finished";
    /// Nothing failed.
    NOT_FAILED = "NotFailed";
    /// Not done well.
    NOT_SUCCESSFUL = "NotSuccessful";
    /// Under way.
    IN_PROGRESS = "InProgress";
    /// No node can lead.
    WAITING_FOR_SUITABLE_LEADER = "WaitingForSuitableLeader";
    /// The leader is rotating keys.
    WAITING_FOR_ENCRYPTION_KEY_ROTATION = "WaitingForEncryptionKeyRotation";
    /// A check before the work failed.
    PREFLIGHT_CHECK_FAILED = "PreflightCheckFailed";

    // Cluster API: Cluster.
    /// The downstream API answers.
    PROBE_SUCCEEDED = "ProbeSucceeded";
    /// The downstream API does not answer.
    PROBE_FAILED = "ProbeFailed";
    /// The control plane has answered once.
    INITIALIZED = "Initialized";
    /// The control plane has never answered.
    NOT_INITIALIZED = "NotInitialized";
    /// There are no workers.
    NO_WORKERS = "NoWorkers";
    /// Machines are being replaced.
    ROLLING_OUT = "RollingOut";
    /// No machine is being replaced.
    NOT_ROLLING_OUT = "NotRollingOut";
    /// Whether machines are being replaced is not known.
    ROLLING_OUT_UNKNOWN = "RollingOutUnknown";
    /// Machines are being added.
    SCALING_UP = "ScalingUp";
    /// No machine is being added.
    NOT_SCALING_UP = "NotScalingUp";
    /// Whether machines are being added is not known.
    SCALING_UP_UNKNOWN = "ScalingUpUnknown";
    /// Machines are being removed.
    SCALING_DOWN = "ScalingDown";
    /// No machine is being removed.
    NOT_SCALING_DOWN = "NotScalingDown";
    /// Whether machines are being removed is not known.
    SCALING_DOWN_UNKNOWN = "ScalingDownUnknown";
    /// Unhealthy machines are being replaced.
    REMEDIATING = "Remediating";
    /// No machine is being replaced for its health.
    NOT_REMEDIATING = "NotRemediating";
    /// A runtime hook holds the deletion.
    WAITING_FOR_BEFORE_DELETE_HOOK = "WaitingForBeforeDeleteHook";
    /// Workers go first.
    WAITING_FOR_WORKERS_DELETION = "WaitingForWorkersDeletion";
    /// The control plane goes first.
    WAITING_FOR_CONTROL_PLANE_DELETION = "WaitingForControlPlaneDeletion";
    /// The infrastructure goes first.
    WAITING_FOR_INFRASTRUCTURE_DELETION = "WaitingForInfrastructureDeletion";

    // Cluster API: topology.
    /// The topology is in place.
    RECONCILE_SUCCEEDED = "ReconcileSucceeded";
    /// The topology could not be put in place.
    RECONCILE_FAILED = "ReconcileFailed";
    /// The cluster is being made.
    CLUSTER_CREATING = "ClusterCreating";
    /// The control plane is upgraded later.
    CONTROL_PLANE_UPGRADE_PENDING = "ControlPlaneUpgradePending";
    /// MachineDeployments are made later.
    MACHINE_DEPLOYMENTS_CREATE_PENDING = "MachineDeploymentsCreatePending";
    /// MachineDeployments are upgraded later.
    MACHINE_DEPLOYMENTS_UPGRADE_PENDING = "MachineDeploymentsUpgradePending";
    /// MachineDeployments are upgraded when told.
    MACHINE_DEPLOYMENTS_UPGRADE_DEFERRED = "MachineDeploymentsUpgradeDeferred";
    /// MachinePools are made later.
    MACHINE_POOLS_CREATE_PENDING = "MachinePoolsCreatePending";
    /// MachinePools are upgraded later.
    MACHINE_POOLS_UPGRADE_PENDING = "MachinePoolsUpgradePending";
    /// MachinePools are upgraded when told.
    MACHINE_POOLS_UPGRADE_DEFERRED = "MachinePoolsUpgradeDeferred";
    /// A runtime hook holds the change.
    LIFECYCLE_HOOK_BLOCKING = "LifecycleHookBlocking";
    /// The cluster is being upgraded.
    CLUSTER_UPGRADING = "ClusterUpgrading";
    /// The ClusterClass is not in place.
    CLUSTER_CLASS_NOT_RECONCILED = "ClusterClassNotReconciled";
    /// v1beta1: the topology could not be put in place.
    TOPOLOGY_RECONCILE_FAILED = "TopologyReconcileFailed";

    // Cluster API: MachineDeployment, MachineSet.
    /// The spec does not say how many yet.
    WAITING_FOR_REPLICAS_SET = "WaitingForReplicasSet";
    /// Nobody has counted yet.
    WAITING_FOR_AVAILABLE_REPLICAS_SET = "WaitingForAvailableReplicasSet";
    /// The machine is being replaced.
    MACHINE_DELETING = "MachineDeleting";
    /// Too many are being replaced already.
    REMEDIATION_DEFERRED = "RemediationDeferred";
    /// The machine is of an old revision.
    CANNOT_BE_REMEDIATED = "CannotBeRemediated";

    // Cluster API: Machine.
    /// The user brought the bootstrap data.
    DATA_SECRET_PROVIDED = "DataSecretProvided";
    /// The node could not be looked at.
    INSPECTION_FAILED = "InspectionFailed";
    /// The cluster could not be reached.
    CONNECTION_DOWN = "ConnectionDown";
    /// The node is ready.
    NODE_READY = "NodeReady";
    /// The node is not ready.
    NODE_NOT_READY = "NodeNotReady";
    /// Whether the node is ready is not known.
    NODE_READY_UNKNOWN = "NodeReadyUnknown";
    /// The node is healthy.
    NODE_HEALTHY = "NodeHealthy";
    /// The node is not healthy.
    NODE_NOT_HEALTHY = "NodeNotHealthy";
    /// Whether the node is healthy is not known.
    NODE_HEALTHY_UNKNOWN = "NodeHealthyUnknown";
    /// The node was there and is gone.
    NODE_DELETED = "NodeDeleted";
    /// There is no node.
    NODE_DOES_NOT_EXIST = "NodeDoesNotExist";
    /// The machine changes.
    UPDATING = "Updating";
    /// The machine does not change.
    NOT_UPDATING = "NotUpdating";
    /// The machine changes in place.
    IN_PLACE_UPDATING = "InPlaceUpdating";
    /// The change in place failed.
    IN_PLACE_UPDATE_FAILED = "InPlaceUpdateFailed";
    /// Ready, but not for long enough.
    WAITING_FOR_MIN_READY_SECONDS = "WaitingForMinReadySeconds";
    /// A hook holds the drain.
    WAITING_FOR_PRE_DRAIN_HOOK = "WaitingForPreDrainHook";
    /// The node is being drained.
    DRAINING_NODE = "DrainingNode";
    /// Volumes are still attached.
    WAITING_FOR_VOLUME_DETACH = "WaitingForVolumeDetach";
    /// A hook holds the deletion.
    WAITING_FOR_PRE_TERMINATE_HOOK = "WaitingForPreTerminateHook";
    /// The bootstrap object goes first.
    WAITING_FOR_BOOTSTRAP_DELETION = "WaitingForBootstrapDeletion";
    /// The node is being deleted.
    DELETING_NODE = "DeletingNode";

    // Cluster API: MachineHealthCheck.
    /// A user says that the machine is unhealthy.
    HAS_REMEDIATE_ANNOTATION = "HasRemediateAnnotation";
    /// A condition of the machine is bad for too long.
    UNHEALTHY_MACHINE = "UnhealthyMachine";
    /// A condition of the node is bad for too long.
    UNHEALTHY_NODE = "UnhealthyNode";
    /// The machine took too long to become a node.
    NODE_STARTUP_TIMEOUT = "NodeStartupTimeout";
    /// The owner has not acted.
    WAITING_FOR_REMEDIATION = "WaitingForRemediation";
    /// The template of external repairs is not there.
    REMEDIATION_TEMPLATE_NOT_FOUND = "RemediationTemplateNotFound";
    /// The request of an external repair could not be made.
    REMEDIATION_REQUEST_CREATION_FAILED = "RemediationRequestCreationFailed";
    /// More machines are unhealthy than may be replaced.
    TOO_MANY_UNHEALTHY = "TooManyUnhealthy";

    // Cluster API v1beta1.
    /// The infrastructure is not there.
    WAITING_FOR_INFRASTRUCTURE = "WaitingForInfrastructure";
    /// The control plane is not ready.
    WAITING_FOR_CONTROL_PLANE = "WaitingForControlPlane";
    /// The control plane has never answered.
    WAITING_FOR_CONTROL_PLANE_PROVIDER_INITIALIZED = "WaitingForControlPlaneProviderInitialized";
    /// No control-plane machine has a node.
    MISSING_NODE_REF = "MissingNodeRef";
    /// The bootstrap data is not there.
    WAITING_FOR_DATA_SECRET = "WaitingForDataSecret";
    /// The machine has no provider id.
    WAITING_FOR_NODE_REF = "WaitingForNodeRef";
    /// The node has not joined.
    NODE_PROVISIONING = "NodeProvisioning";
    /// The node is gone.
    NODE_NOT_FOUND = "NodeNotFound";
    /// The node is not healthy.
    NODE_CONDITIONS_FAILED = "NodeConditionsFailed";
    /// The node could not be looked at.
    NODE_INSPECTION_FAILED = "NodeInspectionFailed";
    /// The node is being drained.
    DRAINING = "Draining";
    /// The drain fails.
    DRAINING_FAILED = "DrainingFailed";
    /// A hook holds the deletion.
    WAITING_EXTERNAL_HOOK = "WaitingExternalHook";
    /// A user says that the machine is unhealthy.
    HAS_REMEDIATE_MACHINE_ANNOTATION = "HasRemediateMachineAnnotation";
    /// The repair failed.
    REMEDIATION_FAILED = "RemediationFailed";
    /// The repair is under way.
    REMEDIATION_IN_PROGRESS = "RemediationInProgress";
    /// The bootstrap object could not be made.
    BOOTSTRAP_TEMPLATE_CLONING_FAILED = "BootstrapTemplateCloningFailed";
    /// The infrastructure object could not be made.
    INFRASTRUCTURE_TEMPLATE_CLONING_FAILED = "InfrastructureTemplateCloningFailed";
    /// The machine could not be made.
    MACHINE_CREATION_FAILED = "MachineCreationFailed";
    /// Too few machines are available.
    WAITING_FOR_AVAILABLE_MACHINES = "WaitingForAvailableMachines";
    /// There is no MachineSet.
    WAITING_FOR_MACHINE_SET = "WaitingForMachineSet";
    /// The template of external repairs is not there.
    EXTERNAL_REMEDIATION_TEMPLATE_NOT_FOUND = "ExternalRemediationTemplateNotFound";
    /// The request of an external repair could not be made.
    EXTERNAL_REMEDIATION_REQUEST_CREATION_FAILED = "ExternalRemediationRequestCreationFailed";
    /// Failure reason: the infrastructure is gone for good.
    INVALID_CONFIGURATION = "InvalidConfiguration";
}
