//! The MachineSet controller: a number of like machines.

mod desired;
mod remediate;
mod scale;
mod status;
mod sync;

use std::sync::Arc;
use std::time::Duration;

use api::capi::v1beta2::{Cluster, ContractVersionedObjectReference, Machine, MachineDeployment, MachineSet};
use api::catalogue::{finalizers, labels};
use kit::conditions;
use kit::index;
use kit::runner::Controller;
use kit::write::Edit;
use kit::{Ended, Key, KindId, Object, Turn, owners};

use crate::context::{Context, Error, Found, cluster_owner, kind_of, typed};
use crate::pause;
use crate::selector::Selector;

/// The conditions that this controller alone writes.
const OWNED: [&str; 7] =
    ["Remediating", "ScalingDown", "ScalingUp", "MachinesReady", "MachinesUpToDate", "Paused", "Deleting"];

/// The name under which machines and what belongs to them are written. Upstream's, so that it can be taken over from.
pub(crate) const MANAGER: &str = "capi-machineset";

/// How long a set waits that must not make machines now.
const PREFLIGHT_LOOK: Duration = Duration::from_secs(15);

/// Everything that is known of a set.
pub(crate) struct Seen {
    pub(crate) object: Arc<Object>,
    pub(crate) cluster_object: Arc<Object>,
    pub(crate) deployment: Option<(Arc<Object>, Arc<MachineDeployment>)>,
    pub(crate) infrastructure: Found,
    pub(crate) bootstrap: Found,
    pub(crate) control_plane: Found,
    pub(crate) machines: Vec<(Arc<Object>, Arc<Machine>)>,
}

impl Seen {
    /// Whether machines of this set are what the deployment asks for.
    fn is_current(&self, set: &MachineSet, now: jiff::Timestamp) -> bool {
        let outdated = |deployment: &MachineDeployment| crate::template::outdated(set, deployment, now);
        self.deployment.as_ref().is_none_or(|(_, deployment)| outdated(deployment).is_empty())
    }
}

/// What a look at a set came to, for its conditions.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Why no machine is made.
    pub(crate) blocked: Vec<String>,
    /// For old readers: why machines could not be made.
    pub(crate) failed: Option<(&'static str, String)>,
    /// Machines that are gone from the count but not yet from the cache, and the other way round.
    pub(crate) again: Option<Duration>,
}

/// Looks after MachineSets.
pub(crate) struct Sets(pub(crate) Arc<Context>);

impl Controller for Sets {
    type Error = Error;

    fn name(&self) -> &'static str {
        "machineset"
    }

    async fn reconcile(&self, key: &Key, turn: &Turn) -> Result<Ended, Error> {
        let context = &self.0;
        let Some(object) = context.sets.get(key).filter(|object| context.ours(object)) else {
            return Ok(Ended::Gone);
        };
        let mut edit: Edit<MachineSet> = Edit::begin(&context.sets, &object)?;
        let cluster = context.clusters.get(&Key::new(&key.namespace, &edit.spec.cluster_name));
        let Some(cluster) = cluster else {
            let name = &edit.spec.cluster_name;
            return Err(Error::Impossible(format!("spec.clusterName: there is no Cluster {name}")));
        };
        if !object.deleting() && add_finalizer(&mut edit) {
            context.writer.apply(turn, edit, &[]).await?;
            return Ok(Ended::Again(Duration::ZERO));
        }
        let view = cluster.view::<Cluster>()?;
        let (now, generation) = (context.now(), object.meta.generation.unwrap_or_default());
        let paused = pause::paused("MachineSet", &object.meta, Some(&view));
        let pausing = paused.is_true();
        conditions::set(&mut edit.status.get_or_insert_default().conditions, paused, generation, now);
        if pausing {
            context.writer.apply(turn, edit, &["Paused"]).await?;
            return Ok(Ended::Well);
        }

        let seen = self.gather(turn, object.clone(), cluster, &view, &edit).await?;
        own(&mut edit, &seen);
        let mut outcome = Outcome::default();
        let acted = self.act(turn, &mut edit, &seen, &mut outcome).await;
        status::write(&mut edit, &seen, &outcome, now);
        if acted.is_ok() {
            edit.status.get_or_insert_default().observed_generation = generation;
        }
        context.writer.apply(turn, edit, &OWNED).await?;
        acted?;
        Ok(outcome.again.map_or(Ended::Well, Ended::Again))
    }
}

