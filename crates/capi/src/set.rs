//! The MachineSet controller: a number of like machines.

mod desired;
mod remediate;
mod scale;
mod status;
mod sync;

use std::sync::Arc;
use std::time::Duration;

use api::capi::v1beta2::{Cluster, ContractVersionedObjectReference, Machine, MachineDeployment, MachineSet};
use api::catalogue::{annotations, labels};
use kit::index;
use kit::runner::Controller;
use kit::{Ended, Key, KindId, Object, Turn, owners};

use crate::context::{Context, Error, Found, cluster_owner, kind_of, typed};
use crate::deeds::Deed;
use crate::selector::Selector;
use crate::start::{self, Ours as _, PutOff, Start};

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

    /// The preflight checks that the template of bootstrap configurations asks to be left out.
    fn unchecked(&self) -> Option<&str> {
        self.bootstrap.there()?.object.annotation(annotations::SKIP_PREFLIGHT_CHECKS)
    }
}

/// What a look at a set came to, for its conditions.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Whether a machine was made.
    pub(crate) made: bool,
    /// Why no machine is made.
    pub(crate) blocked: Vec<String>,
    /// For old readers: why machines could not be made.
    pub(crate) failed: Option<(&'static str, String)>,
    /// Machines that are gone from the count but not yet from the cache, and the other way round.
    pub(crate) again: Option<Duration>,
}

/// Looks after MachineSets.
pub(crate) struct Sets(pub(crate) Arc<Context>, PutOff);

impl Sets {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Sets(context, PutOff::default())
    }
}

impl Controller for Sets {
    type Error = Error;

    fn name(&self) -> &'static str {
        "machineset"
    }

    fn object(&self, key: &Key) -> Option<Arc<Object>> {
        self.0.sets.get(key)
    }

    async fn reconcile(&self, key: &Key, turn: &Turn) -> Result<Ended, Error> {
        let context = &self.0;
        let start = start::begin(context, turn, &context.sets, key, stands_alone).await?;
        let Start { object, mut edit, cluster, now, generation } = match start {
            Ok(start) => start,
            Err(ended) => return Ok(ended),
        };
        let seen = self.gather(turn, object.clone(), cluster, &edit).await?;
        let mut outcome = Outcome::default();
        let acted = self.act(turn, &mut edit, &seen, &mut outcome).await;
        status::write(&mut edit, &seen, &outcome, now);
        if acted.is_ok() {
            edit.observed(generation);
        }
        let comes = outcome.made || seen.machines.iter().any(|(machine, _)| start::unsettled(machine, now));
        if let Some(wait) = self.1.wait(key, comes && acted.is_ok() && !object.deleting(), now) {
            return Ok(Ended::Again(wait));
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
        set: &MachineSet,
    ) -> Result<Seen, Error> {
        let context = &self.0;
        let namespace = object.namespace();
        let cluster = cluster_object.view::<Cluster>()?;
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
            if orphan && !selector.takes_all() && selector.takes(machine.meta().labels.as_ref()) {
                let mut all = machine.owners().to_vec();
                all.retain(|owner| {
                    !owners::same(owner, &owners::reference(&kind_of::<MachineSet>(), object, true))
                });
                all.push(owners::reference(&kind_of::<MachineSet>(), object, true));
                let patch = serde_json::json!({"metadata": {
                    "ownerReferences": all, "resourceVersion": machine.meta().resource_version
                }});
                let adopted =
                    context.writer.named(MANAGER).patch(turn, &context.machines, &machine.key(), patch).await;
                let what = format!("Machine {}", machine.name());
                let kind = kind_of::<MachineSet>();
                context.told(&kind, object, Deed::Adopt, &what, adopted).await?;
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
                scale::delete(context, turn, seen, object).await?;
            }
            if seen.machines.is_empty() {
                start::let_go(set);
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

/// Whether nothing but its cluster owns a set, nor will own it.
fn stands_alone(set: &Object) -> bool {
    owners::controller(set.owners()).is_none() && set.label(labels::CAPI_DEPLOYMENT_NAME).is_none()
}
