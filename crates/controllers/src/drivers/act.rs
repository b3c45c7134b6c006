//! What is done about node drivers. Nothing is decided here.

use std::sync::Arc;

use api::management::v3::{DynamicSchema, NodeDriver, NodeDriverStatus};
use api::overlay;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kit::{Key, Object, Turn};
use kube::Api;
use kube::api::{PatchParams, PostParams};
use serde_json::json;

use super::SPECIAL;
use super::catalogue::{self, Builtin};
use super::context::{Context, Error, MANAGER};

/// On a CRD of a driver's: digest of what we made it from, so that it is written when that changes, and only then.
const DIGEST: &str = "herdsman.io/definition";

/// Makes the NodeDrivers that come with us, unless they are there: what users changed on them stays.
pub(super) async fn put_in_place(context: &Context) {
    for builtin in catalogue::builtins(&context.settings) {
        // Somebody else may be faster; whatever else is wrong, the next start tries again.
        if let Err(error) = put_one(context, &builtin).await {
            tracing::warn!(driver = builtin.name, %error, "a node driver is not put in place");
        }
    }
}

async fn put_one(context: &Context, builtin: &Builtin) -> Result<(), kit::write::Error> {
    if context.drivers.get(&Key::new("", &builtin.name)).is_some() {
        return Ok(());
    }
    let turn = Turn::default();
    match context.writer.create(&turn, &context.drivers, builtin.document()).await {
        Err(error) if error.code() == Some(409) => Ok(()),
        done => done.map(drop),
    }
}

/// Writes a DynamicSchema if it is not so already.
pub(super) async fn apply_schema(
    context: &Context,
    turn: &Turn,
    schema: &DynamicSchema,
) -> Result<(), Error> {
    let key = Key::of(&schema.metadata);
    let document = json!(schema);
    let Some(found) = context.schemas.get(&key) else {
        context.writer.create(turn, &context.schemas, document).await?;
        return Ok(());
    };
    let before = found.document();
    // What others wrote into annotations stays.
    let ours = |document: &serde_json::Value| {
        let special = &document["metadata"]["annotations"][SPECIAL];
        let metadata = json!({"labels": document["metadata"]["labels"], "annotations": {SPECIAL: special}});
        json!({"metadata": metadata, "spec": document["spec"]})
    };
    match overlay::merge_patch(&ours(before), &ours(&document)) {
        Some(patch) => Ok(context.writer.patch(turn, &context.schemas, &key, patch).await?),
        None => Ok(()),
    }
}

/// Makes a driver's three kinds, or brings them up to date.
pub(super) async fn apply_definitions(context: &Context, schema: &DynamicSchema) -> Result<(), Error> {
    let Some(kinds) = provisioning::machine::kinds(schema)? else { return Ok(()) };
    for kind in kinds {
        apply_definition(context, kind).await?;
    }
    context.caches.kinds_changed();
    Ok(())
}

async fn apply_definition(context: &Context, mut wanted: CustomResourceDefinition) -> Result<(), Error> {
    let name = wanted.metadata.name.clone().unwrap_or_default();
    let digest = catalogue::digest(&json!(wanted));
    wanted.metadata.annotations.get_or_insert_default().insert(DIGEST.into(), digest.clone());
    let api: Api<CustomResourceDefinition> = Api::all(context.caches.client().clone());
    let refused = |what: &'static str| {
        let name = name.clone();
        move |answer: kube::Error| Error::Definition { what, name, answer: Box::new(answer) }
    };
    let Some(found) = api.get_opt(&name).await.map_err(refused("read"))? else {
        let options = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        return api.create(&options, &wanted).await.map(drop).map_err(refused("create"));
    };
    let marks = found.metadata.annotations.as_ref();
    if marks.and_then(|marks| marks.get(DIGEST)) == Some(&digest) {
        return Ok(());
    }
    // The whole list of versions is ours; what others wrote beside it stays.
    let patch = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"labels": wanted.metadata.labels, "annotations": wanted.metadata.annotations},
        "spec": wanted.spec,
    });
    let options = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    api.patch(&name, &options, &kube::api::Patch::Merge(patch)).await.map(drop).map_err(refused("change"))
}

/// Writes what changed of the status. It is no subresource of this kind.
pub(super) async fn write_status(
    context: &Context,
    turn: &Turn,
    object: &Arc<Object>,
    driver: &NodeDriver,
    status: NodeDriverStatus,
) -> Result<(), Error> {
    let before = json!({"status": driver.status});
    match overlay::merge_patch(&before, &json!({"status": status})) {
        Some(patch) => Ok(context.writer.patch(turn, &context.drivers, &object.key(), patch).await?),
        None => Ok(()),
    }
}
