use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{OperationSpec, OperationStatus};
use crate::wire::{is_default, null_default};

kind! {
    /// A new key for the Secrets of a cluster.
    #[schemars(extend("required" = ["spec"]))]
    pub struct EncryptionKeyRotation: "operation.cattle.io" / "v1alpha1" encryptionkeyrotations Namespaced {
        /// What is asked for.
        #[serde(deserialize_with = "null_default")]
        pub spec: OperationSpec,
        /// What is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<EncryptionKeyRotationStatus>,
    }
}

/// How far an [`EncryptionKeyRotation`] is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EncryptionKeyRotationStatus {
    /// Phase and conditions.
    #[serde(flatten)]
    pub operation: OperationStatus,
    /// The step within the phase.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub step: EncryptionKeyRotationStep,
}

open_enum! {
    /// Steps of a key rotation.
    pub enum EncryptionKeyRotationStep {
        /// The leader makes the key and writes every Secret again.
        Rotate,
        /// Servers restart.
        Restart,
    }
}
