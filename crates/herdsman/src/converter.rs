//! Conversion of our own kinds inside the process, where no webhook has to run.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::conversion::{self, ApiVersions};
use apiserver::convert::{Converter, Converting};
use apiserver::store::{Scope, Store};
use serde_json::Value;

/// The prefix of all keys of CustomResourceDefinitions.
const DEFINITIONS: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";

/// Converts the kinds of Cluster API's groups.
pub(crate) struct OurKinds {
    store: Arc<dyn Store>,
}

impl OurKinds {
    /// For a server on this store: its CRDs say which versions providers' kinds have.
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        OurKinds { store }
    }
}

impl Converter for OurKinds {
    fn handles(&self, group: &str, _kind: &str) -> bool {
        group == "cluster.x-k8s.io" || group.ends_with(".cluster.x-k8s.io")
    }

    fn convert<'a>(&'a self, objects: Vec<Value>, to: &'a str) -> Converting<'a> {
        let convert = |object| conversion::convert(object, to, self).map_err(|error| error.to_string());
        Box::pin(std::future::ready(objects.into_iter().map(convert).collect()))
    }
}

impl ApiVersions for OurKinds {
    fn api_version(&self, group: &str, kind: &str) -> Result<String, String> {
        let view = self.store.view();
        let all = Scope::prefix(DEFINITIONS);
        let definitions = view.scan(&all);
        let definitions = definitions.filter(|stored| stored.key.ends_with(&format!(".{group}")));
        let mut definitions =
            definitions.filter_map(|stored| serde_json::from_slice::<Value>(&stored.value()).ok());
        let found = definitions.find(|definition| {
            definition["spec"]["group"] == group && definition["spec"]["names"]["kind"] == kind
        });
        let found = found.ok_or_else(|| format!("there is no CRD for kind {kind} of group {group}"))?;
        let labels: BTreeMap<String, String> =
            serde_json::from_value(found["metadata"]["labels"].clone()).unwrap_or_default();
        let (_, version) = api::contract::version(&labels)
            .map_err(|why| format!("{}: {why}", found["metadata"]["name"].as_str().unwrap_or_default()))?;
        Ok(format!("{group}/{version}"))
    }
}