impl Sets {
    async fn gather(
        &self,
        turn: &Turn,
        object: Arc<Object>,
        cluster_object: Arc<Object>,
        cluster: &Cluster,
        set: &MachineSet,
    ) -> Result<Seen, Error> {
        let context = &self.0;
        let namespace = object.namespace();
        let deployment = owners::of_kind(object.owners(), &KindId::of::<MachineDeployment>());
        let deployment =
            deployment.and_then(|owner| context.deployments.get(&Key::new(namespace, &owner.name)));
        let spec = &set.spec.template.spec;
        Ok(Seen {
            deployment: deployment.map(|one| one.view().map(|view| (one, view))).transpose()?,
            infrastructure: context.find(namespace, template(&spec.infrastructure_ref)).await,
            bootstrap: context.find(namespace, spec.bootstrap.config_ref.as_ref().and_then(template)).await,
            control_plane: context.find(namespace, cluster.spec.control_plane_ref.as_ref()).await,
            machines: self.machines(turn, &object, set).await?,
            object,
            cluster_object,
        })
    }

    /// The set's machines, by name. Those that fit and belong to nobody are adopted.
    async fn machines(
        &self,
        turn: &Turn,
        object: &Arc<Object>,
        set: &MachineSet,
    ) -> Result<Vec<(Arc<Object>, Arc<Machine>)>, Error> {
        let context = &self.0;
        let selector = Selector::read(&set.spec.selector)
            .map_err(|why| Error::Impossible(format!("spec.selector: {why}")))?;
        let mut found = context.machines.filed(&index::owner(object.uid()));
        found.retain(|machine| {
            owners::controller(machine.owners()).is_some_and(|owner| owner.uid == object.uid())
        });
        let entry = index::cluster(object.namespace(), &set.spec.cluster_name);
        for machine in context.machines.filed(&entry) {
            let orphan =
                owners::controller(machine.owners()).is_none() && !machine.deleting() && !object.deleting();
            if orphan && !selector.takes_all() && selector.takes(machine.meta.labels.as_ref()) {
                let mut all = machine.owners().to_vec();
                all.retain(|owner| {
                    !owners::same(owner, &owners::reference(&kind_of::<MachineSet>(), object, true))
                });
                all.push(owners::reference(&kind_of::<MachineSet>(), object, true));
                let patch = serde_json::json!({"metadata": {
                    "ownerReferences": all, "resourceVersion": machine.meta.resource_version
                }});
                context.writer.named(MANAGER).patch(turn, &context.machines, &machine.key(), patch).await?;
                found.push(machine);
            }
        }
        found.sort_by_key(|machine| machine.key());
        Ok(typed(&found))
    }

    async fn act(
        &self,
        turn: &Turn,
        set: &mut MachineSet,
        seen: &Seen,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        let context = &self.0;
        if seen.object.deleting() {
            for (object, _) in seen.machines.iter().filter(|(object, _)| !object.deleting()) {
                context.writer.delete(turn, &context.machines, object).await?;
            }
            if seen.machines.is_empty() {
                set.metadata.finalizers.get_or_insert_default().retain(|one| one != finalizers::MACHINE_SET);
            }
            return Ok(());
        }
        self.claim_templates(turn, seen).await?;
        remediate::replace_unhealthy(context, turn, set, seen, outcome).await?;
        sync::propagate(context, turn, set, seen).await?;
        scale::to_replicas(context, turn, set, seen, outcome).await
    }

    /// Templates go with their cluster.
    async fn claim_templates(&self, turn: &Turn, seen: &Seen) -> Result<(), Error> {
        for provider in [&seen.infrastructure, &seen.bootstrap].into_iter().filter_map(|found| found.there())
        {
            let owner = cluster_owner(&seen.cluster_object, false);
            let cluster = seen.cluster_object.name();
            self.0.claim(turn, provider, cluster, |all| owners::ensure(all, owner)).await?;
        }
        Ok(())
    }
}

/// A reference to a template; other references are not cloned.
fn template(reference: &ContractVersionedObjectReference) -> Option<&ContractVersionedObjectReference> {
    Some(reference).filter(|reference| reference.kind.ends_with("Template"))
}

fn add_finalizer(set: &mut MachineSet) -> bool {
    let all = set.metadata.finalizers.get_or_insert_default();
    let missing = !all.iter().any(|one| one == finalizers::MACHINE_SET);
    if missing {
        all.push(finalizers::MACHINE_SET.into());
    }
    missing
}

/// Gives the set its cluster's label and, if it stands alone, its cluster as owner.
fn own(set: &mut MachineSet, seen: &Seen) {
    let cluster = set.spec.cluster_name.clone();
    let put = |map: &mut std::collections::BTreeMap<String, String>| {
        map.insert(labels::CAPI_CLUSTER_NAME.into(), cluster.clone());
    };
    put(set.metadata.labels.get_or_insert_default());
    if owners::controller(seen.object.owners()).is_none()
        && seen.object.label(labels::CAPI_DEPLOYMENT_NAME).is_none()
    {
        let all = set.metadata.owner_references.get_or_insert_default();
        owners::ensure(all, cluster_owner(&seen.cluster_object, false));
    }
}
