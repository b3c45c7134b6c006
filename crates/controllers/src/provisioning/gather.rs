//! What is known of a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::capi::v1beta2::{ContractVersionedObjectReference, MachineSet};
use api::catalogue::annotations;
use api::machine::{self, Driver, MachineConfig};
use api::management::v3::{Cluster as ManagementCluster, DynamicSchema};
use api::names;
use api::provisioning::v1::Cluster;
use api::rke::v1::{ETCDSnapshot, RKEControlPlane};
use kit::{Cache, Key, Object, index};
use provisioning::admission::SecretRef;
use provisioning::graph::{self, ConfigRef, Source};
use provisioning::management::Identity;
use provisioning::restore;

use super::context::{Context, sources};
use super::{identity, wiring};
use crate::error::Error;
use crate::objects::{self, synced};

/// A cluster and what it is rendered from.
pub(super) struct Seen {
    pub(super) object: Arc<Object>,
    pub(super) cluster: Arc<Cluster>,
    pub(super) control_plane: Option<Arc<RKEControlPlane>>,
    /// Which management cluster is its own.
    pub(super) identity: Identity,
    /// That management cluster; another's is not seen.
    pub(super) management: Option<(Arc<Object>, Arc<ManagementCluster>)>,
    pub(super) configs: BTreeMap<ConfigRef, MachineConfig>,
    pub(super) credentials: BTreeSet<String>,
    pub(super) schemas: BTreeMap<String, DynamicSchema>,
    pub(super) snapshot: Option<Arc<ETCDSnapshot>>,
    encoded_spec: Option<String>,
    /// Whether the kubeconfig of the cluster is there.
    pub(super) has_kubeconfig: bool,
}

impl Seen {
    /// The id that the status says.
    pub(super) fn said(&self) -> &str {
        self.cluster.status.as_ref().map(|status| status.cluster_name.as_str()).unwrap_or_default()
    }

    /// The cluster's id, once it has one that is its own.
    pub(super) fn id(&self) -> &str {
        match &self.identity {
            Identity::Has(id) | Identity::Takes(id) => id,
            Identity::Fresh | Identity::Refused(_) => "",
        }
    }

    pub(super) fn facts(&self) -> graph::Facts<'_> {
        graph::Facts {
            cluster: &self.cluster,
            id: self.id(),
            configs: &self.configs,
            credentials: &self.credentials,
            encoded_spec: self.encoded_spec.as_deref(),
        }
    }
}

/// Everything that a cluster is rendered from.
pub(super) async fn cluster(context: &Arc<Context>, object: Arc<Object>) -> Result<Seen, Error> {
    let cluster: Arc<Cluster> = object.view()?;
    let (key, known) = (object.key(), &context.known);
    let control_plane = known.control_planes.get(&key);
    let identity = identity::of(known, &cluster);
    let management = identity::management(known, &cluster, &identity);
    let snapshot =
        restore::wanted(&cluster.spec).and_then(|name| known.snapshots.get(&Key::new(&key.namespace, name)));
    let kubeconfig = Key::new(&key.namespace, &names::kubeconfig_secret(&key.name));
    Ok(Seen {
        configs: configs(context, &key.namespace, &cluster).await?,
        credentials: credentials(context, &key.namespace, &cluster),
        schemas: schemas(context, &cluster)?,
        encoded_spec: control_plane
            .as_ref()
            .and_then(|one| one.annotation(annotations::CLUSTER_SPEC).map(str::to_owned)),
        control_plane: control_plane.map(|one| one.view()).transpose()?,
        identity,
        management: match management {
            Some(object) => Some((object.clone(), object.view()?)),
            None => None,
        },
        snapshot: snapshot.map(|one| one.view()).transpose()?,
        has_kubeconfig: known.secrets.get(&kubeconfig).is_some(),
        object,
        cluster,
    })
}

/// The machine configs that pools name, as far as they exist.
async fn configs(
    context: &Arc<Context>,
    namespace: &str,
    cluster: &Cluster,
) -> Result<BTreeMap<ConfigRef, MachineConfig>, Error> {
    let mut found = BTreeMap::new();
    for source in sources(cluster) {
        let Source::Driver(reference) = source else { continue };
        let api_version = format!("{}/{}", machine::CONFIG_GROUP, machine::VERSION);
        let Some(cache) = watched(context, &api_version, &reference.kind).await? else { continue };
        if let Some(object) = cache.get(&Key::new(namespace, &reference.name)) {
            found.insert(reference, MachineConfig::clone(&*object.view::<MachineConfig>()?));
        }
    }
    Ok(found)
}

