//! The versions of providers' kinds, as their CRDs say.

use std::sync::Arc;

use api::conversion::ApiVersions;
use kit::{Cache, Caches};

use kit::index;

/// What is known of CRDs.
#[derive(Debug)]
pub struct Definitions(Arc<Cache>);

impl Definitions {
    /// Those that these caches see. When this returns, they are known.
    pub async fn of(caches: &Caches) -> Self {
        let cache = caches.of_cluster(&index::definitions(), index::trim_definition);
        cache.wait_synced().await;
        Definitions(cache)
    }
}

impl ApiVersions for Definitions {
    fn api_version(&self, group: &str, kind: &str) -> Result<String, String> {
        let found = self.0.filed(&index::kind(group, kind));
        let found =
            found.first().ok_or_else(|| format!("there is no CRD for kind {kind} of group {group}"))?;
        let labels = found.meta().labels.clone().unwrap_or_default();
        let (_, version) =
            api::contract::version(&labels).map_err(|why| format!("{}: {why}", found.name()))?;
        Ok(format!("{group}/{version}"))
    }
}
