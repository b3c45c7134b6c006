//! Annotations.

words! {
    // Rancher: nodes to be.
    /// JSON map of the node's labels.
    LABELS = "rke.cattle.io/labels";
    /// JSON list of the node's taints.
    TAINTS = "rke.cattle.io/taints";
    /// External addresses of a custom node, separated by commas.
    ADDRESS = "rke.cattle.io/address";
    /// Internal addresses of a custom node, separated by commas.
    INTERNAL_ADDRESS = "rke.cattle.io/internal-address";
    /// Longest host name, 10 to 63.
    HOSTNAME_LENGTH_LIMIT = "rke.cattle.io/hostname-length-limit";

    // Rancher: plan Secrets.
    /// URL at which other nodes join this one.
    JOIN_URL = "rke.cattle.io/join-url";
    /// URL at which this node joined.
    JOINED_TO = "rke.cattle.io/joined-to";
    /// The planner leaves the join URL alone.
    JOIN_URL_AUTOSET_DISABLED = "rke.cattle.io/join-url-autoset-disabled";
    /// When the planner last wrote the plan, RFC 3339.
    PLAN_LAST_UPDATED = "rke.cattle.io/plan-last-updated";
    /// When every probe of the plan was first healthy, RFC 3339.
    PLAN_PROBES_PASSED = "rke.cattle.io/plan-probes-passed";
    /// Drain asked for: the options, as JSON. The later ones repeat its value.
    DRAIN_OPTIONS = "rke.cattle.io/drain-options";
    /// Drain done.
    DRAIN_DONE = "rke.cattle.io/drain-done";
    /// Why the drain fails.
    DRAIN_ERROR = "rke.cattle.io/drain-error";
    /// Hooks before the drain may answer.
    PRE_DRAIN = "rke.cattle.io/pre-drain";
    /// Hooks after the drain may answer.
    POST_DRAIN = "rke.cattle.io/post-drain";
    /// The node shall take pods again.
    UNCORDON = "rke.cattle.io/uncordon";

    // Rancher: clusters.
    /// On a control plane: base64 of gzip of the JSON of the provisioning cluster's spec.
    CLUSTER_SPEC = "rke.cattle.io/cluster-spec";
    /// Go duration after which custom machines without a node are deleted.
    DELETE_MISSING_CUSTOM_MACHINES_AFTER = "rke.cattle.io/delete-missing-custom-machines-after";
    /// On a control plane: hash of the agent upgrade that is in place.
    APPLIED_SYSTEM_AGENT_UPGRADER_HASH = "rke.cattle.io/applied-system-agent-upgrader-hash";
    /// `true` on management clusters that a provisioning cluster stands behind.
    ADMINISTRATED = "provisioning.cattle.io/administrated";
    /// Name for the management cluster to be.
    MANAGEMENT_CLUSTER_NAME = "provisioning.cattle.io/management-cluster-name";
    /// Name that users see.
    MANAGEMENT_CLUSTER_DISPLAY_NAME = "provisioning.cattle.io/management-cluster-display-name";
    /// Fleet workspace instead of the cluster's namespace.
    FLEET_WORKSPACE_NAME = "provisioning.cattle.io/fleet-workspace-name";
    /// Another controller owns the management cluster.
    EXTERNALLY_MANAGED = "provisioning.cattle.io/externally-managed";
    /// Pools may lose fields of their driver.
    ALLOW_DYNAMIC_SCHEMA_DROP = "provisioning.cattle.io/allow-dynamic-schema-drop";
    /// `true` on a Cluster API cluster whose size the autoscaler decides.
    CLUSTER_AUTOSCALER_ENABLED = "provisioning.cattle.io/cluster-autoscaler-enabled";
    /// `true` while it does not.
    CLUSTER_AUTOSCALER_PAUSED = "provisioning.cattle.io/cluster-autoscaler-paused";
    /// `true` or `false`: RKE2 Prime images, whatever the setting says.
    RKE2_PRIME_ENABLED = "provisioning.cattle.io/rke2-prime-enabled";

    // Rancher: machines.
    /// `true` on an RKEBootstrap: its etcd member is not removed first.
    ETCD_FORCE_REMOVE = "rke.cattle.io/etcd-force-remove";
    /// `true` on an infrastructure machine: a failed deletion counts as done.
    FORCE_MACHINE_REMOVE = "provisioning.cattle.io/force-machine-remove";
    /// On a machine template: API version of the config it was made from.
    CLONED_FROM_GROUP_VERSION = "rke.cattle.io/cloned-from-group-version";
    /// On a machine template: kind of that config.
    CLONED_FROM_KIND = "rke.cattle.io/cloned-from-kind";
    /// On a machine template: name of that config.
    CLONED_FROM_NAME = "rke.cattle.io/cloned-from-name";
    /// On etcd Machines: their servers stay until the etcd member is removed.
    PRE_TERMINATE_BOOTSTRAP_CLEANUP =
        "pre-terminate.delete.hook.machine.cluster.x-k8s.io/rke-bootstrap-cleanup";
    /// Ours, on a Machine: the id that its rendered plan bears; written once.
    HERDSMAN_MACHINE_UID = "herdsman.io/machine-uid";
    /// Ours, on a management cluster and on its namespace: the provisioning cluster that they were made for, as `namespace/name/uid`.
    HERDSMAN_OWNER = "herdsman.io/owner";
    /// Ours, on a control plane: the number of the epoch in which plans are rendered.
    HERDSMAN_RENDERING_EPOCH = "herdsman.io/rendering-epoch";
    /// Ours, on a control plane: init node, join URLs and where machines joined are kept on its RKEBootstraps, and no longer taken
    /// from plan Secrets.
    HERDSMAN_MARKS = "herdsman.io/marks";
    /// Ours, `true` on a control plane: the newest epoch is adopted although nothing else changes.
    HERDSMAN_ADOPT_EPOCH = "herdsman.io/adopt-newest-epoch";
    /// Ours, `true` on a provisioning cluster that is being deleted: its servers and etcd members are given up.
    HERDSMAN_FORCE_REMOVE = "herdsman.io/force-remove";
    /// Ours, on an infrastructure machine: how often in a row its server could not be made, and the last Job that failed.
    HERDSMAN_CREATE_FAILURES = "herdsman.io/create-failures";

    // Rancher: downstream Nodes, for the distribution.
    /// RKE2: remove this node's etcd member.
    ETCD_REMOVE_RKE2 = "etcd.rke2.cattle.io/remove";
    /// RKE2: the member that was removed.
    ETCD_REMOVED_NODE_NAME_RKE2 = "etcd.rke2.cattle.io/removed-node-name";
    /// K3s: remove this node's etcd member.
    ETCD_REMOVE_K3S = "etcd.k3s.cattle.io/remove";
    /// K3s: the member that was removed.
    ETCD_REMOVED_NODE_NAME_K3S = "etcd.k3s.cattle.io/removed-node-name";

    // Rancher: Secrets and ConfigMaps.
    /// Names of the clusters that may take an object's content to their nodes, separated by commas.
    AUTHORIZED_FOR_CLUSTERS = "rke.cattle.io/object-authorized-for-clusters";
    /// Names of the clusters that may use a Secret as cloud-provider config.
    SECRET_AUTHORIZED_FOR_CLUSTER = "v2prov-secret-authorized-for-cluster";
    /// `true` on the token Secret of a bootstrap ServiceAccount.
    BOOTSTRAP_TOKEN = "rke.cattle.io/bootstrap-token";
    /// `true` once that token is no longer good.
    BOOTSTRAP_TOKEN_INVALIDATED = "rke.cattle.io/bootstrap-token-invalidated";
    /// When that token was last used, RFC 3339.
    LAST_ACCESS_TIMESTAMP = "rke.cattle.io/last-access-timestamp";
    /// Ours, on a host's request: why it is refused.
    HERDSMAN_REFUSED = "herdsman.io/refused";
    /// Ours, on the token Secret of a node agent: when it was first used, RFC 3339.
    HERDSMAN_TOKEN_USED = "herdsman.io/token-used";
    /// On a ServiceAccount: `namespace/name` of its token Secret.
    SERVICE_ACCOUNT_SECRET_REF = "rancher.io/service-account.secret-ref";
    /// The Secret is copied downstream.
    SYNC = "provisioning.cattle.io/sync";
    /// The Secret is copied downstream before the cluster has a network.
    SYNC_BOOTSTRAP = "provisioning.cattle.io/sync-bootstrap";
    /// Namespace of the copy.
    SYNC_TARGET_NAMESPACE = "provisioning.cattle.io/sync-target-namespace";
    /// Name of the copy.
    SYNC_TARGET_NAME = "provisioning.cattle.io/sync-target-name";
    /// When it was copied.
    SYNCED_AT = "provisioning.cattle.io/synced-at";

    // Rancher: snapshots.
    /// Name of the downstream snapshot object.
    SNAPSHOT_NAME = "etcdsnapshot.rke.io/snapshot-name";
    /// Name of the snapshot's file.
    SNAPSHOT_FILE_NAME = "etcdsnapshot.rke.io/snapshot-file-name";
    /// `s3` or `local`.
    SNAPSHOT_STORAGE = "etcdsnapshot.rke.io/storage";
    /// What can be restored, separated by commas.
    SNAPSHOT_RESTORE_MODE_OPTIONS = "etcdsnapshot.rke.io/restore-mode-options";

    // Rancher: node drivers and the rest.
    /// `schemaField:driverField` pairs, separated by commas: fields that the driver wants as files.
    FILE_TO_FIELD_ALIASES = "nodedriver.cattle.io/file-to-field-aliases";
    /// Name of the user who made an object.
    CREATOR_ID = "field.cattle.io/creatorId";
    /// The maker gets no rights by making.
    NO_CREATOR_RBAC = "field.cattle.io/no-creator-rbac";
    /// A sentence for the dashboard.
    DESCRIPTION = "field.cattle.io/description";
    /// `true` on a Token whose secret half is stored as a hash.
    TOKEN_HASHED = "authn.management.cattle.io/token-hashed";
    /// Of Rancher's apply: what was last applied.
    OBJECTSET_APPLIED = "objectset.rio.cattle.io/applied";
    /// Of Rancher's apply: which set an object belongs to.
    OBJECTSET_ID = "objectset.rio.cattle.io/id";
    /// Of Rancher's apply: kind of the owner.
    OBJECTSET_OWNER_GVK = "objectset.rio.cattle.io/owner-gvk";
    /// Of Rancher's apply: name of the owner.
    OBJECTSET_OWNER_NAME = "objectset.rio.cattle.io/owner-name";
    /// Of Rancher's apply: namespace of the owner.
    OBJECTSET_OWNER_NAMESPACE = "objectset.rio.cattle.io/owner-namespace";
    /// On an upgrade Plan: fields that count for its hash.
    UPGRADE_DIGEST = "upgrade.cattle.io/digest";
    /// On a Kubernetes token Secret: name of its ServiceAccount.
    KUBERNETES_SERVICE_ACCOUNT_NAME = "kubernetes.io/service-account.name";

    // Cluster API.
    /// Nothing is done to an object; the value does not matter.
    PAUSED = "cluster.x-k8s.io/paused";
    /// On an infrastructure cluster that somebody else looks after.
    MANAGED_BY = "cluster.x-k8s.io/managed-by";
    /// On a MachinePool whose size somebody else decides.
    REPLICAS_MANAGED_BY = "cluster.x-k8s.io/replicas-managed-by";
    /// The Machine goes first when a set shrinks.
    DELETE_MACHINE = "cluster.x-k8s.io/delete-machine";
    /// `true` on a MachineSet that makes no Machines.
    DISABLE_MACHINE_CREATE = "cluster.x-k8s.io/disable-machine-create";
    /// The Machine is unhealthy, whatever it looks like.
    REMEDIATE_MACHINE = "cluster.x-k8s.io/remediate-machine";
    /// Health checks leave the Machine alone.
    SKIP_REMEDIATION = "cluster.x-k8s.io/skip-remediation";
    /// Name of the template that an object was cloned from.
    CAPI_CLONED_FROM_NAME = "cluster.x-k8s.io/cloned-from-name";
    /// `Kind.group` of that template.
    CAPI_CLONED_FROM_GROUP_KIND = "cluster.x-k8s.io/cloned-from-groupkind";
    /// The Machine's node is not drained before it is deleted.
    EXCLUDE_NODE_DRAINING = "machine.cluster.x-k8s.io/exclude-node-draining";
    /// Nobody waits for the volumes of the Machine's node.
    EXCLUDE_WAIT_FOR_NODE_VOLUME_DETACH = "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach";
    /// The Machine's node is not drained while one of these is there.
    PRE_DRAIN_HOOK_PREFIX = "pre-drain.delete.hook.machine.cluster.x-k8s.io/";
    /// The Machine's server is not deleted while one of these is there.
    PRE_TERMINATE_HOOK_PREFIX = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/";
    /// When a machine's certificates end, RFC 3339.
    CERTIFICATES_EXPIRY = "machine.cluster.x-k8s.io/certificates-expiry";
    /// Checks that a MachineSet does not make, separated by commas.
    SKIP_PREFLIGHT_CHECKS = "machineset.cluster.x-k8s.io/skip-preflight-checks";
    /// Revision of a MachineDeployment or MachineSet.
    REVISION = "machinedeployment.clusters.x-k8s.io/revision";
    /// Machines that the MachineDeployment wants.
    DESIRED_REPLICAS = "machinedeployment.clusters.x-k8s.io/desired-replicas";
    /// Machines that it has at most during a roll-out.
    MAX_REPLICAS = "machinedeployment.clusters.x-k8s.io/max-replicas";
    /// Revisions that a MachineSet had before.
    REVISION_HISTORY = "machinedeployment.clusters.x-k8s.io/revision-history";
    /// Fewest machines for the autoscaler.
    AUTOSCALER_MIN_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
    /// Most machines for the autoscaler.
    AUTOSCALER_MAX_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
    /// On a Node: name of its cluster.
    NODE_CLUSTER_NAME = "cluster.x-k8s.io/cluster-name";
    /// On a Node: namespace of its cluster.
    NODE_CLUSTER_NAMESPACE = "cluster.x-k8s.io/cluster-namespace";
    /// On a Node: name of its Machine.
    NODE_MACHINE = "cluster.x-k8s.io/machine";
    /// On a Node: kind of what made its Machine.
    NODE_OWNER_KIND = "cluster.x-k8s.io/owner-kind";
    /// On a Node: name of what made its Machine.
    NODE_OWNER_NAME = "cluster.x-k8s.io/owner-name";
    /// On a Node: labels that came from its Machine.
    NODE_LABELS_FROM_MACHINE = "cluster.x-k8s.io/labels-from-machine";
    /// On a Node: annotations that came from its Machine.
    NODE_ANNOTATIONS_FROM_MACHINE = "cluster.x-k8s.io/annotations-from-machine";
    /// On a Node: taints that came from its Machine.
    NODE_TAINTS_FROM_MACHINE = "cluster.x-k8s.io/taints-from-machine";
    /// What a conversion between API versions could not express.
    CONVERSION_DATA = "cluster.x-k8s.io/conversion-data";
    /// `false` on an IPAddressClaim whose cluster-name label only a conversion put there.
    CONVERSION_CLUSTER_NAME_LABEL_SET = "conversion.cluster.x-k8s.io/cluster-name-label-set";
    /// A change in place is under way.
    UPDATE_IN_PROGRESS = "in-place-updates.internal.cluster.x-k8s.io/update-in-progress";
    /// A move between MachineSets is not yet seen.
    PENDING_ACKNOWLEDGE_MOVE = "in-place-updates.internal.cluster.x-k8s.io/pending-acknowledge-move";
    /// Where a MachineSet's Machines go.
    MOVE_MACHINES_TO = "in-place-updates.internal.cluster.x-k8s.io/move-machines-to-machineset";
    /// Where a MachineSet's Machines come from.
    RECEIVE_MACHINES_FROM = "in-place-updates.internal.cluster.x-k8s.io/receive-machines-from-machinesets";
    /// Moves that were seen.
    ACKNOWLEDGED_MOVE = "in-place-updates.internal.cluster.x-k8s.io/acknowledged-move";
    /// Runtime hooks that are due.
    PENDING_HOOKS = "runtime.cluster.x-k8s.io/pending-hooks";
    /// Runtime hooks agree to a deletion.
    OK_TO_DELETE = "runtime.cluster.x-k8s.io/ok-to-delete";
}

/// The value of [`PRE_TERMINATE_BOOTSTRAP_CLEANUP`]: who removes it.
pub const PRE_TERMINATE_BOOTSTRAP_CLEANUP_OWNER: &str = "rke-bootstrap-controller";

/// Labels of plan Secrets with these prefixes are a copy of what the RKEBootstrap says, and nobody else's.
pub const PLAN_SECRET_PREFIXES: [&str; 4] =
    ["rke.cattle.io/", "plan.cattle.io/", "cluster.x-k8s.io/", "machine.cluster.x-k8s.io/"];

/// Node taint that Cluster API removes once it has marked the node; effect `NoSchedule`.
pub const TAINT_UNINITIALIZED: &str = "node.cluster.x-k8s.io/uninitialized";

/// Node taint of machines of an old revision; effect `PreferNoSchedule`.
pub const TAINT_OUTDATED_REVISION: &str = "node.cluster.x-k8s.io/outdated-revision";
