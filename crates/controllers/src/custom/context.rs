//! What the controllers of this group work with, and which change has which machine looked at.

use std::sync::Arc;
use std::time::Duration;

use api::Kind as _;
use api::capi::v1beta2::{Cluster as CapiCluster, Machine};
use api::catalogue::labels;
use api::catalogue::secrets::types;
use api::management::v3::Cluster as ManagementCluster;
use api::provisioning::v1::Cluster;
use api::rke::v1::{CustomMachine, RKECluster, RKEControlPlane};
use jiff::Timestamp;
use kit::events::Events;
use kit::{Cache, Change, Key, Object, Pace, Queue, index};

use crate::Parts;
use crate::objects::{Objects, listen};
use crate::waits::Told;

/// Under which name this group writes, and listens to caches.
const MANAGER: &str = "herdsman-custom";

pub(super) struct Context {
    pub(super) parts: Parts,
    pub(super) objects: Objects,
    pub(super) events: Events,
    pub(super) secrets: Arc<Cache>,
    pub(super) clusters: Arc<Cache>,
    pub(super) management: Arc<Cache>,
    pub(super) capi_clusters: Arc<Cache>,
    pub(super) infrastructure: Arc<Cache>,
    pub(super) machines: Arc<Cache>,
    pub(super) custom: Arc<Cache>,
    pub(super) control_planes: Arc<Cache>,
    pub(super) told: Told,
    pub(super) requests: Arc<Queue>,
    pub(super) hosts: Arc<Queue>,
}

impl Context {
    pub(super) fn new(parts: Parts) -> Arc<Self> {
        let objects = Objects::new(&parts.caches, MANAGER);
        let pace = Pace { interval: Duration::from_millis(50), ..Pace::default() };
        let queue = || Arc::new(Queue::new(parts.clock.clone(), pace));
        let client = parts.caches.client().clone();
        Arc::new(Context {
            events: Events::new(client, parts.clock.clone(), parts.entropy.clone(), MANAGER),
            secrets: objects.built_in("Secret"),
            clusters: objects.of::<Cluster>(),
            management: objects.of::<ManagementCluster>(),
            capi_clusters: objects.of::<CapiCluster>(),
            infrastructure: objects.of::<RKECluster>(),
            machines: objects.of::<Machine>(),
            custom: objects.of::<CustomMachine>(),
            control_planes: objects.of::<RKEControlPlane>(),
            told: Told::new("custom", &parts),
            requests: queue(),
            hosts: queue(),
            objects,
            parts,
        })
    }

    /// Waits until everything is known.
    pub(super) async fn ready(&self) {
        let all = [
            &self.secrets,
            &self.clusters,
            &self.management,
            &self.capi_clusters,
            &self.infrastructure,
            &self.machines,
            &self.custom,
            &self.control_planes,
            self.objects.definitions(),
        ];
        for cache in all {
            cache.wait_synced().await;
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.parts.clock.now()
    }
}

/// Has the controllers told of what concerns them.
pub(super) fn connect(context: &Arc<Context>) {
    let on = |cache: &Arc<Cache>, tell: fn(&Arc<Context>, &Change)| listen(cache, MANAGER, context, tell);
    on(&context.secrets, |context, change| {
        let object = change.object();
        if is_request(object) {
            context.requests.add(object.key());
        }
        // The agent tells in its plan Secret how the last plan goes.
        if object.document()["type"] == types::MACHINE_PLAN {
            plan_changed(context, object);
        }
    });
    on(&context.custom, |context, change| context.hosts.add(change.object().key()));
    on(&context.machines, |context, change| {
        let reference = &change.object().document()["spec"]["infrastructureRef"];
        if reference["kind"] == CustomMachine::KIND
            && let Some(name) = reference["name"].as_str()
        {
            context.hosts.add(Key::new(change.object().namespace(), name));
            // Somebody may wait until a host of that name has gone.
            if change.after.is_none() {
                ask_again(context);
            }
        }
    });
    on(&context.infrastructure, |context, change| {
        let entry = index::cluster(change.object().namespace(), change.object().name());
        context.custom.filed(&entry).iter().for_each(|one| context.hosts.add(one.key()));
    });
    // A request may be there before its cluster is.
    on(&context.capi_clusters, |context, change| {
        if change.before.is_none() {
            ask_again(context);
        }
    });
}

/// A plan concerns the host behind the Machine that it is for.
fn plan_changed(context: &Context, plan: &Object) {
    for machine in context.machines.filed(&index::plan(plan.namespace(), plan.name())) {
        let reference = &machine.document()["spec"]["infrastructureRef"];
        let Some(name) = reference["name"].as_str().filter(|_| reference["kind"] == CustomMachine::KIND)
        else {
            continue;
        };
        let host = Key::new(plan.namespace(), name);
        if context.custom.get(&host).is_some_and(|host| host.deleting()) {
            context.hosts.add(host);
        }
    }
}

fn ask_again(context: &Context) {
    let waiting = context.secrets.filed(&index::requests());
    waiting.iter().for_each(|secret| context.requests.add(secret.key()));
}

/// Whether a Secret is a host's request that nobody has answered.
pub(super) fn is_request(secret: &Object) -> bool {
    secret.document()["type"] == types::MACHINE_REQUEST
}

/// The cluster that owns a CustomMachine, by its label.
pub(super) fn cluster_of(object: &Object) -> Option<Key> {
    Some(Key::new(object.namespace(), object.label(labels::CAPI_CLUSTER_NAME)?))
}
