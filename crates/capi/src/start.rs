//! How every look at an object of ours begins, and when its status is put off.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::Kind;
use api::capi::v1beta2::{Cluster, Machine, MachineDeployment, MachineHealthCheck, MachineSet};
use api::catalogue::{finalizers, labels};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kit::write::Edit;
use kit::{Cache, Ended, Key, Object, Turn, conditions, owners};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::{Context, Error, cluster_owner};
use crate::machines::Counted;
use crate::pause;

/// A kind that is looked after here.
pub(crate) trait Ours: Kind + Serialize + DeserializeOwned {
    /// What holds an object until everything of it is gone.
    const FINALIZER: Option<&'static str>;

    /// Its metadata, to be changed.
    fn metadata(&mut self) -> &mut ObjectMeta;

    /// The cluster that it belongs to; none if it is one.
    fn cluster(&self) -> Option<&str>;

    /// The conditions of its status, to be changed.
    fn conditions(&mut self) -> &mut Vec<Condition>;

    /// Notes that this spec was seen and followed.
    fn observed(&mut self, generation: i64);
}

macro_rules! ours {
    ($($kind:ident $finalizer:expr, $cluster:expr;)+) => {$(
        impl Ours for $kind {
            const FINALIZER: Option<&'static str> = $finalizer;

            fn metadata(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }

            fn cluster(&self) -> Option<&str> {
                let cluster: fn(&$kind) -> Option<&str> = $cluster;
                cluster(self)
            }

            fn conditions(&mut self) -> &mut Vec<Condition> {
                &mut self.status.get_or_insert_default().conditions
            }

            fn observed(&mut self, generation: i64) {
                self.status.get_or_insert_default().observed_generation = generation;
            }
        }
    )+};
}

ours! {
    Cluster Some(finalizers::CLUSTER), |_| None;
    Machine Some(finalizers::MACHINE), |machine| Some(&machine.spec.cluster_name);
    MachineSet Some(finalizers::MACHINE_SET), |set| Some(&set.spec.cluster_name);
    MachineDeployment Some(finalizers::MACHINE_DEPLOYMENT), |deployment| Some(&deployment.spec.cluster_name);
    MachineHealthCheck None, |check| Some(&check.spec.cluster_name);
}

/// An object that something is to be done about.
pub(crate) struct Start<T> {
    pub(crate) object: Arc<Object>,
    /// With its cluster's label, its owner and the condition `Paused` as they shall be.
    pub(crate) edit: Edit<T>,
    pub(crate) cluster: Arc<Object>,
    pub(crate) now: Timestamp,
    pub(crate) generation: i64,
}

/// Begins a look. Gives how it ended if there is nothing more to do in it: the object is gone or paused, or has just got
/// its finalizer, which has to be there before anything else is made.
///
/// `alone` says of an object whether nothing but its cluster owns it.
pub(crate) async fn begin<T: Ours>(
    context: &Context,
    turn: &Turn,
    cache: &Arc<Cache>,
    key: &Key,
    alone: impl FnOnce(&Object) -> bool,
) -> Result<Result<Start<T>, Ended>, Error> {
    let Some(object) = cache.get(key).filter(|object| context.ours(object)) else {
        return Ok(Err(Ended::Gone));
    };
    let mut edit: Edit<T> = Edit::begin(cache, &object)?;
    let cluster = match edit.cluster() {
        None => Some(object.clone()),
        Some(name) => context.clusters.get(&Key::new(&key.namespace, name)),
    };
    let Some(cluster) = cluster else {
        let name = edit.cluster().unwrap_or_default();
        return Err(Error::Impossible(format!("spec.clusterName: there is no Cluster {name}")));
    };
    let paused = pause::paused(T::KIND, object.meta(), Some(&*cluster.view::<Cluster>()?));
    let pausing = paused.is_true();
    if !object.deleting() {
        if !pausing && edit.cluster().is_some() {
            own(edit.metadata(), &cluster, alone(&object));
        }
        if add_finalizer(&mut *edit) {
            context.writer.apply(turn, edit, &[]).await?;
            return Ok(Err(Ended::Again(Duration::ZERO)));
        }
    }
    let (now, generation) = (context.now(), object.meta().generation.unwrap_or_default());
    conditions::set(edit.conditions(), paused, generation, now);
    if pausing {
        context.writer.apply(turn, edit, &["Paused"]).await?;
        return Ok(Err(Ended::Well));
    }
    Ok(Ok(Start { object, edit, cluster, now, generation }))
}

/// Gives an object its cluster's label and, if it stands alone, its cluster as owner.
fn own(metadata: &mut ObjectMeta, cluster: &Object, alone: bool) {
    metadata.labels.get_or_insert_default().insert(labels::CAPI_CLUSTER_NAME.into(), cluster.name().into());
    if alone {
        owners::ensure(metadata.owner_references.get_or_insert_default(), cluster_owner(cluster, false));
    }
}

/// Gives whether it was missing.
fn add_finalizer<T: Ours>(object: &mut T) -> bool {
    let Some(finalizer) = T::FINALIZER else { return false };
    let all = object.metadata().finalizers.get_or_insert_default();
    let missing = !all.iter().any(|one| one == finalizer);
    if missing {
        all.push(finalizer.into());
    }
    missing
}

