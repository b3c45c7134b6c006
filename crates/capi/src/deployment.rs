//! The MachineDeployment controller: like machines that follow their template.

mod desired;
mod status;

use std::sync::Arc;
use std::time::Duration;

use api::capi::v1beta2::values::rollout_strategy;
use api::capi::v1beta2::{ContractVersionedObjectReference, Machine, MachineDeployment, MachineSet};
use api::catalogue::annotations;
use jiff::Timestamp;
use kit::index;
use kit::runner::Controller;
use kit::write::Edit;
use kit::{Ended, Key, Object, Turn, owners};

use crate::context::{Context, Error, Found, cluster_owner, kind_of, typed};
use crate::deeds::Deed;
use crate::rollout::{self, Bounds, Intents, Set, Share};
use crate::selector::Selector;
use crate::start::{self, Ours as _, PutOff, Start};
use crate::{naming, template};

/// The conditions that this controller alone writes.
const OWNED: [&str; 9] = [
    "Available",
    "RollingOut",
    "Remediating",
    "ScalingDown",
    "ScalingUp",
    "MachinesReady",
    "MachinesUpToDate",
    "Paused",
    "Deleting",
];

/// The name under which sets are written. Upstream's, so that it can be taken over from.
pub(crate) const MANAGER: &str = "capi-machinedeployment";

/// Everything that is known of a deployment.
pub(crate) struct Seen {
    pub(crate) object: Arc<Object>,
    pub(crate) cluster_object: Arc<Object>,
    pub(crate) templates: [Found; 2],
    pub(crate) sets: Vec<(Arc<Object>, Arc<MachineSet>)>,
    pub(crate) machines: Vec<(Arc<Object>, Arc<Machine>)>,
}

/// Looks after MachineDeployments.
pub(crate) struct Deployments(pub(crate) Arc<Context>, PutOff);

impl Deployments {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Deployments(context, PutOff::default())
    }
}

impl Controller for Deployments {
    type Error = Error;

    fn name(&self) -> &'static str {
        "machinedeployment"
    }

    fn object(&self, key: &Key) -> Option<Arc<Object>> {
        self.0.deployments.get(key)
    }

    async fn reconcile(&self, key: &Key, turn: &Turn) -> Result<Ended, Error> {
        let context = &self.0;
        let start = start::begin(context, turn, &context.deployments, key, |_| true).await?;
        let Start { object, mut edit, cluster, now, generation } = match start {
            Ok(start) => start,
            Err(ended) => return Ok(ended),
        };
        let seen = self.gather(turn, object.clone(), cluster, &edit).await?;
        let acted = self.act(turn, &mut edit, &seen).await;
        status::write(&mut edit, &seen, now);
        if acted.is_ok() {
            edit.observed(generation);
        }
        let comes = matches!(acted, Ok(true)) || !start::all_told(&seen.machines, &seen.sets, &[], now);
        if let Some(wait) = self.1.wait(key, comes && acted.is_ok() && !object.deleting(), now) {
            return Ok(Ended::Again(wait));
        }
        let wait = until_rollout(&edit, now);
        context.writer.apply(turn, edit, &OWNED).await?;
        acted?;
        Ok(wait.map_or(Ended::Well, Ended::Again))
    }
}

impl Deployments {
    async fn gather(
        &self,
        turn: &Turn,
        object: Arc<Object>,
        cluster_object: Arc<Object>,
        deployment: &MachineDeployment,
    ) -> Result<Seen, Error> {
        let context = &self.0;
        let namespace = object.namespace();
        let spec = &deployment.spec.template.spec;
        let is_template =
            |reference: &&ContractVersionedObjectReference| reference.kind.ends_with("Template");
        let infrastructure = Some(&spec.infrastructure_ref).filter(is_template);
        let config = spec.bootstrap.config_ref.as_ref().filter(is_template);
        let sets = self.sets(turn, &object, deployment).await?;
        let mut machines = Vec::new();
        for (set, _) in &sets {
            machines.extend(typed(&context.machines.filed(&index::owner(set.uid()))));
        }
        Ok(Seen {
            templates: [context.find(namespace, infrastructure).await, context.find(namespace, config).await],
            sets,
            machines,
            object,
            cluster_object,
        })
    }

