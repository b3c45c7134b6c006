//! Which change has which cluster looked at.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::catalogue::{annotations, labels, namespaces};
use api::machine::{self, Driver};
use api::provisioning::v1::Cluster;
use kit::{Cache, Change, Key, Object, lineage};
use provisioning::admission::SecretRef;
use provisioning::graph::{Source, source};
use provisioning::restore;

use super::context::{Context, sources};
use crate::objects::listen;

/// A cluster is looked at so long after a machine of it changed: that changes nothing but what is said of it, and machines change often.
const SOON: Duration = Duration::from_secs(3);

/// The name under which this group listens to caches.
const LISTENER: &str = "provisioning";

/// Has the controllers told of what concerns them.
pub(super) fn connect(context: &Arc<Context>) {
    let known = &context.known;
    let on = |cache: &Arc<Cache>, tell: fn(&Arc<Context>, &Change)| listen(cache, LISTENER, context, tell);
    on(&known.clusters, cluster_changed);
    on(&known.management, management_changed);
    on(&known.tokens, |context, change| context.tokens.add(change.object().key()));
    on(&known.schemas, schema_changed);
    on(&known.snapshots, snapshot_changed);
    on(&known.secrets, secret_changed);
    on(&known.namespaces, namespace_changed);
    on(context.settings.cache(), |context, _| add_all(context, &context.known.clusters.all()));
    on(context.objects.definitions(), definition_changed);
    for cache in [&known.infrastructure, &known.control_planes, &known.capi_clusters, &known.beacons] {
        on(cache, |context, change| context.clusters.add(change.object().key()));
    }
    for cache in [&known.bootstrap_templates, &known.deployments, &known.sets, &known.checks] {
        on(cache, part_changed);
    }
    for cache in [&known.bootstraps, &known.machines] {
        on(cache, machine_changed);
    }
}

/// Has the controllers told of a kind that is known only while running.
pub(super) fn follow(context: &Arc<Context>, cache: &Arc<Cache>) {
    match cache.kind().group.as_str() {
        machine::CONFIG_GROUP => {
            let kind = cache.kind().kind.clone();
            listen(cache, LISTENER, context, move |context, change| {
                config_changed(context, &kind, change.object());
            });
        }
        group => {
            let (group, kind) = (group.to_owned(), cache.kind().kind.clone());
            let of_machine = group == machine::GROUP && Driver::of_machine_kind(&kind).is_some();
            listen(cache, LISTENER, context, move |context, change| match of_machine {
                true => machine_changed(context, change),
                false => {
                    part_changed(context, change);
                    named_changed(context, &group, &kind, change);
                }
            });
        }
    }
}

fn add_all(context: &Context, clusters: &[Arc<Object>]) {
    for cluster in clusters {
        context.clusters.add(cluster.key());
    }
}

fn cluster_changed(context: &Arc<Context>, change: &Change) {
    context.clusters.add(change.object().key());
    // Commands for hosts carry the cluster's variables.
    let variables = |object: &Arc<Object>| object.document()["spec"]["agentEnvVars"].clone();
    if change.before.as_ref().map(variables) != change.after.as_ref().map(variables) {
        let management = lineage::management(&context.known.management, change.object());
        let tokens = management.map(|found| context.known.tokens.within(found.name())).unwrap_or_default();
        tokens.iter().for_each(|token| context.tokens.add(token.key()));
    }
}

/// Whoever names it, and whom it was made for. Commands for hosts carry the variables of the latter.
fn management_changed(context: &Arc<Context>, change: &Change) {
    let of = kit::index::managed_as(change.object().name());
    add_all(context, &context.known.clusters.filed(&of));
    let owner = |object: &Arc<Object>| lineage::owner(object);
    let (before, after) = (change.before.as_ref().and_then(owner), change.after.as_ref().and_then(owner));
    for owner in [&before, &after].into_iter().flatten() {
        context.clusters.add(Key::new(&owner.namespace, &owner.name));
    }
    if before != after {
        let tokens = context.known.tokens.within(change.object().name());
        tokens.iter().for_each(|token| context.tokens.add(token.key()));
    }
}

/// A namespace of a cluster, or one whose name a cluster names as its id.
fn namespace_changed(context: &Arc<Context>, change: &Change) {
    part_changed(context, change);
    if change.before.is_none() || change.after.is_none() {
        let of = kit::index::managed_as(change.object().name());
        add_all(context, &context.known.clusters.filed(&of));
    }
}

/// Something that was made from a cluster, or that belongs to it.
fn part_changed(context: &Arc<Context>, change: &Change) {
    for key in clusters_of(change) {
        context.clusters.add(key);
    }
}

/// A machine of a cluster, or a part of one. What goes may be what a deletion waits for.
fn machine_changed(context: &Arc<Context>, change: &Change) {
    let wait = if change.after.is_some() { SOON } else { Duration::ZERO };
    for key in clusters_of(change) {
        context.clusters.add_after(key, wait);
    }
}

