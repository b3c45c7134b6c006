//! What is done about a cluster that goes.

use std::sync::Arc;

use api::capi::v1beta2::ContractVersionedObjectReference;
use api::catalogue::labels;
use api::machine::Driver;
use api::names;
use api::provisioning::v1::Cluster;
use api::rke::v1::CustomMachine;
use kit::{Cache, Ended, Key, Object, Turn, index};
use provisioning::removal::{self, Facts, Step};
use provisioning::{Object as Document, object::Id, status};
use serde_json::json;

use super::LOOK_AGAIN;
use super::context::Context;
use super::{gather, identity};
use crate::error::Error;
use crate::objects::document;

/// What is left of a cluster.
struct Left {
    management: Option<Document>,
    capi_cluster: Option<Document>,
    control_plane: Option<Document>,
    machines: Vec<Document>,
    infrastructure: Vec<Document>,
    bootstraps: Vec<Document>,
    others: Vec<Document>,
    user_exists: bool,
}

/// One look at a cluster that goes: steps, then what is waited for.
pub(super) async fn look(context: &Arc<Context>, turn: &Turn, object: &Arc<Object>) -> Result<Ended, Error> {
    let cluster: Arc<Cluster> = object.view()?;
    let left = gather(context, object, &cluster).await?;
    let removal = removal::decide(&Facts {
        cluster: &cluster,
        management: left.management.as_ref(),
        capi_cluster: left.capi_cluster.as_ref(),
        control_plane: left.control_plane.as_ref(),
        machines: &left.machines,
        infrastructure: &left.infrastructure,
        bootstraps: &left.bootstraps,
        others: &left.others,
        user_exists: left.user_exists,
    });
    let known = &context.known;
    let kind = known.clusters.kind();
    let waits: Vec<_> = removal.wait.iter().cloned().collect();
    context.told.tell(&context.events, kind, object, &waits).await;
    let released = removal.steps.iter().any(|step| matches!(step, Step::Release(_)));
    if !released {
        // The last write takes the object away: nothing is said after it.
        let mut after = cluster.status.clone().unwrap_or_default();
        after.conditions = status::removing(&after.conditions, removal.finding(), &context.stamp());
        context.objects.set_status(turn, &known.clusters, object, &after).await?;
    }
    for step in removal.steps {
        act(context, turn, object, step).await?;
    }
    Ok(Ended::Again(LOOK_AGAIN))
}

async fn gather(context: &Arc<Context>, object: &Object, cluster: &Cluster) -> Result<Left, Error> {
    let (key, known) = (object.key(), &context.known);
    let entry = index::cluster(&key.namespace, &key.name);
    let one = |cache: &Cache| cache.get(&key).map(|object| document(&object));
    let all = |cache: &Cache, entry: &str| -> Vec<Document> {
        cache.filed(entry).iter().map(|object| document(object)).collect()
    };
    let management = identity::management(known, cluster, &identity::of(known, cluster));
    let user = names::user(&names::provisioning_principal(&key.namespace, &key.name));
    Ok(Left {
        management: management.map(|object| document(&object)),
        capi_cluster: one(&known.capi_clusters),
        control_plane: one(&known.control_planes),
        machines: all(&known.machines, &entry),
        infrastructure: infrastructure(context, cluster, &key, &entry).await?,
        bootstraps: all(&known.bootstraps, &entry),
        others: others(context, cluster, &key, &entry).await?,
        user_exists: known.users.get(&Key::new("", &user)).is_some(),
    })
}

/// Infrastructure machines and clusters that bear the cluster's name, of every kind that it may have.
async fn infrastructure(
    context: &Arc<Context>,
    cluster: &Cluster,
    key: &Key,
    entry: &str,
) -> Result<Vec<Document>, Error> {
    let mut caches = gather::of_drivers(context, Driver::of_machine_kind).await?;
    caches.push(context.objects.of::<CustomMachine>());
    caches.push(context.known.infrastructure.clone());
    for source in super::context::sources(cluster) {
        let provisioning::graph::Source::Native(template) = source else { continue };
        let Some(kind) = template.kind.strip_suffix("Template").map(str::to_owned) else { continue };
        caches
            .extend(gather::provider(context, &ContractVersionedObjectReference { kind, ..template }).await?);
    }
    let mut found: Vec<Document> =
        caches.iter().flat_map(|cache| cache.filed(entry)).map(|object| document(&object)).collect();
    let reference = cluster.spec.rke_config.as_ref().and_then(|config| config.infrastructure_ref.as_ref());
    if let Some(reference) = reference {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let cache = gather::watched(context, &text(&reference.api_version), &text(&reference.kind)).await?;
        let object = cache.and_then(|cache| cache.get(&Key::new(&key.namespace, &text(&reference.name))));
        found.extend(object.map(|object| document(&object)));
    }
    Ok(found)
}

/// What was made from the cluster and goes with it, but for what [`removal`] has a place for. A namespace that was not made for it stays,
/// whatever marks it has.
async fn others(
    context: &Arc<Context>,
    cluster: &Cluster,
    key: &Key,
    entry: &str,
) -> Result<Vec<Document>, Error> {
    let known = &context.known;
    let made = index::made_from(&key.namespace, &key.name);
    let templates = gather::of_drivers(context, Driver::of_template_kind).await?;
    let caches = [&known.bootstrap_templates, &known.checks, &known.beacons];
    let mut found: Vec<Arc<Object>> =
        caches.into_iter().chain(&templates).flat_map(|cache| cache.filed(&made)).collect();
    let namespaces = known.namespaces.filed(&made).into_iter();
    found.extend(namespaces.filter(|one| identity::owns_namespace(cluster, one)));
    found.extend(known.deployments.filed(entry));
    found.extend(known.sets.filed(entry));
    found.retain(|object| object.label(labels::OBJECTSET_PRUNE) != Some("false"));
    Ok(found.iter().map(|object| document(object)).collect())
}

async fn act(context: &Arc<Context>, turn: &Turn, cluster: &Object, step: Step) -> Result<(), Error> {
    let objects = &context.objects;
    match step {
        Step::Delete(id) => objects.delete(turn, &id).await?,
        Step::Unpause(id) => objects.patch(turn, &id, json!({"spec": {"paused": false}})).await?,
        Step::Force { id, annotation } => {
            objects.patch(turn, &id, json!({"metadata": {"annotations": {annotation: "true"}}})).await?;
        }
        Step::GiveUp(id) => objects.patch(turn, &id, json!({"metadata": {"finalizers": null}})).await?,
        Step::Release(ours) => release(context, turn, cluster, &ours).await?,
    }
    Ok(())
}

/// Takes our finalizers off the cluster.
async fn release(context: &Context, turn: &Turn, cluster: &Object, ours: &[&str]) -> Result<(), Error> {
    let mut left = cluster.meta().finalizers.clone().unwrap_or_default();
    left.retain(|one| !ours.contains(&one.as_str()));
    let metadata = json!({"finalizers": left, "resourceVersion": cluster.meta().resource_version});
    let id = Id {
        api_version: context.known.clusters.kind().api_version(),
        kind: context.known.clusters.kind().kind.clone(),
        namespace: cluster.namespace().into(),
        name: cluster.name().into(),
    };
    Ok(context.objects.patch(turn, &id, json!({"metadata": metadata})).await?)
}
