use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::null_default;

kind! {
    /// Values for a chart that the distribution installs. Named after the chart, beside its HelmChart.
    pub struct HelmChartConfig: "helm.cattle.io" / "v1" helmchartconfigs Namespaced {
        /// The values.
        #[serde(deserialize_with = "null_default")]
        pub spec: HelmChartConfigSpec,
    }
}

/// What a [`HelmChartConfig`] says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HelmChartConfigSpec {
    /// Helm values, as YAML or JSON text.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub values_content: String,
    /// What to do when an installation fails: `reinstall` or `abort`.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub failure_policy: String,
}