/// The clusters that an object was made from, or belongs to, or did before.
fn clusters_of(change: &Change) -> BTreeSet<Key> {
    let mut all = BTreeSet::new();
    for object in [&change.before, &change.after].into_iter().flatten() {
        if let Some(name) = object.annotation(annotations::OBJECTSET_OWNER_NAME) {
            let namespace = object.annotation(annotations::OBJECTSET_OWNER_NAMESPACE).unwrap_or_default();
            all.insert(Key::new(namespace, name));
        }
        if let Some(owner) = lineage::owner(object) {
            all.insert(Key::new(&owner.namespace, &owner.name));
        }
        let named = object.document()["spec"]["clusterName"].as_str();
        if let Some(name) = named.or_else(|| object.label(labels::CAPI_CLUSTER_NAME)) {
            all.insert(Key::new(object.namespace(), name));
        }
    }
    all
}

/// An object of a provider that clusters name: it has nothing of ours on it before Cluster API takes it.
fn named_changed(context: &Arc<Context>, group: &str, kind: &str, change: &Change) {
    let object = change.object();
    let names = |at: &Object, cluster: &Cluster| {
        if at.namespace() != object.namespace() {
            return false;
        }
        let infrastructure = cluster.spec.rke_config.as_ref().and_then(|one| one.infrastructure_ref.as_ref());
        let infrastructure = infrastructure.is_some_and(|one| {
            one.kind.as_deref() == Some(kind) && one.name.as_deref() == Some(object.name())
        });
        infrastructure
            || sources(cluster).any(|source| {
                matches!(source, Source::Native(one)
                    if one.api_group == group && one.kind == kind && one.name == object.name())
            })
    };
    if change.before.is_none() || change.after.is_none() {
        add_all(context, &context.clusters_naming(object.name(), names));
    }
}

fn config_changed(context: &Arc<Context>, kind: &str, object: &Object) {
    let uses = |at: &Object, cluster: &Cluster| {
        at.namespace() == object.namespace()
            && sources(cluster).any(|source| {
                matches!(source, Source::Driver(one) if one.kind == kind && one.name == object.name())
            })
    };
    add_all(context, &context.clusters_naming(object.name(), uses));
}

fn schema_changed(context: &Arc<Context>, change: &Change) {
    let name = change.object().name();
    let uses = |_: &Object, cluster: &Cluster| {
        let mut pools = cluster.spec.rke_config.iter().flat_map(|config| &config.machine_pools);
        pools.any(|pool| source::driver(pool).is_some_and(|driver| driver.schema_name() == name))
    };
    add_all(context, &context.clusters_where(uses));
}

fn snapshot_changed(context: &Arc<Context>, change: &Change) {
    let object = change.object();
    part_changed(context, change);
    let wants = |at: &Object, cluster: &Cluster| {
        at.namespace() == object.namespace() && restore::wanted(&cluster.spec) == Some(object.name())
    };
    add_all(context, &context.clusters_where(wants));
}

/// Credentials matter when they come and go, kubeconfigs too; tokens when they change.
fn secret_changed(context: &Arc<Context>, change: &Change) {
    let object = change.object();
    if let Some(token) = object.name().strip_prefix("crt-token-") {
        context.tokens.add(Key::new(object.namespace(), token));
    }
    if change.before.is_some() && change.after.is_some() {
        return;
    }
    if let Some(cluster) = object.name().strip_suffix("-kubeconfig") {
        context.clusters.add(Key::new(object.namespace(), cluster));
    }
    if object.document()["type"] == api::catalogue::secrets::types::CLOUD_CREDENTIAL
        || object.document()["type"] == api::catalogue::secrets::types::OPAQUE
    {
        let found = SecretRef { namespace: object.namespace().into(), name: object.name().into() };
        let uses = |at: &Object, cluster: &Cluster| {
            let near = at.namespace() == found.namespace || found.namespace == namespaces::CATTLE_GLOBAL_DATA;
            near && credentials(cluster).any(|text| SecretRef::named(text, at.namespace()) == found)
        };
        add_all(context, &context.clusters_naming(object.name(), uses));
    }
}

fn credentials(cluster: &Cluster) -> impl Iterator<Item = &str> {
    let pools = cluster.spec.rke_config.iter().flat_map(|config| &config.machine_pools);
    let named = pools.map(|pool| pool.common.cloud_credential_secret_name.as_str());
    named.chain([cluster.spec.cloud_credential_secret_name.as_str()]).filter(|text| !text.is_empty())
}

/// A kind came or went: whoever uses it looks again, and watches that wait for it begin.
fn definition_changed(context: &Arc<Context>, change: &Change) {
    context.parts.caches.kinds_changed();
    let spec = &change.object().document()["spec"];
    let (Some(group), Some(kind)) = (spec["group"].as_str(), spec["names"]["kind"].as_str()) else { return };
    let driver = |kind: &str| {
        let all = [Driver::of_config_kind, Driver::of_template_kind, Driver::of_machine_kind];
        all.into_iter().find_map(|of| of(kind))
    };
    let uses = |_: &Object, cluster: &Cluster| {
        let infrastructure = cluster.spec.rke_config.as_ref().and_then(|one| one.infrastructure_ref.as_ref());
        infrastructure.is_some_and(|one| one.kind.as_deref() == Some(kind))
            || sources(cluster).any(|source| match source {
                Source::Native(one) => {
                    one.api_group == group
                        && (kind == one.kind || one.kind.strip_suffix("Template") == Some(kind))
                }
                Source::Driver(one) => {
                    [machine::GROUP, machine::CONFIG_GROUP].contains(&group)
                        && Driver::of_config_kind(&one.kind) == driver(kind)
                }
            })
    };
    add_all(context, &context.clusters_where(uses));
}
