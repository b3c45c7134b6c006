//! What is known of a server: out of its Secret before an attempt, into it after.

use std::time::Duration;

use api::catalogue::secrets::keys;
use api::names::{self, InfraMachine};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use kit::Object;
use kube::Api;
use kube::api::{Patch, PatchParams};
use machine::archive;
use serde_json::json;

use super::context::{Context, job_machine};
use super::files::Files;

/// How long a write that failed waits before it is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Unpacks the state into the attempt's storage.
pub(super) async fn load(context: &Context, job: &Object, files: &Files) -> Result<(), String> {
    let name = name(job).ok_or("the Job belongs to no machine")?;
    let secret = secrets(context, job).get(&name).await;
    let secret = secret.map_err(|error| format!("cannot read Secret {name}: {error}"))?;
    let packed = secret.data.unwrap_or_default().remove(keys::EXTRACTED_CONFIG).unwrap_or_default();
    archive::unpack(&packed.0, &files.storage()).map_err(|error| error.to_string())?;
    files.mark_loaded().map_err(|error| format!("cannot write a file: {error}"))
}

/// Packs what the attempt left into the Secret. It is not given up: a server that nobody knows of is never removed.
pub(super) async fn save(context: &Context, job: &Object, files: &Files) {
    // What was never read must not be replaced.
    if !files.is_loaded() {
        return;
    }
    let Some(name) = name(job) else { return };
    loop {
        match try_save(context, job, &name, files).await {
            Ok(()) => return,
            Err(words) => tracing::warn!(job = %job.key(), words, "the state of a server is not saved yet"),
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn try_save(context: &Context, job: &Object, name: &str, files: &Files) -> Result<(), String> {
    let packed = archive::pack(&files.storage()).map_err(|error| error.to_string())?;
    let secrets = secrets(context, job);
    let known = secrets.get_opt(name).await.map_err(|error| error.to_string())?;
    // It goes with its machine.
    let Some(known) = known else { return Ok(()) };
    let before = known.data.unwrap_or_default().remove(keys::EXTRACTED_CONFIG).unwrap_or_default();
    if before.0 == packed || (before.0.is_empty() && archive::is_empty(&packed)) {
        return Ok(());
    }
    let patch = json!({"data": {keys::EXTRACTED_CONFIG: STANDARD.encode(packed)}});
    let options = PatchParams { field_manager: Some("herdsman-jobs".into()), ..PatchParams::default() };
    let written = secrets.patch(name, &options, &Patch::Merge(patch)).await;
    match written {
        Err(error) if kit::write::code(&error) != Some(404) => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// The Secret with the state of a Job's machine.
fn name(job: &Object) -> Option<String> {
    job_machine(job).map(|(_, machine)| names::machine_state_secret(InfraMachine(&machine.name)))
}

/// Secrets of a Job are those of its namespace.
pub(super) fn secrets(context: &Context, job: &Object) -> Api<Secret> {
    Api::namespaced(context.caches.client().clone(), job.namespace())
}