/// Takes the finalizer away: nothing is left that it would have to hold the object for.
pub(crate) fn let_go<T: Ours>(object: &mut T) {
    object.metadata().finalizers.get_or_insert_default().retain(|one| Some(one.as_str()) != T::FINALIZER);
}

/// How long a status may be put off while more is about to be known.
const SETTLE: Duration = Duration::from_secs(2);

/// Statuses that are put off: what many machines come to within a moment is told at once. None is ever later than
/// [`SETTLE`].
#[derive(Debug, Default)]
pub(crate) struct PutOff(Mutex<BTreeMap<Key, Timestamp>>);

impl PutOff {
    /// How long the status of an object is put off; none if it is to be written now. `unsettled` says whether more is
    /// about to be known.
    pub(crate) fn wait(&self, key: &Key, unsettled: bool, now: Timestamp) -> Option<Duration> {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !unsettled {
            since.remove(key);
            return None;
        }
        let began = *since.entry(key.clone()).or_insert(now);
        let passed = Duration::try_from(now.duration_since(began)).unwrap_or_default();
        let left = SETTLE.checked_sub(passed).filter(|left| !left.is_zero());
        if left.is_none() {
            since.remove(key);
        }
        left
    }
}

/// Whether a machine came into being just now, and more will be known of it within a second.
pub(crate) fn unsettled(machine: &Object, now: Timestamp) -> bool {
    use api::capi::v1beta2::values::machine_phase::RUNNING;
    let created = machine.meta().creation_timestamp.as_ref().map(|time| time.0);
    // Times of creation are in whole seconds.
    let young = created.is_some_and(|created| now.duration_since(created).as_secs() <= 1);
    young && !machine.deleting() && machine.document()["status"]["phase"] != RUNNING
}

/// Whether sets and deployments say of their machines what can be seen of them, and no machine is coming just now. Who
/// tells of all of them waits for that, and tells once.
pub(crate) fn all_told(
    machines: &[(Arc<Object>, Arc<Machine>)],
    sets: &[(Arc<Object>, Arc<MachineSet>)],
    deployments: &[(Arc<Object>, Arc<MachineDeployment>)],
    now: Timestamp,
) -> bool {
    if machines.iter().any(|(machine, _)| unsettled(machine, now)) {
        return false;
    }
    let mut by_owner: BTreeMap<&str, Vec<&Machine>> = BTreeMap::new();
    for (object, machine) in machines {
        if let Some(owner) = owners::controller(object.owners()) {
            by_owner.entry(&owner.uid).or_default().push(machine);
        }
    }
    let of_set = |set: &Object| by_owner.get(set.uid()).cloned().unwrap_or_default();
    let told = |object: &Object, observed: Option<i64>, counts: [Option<i32>; 4], machines: Vec<&Machine>| {
        let counted = Counted::of(machines.into_iter());
        let seen = [counted.replicas, counted.ready, counted.available, counted.up_to_date];
        observed == object.meta().generation && counts == seen.map(Some)
    };
    sets.iter().all(|(object, set)| {
        let status = set.status.as_ref();
        let counts = status.map_or([None; 4], |status| {
            [status.replicas, status.ready_replicas, status.available_replicas, status.up_to_date_replicas]
        });
        told(object, status.map(|status| status.observed_generation), counts, of_set(object))
    }) && deployments.iter().all(|(object, deployment)| {
        let status = deployment.status.as_ref();
        let counts = status.map_or([None; 4], |status| {
            [status.replicas, status.ready_replicas, status.available_replicas, status.up_to_date_replicas]
        });
        let own = sets.iter().filter(|(set, _)| {
            owners::controller(set.owners()).is_some_and(|owner| owner.uid == object.uid())
        });
        let machines = own.flat_map(|(set, _)| of_set(set)).collect();
        told(object, status.map(|status| status.observed_generation), counts, machines)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_is_not_put_off_for_long() {
        let put_off = PutOff::default();
        let key = Key::new("n", "a");
        let at = |milliseconds: i64| Timestamp::from_millisecond(milliseconds).unwrap();
        assert_eq!(put_off.wait(&key, false, at(0)), None);
        assert_eq!(put_off.wait(&key, true, at(100)), Some(SETTLE));
        assert_eq!(put_off.wait(&key, true, at(1600)), Some(Duration::from_millis(500)));
        assert_eq!(put_off.wait(&Key::new("n", "b"), true, at(1600)), Some(SETTLE));
        assert_eq!(put_off.wait(&key, true, at(2100)), None, "however much goes on");
        assert_eq!(put_off.wait(&key, true, at(2200)), Some(SETTLE));
        assert_eq!(put_off.wait(&key, false, at(2300)), None, "all is known");
    }

    #[test]
    fn only_machines_that_come_are_unsettled() {
        let machine = |phase: &str, deleting: bool| {
            let mut document = json!({"metadata": {"name": "m", "creationTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": phase}});
            if deleting {
                document["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            Object::from_document(document).unwrap()
        };
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let soon = at("2026-01-01T00:00:01.5Z");
        assert!(unsettled(&machine("Provisioning", false), soon));
        assert!(!unsettled(&machine("Running", false), soon));
        assert!(!unsettled(&machine("Provisioning", true), soon));
        assert!(!unsettled(&machine("Provisioning", false), at("2026-01-01T00:00:02Z")));
    }
}
