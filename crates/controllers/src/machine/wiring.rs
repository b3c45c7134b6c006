//! Which change has which machine looked at.

use std::sync::Arc;

use api::catalogue::labels;
use api::machine::{Driver, GROUP};
use kit::{Cache, Change, Key, Object, index};

use super::context::Context;

/// Has every machine told of what concerns it.
pub(super) fn connect(context: &Arc<Context>) {
    let listen = |cache: &Arc<Cache>, tell: fn(&Arc<Context>, &Change)| {
        let context = Arc::downgrade(context);
        cache.listen("machine", || {
            Arc::new(move |change| {
                if let Some(context) = context.upgrade() {
                    tell(&context, change);
                }
            })
        });
    };
    listen(&context.definitions, definition_changed);
    listen(&context.machines, machine_changed);
    listen(&context.clusters, cluster_changed);
    listen(&context.drivers, driver_changed);
    listen(&context.jobs, job_changed);
    listen(&context.secrets, secret_changed);
    listen(&context.set_by_users, |context, _| context.all_kinds().iter().for_each(|kind| kind.add_all()));
}

/// A driver's kinds were made.
fn definition_changed(context: &Arc<Context>, change: &Change) {
    context.caches.kinds_changed();
    let spec = &change.object().document()["spec"];
    let kind = spec["names"]["kind"].as_str().filter(|_| spec["group"] == GROUP);
    if let Some(driver) = kind.and_then(Driver::of_machine_kind) {
        context.watch(driver);
    }
}

/// What a server is made by is in its Machine's spec and metadata; the status of a Machine changes often, and follows the server's.
fn machine_changed(context: &Arc<Context>, change: &Change) {
    let says = |object: &Arc<Object>| {
        let meta = object.meta();
        (meta.generation, meta.labels.clone(), meta.annotations.clone(), object.deleting())
    };
    if change.before.as_ref().map(says) != change.after.as_ref().map(says) {
        refer(context, change.object());
    }
}

/// The infrastructure machine of a Machine.
fn refer(context: &Context, machine: &Object) {
    let reference = &machine.document()["spec"]["infrastructureRef"];
    let (kind, name) = (reference["kind"].as_str(), reference["name"].as_str());
    if let (Some(kind), Some(name)) = (kind.and_then(|kind| context.kind(kind)), name) {
        kind.queue.add(Key::new(machine.namespace(), name));
    }
}

/// What machines go by: whether there is a cluster, whether it is paused, whether its infrastructure is there.
fn cluster_changed(context: &Arc<Context>, change: &Change) {
    let says = |object: &Arc<Object>| {
        let document = object.document();
        (document["spec"]["paused"].clone(), document["status"]["initialization"].clone())
    };
    if change.before.as_ref().map(says) == change.after.as_ref().map(says) {
        return;
    }
    let cluster = change.object();
    let entry = index::cluster(cluster.namespace(), cluster.name());
    context.machines.filed(&entry).iter().for_each(|machine| refer(context, machine));
}

/// A driver came, went, or was switched: by its name or by the name that users see.
fn driver_changed(context: &Arc<Context>, change: &Change) {
    let object = change.object();
    let name = object.document()["spec"]["displayName"].as_str().filter(|name| !name.is_empty());
    let driver = Driver::named(name.unwrap_or(object.name()));
    if let Some(kind) = driver.and_then(|driver| context.kind(&driver.machine_kind())) {
        kind.add_all();
    }
}

fn job_changed(context: &Arc<Context>, change: &Change) {
    let job = change.object();
    let (kind, name) = (job.label(labels::INFRA_MACHINE_KIND), job.label(labels::INFRA_MACHINE_NAME));
    if let (Some(kind), Some(name)) = (kind.and_then(|kind| context.kind(kind)), name) {
        kind.queue.add(Key::new(job.namespace(), name));
    }
}

/// A credential that is waited for may have come.
fn secret_changed(context: &Arc<Context>, change: &Change) {
    let secret = change.object();
    if change.before.is_some() || !super::installation::is_credential(secret) {
        return;
    }
    for kind in context.all_kinds() {
        let names = |machine: &&Arc<Object>| {
            let name = machine.document().pointer("/spec/common/cloudCredentialSecretName");
            name.and_then(|name| name.as_str()).is_some_and(|name| {
                super::installation::credential_key(machine.namespace(), name) == secret.key()
            })
        };
        kind.cache
            .filed(&index::names(secret.name()))
            .iter()
            .filter(names)
            .for_each(|machine| kind.queue.add(machine.key()));
    }
}
