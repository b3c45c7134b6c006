//! Machines of node drivers, their templates and configs.

use ::provisioning::admission::{machine_secrets, operators_fields};
use kubeapi::FieldError;
use serde_json::Value;

use super::{Answer, Door, Write, clusters, refused};

/// What is the operator's is not a user's to write, and a Secret is named only by users who may read it.
pub(super) async fn judge(door: &Door, write: Write<'_>, object: &Value) -> Answer {
    let errors = operators_fields(write.kind, write.old, object);
    if !errors.is_empty() {
        return Err(refused(&write, 403, &errors));
    }
    for (secret, path) in machine_secrets(write.kind, write.old, object, write.namespace) {
        if write.asker.is_master() || clusters::may_read(door.client()?, write.asker, &secret).await? {
            continue;
        }
        let detail = format!(
            "{} may not read Secret {} in namespace {}: name one that you may read, or have somebody write this who may",
            write.asker.name, secret.name, secret.namespace
        );
        return Err(refused(&write, 403, &[FieldError::forbidden(&path, detail)]));
    }
    Ok(Vec::new())
}
