//! `management.cattle.io/v3`.

mod cluster;
mod node_driver;
mod pod_security;
mod registration;
mod settings;
mod user;

pub use cluster::{
    Cluster, ClusterInfo, ClusterSecrets, ClusterSpec, ClusterStatus, ClusterVersion, ImportedConfig,
};
pub use node_driver::{
    DynamicSchema, DynamicSchemaSpec, Field, FieldDefault, NodeDriver, NodeDriverSpec, NodeDriverStatus,
};
pub use pod_security::{
    PodSecurityAdmissionConfigurationTemplate, PodSecurityConfiguration, PodSecurityDefaults,
    PodSecurityExemptions,
};
pub use registration::{
    ClusterRegistrationToken, ClusterRegistrationTokenSpec, ClusterRegistrationTokenStatus,
};
pub use settings::{Feature, FeatureSpec, FeatureStatus, Setting};
pub use user::{ClusterRoleTemplateBinding, Principal, RoleTemplate, Token, User, UserStatus};

use crate::Kind;
use crate::crd::{Column, Definition, Version};

pub(crate) fn definitions() -> Vec<Definition> {
    vec![
        Definition::of::<Cluster>(Version::taking_nulls::<Cluster>()),
        plain::<ClusterRegistrationToken>([]),
        plain::<NodeDriver>([
            Column::string("Activated", ".spec.active"),
            Column::string("Binary URL", ".spec.url"),
        ]),
        plain::<DynamicSchema>([]),
        plain::<Token>([]),
        plain::<User>([]),
        plain::<Setting>([Column::string("Value", ".value")]),
        plain::<Feature>([
            Column::string("Custom Value", ".spec.value"),
            Column::string("Default", ".status.default"),
            Column::string("Description", ".status.description"),
        ]),
        Definition::of::<ClusterRoleTemplateBinding>(
            Version::taking_nulls::<ClusterRoleTemplateBinding>().columns([
                Column::string("STATUS", ".status.summary"),
                Column::date("AGE", ".metadata.creationTimestamp"),
            ]),
        ),
        plain::<RoleTemplate>([]),
        plain::<PodSecurityAdmissionConfigurationTemplate>([]),
    ]
}

/// Most of these kinds have their status, if any, written with the rest.
fn plain<K: Kind>(columns: impl IntoIterator<Item = Column>) -> Definition {
    Definition::of::<K>(Version::taking_nulls::<K>().without_status().columns(columns))
}
