//! What is known of the management cluster, whoever knows it: the caches of a process, or lists that were read once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Kind as _;
use api::capi::v1beta2::{Cluster, Machine, MachineDeployment, MachineSet};
use api::management::v3 as management;
use api::plans::v1alpha1::Beacon;
use api::rke::v1::{RKEBootstrap, RKEControlPlane};
use kit::access::SharedAccess;
use kit::{Cache, Caches, Key, KindId, Object, index};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};

use super::references;

/// The kinds that gathering looks at, beside those of infrastructure machines.
pub(crate) mod kinds {
    use super::*;

    pub(crate) fn secrets() -> KindId {
        KindId::new("", "v1", "Secret", "secrets")
    }

    pub(crate) fn config_maps() -> KindId {
        KindId::new("", "v1", "ConfigMap", "configmaps")
    }

    pub(crate) fn nodes() -> KindId {
        KindId::new("", "v1", "Node", "nodes")
    }

    pub(crate) fn control_planes() -> KindId {
        KindId::of::<RKEControlPlane>()
    }

    pub(crate) fn bootstraps() -> KindId {
        KindId::of::<RKEBootstrap>()
    }

    pub(crate) fn clusters() -> KindId {
        KindId::of::<Cluster>()
    }

    pub(crate) fn machines() -> KindId {
        KindId::of::<Machine>()
    }

    pub(crate) fn sets() -> KindId {
        KindId::of::<MachineSet>()
    }

    pub(crate) fn deployments() -> KindId {
        KindId::of::<MachineDeployment>()
    }

    pub(crate) fn management_clusters() -> KindId {
        KindId::of::<management::Cluster>()
    }

    pub(crate) fn registration_tokens() -> KindId {
        KindId::of::<management::ClusterRegistrationToken>()
    }

    pub(crate) fn features() -> KindId {
        KindId::of::<management::Feature>()
    }

    pub(crate) fn beacons() -> KindId {
        KindId::of::<Beacon>()
    }

    pub(crate) fn settings() -> KindId {
        KindId::of::<management::Setting>()
    }
}

/// A node, as far as it can be seen.
#[derive(Clone, Debug)]
pub enum Sighting {
    /// Its cluster is not reached.
    NotReached,
    /// There is none.
    Missing,
    /// Here it is.
    There(Arc<Object>),
}

/// What is known of the management cluster and of the nodes behind it.
pub trait Known {
    /// An object.
    fn get(&self, kind: &KindId, key: &Key) -> Option<Arc<Object>>;

    /// The objects that [`kit::index::entries`] files under an entry, by namespace and name.
    fn filed(&self, kind: &KindId, entry: &str) -> Vec<Arc<Object>>;

    /// A node of the cluster with this key.
    fn node(&self, cluster: &Key, name: &str) -> Sighting;
}

/// The kind of infrastructure machine that a reference means, in the version that keeps Cluster API's contract.
pub fn infrastructure_kind(known: &dyn Known, group: &str, kind: &str) -> Option<KindId> {
    let definitions = known.filed(&index::definitions(), &index::kind(group, kind));
    let definition = definitions.first()?;
    let labels = definition.meta().labels.clone().unwrap_or_default();
    let (_, version) = api::contract::version(&labels).ok()?;
    let plural = definition.document()["spec"]["names"]["plural"].as_str()?;
    Some(KindId::new(group, version, kind, plural))
}

/// The caches of this process, and its ways to clusters.
#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) caches: Caches,
    pub(crate) access: SharedAccess,
}

impl Live {
    /// The cache of a kind.
    pub(crate) fn cache(&self, kind: &KindId) -> Arc<Cache> {
        if *kind == index::definitions() {
            return self.caches.of_cluster(kind, index::trim_definition);
        }
        let whole = [management::Cluster::PLURAL, management::Setting::PLURAL, management::Feature::PLURAL];
        match kind.group == management::Cluster::GROUP && whole.contains(&kind.plural.as_str()) {
            true => self.caches.of_cluster(kind, |_| {}),
            false => self.caches.of(kind),
        }
    }
}