/// The credentials that the cluster and its pools name, as far as they exist.
fn credentials(context: &Context, namespace: &str, cluster: &Cluster) -> BTreeSet<String> {
    let pools = cluster.spec.rke_config.iter().flat_map(|config| &config.machine_pools);
    let named = pools.map(|pool| pool.common.cloud_credential_secret_name.as_str());
    let named = named.chain([cluster.spec.cloud_credential_secret_name.as_str()]);
    let exists = |text: &&str| {
        let secret = SecretRef::named(text, namespace);
        !text.is_empty() && context.known.secrets.get(&Key::new(&secret.namespace, &secret.name)).is_some()
    };
    named.filter(exists).map(str::to_owned).collect()
}

/// The fields of the drivers of its pools.
fn schemas(context: &Context, cluster: &Cluster) -> Result<BTreeMap<String, DynamicSchema>, Error> {
    let mut found = BTreeMap::new();
    for pool in cluster.spec.rke_config.iter().flat_map(|config| &config.machine_pools) {
        let Some(name) = graph::source::driver(pool).map(|driver| driver.schema_name()) else { continue };
        if let Some(object) = context.known.schemas.get(&Key::new("", &name)) {
            found.insert(name, DynamicSchema::clone(&*object.view::<DynamicSchema>()?));
        }
    }
    Ok(found)
}

/// The cache of a kind that is known only while running, if the API knows it. Its changes concern us from now on.
pub(super) async fn watched(
    context: &Arc<Context>,
    api_version: &str,
    kind: &str,
) -> Result<Option<Arc<Cache>>, objects::Error> {
    let Some(cache) = context.objects.find(api_version, kind) else { return Ok(None) };
    wiring::follow(context, &cache);
    synced(&cache).await?;
    Ok(Some(cache))
}

/// As [`watched`], for a kind that Cluster API refers to.
pub(super) async fn provider(
    context: &Arc<Context>,
    reference: &ContractVersionedObjectReference,
) -> Result<Option<Arc<Cache>>, objects::Error> {
    watched(context, &format!("{}/", reference.api_group), &reference.kind).await
}

/// The caches of all machine kinds, or machine template kinds, of node drivers.
pub(super) async fn of_drivers(
    context: &Arc<Context>,
    is_wanted: fn(&str) -> Option<Driver>,
) -> Result<Vec<Arc<Cache>>, objects::Error> {
    let api_version = format!("{}/{}", machine::GROUP, machine::VERSION);
    let mut caches = Vec::new();
    for definition in context.objects.definitions().all() {
        let spec = &definition.document()["spec"];
        let kind = spec["names"]["kind"].as_str().unwrap_or_default();
        if spec["group"] == machine::GROUP && is_wanted(kind).is_some() {
            caches.extend(watched(context, &api_version, kind).await?);
        }
    }
    Ok(caches)
}

/// Everything of the graph's kinds that was made from the cluster, or stands where something is to be made.
pub(super) async fn existing(
    context: &Arc<Context>,
    key: &Key,
    wanted: &[provisioning::Object],
) -> Result<Vec<Arc<Object>>, Error> {
    let templates = of_drivers(context, Driver::of_template_kind).await?;
    let caches = context.known.of_graph().into_iter().chain(&templates);
    let mut found: BTreeMap<(String, Key), Arc<Object>> = BTreeMap::new();
    for cache in caches {
        let kind = cache.kind();
        let same = wanted.iter().filter(|one| one.kind() == kind.kind && one.id().group() == kind.group);
        let named = same.filter_map(|one| cache.get(&Key::new(&key.namespace, one.name())));
        let made = cache.filed(&index::made_from(&key.namespace, &key.name));
        for object in made.into_iter().chain(named) {
            found.insert((kind.to_string(), object.key()), object);
        }
    }
    Ok(found.into_values().collect())
}

/// What MachineSets of the cluster make machines from.
pub(super) fn referred(context: &Context, key: &Key) -> BTreeSet<ContractVersionedObjectReference> {
    let sets = context.known.sets.filed(&index::cluster(&key.namespace, &key.name));
    let mut all = BTreeSet::new();
    for set in sets.iter().filter_map(|set| set.view::<MachineSet>().ok()) {
        let spec = &set.spec.template.spec;
        all.insert(spec.infrastructure_ref.clone());
        all.extend(spec.bootstrap.config_ref.clone());
    }
    all
}
