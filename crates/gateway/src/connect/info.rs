//! What a node may ask about itself beside its plan: its distribution's config, its cluster's version.

use std::sync::Arc;

use api::catalogue::headers::CATTLE_FIELD;
use api::catalogue::secrets::keys;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use kit::{Key, Object};
use serde_json::{Value, json};

use super::{Refusal, Registrar};
use crate::credential::{self, Credential};
use crate::headers;

/// How the planner's config file ends.
const CONFIG: &str = "config.yaml.d/50-rancher.yaml";

/// The distribution's config in a plan.
fn config(plan: &[u8]) -> Option<Value> {
    let plan: Value = serde_json::from_slice(plan).ok()?;
    let files = plan["files"].as_array()?;
    let file = files.iter().find(|file| file["path"].as_str().is_some_and(|path| path.ends_with(CONFIG)))?;
    let content = STANDARD.decode(file["content"].as_str()?).ok()?;
    // The planner writes JSON, which is YAML; a user's plan may not.
    serde_saphyr::from_str(std::str::from_utf8(&content).ok()?).ok()
}

impl Registrar {
    /// The Machine of a host that has registered, by its token and id.
    async fn known(&self, headers: &HeaderMap) -> Result<Arc<Object>, Refusal> {
        let (id, credential) = self.introduced(headers).await?;
        let found = match &credential {
            Credential::Bootstrap { account, uid, .. } => return self.bootstrapped(account, uid),
            Credential::Agent(token) => self.book.machine(token),
            Credential::Registration { cluster, nodes: true, .. } => {
                self.lineage.registered(&*self.cluster(cluster)?, &id)
            }
            Credential::Registration { .. } => return Err(Refusal::TunnelToken),
        };
        found.ok_or(Refusal::NoMachine)
    }

    /// The distribution's config file in the plan of a host's machine, as JSON.
    ///
    /// # Errors
    /// Why not, in words for the host's log.
    pub async fn config_yaml(&self, headers: &HeaderMap) -> Result<Value, Refusal> {
        let machine = self.known(headers).await?;
        let plan = tokio::time::timeout(super::PATIENCE, self.plan(&machine)).await;
        let plan = plan.map_err(|_| Refusal::NotYet)??;
        config(&credential::value(&plan, keys::PLAN)).ok_or(Refusal::NothingYet("config file"))
    }

    /// A field of the cluster of a host's machine.
    ///
    /// # Errors
    /// Why not, in words for the host's log.
    pub async fn cluster_info(&self, headers: &HeaderMap) -> Result<Value, Refusal> {
        let machine = self.known(headers).await?;
        let field = headers::text(headers, CATTLE_FIELD);
        if !field.eq_ignore_ascii_case("kubernetesversion") {
            return Err(Refusal::Field(field.into()));
        }
        let key = Key::new(machine.namespace(), kit::machines::cluster(&machine));
        let cluster = self.clusters.get(&key).ok_or_else(|| Refusal::NoCluster(key.to_string()))?;
        Ok(json!({"kubernetesversion": cluster.document()["spec"]["kubernetesVersion"]}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_config_is_found_in_the_plan() {
        let file = |path: &str, content: &str| json!({"path": path, "content": STANDARD.encode(content)});
        let plan = json!({"files": [
            file("/etc/rancher/rke2/registries.yaml", "{}"),
            file("/etc/rancher/rke2/config.yaml.d/50-rancher.yaml", r#"{"server": "https://x:9345"}"#),
        ]});
        assert_eq!(config(plan.to_string().as_bytes()), Some(json!({"server": "https://x:9345"})));
        assert_eq!(config(b"{}"), None);
        assert_eq!(config(b""), None);
    }
}
