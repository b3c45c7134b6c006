//! Many machines, counted and summed up. No IO.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::capi::v1beta2::values::polarity;
use api::capi::v1beta2::{ConditionGate, Machine, StatusVersion};
use api::catalogue::{annotations, conditions as types, labels, reasons};
use jiff::{SignedDuration, Timestamp};
use kit::Object;
use kit::conditions::{self, Aggregate, Finding, Gate, Polarity, Reasons, Source, Status};

/// How long a new machine may be without a word on whether it is up to date before that is told.
const SETTLES: SignedDuration = SignedDuration::from_secs(10);
/// After this time a deletion takes suspiciously long.
pub(crate) const STALE_DELETION: SignedDuration = SignedDuration::from_mins(15);
/// After this time a drain takes suspiciously long.
const STALE_DRAIN: SignedDuration = SignedDuration::from_mins(5);

/// Machines, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) replicas: i32,
    pub(crate) ready: i32,
    pub(crate) available: i32,
    pub(crate) up_to_date: i32,
    versions: BTreeMap<String, i32>,
}

impl Counted {
    pub(crate) fn of<'a>(machines: impl Iterator<Item = &'a Machine>) -> Self {
        let mut counted = Counted::default();
        for machine in machines {
            counted.replicas += 1;
            let Some(status) = &machine.status else { continue };
            let version = status.node_info.as_ref().map(|info| info.kubelet_version.clone());
            let version =
                version.filter(|version| !version.is_empty()).unwrap_or_else(|| machine.spec.version.clone());
            if !version.is_empty() {
                *counted.versions.entry(version).or_default() += 1;
            }
            // A machine that changes in place serves nobody for sure.
            if noted(machine, annotations::UPDATE_IN_PROGRESS) {
                continue;
            }
            let so = |type_| i32::from(conditions::has(&status.conditions, type_, Status::True));
            counted.ready += so(types::READY);
            counted.available += so(types::AVAILABLE);
            counted.up_to_date += so(types::UP_TO_DATE);
        }
        counted
    }

    pub(crate) fn add(
        &mut self,
        replicas: Option<i32>,
        ready: Option<i32>,
        available: Option<i32>,
        up_to_date: Option<i32>,
        versions: &[StatusVersion],
    ) {
        self.replicas += replicas.unwrap_or_default();
        self.ready += ready.unwrap_or_default();
        self.available += available.unwrap_or_default();
        self.up_to_date += up_to_date.unwrap_or_default();
        for one in versions {
            *self.versions.entry(one.version.clone()).or_default() += one.replicas.unwrap_or_default();
        }
    }

    pub(crate) fn merge(&mut self, other: Counted) {
        let versions = other.versions();
        self.add(
            Some(other.replicas),
            Some(other.ready),
            Some(other.available),
            Some(other.up_to_date),
            &versions,
        );
    }

    pub(crate) fn versions(&self) -> Vec<StatusVersion> {
        let version = |(version, replicas): (&String, &i32)| StatusVersion {
            version: version.clone(),
            replicas: (*replicas > 0).then_some(*replicas),
        };
        self.versions.iter().map(version).collect()
    }
}

fn noted(machine: &Machine, annotation: &str) -> bool {
    machine.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(annotation))
}

/// Machines as sources of aggregates.
pub(crate) fn sources<'a>(
    machines: impl Iterator<Item = &'a (Arc<Object>, Arc<Machine>)>,
) -> Vec<Source<'a>> {
    machines
        .map(|(object, machine)| Source {
            kind: "Machine",
            name: object.name(),
            control_plane: object.label(labels::CAPI_CONTROL_PLANE).is_some(),
            conditions: machine.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default(),
        })
        .collect()
}

/// Whether a machine is old enough that a missing word on whether it is up to date is worth telling.
pub(crate) fn settled(machine: &Machine, now: Timestamp) -> bool {
    let said = machine
        .status
        .as_ref()
        .is_some_and(|status| conditions::find(&status.conditions, types::UP_TO_DATE).is_some());
    let created = machine.metadata.creation_timestamp.as_ref();
    said || created.is_some_and(|created| now.duration_since(created.0) > SETTLES)
}

