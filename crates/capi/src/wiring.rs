//! Which change has which object looked at.

use std::sync::Arc;

use api::capi::v1beta2::{Cluster, Machine, MachineDeployment, MachineSet};
use kit::{Cache, Change, Key, KindId, Object, Queue, owners};

use crate::context::Context;
use kit::index;

/// Has every controller told of what concerns it.
pub(crate) fn connect(context: &Arc<Context>) {
    let listen = |cache: &Arc<Cache>, tell: fn(&Context, &Change)| {
        let context = Arc::downgrade(context);
        cache.listen("capi", || {
            Arc::new(move |change| {
                if let Some(context) = context.upgrade() {
                    tell(&context, change);
                }
            })
        });
    };
    listen(&context.clusters, cluster_changed);
    listen(&context.machines, machine_changed);
    listen(&context.sets, set_changed);
    listen(&context.deployments, deployment_changed);
    listen(&context.checks, check_changed);
    listen(context.definitions(), definition_changed);
}

fn add(context: &Context, queue: &Queue, object: &Object) {
    if context.ours(object) {
        queue.add(object.key());
    }
}

fn add_all(queue: &Queue, objects: &[Arc<Object>]) {
    for object in objects {
        queue.add(object.key());
    }
}

fn add_owner(object: &Object, kind: &KindId, queue: &Queue) {
    if let Some(owner) = owners::of_kind(object.owners(), kind) {
        queue.add(Key::new(object.namespace(), &owner.name));
    }
}

fn cluster_of(object: &Object) -> Option<Key> {
    let name = object.document()["spec"]["clusterName"].as_str()?;
    Some(Key::new(object.namespace(), name))
}

/// What of a cluster its machines, sets, deployments and checks go by.
fn concerns_others(object: &Object) -> Option<(String, bool)> {
    let document = object.document();
    let gates = [
        &document["spec"]["paused"],
        &document["spec"]["controlPlaneEndpoint"],
        &document["status"]["initialization"],
    ];
    let initialized = document["status"]["conditions"].as_array().and_then(|all| {
        all.iter().find(|one| one["type"] == "ControlPlaneInitialized").map(|one| one["status"].to_string())
    });
    Some((format!("{gates:?} {initialized:?}"), object.deleting()))
}

fn cluster_changed(context: &Context, change: &Change) {
    let object = change.object();
    add(context, &context.queues.clusters, object);
    let before = change.before.as_ref().and_then(|object| concerns_others(object));
    if before == change.after.as_ref().and_then(|object| concerns_others(object)) {
        return;
    }
    let entry = index::cluster(object.namespace(), object.name());
    let queues = &context.queues;
    add_all(&queues.machines, &context.machines.filed(&entry));
    add_all(&queues.sets, &context.sets.filed(&entry));
    add_all(&queues.deployments, &context.deployments.filed(&entry));
    add_all(&queues.checks, &context.checks.filed(&entry));
}

fn machine_changed(context: &Context, change: &Change) {
    let object = change.object();
    let queues = &context.queues;
    add(context, &queues.machines, object);
    add_owner(object, &KindId::of::<MachineSet>(), &queues.sets);
    // A machine without an owner may be adopted.
    if owners::controller(object.owners()).is_none()
        && let Some(cluster) = cluster_of(object)
    {
        add_all(&queues.sets, &context.sets.filed(&index::cluster(&cluster.namespace, &cluster.name)));
    }
    if let Some(cluster) = cluster_of(object) {
        let entry = index::cluster(&cluster.namespace, &cluster.name);
        add_all(&queues.checks, &context.checks.filed(&entry));
        queues.clusters.add(cluster);
    }
}

fn set_changed(context: &Context, change: &Change) {
    let object = change.object();
    let queues = &context.queues;
    add(context, &queues.sets, object);
    add_owner(object, &KindId::of::<MachineDeployment>(), &queues.deployments);
    let Some(cluster) = cluster_of(object) else { return };
    if owners::controller(object.owners()).is_none() {
        let entry = index::cluster(&cluster.namespace, &cluster.name);
        add_all(&queues.deployments, &context.deployments.filed(&entry));
    }
    // Machines tell by their set's template and revision whether they are up to date.
    let says = |object: &Arc<Object>| {
        (object.document()["spec"]["template"].clone(), object.meta().annotations.clone())
    };
    if change.before.as_ref().map(says) != change.after.as_ref().map(says) {
        add_all(&queues.machines, &context.machines.filed(&index::owner(object.uid())));
    }
    queues.clusters.add(cluster);
}