impl Known for Live {
    fn get(&self, kind: &KindId, key: &Key) -> Option<Arc<Object>> {
        self.cache(kind).get(key)
    }

    fn filed(&self, kind: &KindId, entry: &str) -> Vec<Arc<Object>> {
        self.cache(kind).filed(entry)
    }

    fn node(&self, cluster: &Key, name: &str) -> Sighting {
        let Ok(connection) = self.access.connection(cluster) else { return Sighting::NotReached };
        let nodes = connection.caches.of_cluster(&kinds::nodes(), |_| {});
        match nodes.get(&Key::new("", name)) {
            Some(node) => Sighting::There(node),
            None if nodes.synced() => Sighting::Missing,
            None => Sighting::NotReached,
        }
    }
}

/// Lists that were read once. No node is reached through them.
#[derive(Debug, Default)]
pub struct Lists {
    objects: BTreeMap<KindId, BTreeMap<Key, Arc<Object>>>,
    index: BTreeMap<(KindId, String), BTreeSet<Key>>,
}

/// Why something could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot list {kind}")]
pub struct ListError {
    kind: String,
    #[source]
    answer: Box<kube::Error>,
}

impl Lists {
    /// Puts an object in, or in the place of the one with its name.
    pub fn put(&mut self, kind: &KindId, object: Arc<Object>) {
        let key = object.key();
        for entry in index::entries(&object) {
            self.index.entry((kind.clone(), entry)).or_default().insert(key.clone());
        }
        self.objects.entry(kind.clone()).or_default().insert(key, object);
    }