/// Whether machines are ready.
pub(crate) fn ready(target: &'static str, machines: &[Source<'_>]) -> Finding {
    if machines.is_empty() {
        return Finding::yes(target, reasons::NO_REPLICAS);
    }
    let reasons =
        Reasons { issue: reasons::NOT_READY, unknown: reasons::READY_UNKNOWN, info: reasons::READY };
    Aggregate { type_: types::READY, polarity: Polarity::Positive, target, reasons }.over(machines)
}

/// Whether machines are as their owners ask. `any`: whether there are machines at all, settled or not.
pub(crate) fn up_to_date(target: &'static str, machines: &[Source<'_>], any: bool) -> Finding {
    if machines.is_empty() {
        let reason = if any { reasons::UP_TO_DATE } else { reasons::NO_REPLICAS };
        return Finding::yes(target, reason);
    }
    let reasons = Reasons {
        issue: reasons::NOT_UP_TO_DATE,
        unknown: reasons::UP_TO_DATE_UNKNOWN,
        info: reasons::UP_TO_DATE,
    };
    Aggregate { type_: types::UP_TO_DATE, polarity: Polarity::Positive, target, reasons }.over(machines)
}

/// Whether unhealthy machines are being replaced.
pub(crate) fn remediating(machines: &[Source<'_>]) -> Finding {
    let no = |source: &&Source<'_>, type_| conditions::has(source.conditions, type_, Status::False);
    let unhealthy: Vec<Source<'_>> =
        machines.iter().filter(|one| no(one, types::HEALTH_CHECK_SUCCEEDED)).copied().collect();
    let replaced: Vec<Source<'_>> =
        unhealthy.iter().filter(|one| no(one, types::OWNER_REMEDIATED)).copied().collect();
    if replaced.is_empty() {
        let finding = Finding::no(types::REMEDIATING, reasons::NOT_REMEDIATING);
        return match unhealthy.len() {
            0 => finding,
            1 => {
                finding.saying(format!("Machine {} is not healthy (not to be remediated)", unhealthy[0].name))
            }
            _ => {
                let names: Vec<&str> = unhealthy.iter().map(|one| one.name).take(3).collect();
                let more = if unhealthy.len() > 3 {
                    format!(", ... ({} more)", unhealthy.len() - 3)
                } else {
                    String::new()
                };
                finding.saying(format!(
                    "Machines {}{more} are not healthy (not to be remediated)",
                    names.join(", ")
                ))
            }
        };
    }
    let reasons =
        Reasons { issue: reasons::REMEDIATING, unknown: reasons::REMEDIATING, info: reasons::REMEDIATING };
    let found = Aggregate {
        type_: types::OWNER_REMEDIATED,
        polarity: Polarity::Positive,
        target: types::REMEDIATING,
        reasons,
    }
    .over(&replaced);
    Finding { status: Status::True, ..found }
}

/// Gates that a user adds.
pub(crate) fn gates(listed: &[ConditionGate]) -> impl Iterator<Item = Gate> + '_ {
    listed.iter().map(|gate| match gate.polarity.as_str() {
        polarity::NEGATIVE => Gate::negative(&gate.condition_type),
        _ => Gate::positive(&gate.condition_type),
    })
}

