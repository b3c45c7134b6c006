use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::null_default;

kind! {
    /// One setting of the server. The object's name is the setting's.
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub struct Setting: "management.cattle.io" / "v3" settings Cluster {
        /// What an administrator chose; empty means the default.
        #[serde(deserialize_with = "null_default")]
        pub value: String,
        /// What the server uses otherwise.
        #[serde(deserialize_with = "null_default")]
        pub default: String,
        /// Whether the value is not the default.
        #[serde(deserialize_with = "null_default")]
        pub customized: bool,
        /// Where the value comes from: `db`, `default` or `env`.
        #[serde(deserialize_with = "null_default")]
        pub source: String,
    }
}

impl Setting {
    /// The value in force.
    pub fn effective(&self) -> &str {
        if self.value.is_empty() { &self.default } else { &self.value }
    }
}

kind! {
    /// A switch of the server. The object's name is the switch's.
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub struct Feature: "management.cattle.io" / "v3" features Cluster {
        /// What an administrator chose.
        #[serde(deserialize_with = "null_default")]
        pub spec: FeatureSpec,
        /// What the server says of it.
        #[serde(deserialize_with = "null_default")]
        pub status: FeatureStatus,
    }
}

impl Feature {
    /// Whether it is on: a locked value wins over the administrator's, and that over the default.
    pub fn enabled(&self) -> bool {
        self.status.locked_value.or(self.spec.value).unwrap_or(self.status.default)
    }
}

/// What an administrator chose for a [`Feature`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct FeatureSpec {
    /// On or off; null means the default.
    pub value: Option<bool>,
}

/// What the server says of a [`Feature`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct FeatureStatus {
    /// Whether it takes effect without a restart.
    #[serde(deserialize_with = "null_default")]
    pub dynamic: bool,
    /// On or off if nobody chooses.
    #[serde(deserialize_with = "null_default")]
    pub default: bool,
    /// What it does.
    #[serde(deserialize_with = "null_default")]
    pub description: String,
    /// A value that the server insists on.
    pub locked_value: Option<bool>,
    /// Whether it needs a subscription.
    #[serde(deserialize_with = "null_default")]
    pub prime: bool,
}
