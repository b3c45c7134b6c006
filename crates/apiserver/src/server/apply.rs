//! Server-side apply: a patch that says all that its manager wants to own.

use std::sync::Arc;

use kubeapi::apply::Writer;
use kubeapi::request::PatchOptions;
use kubeapi::{Status, meta};
use serde_json::Value;

use super::managed::{Known, ignored};
use super::update::ATTEMPTS;
use super::{Answer, Call, Server, body, failure, validate};
use crate::store::Stored;

/// What is there, as it is stored and as clients see it.
type Live = Option<(Arc<Stored>, Value)>;

impl Server {
    pub(super) async fn apply(&self, call: Call<'_>, options: &PatchOptions) -> Result<Answer, Status> {
        let config = call.body()?;
        for _ in 0..ATTEMPTS {
            let live = self.live(call).await?;
            let old = live.as_ref().map(|(_, object)| object);
            let mut new = self.applied(call, options, old, &config).await?;
            check_new_uid(call, old, &new)?;
            meta::ensure_namespace(&mut new, call.namespace())?;
            meta::ensure_name(&new, call.name())?;
            let warnings = validate::warnings(call.resource, &new, old);
            let dry_run = options.write.dry_run;
            let Some((stored, old)) = live else {
                match self.apply_first(call, new, dry_run, warnings).await {
                    // Somebody else was faster.
                    Err(status) if status.reason == "AlreadyExists" => continue,
                    answer => return answer,
                }
            };
            if let Some(patched) = self.replace(call, &stored, &old, new, dry_run).await? {
                return Ok(call.answer(200, patched, warnings));
            }
        }
        Err(Status::modified(&call.resource.group_resource(), call.name()))
    }

    /// The object that is there, if any. A part of one that is not there cannot be applied.
    async fn live(&self, call: Call<'_>) -> Result<Live, Status> {
        match self.current(call).await {
            Err(status) if status.code == 404 && call.subresource().is_empty() => Ok(None),
            found => found.map(Some),
        }
    }

    /// What a configuration makes of an object, with defaults.
    async fn applied(
        &self,
        call: Call<'_>,
        options: &PatchOptions,
        live: Option<&Value>,
        config: &Value,
    ) -> Result<Value, Status> {
        let writer = Writer {
            versions: &Known { conversion: &self.conversion, resource: call.resource },
            kind: &call.resource.gvk(),
            manager: &call.manager(&options.write),
            subresource: call.subresource(),
            ignored: &ignored(call.resource, call.subresource()),
            now: self.clock.now(),
        };
        let applied = writer.apply(live, config, options.force).await;
        let mut new = applied.map_err(|error| error.status())?;
        body::read_changed(call.resource, &mut new).map_err(|why| failure::plain(&why))?;
        Ok(new)
    }

    async fn apply_first(
        &self,
        call: Call<'_>,
        new: Value,
        dry_run: bool,
        warnings: Vec<String>,
    ) -> Result<Answer, Status> {
        self.check_may_create(call)?;
        if call.resource.as_custom().is_some_and(|custom| custom.terminating) {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Status::forbidden(&call.resource.group_resource(), call.name(), why));
        }
        self.create_object(call, new, dry_run, warnings).await
    }
}

/// Nobody can say which object is meant by what is not there.
fn check_new_uid(call: Call<'_>, old: Option<&Value>, new: &Value) -> Result<(), Status> {
    let uid = meta::text(new, "uid");
    if old.is_some() || uid.is_empty() {
        return Ok(());
    }
    let why =
        format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
    Err(Status::conflict(&call.resource.group_resource(), call.name(), &why))
}
