//! The infrastructure cluster of clusters that bring none: it is there as soon as it has an endpoint.

use std::sync::Arc;
use std::time::Duration;

use ::provisioning::infrastructure::{Infrastructure, decide};
use api::capi::v1beta2::Cluster;
use api::rke::v1::{RKECluster, RKEControlPlane};
use kit::events::Events;
use kit::runner::Controller;
use kit::{Cache, Ended, Key, KindId, Object, Pace, Queue, Turn, owners};
use serde_json::json;

use crate::Parts;
pub use crate::error::Error;
use crate::objects::{Objects, listen};
use crate::waits::Told;

/// Under which name this group writes.
const MANAGER: &str = "herdsman-infrastructure";
struct Context {
    objects: Objects,
    events: Events,
    told: Told,
    infrastructure: Arc<Cache>,
    clusters: Arc<Cache>,
    control_planes: Arc<Cache>,
    queue: Arc<Queue>,
}

/// Runs the controller of RKEClusters until the future is dropped.
pub async fn run(parts: Parts) {
    let objects = Objects::new(&parts.caches, MANAGER);
    let pace = Pace { interval: Duration::from_millis(50), ..Pace::default() };
    let client = parts.caches.client().clone();
    let context = Arc::new(Context {
        infrastructure: objects.of::<RKECluster>(),
        clusters: objects.of::<Cluster>(),
        control_planes: objects.of::<RKEControlPlane>(),
        events: Events::new(client, parts.clock.clone(), parts.entropy.clone(), MANAGER),
        told: Told::new("infrastructure", &parts),
        queue: Arc::new(Queue::new(parts.clock.clone(), pace)),
        objects,
    });
    for cache in [&context.infrastructure, &context.clusters, &context.control_planes] {
        cache.wait_synced().await;
        // All three bear the cluster's name.
        listen(cache, "infrastructure", &context, |context, change| context.queue.add(change.object().key()));
    }
    kit::runner::run(
        Arc::new(Infrastructures(context.clone())),
        context.queue.clone(),
        kit::runner::AT_A_TIME,
    )
    .await;
}

/// Looks after RKEClusters.
struct Infrastructures(Arc<Context>);

impl Controller for Infrastructures {
    type Error = Error;

    fn name(&self) -> &'static str {
        "infrastructure cluster"
    }

    fn object(&self, key: &Key) -> Option<Arc<Object>> {
        self.0.infrastructure.get(key)
    }

    async fn reconcile(&self, key: &Key, turn: &Turn) -> Result<Ended, Error> {
        let context = &self.0;
        let Some(object) = context.infrastructure.get(key).filter(|object| !object.deleting()) else {
            context.told.forget(key);
            return Ok(Ended::Gone);
        };
        let infrastructure: Arc<RKECluster> = object.view()?;
        let owner = self.owner(&object)?;
        let access = context.control_planes.get(key).map(|one| one.view::<RKEControlPlane>()).transpose()?;
        let access = access.map(|one| one.spec.local_cluster_auth_endpoint.clone()).unwrap_or_default();
        let kind = context.infrastructure.kind();
        match decide(&infrastructure, owner.as_deref(), &access) {
            Infrastructure::Wait(wait) => context.told.tell(&context.events, kind, &object, &[wait]).await,
            Infrastructure::Write { endpoint: Some(endpoint), .. } => {
                let patch = json!({"spec": {"controlPlaneEndpoint": endpoint}});
                context.objects.writer().patch(turn, &context.infrastructure, key, patch).await?;
                return Ok(Ended::Again(Duration::ZERO));
            }
            Infrastructure::Write { endpoint: None, status } => {
                context.told.tell(&context.events, kind, &object, &[]).await;
                let written =
                    context.objects.set_status(turn, &context.infrastructure, &object, &status).await;
                match written {
                    Err(error) if error.is_conflict() => return Ok(Ended::Again(Duration::ZERO)),
                    other => other?,
                }
            }
        }
        Ok(Ended::Well)
    }
}

impl Infrastructures {
    /// The Cluster API cluster that owns it.
    fn owner(&self, object: &Object) -> Result<Option<Arc<Cluster>>, Error> {
        let owner = owners::of_kind(object.owners(), &KindId::of::<Cluster>());
        let owner = owner.and_then(|owner| self.0.clusters.get(&Key::new(object.namespace(), &owner.name)));
        Ok(owner.map(|owner| owner.view()).transpose()?)
    }
}