    /// The deployment's sets, by name. Those that fit and belong to nobody are adopted.
    async fn sets(
        &self,
        turn: &Turn,
        object: &Arc<Object>,
        deployment: &MachineDeployment,
    ) -> Result<Vec<(Arc<Object>, Arc<MachineSet>)>, Error> {
        let context = &self.0;
        let selector = Selector::read(&deployment.spec.selector)
            .map_err(|why| Error::Impossible(format!("spec.selector: {why}")))?;
        if selector.takes_all() {
            return Err(Error::Impossible(
                "spec.selector: it is empty and would take every MachineSet".into(),
            ));
        }
        let mut found = context.sets.filed(&index::owner(object.uid()));
        found.retain(|set| owners::controller(set.owners()).is_some_and(|owner| owner.uid == object.uid()));
        let me = owners::reference(&kind_of::<MachineDeployment>(), object, true);
        let entry = index::cluster(object.namespace(), &deployment.spec.cluster_name);
        for set in context.sets.filed(&entry) {
            let free = owners::controller(set.owners()).is_none() && !set.deleting() && !object.deleting();
            if !free || !selector.takes(set.meta().labels.as_ref()) {
                continue;
            }
            let mut all = set.owners().to_vec();
            owners::ensure(&mut all, me.clone());
            let patch = serde_json::json!({"metadata": {"ownerReferences": all, "resourceVersion": set.meta().resource_version}});
            let adopted = context.writer.named(MANAGER).patch(turn, &context.sets, &set.key(), patch).await;
            let what = format!("MachineSet {}", set.name());
            context.told(&kind_of::<MachineDeployment>(), object, Deed::Adopt, &what, adopted).await?;
            found.push(set);
        }
        found.sort_by_key(|set| set.key());
        Ok(typed(&found))
    }

    /// Gives whether a set was made or scaled: its machines come or go next.
    async fn act(&self, turn: &Turn, deployment: &mut MachineDeployment, seen: &Seen) -> Result<bool, Error> {
        let context = &self.0;
        if seen.object.deleting() {
            for (object, _) in seen.sets.iter().filter(|(object, _)| !object.deleting()) {
                self.delete(turn, seen, object).await?;
            }
            if seen.sets.is_empty() {
                start::let_go(deployment);
            }
            return Ok(false);
        }
        for provider in seen.templates.iter().filter_map(Found::there) {
            let owner = cluster_owner(&seen.cluster_object, false);
            let cluster = seen.cluster_object.name();
            context.claim(turn, provider, cluster, |all| owners::ensure(all, owner)).await?;
        }
        self.roll(turn, deployment, seen).await
    }

    async fn roll(
        &self,
        turn: &Turn,
        deployment: &mut MachineDeployment,
        seen: &Seen,
    ) -> Result<bool, Error> {
        let context = &self.0;
        let now = context.now();
        let views: Vec<&MachineSet> = seen.sets.iter().map(|(_, set)| &**set).collect();
        let (current, old) = template::current_and_old(deployment, &views, now);
        // Nobody has said how many: nothing is taken away for that.
        let Some(replicas) = deployment.spec.replicas else { return Ok(false) };
        let bounds = Bounds::of(replicas, &deployment.spec.rollout.strategy.rolling_update)
            .map_err(|why| Error::Impossible(format!("spec.rollout.strategy.rollingUpdate: {why}")))?;
        let on_delete = deployment.spec.rollout.strategy.type_ == rollout_strategy::ON_DELETE;
        let paused = deployment.spec.paused == Some(true);
        let intents = match (paused, on_delete) {
            (true, _) => scale_paused(bounds, current, &old),
            (_, true) => rollout::on_delete(
                replicas,
                seen_set(current),
                &old.iter().map(|set| seen_set(Some(set))).collect::<Vec<_>>(),
            ),
            _ => rollout::rolling_update(
                bounds,
                seen_set(current),
                &old.iter().map(|set| seen_set(Some(set))).collect::<Vec<_>>(),
            ),
        };
        let revision = desired::next_revision(current, &old);
        let make = desired::Desired { deployment, bounds, revision };
        let writer = context.writer.named(MANAGER);
        let mut scaled = match current {
            Some(set) => self.update(turn, seen, set, make.current(set, intents.new)).await?,
            None if paused => false,
            None => {
                if let Some(why) = missing(seen) {
                    return Err(Error::Impossible(format!(
                        "cannot create a MachineSet when templates do not exist: {why}"
                    )));
                }
                let suffix = context.suffix();
                let name = naming::machine_set(seen.object.name(), &suffix);
                let owner = owners::reference(&kind_of::<MachineDeployment>(), &seen.object, true);
                let document = make.first(seen.object.namespace(), &name, &suffix, intents.new, &owner);
                let made = writer.create(turn, &context.sets, document).await;
                let what = format!("MachineSet {name} with {} replicas", intents.new);
                let kind = kind_of::<MachineDeployment>();
                context.told(&kind, &seen.object, Deed::Create, &what, made).await?;
                true
            }
        };
        for (set, intent) in old.iter().zip(&intents.old) {
            scaled |= self.update(turn, seen, set, make.old(set, *intent, on_delete)).await?;
        }
        if !paused {
            let notes = deployment.metadata.annotations.get_or_insert_default();
            notes.insert(annotations::REVISION.into(), revision.to_string());
            self.clean(turn, deployment, seen, current, &old).await?;
        }
        Ok(scaled)
    }

