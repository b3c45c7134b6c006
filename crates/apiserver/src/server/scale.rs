//! The scale subresource: an object seen as nothing but a number of replicas.

use kubeapi::crd::Scale;
use kubeapi::media::PatchType;
use kubeapi::request::{PatchOptions, WriteOptions};
use kubeapi::selector::label;
use kubeapi::{FieldError, GroupKind, Path, Status, meta};
use serde_json::{Value, json};

use super::update::ATTEMPTS;
use super::{Answer, Call, Server, patch};
use crate::registry::Resource;

/// Where the numbers are.
fn places(resource: &Resource) -> Scale {
    let custom = resource.as_custom().and_then(|custom| custom.version.scale.clone());
    custom.unwrap_or_else(|| Scale {
        spec_replicas: ".spec.replicas".into(),
        status_replicas: ".status.replicas".into(),
        label_selector: None,
    })
}

fn lookup<'a>(object: &'a Value, path: &str) -> &'a Value {
    path.split('.').filter(|part| !part.is_empty()).fold(object, |value, part| &value[part])
}

/// The Scale of an object.
fn scale_of(resource: &Resource, object: &Value) -> Result<Value, Status> {
    let places = places(resource);
    // A Deployment that does not say wants one.
    let unsaid = resource.as_custom().is_none().then_some(1);
    let Some(wanted) = lookup(object, &places.spec_replicas).as_i64().or(unsaid) else {
        let why = format!("the spec replicas field {:?} does not exist", places.spec_replicas);
        return Err(Status::internal(why));
    };
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if !object["metadata"][field].is_null() {
            metadata[field] = object["metadata"][field].clone();
        }
    }
    let mut status = json!({"replicas": lookup(object, &places.status_replicas).as_i64().unwrap_or(0)});
    let selector = match &places.label_selector {
        Some(path) => lookup(object, path).as_str().unwrap_or_default().to_owned(),
        None if resource.as_custom().is_some() => String::new(),
        None => label::from_object(Some(&object["spec"]["selector"]))
            .map(|selector| selector.to_string())
            .unwrap_or_default(),
    };
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    Ok(json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {"replicas": wanted}, "status": status,
    }))
}

/// The object with the number that a Scale wants.
fn scaled(call: Call<'_>, old: &Value, scale: &Value) -> Result<Value, Status> {
    meta::ensure_name(scale, call.name())?;
    let wanted = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    if wanted < 0 {
        let path = Path::new("spec").child("replicas");
        let error = FieldError::invalid(&path, wanted, "must be greater than or equal to 0");
        return Err(Status::invalid(&GroupKind::new("autoscaling", "Scale"), call.name(), &[error]));
    }
    let mut new = old.clone();
    // What the client says about identity and revision is checked as for every update.
    for field in ["uid", "resourceVersion"] {
        if !meta::text(scale, field).is_empty() {
            new["metadata"][field] = scale["metadata"][field].clone();
        }
    }
    let places = places(call.resource);
    let parts = places.spec_replicas.split('.').filter(|part| !part.is_empty());
    let mut place = &mut new;
    for part in parts {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[part];
    }
    *place = json!(wanted);
    Ok(new)
}

impl Server {
    pub(super) async fn get_scale(&self, call: Call<'_>) -> Result<Answer, Status> {
        let (_, object) = self.current(call)?;
        Ok(call.answer(200, scale_of(call.resource, &object)?, Vec::new()))
    }

    pub(super) async fn update_scale(&self, call: Call<'_>) -> Result<Answer, Status> {
        let options = WriteOptions::update(&call.request.query)?;
        let wanted = call.body()?;
        let unconditional = meta::text(&wanted, "resourceVersion").is_empty();
        self.set_scale(call, options.dry_run, unconditional, |_| Ok(wanted.clone())).await
    }

    pub(super) async fn patch_scale(&self, call: Call<'_>) -> Result<Answer, Status> {
        let kind = call.request.patch;
        let options = PatchOptions::parse(&call.request.query, kind == PatchType::Apply)?;
        let change = call.body()?;
        let patched = |scale: &Value| patch::apply(call, kind, scale, &change);
        self.set_scale(call, options.write.dry_run, true, patched).await
    }

    async fn set_scale(
        &self,
        call: Call<'_>,
        dry_run: bool,
        again: bool,
        change: impl Fn(&Value) -> Result<Value, Status>,
    ) -> Result<Answer, Status> {
        for _ in 0..ATTEMPTS {
            let (stored, old) = self.current(call)?;
            let wanted = change(&scale_of(call.resource, &old)?)?;
            let new = scaled(call, &old, &wanted)?;
            if let Some(updated) = self.replace(call, &stored, &old, new, dry_run).await? {
                return Ok(call.answer(200, scale_of(call.resource, &updated)?, Vec::new()));
            }
            if !again {
                break;
            }
        }
        Err(Status::modified(&call.resource.group_resource(), call.name()))
    }
}
