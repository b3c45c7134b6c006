//! The scale subresource: an object seen as nothing but a number of replicas.

use kubeapi::apply::{Converted, Replicas, Set, Type, Versions, Writer};
use kubeapi::crd::Scale;
use kubeapi::media::PatchType;
use kubeapi::request::{PatchOptions, WriteOptions};
use kubeapi::selector::label;
use kubeapi::{FieldError, GroupKind, GroupVersion, GroupVersionKind, Path, Status, meta};
use serde_json::{Value, json};

use super::update::ATTEMPTS;
use super::{Answer, Call, Server, failure, patch};
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

/// Stands for the number in the Scale of a custom resource that does not say one, while the Scale is being changed.
const UNSAID: i64 = i32::MIN as i64;

/// How many an object wants, if it says so.
fn wanted(resource: &Resource, object: &Value) -> Option<i64> {
    // A Deployment that does not say wants one.
    let unsaid = resource.as_custom().is_none().then_some(1);
    lookup(object, &places(resource).spec_replicas).as_i64().or(unsaid)
}

/// The Scale of an object, with the number that it is to show.
fn scale_of(resource: &Resource, object: &Value, wanted: i64) -> Value {
    let places = places(resource);
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
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": spec(wanted), "status": status,
    })
}

/// The Scale of an object after a change, and for those who judge one: no number is shown as none.
fn shown(resource: &Resource, object: &Value) -> Value {
    scale_of(resource, object, wanted(resource, object).unwrap_or(0))
}

/// A Scale does not show that there are none.
fn spec(wanted: i64) -> Value {
    if wanted == 0 { json!({}) } else { json!({"replicas": wanted}) }
}

/// The object with the number that a Scale wants.
fn scaled(call: Call<'_>, old: &Value, scale: &Value) -> Result<Value, Status> {
    meta::ensure_name(scale, call.name())?;
    let wanted = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    let places = places(call.resource);
    if wanted == UNSAID && call.resource.as_custom().is_some() {
        let why = format!("the spec replicas field {:?} cannot be empty", places.spec_replicas);
        return Err(Status::bad_request(why));
    }
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

/// How a Scale is changed.
#[derive(Clone, Copy)]
enum Change<'a> {
    /// It becomes this.
    To(&'a Value),
    /// By a patch.
    Patch(PatchType, &'a Value),
    /// By an applied configuration; with force or without.
    Apply(&'a Value, bool),
}

/// Scales have one version.
struct OneVersion;

impl Versions for OneVersion {
    fn types(&self, version: &str) -> Option<Type<'_>> {
        (version == scale_kind().group_version().to_string()).then(|| Type::builtin(&scale_kind()))
    }

    fn convert<'a>(&'a self, object: Value, _: &'a str) -> Converted<'a> {
        Box::pin(std::future::ready(Ok(object)))
    }
}

fn scale_kind() -> GroupVersionKind {
    GroupVersion::new("autoscaling", "v1").kind("Scale")
}

/// Where the number is in each version.
fn replicas(resource: &Resource) -> Replicas {
    let Some(custom) = resource.as_custom() else {
        return Replicas::of([(resource.group_version().to_string(), Some(".spec.replicas"))]);
    };
    Replicas::of(custom.family.versions.iter().map(|(name, member)| {
        let path = member.version.scale.as_ref().map(|scale| scale.spec_replicas.as_str());
        (GroupVersion::new(&*resource.group, &**name).to_string(), path)
    }))
}

impl Server {
    pub(super) async fn get_scale(&self, call: Call<'_>) -> Result<Answer, Status> {
        let (_, object) = self.current(call).await?;
        let Some(wanted) = wanted(call.resource, &object) else {
            let place = places(call.resource).spec_replicas;
            return Err(Status::internal(format!("the spec replicas field {place:?} does not exist")));
        };
        Ok(call.answer(200, scale_of(call.resource, &object, wanted), Vec::new()))
    }

    pub(super) async fn update_scale(&self, call: Call<'_>) -> Result<Answer, Status> {
        let options = WriteOptions::update(&call.request.query)?;
        let wanted = call.body()?;
        let unconditional = meta::text(&wanted, "resourceVersion").is_empty();
        self.set_scale(call, &options, unconditional, Change::To(&wanted)).await
    }

    pub(super) async fn patch_scale(&self, call: Call<'_>) -> Result<Answer, Status> {
        let kind = call.request.patch;
        let options = PatchOptions::parse(&call.request.query, kind == PatchType::Apply)?;
        let body = call.body()?;
        let change = match kind {
            PatchType::Apply => Change::Apply(&body, options.force),
            other => Change::Patch(other, &body),
        };
        self.set_scale(call, &options.write, true, change).await
    }

    /// Asks whether an object may replace another, seen as nothing but numbers of replicas.
    pub(super) async fn admit_scale(
        &self,
        call: Call<'_>,
        new: &Value,
        old: &Value,
        dry_run: bool,
    ) -> Result<(), Status> {
        let (new, old) = (shown(call.resource, new), shown(call.resource, old));
        self.admit(call, &new, Some(&old), dry_run).await
    }

    async fn set_scale(
        &self,
        call: Call<'_>,
        options: &WriteOptions,
        again: bool,
        change: Change<'_>,
    ) -> Result<Answer, Status> {
        let replicas = replicas(call.resource);
        let unreadable = |why: String| failure::plain(&why);
        for _ in 0..ATTEMPTS {
            let (stored, old) = self.current(call).await?;
            let number = wanted(call.resource, &old).unwrap_or(UNSAID);
            let mut scale = scale_of(call.resource, &old, number);
            let owners = &old["metadata"]["managedFields"];
            scale["metadata"]["managedFields"] = replicas.to_scale(owners).map_err(unreadable)?;
            let mut changed = self.changed_scale(call, options, &scale, change).await?;
            scale["spec"] = spec(wanted(call.resource, &old).unwrap_or(0));
            self.admit_change(call, &mut changed, Some(&scale), options.dry_run).await?;
            let mut new = scaled(call, &old, &changed)?;
            let version = call.resource.group_version().to_string();
            let owners = replicas.from_scale(owners, &changed["metadata"]["managedFields"], &version);
            new["metadata"]["managedFields"] = owners.map_err(unreadable)?;
            if let Some(updated) = self.replace(call, &stored, &old, new, options.dry_run).await? {
                return Ok(call.answer(200, shown(call.resource, &updated), Vec::new()));
            }
            if !again {
                break;
            }
        }
        Err(Status::modified(&call.resource.group_resource(), call.name()))
    }

    /// The Scale as it is wanted, with its managed fields.
    async fn changed_scale(
        &self,
        call: Call<'_>,
        options: &WriteOptions,
        scale: &Value,
        change: Change<'_>,
    ) -> Result<Value, Status> {
        let writer = Writer {
            versions: &OneVersion,
            kind: &scale_kind(),
            manager: &call.manager(options),
            subresource: call.subresource(),
            ignored: &Set::default(),
            now: self.clock.now(),
        };
        let mut wanted = match change {
            Change::To(wanted) => wanted.clone(),
            Change::Patch(kind, body) => patch::patched(call, kind, scale, body)?,
            Change::Apply(config, force) => {
                return writer.apply(Some(scale), config, force).await.map_err(|error| error.status());
            }
        };
        if wanted["spec"]["replicas"] == 0 {
            wanted["spec"] = spec(0);
        }
        if let Err(error) = writer.update(Some(scale), &mut wanted).await {
            tracing::debug!(?error, "no managed fields for a scale");
        }
        Ok(wanted)
    }
}