/// What is told of machines whose deletion takes long: since when, and what may hold it.
pub(crate) fn stale_deletion<'a>(
    machines: impl Iterator<Item = &'a Machine>,
    now: Timestamp,
) -> Option<String> {
    let mut stale: Vec<(&str, Vec<&'static str>)> = Vec::new();
    for machine in machines {
        let Some(since) = &machine.metadata.deletion_timestamp else { continue };
        if now.duration_since(since.0) > STALE_DELETION {
            stale.push((machine.metadata.name.as_deref().unwrap_or_default(), delays(machine, now)));
        }
    }
    if stale.is_empty() {
        return None;
    }
    let names: Vec<&str> = stale.iter().map(|(name, _)| *name).take(3).collect();
    let more = if stale.len() > 3 { format!(", ... ({} more)", stale.len() - 3) } else { String::new() };
    let mut why: Vec<&str> = stale.iter().flat_map(|(_, delays)| delays.iter().copied()).collect();
    why.sort_unstable();
    why.dedup();
    let why =
        if why.is_empty() { String::new() } else { format!(", delay likely due to {}", why.join(", ")) };
    let (noun, verb) = if stale.len() == 1 { ("Machine", "is") } else { ("Machines", "are") };
    Some(format!("{noun} {}{more} {verb} in deletion since more than 15m{why}", names.join(", ")))
}

/// What holds a drain, by the words that its message has.
pub(crate) fn delays(machine: &Machine, now: Timestamp) -> Vec<&'static str> {
    let Some(status) = &machine.status else { return Vec::new() };
    let began = status.deletion.as_ref().and_then(|progress| progress.node_drain_start_time.as_ref());
    let deleting = conditions::find(&status.conditions, types::DELETING);
    let (Some(began), Some(deleting)) = (began, deleting) else { return Vec::new() };
    if deleting.reason != reasons::DRAINING_NODE || now.duration_since(began.0) <= STALE_DRAIN {
        return Vec::new();
    }
    let holds = [
        ("cannot evict pod as it would violate the pod's disruption budget.", "PodDisruptionBudgets"),
        ("deletionTimestamp set, but still not removed from the Node", "Pods not terminating"),
        ("failed to evict Pod", "Pod eviction errors"),
        ("waiting for completion", "Pods not completed yet"),
    ];
    holds.iter().filter(|(words, _)| deleting.message.contains(words)).map(|(_, what)| *what).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn machine(name: &str, conditions: &[(&str, &str, &str)], version: &str) -> (Arc<Object>, Arc<Machine>) {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|(type_, status, message)| {
                json!({"type": type_, "status": status, "reason": "R", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"})
            })
            .collect();
        let document = json!({
            "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"version": version}, "status": {"conditions": conditions}
        });
        let object = Arc::new(Object::from_document(document).unwrap());
        let view = object.view().unwrap();
        (object, view)
    }

    #[test]
    fn machines_are_counted() {
        let machines = [
            machine("a", &[("Ready", "True", ""), ("Available", "True", "")], "v1"),
            machine("b", &[("Ready", "True", ""), ("UpToDate", "False", "")], "v2"),
            machine("c", &[], "v1"),
        ];
        let counted = Counted::of(machines.iter().map(|(_, machine)| &**machine));
        assert_eq!((counted.replicas, counted.ready, counted.available, counted.up_to_date), (3, 2, 1, 0));
        let versions: Vec<_> =
            counted.versions().into_iter().map(|one| (one.version, one.replicas)).collect();
        assert_eq!(versions, [("v1".into(), Some(2)), ("v2".into(), Some(1))]);
    }

    #[test]
    fn remediation_is_told() {
        let healthy = [machine("a", &[], "")];
        assert_eq!(remediating(&sources(healthy.iter())), Finding::no("Remediating", "NotRemediating"));
        let sick = [machine("a", &[("HealthCheckSucceeded", "False", "x")], "")];
        assert!(
            remediating(&sources(sick.iter())).message.ends_with("a is not healthy (not to be remediated)")
        );
        let replaced = [machine(
            "a",
            &[("HealthCheckSucceeded", "False", "x"), ("OwnerRemediated", "False", "Waiting")],
            "",
        )];
        let found = remediating(&sources(replaced.iter()));
        assert_eq!((found.status, found.message.as_str()), (Status::True, "* Machine a: Waiting"));
    }

    #[test]
    fn long_deletions_are_told_with_what_holds_them() {
        let document = json!({
            "metadata": {"name": "m", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"deletion": {"nodeDrainStartTime": "2026-01-01T00:00:00Z"}, "conditions": [
                {"type": "Deleting", "status": "True", "reason": "DrainingNode", "lastTransitionTime": "2026-01-01T00:00:00Z",
                 "message": "x: cannot evict pod as it would violate the pod's disruption budget. y"}
            ]}
        });
        let machine: Machine = serde_json::from_value(document).unwrap();
        let at = |time: &str| stale_deletion([&machine].into_iter(), time.parse().unwrap());
        assert_eq!(at("2026-01-01T00:10:00Z"), None);
        assert_eq!(
            at("2026-01-01T00:20:00Z").unwrap(),
            "Machine m is in deletion since more than 15m, delay likely due to PodDisruptionBudgets"
        );
    }
}
