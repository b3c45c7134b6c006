use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::GoDuration;
use crate::rke::v1::{CommonNodeConfig, Userdata};
use crate::wire::{is_default, null_default};

/// A group of equal machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend(
    "required" = ["machineConfigRef", "name"],
    "x-kubernetes-validations" = [
        {
            "rule": "!(has(self.controlPlaneRole) && dyn(self.controlPlaneRole) == true) || !(has(self.autoscalingMinSize) && dyn(self.autoscalingMinSize) != null) || self.autoscalingMinSize > 0",
            "message": "AutoscalingMinSize must be greater than 0 when ControlPlaneRole is true"
        },
        {
            "rule": "!(has(self.etcdRole) && dyn(self.etcdRole) == true) || !(has(self.autoscalingMinSize) && dyn(self.autoscalingMinSize) != null) || self.autoscalingMinSize > 0",
            "message": "AutoscalingMinSize must be greater than 0 when EtcdRole is true"
        },
        {
            "rule": "!(has(self.autoscalingMaxSize) && dyn(self.autoscalingMaxSize) != null) || !(has(self.autoscalingMinSize) && dyn(self.autoscalingMinSize) != null) || self.autoscalingMinSize <= self.autoscalingMaxSize",
            "message": "AutoscalingMinSize must be less than or equal to AutoscalingMaxSize when both are non-nil"
        },
        {
            "rule": "(has(self.autoscalingMinSize) && dyn(self.autoscalingMinSize) != null) == (has(self.autoscalingMaxSize) && dyn(self.autoscalingMaxSize) != null)",
            "message": "AutoscalingMinSize and AutoscalingMaxSize must both be set if enabling cluster-autoscaling"
        }
    ]
))]
pub struct MachinePool {
    /// Labels, taints and credential.
    #[serde(flatten)]
    pub common: CommonNodeConfig,
    /// What the machines run beside the install script; for native Cluster API providers only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub userdata: Option<Userdata>,
    /// Changes of the pool wait.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub paused: bool,
    /// The nodes run etcd. A pool has at least one role.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub etcd_role: bool,
    /// The nodes run the control plane.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub control_plane_role: bool,
    /// The nodes take pods.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub worker_role: bool,
    /// Nodes are drained before their machines are deleted.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub drain_before_delete: bool,
    /// How long such a drain may take; not set means for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_before_delete_timeout: Option<GoDuration>,
    /// What a machine is: a driver's config (the default API version is `rke-machine-config.cattle.io/v1`) or the
    /// machine template of a native Cluster API provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub machine_config_ref: Option<ObjectReference>,
    /// Name of the pool, unique in the cluster.
    #[serde(deserialize_with = "null_default")]
    #[schemars(length(min = 1))]
    pub name: String,
    /// Not used.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// How many machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub quantity: Option<i32>,
    /// How machines are replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<MachinePoolRollingUpdate>,
    /// More labels for the MachineDeployment.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub machine_deployment_labels: BTreeMap<String, String>,
    /// More annotations for the MachineDeployment.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub machine_deployment_annotations: BTreeMap<String, String>,
    /// Fewest machines when the autoscaler decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaling_min_size: Option<i32>,
    /// Most machines when the autoscaler decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaling_max_size: Option<i32>,
    /// How long a machine may take to become a node; needs `unhealthyNodeTimeout`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_startup_timeout: Option<GoDuration>,
    /// How long a node may be not ready before its machine is replaced; not set or zero means for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhealthy_node_timeout: Option<GoDuration>,
    /// No machine is replaced while more than this number or percentage are unhealthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unhealthy: Option<String>,
    /// Machines are replaced only while the number of unhealthy ones is in this range, such as `[1-3]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhealthy_range: Option<String>,
    /// `linux` (the default) or `windows`.
    #[serde(
        rename = "machineOS",
        deserialize_with = "null_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub machine_os: String,
    /// The driver's fields at the time the pool was made, as JSON; filled in. Later fields of the driver do not
    /// reach the pool, so that an upgrade of the driver replaces no machine.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub dynamic_schema_spec: String,
    /// Longest host name; longer ones are cut and get a hash.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    #[schemars(range(min = 10, max = 63))]
    pub hostname_length_limit: i64,
}

/// How the machines of a pool are replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachinePoolRollingUpdate {
    /// Machines that may be missing meanwhile: a number or a percentage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// Machines that may be there beyond the quantity meanwhile: a number or a percentage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrString>,
}

/// What pools do that do not say otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachinePoolDefaults {
    /// Longest host name.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    #[schemars(range(min = 10, max = 63))]
    pub hostname_length_limit: i64,
}
