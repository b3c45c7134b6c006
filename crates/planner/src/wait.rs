//! Waits: what is waited for, as a value with a stable code.
//!
//! The code is what `explain`, metrics, events and documents go by; it never changes its meaning. The message is the
//! text of the condition, in the words that Rancher's users, its dashboard and its tests know.

use std::fmt;

use jiff::Timestamp;

use crate::snapshot::MachineName;

macro_rules! codes {
    ($($variant:ident $code:literal $meaning:literal $remedy:literal;)*) => {
        /// What kind of wait it is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Code {
            $(#[doc = $meaning] $variant,)*
        }

        impl Code {
            /// Every code, in the order of the catalogue.
            pub const ALL: &[Code] = &[$(Code::$variant),*];

            /// The stable spelling.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $code,)* }
            }

            /// What is waited for, in one sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Code::$variant => $meaning,)* }
            }

            /// What whoever looks at it can do.
            pub fn remedy(self) -> &'static str {
                match self { $(Code::$variant => $remedy,)* }
            }
        }
    };
}

codes! {
    VersionInvalid "version-invalid" "The Kubernetes version cannot be read." "Set spec.kubernetesVersion to a version such as v1.34.2+rke2r1.";
    CapiClusterMissing "capi-cluster-missing" "The Cluster API Cluster is not there." "Wait until the cluster's objects are made; if it lasts, look at the provisioning controller.";
    ClusterDeleting "cluster-deleting" "The cluster is being deleted." "Nothing: machines are removed by their owners.";
    InfrastructureNotReady "infrastructure-not-ready" "The cluster's infrastructure is not provisioned." "Look at the infrastructure cluster that the Cluster refers to.";
    RolesMissing "roles-missing" "Not every role has a machine." "Add machines until there is at least one each for etcd, control plane and worker.";
    EtcdMachinesDeleting "etcd-machines-deleting" "No etcd machine stays; the rest are going." "Add an etcd machine, then restore a snapshot.";
    Uninitializing "control-plane-uninitializing" "The control plane no longer counts as initialized." "Nothing: the next pass goes on.";
    TokensMissing "cluster-tokens-missing" "The Secret with the join tokens is being made." "Nothing: the next pass goes on.";
    TokensLost "cluster-tokens-lost" "The Secret with the join tokens is gone although machines have plans." "Restore the Secret <control plane>-rke-state from a backup: snapshots can only be restored with its tokens.";
    OperationUnsupported "operation-unsupported" "The spec asks for an operation that this version does not do." "Take the request out of the spec, or update Herdsman.";
    BeaconHeld "beacon-held" "Somebody else writes the machines' plans at the moment." "Wait until the operation that the Beacon's status.owner names is over. If whoever took it is gone, empty status.owner.";
    Paused "paused" "The cluster is paused." "Unset spec.paused of the Cluster, or the annotation cluster.x-k8s.io/paused of the control plane.";
    EtcdPlaneReplaced "etcd-plane-replaced" "Every etcd member is gone and new machines took their place." "Restore the cluster from an etcd snapshot.";
    InitNodeMissing "init-node-missing" "No machine can start the cluster yet." "Wait until an etcd machine's infrastructure is ready; look at its infrastructure machine.";
    InitNodeDesignatedMissing "init-node-designated-missing" "The machine that must start the cluster has not registered." "Register that machine, or remove the label rke.cattle.io/init-node-machine-id from the cluster.";
    InitNodeElecting "init-node-electing" "The machine that starts the cluster was chosen." "Nothing: the next pass goes on.";
    JoinUrlUnknown "join-url-unknown" "The address at which others join is not known." "Look at the init node: its agent, its probes, its addresses.";
    ControlPlaneUnavailable "control-plane-unavailable" "No control-plane machine is up." "Look at the control-plane machines.";
    ControlPlaneInitializing "control-plane-initializing" "The control plane is marked as initialized." "Nothing: the next pass goes on.";
    TierConfiguring "tier-configuring" "Machines of a tier take their plans." "Look at the machines that the message names.";
    TierDraining "tier-draining" "Machines of a tier are drained." "Look at pods that cannot be evicted on the named nodes, and at drain hooks.";
    TierUncordoning "tier-uncordoning" "Machines of a tier take pods again." "Look at post-drain hooks of the named nodes.";
    TierFailing "tier-failing" "Machines of a tier fail; other tiers go on." "Look at the conditions of the named machines.";
    TierNonReady "tier-non-ready" "Machines of a tier are not ready; other tiers go on." "Look at the conditions of the named machines.";
    Refused "decision-refused" "The planner's own check refused its decision; nothing is done." "Report it: this is a defect of Herdsman. Nothing was written.";
    MachineInfrastructure "machine-infrastructure" "The machine's infrastructure is not ready." "Look at the infrastructure machine and its provider.";
    PlanAbsent "plan-absent" "The machine has no plan yet; others come first." "Look at the tiers before this machine's.";
    AgentNotCheckedIn "agent-not-checked-in" "The node agent has not taken its first plan." "On the machine: systemctl status rancher-system-agent; can it reach the server's URL?";
    PlanNotApplied "plan-not-applied" "The node agent has not applied the plan." "On the machine: journalctl -u rancher-system-agent.";
    PlanFailed "plan-failed" "Applying the plan failed; it is tried again with growing pauses." "On the machine: journalctl -u rancher-system-agent and of the distribution's unit.";
    ProbesUnhealthy "probes-unhealthy" "Health checks on the machine fail." "On the machine: journalctl of the distribution's unit; the message names the components.";
    NodeDraining "node-draining" "The node is being drained." "Look at pods that cannot be evicted, at drain hooks, and at the annotation rke.cattle.io/drain-error of the plan Secret.";
    NodeUncordoning "node-uncordoning" "The node is to take pods again." "Look at post-drain hooks and at the connection to the cluster.";
    KubeletVersion "kubelet-version" "The kubelet still reports another version." "On the machine: did the distribution's unit restart?";
    PreBootstrap "pre-bootstrap" "Secrets that must be in the cluster before its network are being copied." "Is the cluster's agent connected? Look at the Secrets with the annotation provisioning.cattle.io/sync-bootstrap.";
    ClusterAgentDisconnected "cluster-agent-disconnected" "The cluster's agent is not connected." "In the cluster: kubectl -n cattle-system logs deploy/cattle-cluster-agent.";
    DriverConfigMissing "driver-config-missing" "The driver has not saved what it knows of the server." "Look at the provisioning Job of the infrastructure machine.";
    ProviderIdMismatch "provider-id-mismatch" "The node's providerID is not that of its infrastructure machine." "Fix the cloud provider's settings, or replace the machine: a node's providerID cannot change.";
    ReferencedObject "referenced-object" "Something that the configuration refers to cannot be used." "Make the object as the message says, or take the reference out of the spec.";
    PlanTooLarge "plan-too-large" "The plan does not fit into its Secret." "Shrink additionalManifest, machineSelectorFiles or chart values.";
    Turn "turn" "The machine's change waits for others: no more may change at a time." "Nothing, or raise the concurrency of the upgrade strategy.";
    QuorumHold "etcd-quorum-hold" "The machine's change would cost etcd its quorum." "Repair the etcd members that are not healthy.";
    VersionSkew "version-skew" "The machine must not become newer than a server that fails." "Repair the failing server.";
    RemovalRepointing "etcd-removal-repointing" "Machines are still joined to the machine that goes." "Nothing: they are pointed elsewhere first.";
    RemovalTurn "etcd-removal-turn" "Another etcd member is being removed; one at a time." "Nothing.";
    RemovalQuorum "etcd-removal-quorum" "Without this member etcd would have no quorum." "Repair the members that are not healthy, or add members.";
    RemovalReplacement "etcd-removal-replacement" "This is the last etcd member; it holds all data until another has joined." "Add an etcd machine. To lose the data: annotate the RKEBootstrap with rke.cattle.io/etcd-force-remove=true.";
    QuorumLost "etcd-quorum-lost" "etcd has no quorum, so no member can be removed in order." "Bring members back, or restore a snapshot; to remove this machine anyway, annotate its RKEBootstrap with rke.cattle.io/etcd-force-remove=true.";
    RemovalMember "etcd-removal-member" "The distribution removes the machine's etcd member." "If it lasts: is a control-plane node up? Annotate the RKEBootstrap with rke.cattle.io/etcd-force-remove=true to go on without.";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whom a wait is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The control plane as a whole.
    Cluster,
    /// One machine.
    Machine(MachineName),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Cluster => f.write_str("cluster"),
            Subject::Machine(name) => write!(f, "machine/{name}"),
        }
    }
}

