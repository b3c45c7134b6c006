//! Plan Secrets: what follows from the agents' writes. The copy of the applied plan, the first time that all probes were
//! well, the end of outputs that no instruction has any more.

use std::sync::Arc;

use api::catalogue::secrets::types;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kit::runner::Controller;
use kit::{Ended, Key, Turn};
use plan::orchestrator;
use serde_json::{Map, Value, json};

use super::context::{Context, Error};
use super::references::decoded;

/// Looks after plan Secrets.
pub(crate) struct Plans(pub(crate) Arc<Context>);

impl Controller for Plans {
    type Error = Error;

    fn name(&self) -> &'static str {
        "plan-secret"
    }

    fn object(&self, key: &Key) -> Option<Arc<kit::Object>> {
        self.0.secrets.get(key)
    }

    async fn reconcile(&self, key: &Key, turn: &Turn) -> Result<Ended, Error> {
        let context = &self.0;
        let Some(secret) = context.secrets.get(key) else { return Ok(Ended::Gone) };
        if secret.document()["type"] != types::MACHINE_PLAN || secret.deleting() {
            return Ok(Ended::Gone);
        }
        let data = decoded(&secret.document()["data"]);
        let notes = secret.meta().annotations.clone().unwrap_or_default();
        let update = orchestrator::upkeep(&data, &notes, context.now());
        if update.is_empty() {
            return Ok(Ended::Well);
        }
        let mut patch = json!({"metadata": {"annotations": update.annotations}});
        let keys: Map<String, Value> = update
            .data
            .into_iter()
            .map(|(key, value)| {
                (key.to_owned(), value.map_or(Value::Null, |value| STANDARD.encode(value).into()))
            })
            .collect();
        if !keys.is_empty() {
            patch["data"] = keys.into();
        }
        context.patch_seen(turn, &context.secrets, &secret, patch).await?;
        Ok(Ended::Well)
    }
}
