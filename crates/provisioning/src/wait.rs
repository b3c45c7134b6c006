//! Waits: what is not there yet, whose turn it is, and what a user can do.

use std::fmt;

use serde::{Serialize, Serializer};

/// Declares the codes, so that each has its word, and there is a list of them all.
macro_rules! codes {
    ($( $(#[$about:meta])* $Code:ident ),* $(,)?) => {
        /// Why something waits. The word is stable: it is a condition's reason, an event's reason, a metric's label
        /// and a heading of the documentation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Code { $( $(#[$about])* $Code, )* }

        impl Code {
            /// All of them.
            pub const ALL: &'static [Code] = &[$( Code::$Code ),*];

            /// The word.
            pub fn as_str(self) -> &'static str {
                match self { $( Code::$Code => stringify!($Code), )* }
            }
        }
    };
}

codes! {
    /// The management cluster object is not made yet.
    WaitingForManagementCluster,
    /// The cluster has no finalizer yet, so nothing that is made could be cleaned up.
    WaitingForFinalizer,
    /// The driver of a pool has no schema.
    WaitingForDriverSchema,
    /// A pool's machine config does not exist.
    MachineConfigMissing,
    /// A cloud credential does not exist.
    CredentialMissing,
    /// The snapshot to restore settings from does not exist or cannot be read.
    SnapshotMissing,

    /// The API knows no such kind of infrastructure cluster.
    InfrastructureCRDMissing,
    /// The infrastructure cluster does not exist.
    InfrastructureClusterMissing,
    /// No controller has ever touched the infrastructure cluster.
    InfrastructureProviderSilent,
    /// The infrastructure cluster says that it is not ready.
    InfrastructureClusterNotReady,
    /// The API knows no such kind of machine template.
    MachineTemplateCRDMissing,
    /// A machine template does not exist.
    MachineTemplateMissing,
    /// Machines cannot be made from a template.
    MachineTemplateInvalid,
    /// A MachineDeployment reports a problem.
    MachineDeploymentWarning,
    /// No controller has ever touched an infrastructure machine.
    MachineProviderSilent,
    /// The provider could not make a server: a credential, a network, a quota.
    InfrastructureMachineError,
    /// The server is there and its agent has never called.
    NodeNotRegistered,

    /// A bootstrap object has no Machine yet.
    WaitingForMachine,
    /// The Cluster API cluster does not exist.
    WaitingForCluster,
    /// The cluster or the object is paused.
    Paused,
    /// The infrastructure of the cluster is not provisioned.
    WaitingForInfrastructure,
    /// The account's token has not been issued.
    WaitingForToken,
    /// The bootstrap data of a machine is not there.
    WaitingForBootstrapData,
    /// The node driver does not exist.
    NodeDriverMissing,
    /// The server is being made.
    CreatingServer,
    /// The server could not be made; the next try has its time.
    CreateFailed,
    /// The server could not be made so often that nothing is tried any more.
    CreateGivenUp,
    /// The server is being deleted.
    DeletingServer,
    /// The server could not be deleted.
    DeleteFailed,
    /// A server that is being made cannot be deleted.
    CreateUnfinished,
    /// The node of a server has not joined.
    WaitingForNode,
    /// A host that registered by its own hand is being cleaned.
    CleaningHost,

    /// The etcd member of a machine has to go first.
    WaitingForEtcdRemoval,
    /// The control plane is being deleted.
    RemovingControlPlane,
    /// A machine is being deleted.
    RemovingMachine,
    /// The Cluster API cluster is being deleted.
    RemovingCluster,
    /// Objects of the cluster are still there.
    RemovingLeftovers,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Something that is waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[must_use = "a wait that nobody reports is a silent hang"]
pub struct Wait {
    /// Why, in one stable word.
    pub code: Code,
    /// Which object is held up or looked at.
    pub subject: String,
    /// What has to happen, as a sentence without a full stop.
    pub awaits: String,
    /// What was seen last: somebody else's words, quoted.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub evidence: String,
    /// What a user can do.
    pub remedy: String,
}

impl Wait {
    /// A wait without evidence.
    pub fn new(
        code: Code,
        subject: impl Into<String>,
        awaits: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Wait {
            code,
            subject: subject.into(),
            awaits: awaits.into(),
            evidence: String::new(),
            remedy: remedy.into(),
        }
    }

    /// The same wait with what was seen last.
    pub fn seeing(self, evidence: impl Into<String>) -> Self {
        Wait { evidence: evidence.into(), ..self }
    }
}

impl fmt::Display for Wait {
    /// What a condition's message says: what is awaited, what was seen, what to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.awaits)?;
        if !self.evidence.is_empty() {
            write!(f, ": {}", self.evidence)?;
        }
        if !self.remedy.is_empty() {
            write!(f, " ({})", self.remedy)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_can_be_reasons_of_conditions() {
        let words: BTreeSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(words.len(), Code::ALL.len());
        for word in words {
            assert!(word.chars().all(|letter| letter.is_ascii_alphanumeric()), "{word}");
            assert!(word.starts_with(|letter: char| letter.is_ascii_uppercase()), "{word}");
        }
    }

    #[test]
    fn every_code_is_documented() {
        let page = include_str!("../../../docs/troubleshooting.md");
        for code in Code::ALL {
            assert!(page.contains(&format!("`{code}`")), "docs/troubleshooting.md does not name {code}");
        }
    }

    #[test]
    fn a_wait_says_what_to_do() {
        let wait = Wait::new(Code::CredentialMissing, "Cluster a/b", "waiting for secret x", "create it");
        assert_eq!(wait.to_string(), "waiting for secret x (create it)");
        assert_eq!(wait.seeing("not found").to_string(), "waiting for secret x: not found (create it)");
    }
}