    /// Everything of a kind.
    pub fn all(&self, kind: &KindId) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.get(kind).into_iter().flat_map(BTreeMap::values)
    }

    /// Reads all that gathering looks at: of one namespace, and what belongs to no namespace or to a management cluster.
    ///
    /// # Errors
    /// If the server does not answer. A kind that it does not know has no objects.
    pub async fn read(client: &Client, namespace: &str) -> Result<Self, ListError> {
        let mut lists = Lists::default();
        for kind in [index::definitions(), kinds::management_clusters(), kinds::settings(), kinds::features()]
        {
            lists.list(client, &kind, None).await?;
        }
        let own = [
            KindId::of::<api::provisioning::v1::Cluster>(),
            kinds::control_planes(),
            kinds::beacons(),
            kinds::bootstraps(),
            kinds::clusters(),
            kinds::machines(),
            kinds::sets(),
            kinds::deployments(),
            kinds::secrets(),
            kinds::config_maps(),
        ];
        for kind in own {
            lists.list(client, &kind, Some(namespace)).await?;
        }
        lists.list(client, &kinds::registration_tokens(), None).await?;
        let behind = lists.behind(namespace);
        for other in behind.iter().filter(|other| *other != namespace) {
            lists.list(client, &kinds::secrets(), Some(other)).await?;
        }
        for kind in lists.providers() {
            lists.list(client, &kind, Some(namespace)).await?;
        }
        Ok(lists)
    }

    /// Reads the machine configs that a cluster's pools are made from, which may not be the server's cluster yet.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn read_configs(
        &mut self,
        client: &Client,
        cluster: &api::provisioning::v1::Cluster,
    ) -> Result<(), ListError> {
        let namespace = cluster.metadata.namespace.as_deref();
        let pools = cluster.spec.rke_config.iter().flat_map(|config| &config.machine_pools);
        let named = pools.filter_map(|pool| pool.machine_config_ref.as_ref()?.kind.as_deref());
        let kinds: BTreeSet<KindId> = named.filter_map(|kind| self.config_kind(kind)).collect();
        for kind in kinds {
            self.list(client, &kind, namespace).await?;
        }
        Ok(())
    }

    /// Namespaces that clusters of this one take Secrets from: those of management clusters, and those that are named.
    fn behind(&self, namespace: &str) -> BTreeSet<String> {
        let mut all = BTreeSet::from([api::catalogue::namespaces::CATTLE_SYSTEM.to_owned()]);
        for object in self.all(&kinds::control_planes()).filter(|one| one.namespace() == namespace) {
            let Ok(control_plane) = object.view::<RKEControlPlane>() else { continue };
            all.insert(control_plane.spec.management_cluster_name.clone());
            let refers = references::of(&control_plane.spec);
            let keys = refers.credentials.iter().filter_map(|name| references::credential(namespace, name));
            all.extend(keys.map(|key| key.namespace));
        }
        all.retain(|name| !name.is_empty());
        all
    }

    /// Kinds of what Machines, templates and the cluster refer to.
    fn providers(&self) -> BTreeSet<KindId> {
        let mut all = BTreeSet::new();
        for kind in [kinds::machines(), kinds::deployments(), kinds::sets(), kinds::clusters()] {
            for object in self.all(&kind) {
                let references = ["/spec/infrastructureRef", "/spec/template/spec/infrastructureRef"];
                for reference in references.iter().filter_map(|pointer| object.document().pointer(pointer)) {
                    let part = |field: &str| reference[field].as_str().unwrap_or_default();
                    all.extend(infrastructure_kind(self, part("apiGroup"), part("kind")));
                }
            }
        }
        for object in self.all(&KindId::of::<api::provisioning::v1::Cluster>()) {
            let pools = object.document()["spec"]["rkeConfig"]["machinePools"].as_array();
            for reference in pools.into_iter().flatten().map(|pool| &pool["machineConfigRef"]) {
                all.extend(self.config_kind(reference["kind"].as_str().unwrap_or_default()));
            }
        }
        all
    }

    /// A driver's kind of machine config.
    fn config_kind(&self, kind: &str) -> Option<KindId> {
        let group = api::machine::CONFIG_GROUP;
        let definitions = self.filed(&index::definitions(), &index::kind(group, kind));
        let plural = definitions.first()?.document()["spec"]["names"]["plural"].as_str()?.to_owned();
        Some(KindId::new(group, api::machine::VERSION, kind, &plural))
    }

    async fn list(
        &mut self,
        client: &Client,
        kind: &KindId,
        namespace: Option<&str>,
    ) -> Result<(), ListError> {
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind.resource()),
            None => Api::all_with(client.clone(), &kind.resource()),
        };
        let list = match api.list(&ListParams::default()).await {
            Ok(list) => list,
            Err(answer) if kit::write::code(&answer) == Some(404) => return Ok(()),
            Err(answer) => return Err(ListError { kind: kind.to_string(), answer: Box::new(answer) }),
        };
        for item in list.items {
            let Ok(mut document) = serde_json::to_value(item) else { continue };
            // Lists leave out what every item is.
            document["apiVersion"] = kind.api_version().into();
            document["kind"] = kind.kind.clone().into();
            if let Ok(object) = Object::from_document(document) {
                self.put(kind, Arc::new(object));
            }
        }
        Ok(())
    }
}

impl Known for Lists {
    fn get(&self, kind: &KindId, key: &Key) -> Option<Arc<Object>> {
        self.objects.get(kind)?.get(key).cloned()
    }

    fn filed(&self, kind: &KindId, entry: &str) -> Vec<Arc<Object>> {
        let keys = self.index.get(&(kind.clone(), entry.to_owned())).into_iter().flatten();
        keys.filter_map(|key| self.get(kind, key)).filter(|object| files(object, entry)).collect()
    }

    fn node(&self, _: &Key, _: &str) -> Sighting {
        Sighting::NotReached
    }
}

/// An object that was put in the place of another may have left an entry.
fn files(object: &Object, entry: &str) -> bool {
    index::entries(object).iter().any(|one| one == entry)
}