    /// Gives whether the set was scaled.
    async fn update(
        &self,
        turn: &Turn,
        seen: &Seen,
        set: &MachineSet,
        wanted: MachineSet,
    ) -> Result<bool, Error> {
        let context = &self.0;
        let Some((object, _)) = seen.sets.iter().find(|(object, _)| object.meta().name == set.metadata.name)
        else {
            return Ok(false);
        };
        if object.deleting() {
            return Ok(false);
        }
        let mut edit: Edit<MachineSet> = Edit::begin(&context.sets, object)?;
        let scaled = edit.spec.replicas != wanted.spec.replicas;
        desired::carry(&mut edit, object, &wanted);
        let written = context.writer.named(MANAGER).apply(turn, edit, &[]).await;
        let (from, to) = (set.spec.replicas.unwrap_or_default(), wanted.spec.replicas.unwrap_or_default());
        let (deed, what) = match scaled {
            true => (Deed::Scale, format!("MachineSet {} from {from} to {to}", object.name())),
            false => (Deed::Update, format!("MachineSet {}", object.name())),
        };
        context.told(&kind_of::<MachineDeployment>(), &seen.object, deed, &what, written).await?;
        Ok(scaled)
    }

    /// Once a rollout is complete, sets that have nothing any more go.
    async fn clean(
        &self,
        turn: &Turn,
        deployment: &MachineDeployment,
        seen: &Seen,
        current: Option<&MachineSet>,
        old: &[&MachineSet],
    ) -> Result<(), Error> {
        let replicas = deployment.spec.replicas.unwrap_or_default();
        let status = current.and_then(|set| set.status.as_ref());
        let complete = status.is_some_and(|status| {
            status.replicas == Some(replicas)
                && status.available_replicas == Some(replicas)
                && status.up_to_date_replicas == Some(replicas)
        });
        if !complete {
            return Ok(());
        }
        for set in old {
            let status = set.status.clone().unwrap_or_default();
            let empty = set.spec.replicas == Some(0) && status.replicas == Some(0);
            let seen_so = status.observed_generation >= set.metadata.generation.unwrap_or_default();
            let object = seen.sets.iter().find(|(object, _)| object.meta().name == set.metadata.name);
            if let Some((object, _)) = object.filter(|(object, _)| empty && seen_so && !object.deleting()) {
                self.delete(turn, seen, object).await?;
            }
        }
        Ok(())
    }

    async fn delete(&self, turn: &Turn, seen: &Seen, set: &Arc<Object>) -> Result<(), Error> {
        let context = &self.0;
        let deleted = context.writer.delete(turn, &context.sets, set).await;
        let (kind, what) = (kind_of::<MachineDeployment>(), format!("MachineSet {}", set.name()));
        Ok(context.told(&kind, &seen.object, Deed::Delete, &what, deleted).await?)
    }
}

fn seen_set(set: Option<&MachineSet>) -> Set {
    let status = set.and_then(|set| set.status.clone()).unwrap_or_default();
    Set {
        wanted: set.and_then(|set| set.spec.replicas).unwrap_or_default(),
        present: status.replicas.unwrap_or_default(),
        available: status.available_replicas.unwrap_or_default(),
    }
}

fn scale_paused(bounds: Bounds, current: Option<&MachineSet>, old: &[&MachineSet]) -> Intents {
    let number = |set: &MachineSet, key: &str| set.metadata.annotations.as_ref()?.get(key)?.parse().ok();
    let mut all: Vec<(bool, &MachineSet)> =
        current.into_iter().map(|set| (true, set)).chain(old.iter().map(|set| (false, *set))).collect();
    all.sort_by_key(|(_, set)| std::cmp::Reverse(set.spec.replicas.unwrap_or_default()));
    let shares: Vec<Share> = all
        .iter()
        .map(|(_, set)| Share {
            wanted: set.spec.replicas.unwrap_or_default(),
            available: seen_set(Some(set)).available,
            desired: number(set, annotations::DESIRED_REPLICAS),
            most: number(set, annotations::MAX_REPLICAS),
        })
        .collect();
    let found = rollout::paused(bounds, &shares, all.iter().position(|(newest, _)| *newest));
    let of = |set: &MachineSet| {
        let place = all.iter().position(|(_, one)| std::ptr::eq(*one, set));
        place.map_or_else(|| set.spec.replicas.unwrap_or_default(), |place| found[place])
    };
    Intents { new: current.map_or(0, of), old: old.iter().map(|set| of(set)).collect() }
}

fn missing(seen: &Seen) -> Option<String> {
    seen.templates.iter().find_map(|found| match found {
        Found::Missing => Some("a template that the spec refers to is not there".into()),
        Found::Unknown(why) => Some(why.to_string()),
        _ => None,
    })
}

/// When a rollout begins by itself.
fn until_rollout(deployment: &MachineDeployment, now: Timestamp) -> Option<Duration> {
    let after = deployment.spec.rollout.after.as_ref()?;
    Duration::try_from(after.0.duration_since(now)).ok().filter(|wait| !wait.is_zero())
}