fn deployment_changed(context: &Context, change: &Change) {
    let object = change.object();
    let queues = &context.queues;
    add(context, &queues.deployments, object);
    let Some(cluster) = cluster_of(object) else { return };
    let says = |object: &Arc<Object>| (object.document()["spec"].clone(), object.meta().annotations.clone());
    if change.before.as_ref().map(says) != change.after.as_ref().map(says) {
        for set in context.sets.filed(&index::owner(object.uid())) {
            queues.sets.add(set.key());
            add_all(&queues.machines, &context.machines.filed(&index::owner(set.uid())));
        }
    }
    queues.clusters.add(cluster);
}

fn check_changed(context: &Context, change: &Change) {
    add(context, &context.queues.checks, change.object());
}

/// A provider was installed, or its labels changed: whoever refers to its kind looks again.
fn definition_changed(context: &Context, change: &Change) {
    context.caches.kinds_changed();
    let spec = &change.object().document()["spec"];
    let (Some(group), Some(kind)) = (spec["group"].as_str(), spec["names"]["kind"].as_str()) else { return };
    let entry = index::reference_kind(group, kind);
    let queues = &context.queues;
    add_all(&queues.clusters, &context.clusters.filed(&entry));
    add_all(&queues.machines, &context.machines.filed(&entry));
    add_all(&queues.sets, &context.sets.filed(&entry));
    add_all(&queues.deployments, &context.deployments.filed(&entry));
    add_all(&queues.checks, &context.checks.filed(&entry));
}

/// A provider's object changed: its owners look again, and whoever refers to it.
pub(crate) fn external_changed(context: &Context, kind: &KindId, change: &Change) {
    let object = change.object();
    let queues = &context.queues;
    add_owner(object, &KindId::of::<Cluster>(), &queues.clusters);
    add_owner(object, &KindId::of::<Machine>(), &queues.machines);
    let entry = index::reference(object.namespace(), &kind.group, &kind.kind, object.name());
    add_all(&queues.clusters, &context.clusters.filed(&entry));
    add_all(&queues.machines, &context.machines.filed(&entry));
    // Templates are looked at for what they are, not for their status.
    let generation =
        |object: &Arc<Object>| (object.meta().generation, object.meta().owner_references.clone());
    if change.before.as_ref().map(generation) != change.after.as_ref().map(generation) {
        add_all(&queues.sets, &context.sets.filed(&entry));
        add_all(&queues.deployments, &context.deployments.filed(&entry));
        add_all(&queues.checks, &context.checks.filed(&entry));
    }
    // Preflight checks look at the control plane: sets that wait for it are told by the cluster's own change.
    for cluster in context.clusters.filed(&entry) {
        let entry = index::cluster(cluster.namespace(), cluster.name());
        let version = |object: &Arc<Object>| {
            let document = object.document();
            (
                document["spec"]["version"].clone(),
                document["status"]["versions"].clone(),
                document["status"]["version"].clone(),
            )
        };
        if change.before.as_ref().map(version) != change.after.as_ref().map(version) {
            add_all(&queues.sets, &context.sets.filed(&entry));
        }
    }
}

/// A node of a cluster changed, or the connection to the cluster did.
pub(crate) fn cluster_reached(context: &Context, cluster: &Key) {
    let entry = index::cluster(&cluster.namespace, &cluster.name);
    context.queues.clusters.add(cluster.clone());
    add_all(&context.queues.machines, &context.machines.filed(&entry));
    add_all(&context.queues.checks, &context.checks.filed(&entry));
}

/// A node of a cluster changed.
pub(crate) fn node_changed(context: &Context, cluster: &Key, change: &Change) {
    let node = change.object();
    let mut machines = context.machines.filed(&index::node(&cluster.namespace, &cluster.name, node.name()));
    if machines.is_empty()
        && let Some(id) = node.document()["spec"]["providerID"].as_str()
    {
        machines = context.machines.filed(&index::provider_id(id));
        machines.retain(|machine| cluster_of(machine).as_ref() == Some(cluster));
    }
    add_all(&context.queues.machines, &machines);
    let conditions = |object: &Arc<Object>| {
        object.document()["status"]["conditions"]
            .as_array()
            .map(|all| all.iter().map(|one| (one["type"].clone(), one["status"].clone())).collect::<Vec<_>>())
    };
    if change.before.as_ref().map(conditions) != change.after.as_ref().map(conditions) {
        let entry = index::cluster(&cluster.namespace, &cluster.name);
        add_all(&context.queues.checks, &context.checks.filed(&entry));
    }
}
