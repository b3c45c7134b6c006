//! `plan.cattle.io/v1alpha1`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::labels;
use crate::crd::{Column, Definition, Version};
use crate::wire::null_default;

kind! {
    /// Who may write the plans of a cluster's machines at the moment: a lock with an owner and a stack of delegates.
    pub struct Beacon: "plan.cattle.io" / "v1alpha1" beacons Namespaced {
        /// Nothing is asked for.
        #[serde(deserialize_with = "null_default")]
        pub spec: BeaconSpec,
        /// What is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<BeaconStatus>,
    }
}

/// What a [`Beacon`] should be: nothing yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BeaconSpec {}

/// What a [`Beacon`] is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["active"]))]
pub struct BeaconStatus {
    /// What is observed.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// Whether machines can register and take plans.
    #[serde(deserialize_with = "null_default")]
    pub active: bool,
    /// Where machines register.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub registration_endpoint: String,
    /// Who writes plans; empty means that the lock is free.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// Whom the owner waits for; the last one goes first.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub delegates: Vec<String>,
}

/// Conditions without the limit on their number, which this kind does not have.
fn conditions(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let mut schema = crate::schema::conditions(generator);
    schema.remove("maxItems");
    schema
}

/// Value of [`BeaconStatus::owner`] while the planner works.
pub const OWNER_PLANNER: &str = "planner";

pub(crate) fn definitions() -> Vec<Definition> {
    let columns = [
        Column::string("Active", ".status.active"),
        Column::string("Registration Endpoint", ".status.registrationEndpoint"),
    ];
    vec![
        Definition::of::<Beacon>(Version::taking_nulls::<Beacon>().columns(columns))
            .categories(["planning"])
            .label(labels::CLUSTER_INDEXED, "true"),
    ]
}
