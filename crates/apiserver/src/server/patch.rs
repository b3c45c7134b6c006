//! Patch.

use kubeapi::media::PatchType;
use kubeapi::request::PatchOptions;
use kubeapi::{Status, meta, patch};
use serde_json::Value;

use super::update::ATTEMPTS;
use super::{Answer, Call, Server, body, object, validate};

impl Server {
    pub(super) async fn patch(&self, call: Call<'_>) -> Result<Answer, Status> {
        let kind = call.request.patch;
        let options = PatchOptions::parse(&call.request.query, kind == PatchType::Apply)?;
        if kind == PatchType::Apply {
            return self.apply(call, &options).await;
        }
        let change = call.body()?;
        for _ in 0..ATTEMPTS {
            let (stored, old) = self.current(call).await?;
            let mut new = patched(call, kind, &old, &change)?;
            let validation = options.write.field_validation;
            let mut warnings = body::read_patched(call.resource, &mut new, kind, &change, validation)?;
            warnings.extend(validate::warnings(call.resource, &new, Some(&old)));
            self.record(call, &options.write, Some(&old), &mut new).await;
            meta::ensure_name(&new, call.name())?;
            meta::ensure_namespace(&mut new, call.namespace())?;
            if meta::text(&new, "resourceVersion").is_empty() {
                object::set_version(&mut new, Some(stored.modified));
            }
            if let Some(patched) = self.replace(call, &stored, &old, new, options.write.dry_run).await? {
                return Ok(call.answer(200, patched, warnings));
            }
        }
        Err(Status::modified(&call.resource.group_resource(), call.name()))
    }
}

/// The object as the patch leaves it.
pub(super) fn patched(call: Call<'_>, kind: PatchType, old: &Value, change: &Value) -> Result<Value, Status> {
    let patched = match kind {
        PatchType::Json => patch::json::apply(old, change)?,
        PatchType::Merge => patch::merge::apply(old, change)?,
        PatchType::Strategic if call.resource.as_custom().is_none() => {
            patch::strategic::apply(&call.resource.gvk(), old, change)?
        }
        PatchType::Strategic | PatchType::Apply => {
            let formats = ["application/json-patch+json", "application/merge-patch+json"];
            return Err(Status::unsupported_media_type(&formats));
        }
    };
    Ok(patched)
}
