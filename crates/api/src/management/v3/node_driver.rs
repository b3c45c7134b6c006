use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::GenericCondition;
use crate::wire::{is_default, null_default};

kind! {
    /// A program that makes servers at one cloud or hypervisor.
    #[schemars(extend("required" = ["spec"], "x-kubernetes-preserve-unknown-fields" = true))]
    pub struct NodeDriver: "management.cattle.io" / "v3" nodedrivers Cluster {
        /// What is asked for.
        #[serde(deserialize_with = "null_default")]
        pub spec: NodeDriverSpec,
        /// What is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<NodeDriverStatus>,
    }
}

/// What a [`NodeDriver`] should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend(
    "required" = ["active", "url"],
    "x-kubernetes-preserve-unknown-fields" = true,
    "x-kubernetes-validations" = [{
        "rule": "!has(self.checksum) || dyn(self.checksum) == null || (self.checksum.size() in [0, 32, 40, 64, 128])",
        "message": "Checksum must be an md5, sha1, sha256, or sha512 digest."
    }]
))]
pub struct NodeDriverSpec {
    /// Name of the driver; kinds and schemas are named after it.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 57))]
    pub display_name: String,
    /// A sentence.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Where the program is downloaded; `local://` is one that comes with rancher-machine.
    #[serde(deserialize_with = "null_default")]
    pub url: String,
    /// Id of the catalogue entry it came from.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub external_id: String,
    /// Whether it came with the server.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub builtin: bool,
    /// Whether its kinds are there for use.
    #[serde(deserialize_with = "null_default")]
    pub active: bool,
    /// Whether it gets a kind of cloud credential.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub add_cloud_credential: bool,
    /// Checksum of the download, in hex.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128), regex(pattern = r"^$|^[a-fA-F0-9]{32,128}$"))]
    pub checksum: String,
    /// The dashboard's form for it.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub ui_url: String,
    /// Hosts that the form may reach through the server.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub whitelist_domains: Vec<String>,
}

/// What a [`NodeDriver`] is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct NodeDriverStatus {
    /// What is observed.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<GenericCondition>,
    /// The download that the schemas speak of.
    #[serde(
        rename = "appliedURL",
        deserialize_with = "null_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub applied_url: String,
    /// Its checksum.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub applied_checksum: String,
    /// The version of rancher-machine that the schemas of a local driver speak of.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub applied_docker_machine_version: String,
}

kind! {
    /// The fields of a kind that is not known beforehand, such as the machine config of a driver.
    #[schemars(extend("required" = ["spec"], "x-kubernetes-preserve-unknown-fields" = true))]
    pub struct DynamicSchema: "management.cattle.io" / "v3" dynamicschemas Cluster {
        /// The fields.
        #[serde(deserialize_with = "null_default")]
        pub spec: DynamicSchemaSpec,
    }
}

/// What a [`DynamicSchema`] says. A pool's `dynamicSchemaSpec` is the JSON of this.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct DynamicSchemaSpec {
    /// Name of the schema, if it is not the object's.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub schema_name: String,
    /// Whether it is a part of another schema.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub embed: bool,
    /// Which one.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub embed_type: String,
    /// Fields by name.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub resource_fields: BTreeMap<String, Field>,
    /// Changes when the schema's meaning does.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub dynamic_schema_version: String,
}

/// One field of a [`DynamicSchema`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct Field {
    /// `string`, `password`, `boolean`, `int`, `array[string]` or another schema's name.
    #[serde(rename = "type", deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub type_: String,
    /// Its value when not given.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub default: FieldDefault,
    /// No two objects have the same value.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub unique: bool,
    /// It may be null.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub nullable: bool,
    /// It may be given when an object is made.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub create: bool,
    /// It must be given.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub required: bool,
    /// It may change later.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub update: bool,
    /// Shortest text; 0 is no limit.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub min_length: i64,
    /// Longest text; 0 is no limit.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub max_length: i64,
    /// Smallest number; 0 is no limit.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub min: i64,
    /// Largest number; 0 is no limit.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub max: i64,
    /// The texts that are taken; empty takes all.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Characters that are taken, as in a regular expression's class.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub valid_chars: String,
    /// Characters that are not taken.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub invalid_chars: String,
    /// What the field is.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// It was added while the server runs.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub dynamic_field: bool,
}

/// Default of a [`Field`]: the one of the field's type counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldDefault {
    /// For texts.
    #[serde(deserialize_with = "null_default")]
    pub string_value: String,
    /// For numbers.
    #[serde(deserialize_with = "null_default")]
    pub int_value: i64,
    /// For true and false.
    #[serde(deserialize_with = "null_default")]
    pub bool_value: bool,
    /// For lists of texts; null is none.
    pub string_slice_value: Option<Vec<String>>,
}
