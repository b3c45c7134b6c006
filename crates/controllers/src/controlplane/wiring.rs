//! Which change has what looked at.

use std::sync::Arc;

use api::catalogue::{annotations, conditions, secrets};
use kit::{Cache, Change, Key, KindId, Object, index};

use super::context::Context;

/// The name under which this group listens to caches.
const LISTENER: &str = "controlplane";

/// Has every controller told of what concerns it.
pub(crate) fn connect(context: &Arc<Context>) {
    let listen = |cache: &Arc<Cache>, tell: fn(&Context, &Change)| {
        let context = Arc::downgrade(context);
        cache.listen(LISTENER, || {
            Arc::new(move |change| {
                if let Some(context) = context.upgrade() {
                    tell(&context, change);
                }
            })
        });
    };
    listen(&context.control_planes, control_plane_changed);
    listen(&context.beacons, control_plane_changed);
    listen(&context.clusters, cluster_changed);
    listen(&context.machines, machine_changed);
    listen(&context.bootstraps, bootstrap_changed);
    listen(&context.deployments, deployment_changed);
    listen(&context.secrets, secret_changed);
    listen(&context.config_maps, config_map_changed);
    listen(&context.management, management_changed);
    listen(&context.registrations, registration_changed);
    listen(&context.server_settings, |context, _| all(context));
    listen(&context.features, |context, _| all(context));
    let told = Arc::downgrade(context);
    context.access.listen(Arc::new(move |cluster| {
        if let Some(context) = told.upgrade() {
            reached(&context, cluster);
        }
    }));
}

/// Says where our own end is, and looks again at all control planes whenever that changes.
pub(crate) async fn follow_server(context: &Arc<Context>) {
    let mut server = context.server.clone();
    server.mark_unchanged();
    super::published::publish(context).await;
    while server.changed().await.is_ok() {
        super::published::publish(context).await;
        all(context);
    }
    std::future::pending().await
}

fn all(context: &Context) {
    for object in context.control_planes.all() {
        context.queues.control_planes.add(object.key());
    }
}

fn add_cluster(context: &Context, namespace: &str, cluster: &str) {
    for key in context.control_planes_of(&Key::new(namespace, cluster)) {
        context.queues.control_planes.add(key);
    }
}

fn control_plane_changed(context: &Context, change: &Change) {
    context.queues.control_planes.add(change.object().key());
}

fn cluster_changed(context: &Context, change: &Change) {
    let object = change.object();
    add_cluster(context, object.namespace(), object.name());
}

fn machine_changed(context: &Context, change: &Change) {
    let object = change.object();
    if let Some(cluster) = object.document()["spec"]["clusterName"].as_str() {
        add_cluster(context, object.namespace(), cluster);
    }
    context.queues.lookups.add(object.key());
    let node = |object: &Arc<Object>| object.document()["status"]["nodeRef"].clone();
    if change.before.as_ref().map(node) != change.after.as_ref().map(node)
        && let Some(name) =
            object.document().pointer("/spec/bootstrap/configRef/name").and_then(|name| name.as_str())
    {
        let secret = api::names::plan_secret(api::names::Bootstrap(name));
        context.queues.drains.add(Key::new(object.namespace(), &secret));
    }
}

fn bootstrap_changed(context: &Context, change: &Change) {
    let object = change.object();
    let says = |object: &Arc<Object>| {
        let meta = object.meta();
        (meta.labels.clone(), meta.annotations.clone(), meta.owner_references.clone(), object.deleting())
    };
    if change.before.as_ref().map(says) != change.after.as_ref().map(says)
        && let Some(cluster) = object.document()["spec"]["clusterName"].as_str()
    {
        add_cluster(context, object.namespace(), cluster);
    }
}

fn deployment_changed(context: &Context, change: &Change) {
    let object = change.object();
    let says = |object: &Arc<Object>| object.document()["spec"].clone();
    if change.before.as_ref().map(says) != change.after.as_ref().map(says)
        && let Some(cluster) = object.document()["spec"]["clusterName"].as_str()
    {
        add_cluster(context, object.namespace(), cluster);
    }
}