/// Something that is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// What kind.
    pub code: Code,
    /// About whom.
    pub subject: Subject,
    /// Since when, where it is known.
    pub since: Option<Timestamp>,
    /// The text of the condition.
    pub message: String,
    /// What was last seen of it.
    pub evidence: Option<String>,
}

impl Wait {
    /// A wait of the whole control plane.
    pub fn cluster(code: Code, message: impl Into<String>) -> Self {
        Wait { code, subject: Subject::Cluster, since: None, message: message.into(), evidence: None }
    }

    /// A wait of one machine.
    pub fn machine(code: Code, machine: &MachineName, message: impl Into<String>) -> Self {
        Wait { subject: Subject::Machine(machine.clone()), ..Wait::cluster(code, message) }
    }

    /// The same, with what was last seen.
    pub fn seen(self, evidence: impl Into<String>) -> Self {
        Wait { evidence: Some(evidence.into()), ..self }
    }

    /// The same, with a beginning.
    pub fn since(self, since: Option<Timestamp>) -> Self {
        Wait { since, ..self }
    }

    /// What to do about it.
    pub fn remedy(&self) -> &'static str {
        self.code.remedy()
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.subject, self.code, self.message)?;
        match &self.evidence {
            Some(evidence) => write!(f, " ({evidence})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_words_and_no_two_are_the_same() {
        for (index, code) in Code::ALL.iter().enumerate() {
            let text = code.as_str();
            assert!(text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{text}");
            assert!(Code::ALL[..index].iter().all(|other| other.as_str() != text), "{text}");
            assert!(code.meaning().ends_with('.') && !code.remedy().is_empty(), "{text}");
        }
    }
}