fn secret_changed(context: &Context, change: &Change) {
    let object = change.object();
    let key = object.key();
    let queues = &context.queues;
    if object.document()["type"] == secrets::types::MACHINE_PLAN {
        if let Some(planned) = context.planned(&key) {
            add_cluster(context, &key.namespace, planned.cluster());
        }
        if change.after.is_some() {
            queues.plans.add(key.clone());
        }
        if object.annotation(annotations::DRAIN_OPTIONS).is_some() {
            queues.drains.add(key);
        }
        return;
    }
    for control_plane in context.interested("Secret", &key) {
        queues.control_planes.add(control_plane);
    }
    if let Some(clusters) = object.annotation(annotations::AUTHORIZED_FOR_CLUSTERS)
        && object.annotation(annotations::SYNC_BOOTSTRAP).is_some()
    {
        clusters.split(',').for_each(|name| queues.control_planes.add(Key::new(&key.namespace, name.trim())));
    }
    if let Some(cluster) = key.name.strip_suffix("-kubeconfig") {
        add_cluster(context, &key.namespace, cluster);
    }
}

fn config_map_changed(context: &Context, change: &Change) {
    for control_plane in context.interested("ConfigMap", &change.object().key()) {
        context.queues.control_planes.add(control_plane);
    }
}

/// The control planes of a management cluster.
fn add_management(context: &Context, name: &str) {
    for object in context.control_planes.filed(&kit::index::managed_as(name)) {
        context.queues.control_planes.add(object.key());
    }
}

fn management_changed(context: &Context, change: &Change) {
    // Whoever reports on a cluster writes often; only what plans and status go by counts.
    let says = |object: &Arc<Object>| {
        let document = object.document();
        let listed = document["status"]["conditions"].as_array();
        let status = |type_: &str| {
            let found = listed.into_iter().flatten().find(|one| one["type"] == type_);
            found.map(|one| one["status"].clone())
        };
        (document["spec"].clone(), [conditions::CONNECTED, conditions::PRE_BOOTSTRAPPED].map(status))
    };
    if change.before.as_ref().map(says) != change.after.as_ref().map(says) {
        add_management(context, change.object().name());
    }
}

fn registration_changed(context: &Context, change: &Change) {
    add_management(context, change.object().namespace());
}

/// The way to a cluster opened or closed, or one of its nodes changed.
fn reached(context: &Context, cluster: &Key) {
    add_cluster(context, &cluster.namespace, &cluster.name);
    for machine in context.machines.filed(&index::cluster(&cluster.namespace, &cluster.name)) {
        if machine.document()["spec"]["providerID"].as_str().unwrap_or_default().is_empty() {
            context.queues.lookups.add(machine.key());
        }
        let bootstrap =
            machine.document().pointer("/spec/bootstrap/configRef/name").and_then(|name| name.as_str());
        let Some(bootstrap) = bootstrap else { continue };
        let key = Key::new(&cluster.namespace, &api::names::plan_secret(api::names::Bootstrap(bootstrap)));
        let drains = |secret: Arc<Object>| secret.annotation(annotations::DRAIN_OPTIONS).is_some();
        if context.secrets.get(&key).is_some_and(drains) {
            context.queues.drains.add(key);
        }
    }
}

/// Has the infrastructure machines of a kind followed.
pub(crate) fn follow_infrastructure(context: &Arc<Context>, kind: &KindId, cache: &Arc<Cache>) {
    let told = Arc::downgrade(context);
    let kind = kind.clone();
    cache.listen(LISTENER, || {
        Arc::new(move |change| {
            if let Some(context) = told.upgrade() {
                infrastructure_changed(&context, &kind, change);
            }
        })
    });
}

fn infrastructure_changed(context: &Context, kind: &KindId, change: &Change) {
    let object = change.object();
    let entry = index::reference(object.namespace(), &kind.group, &kind.kind, object.name());
    for machine in context.machines.filed(&entry) {
        context.queues.lookups.add(machine.key());
        if let Some(cluster) = machine.document()["spec"]["clusterName"].as_str() {
            add_cluster(context, machine.namespace(), cluster);
        }
    }
}
