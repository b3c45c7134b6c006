//! What a cluster's status says. No IO.

use api::capi::v1beta1;
use api::capi::v1beta2::{Cluster, ReplicaOverview, StatusVersion};
use api::catalogue::{conditions as types, reasons};
use jiff::Timestamp;
use kit::conditions::legacy::{self, Severity};
use kit::conditions::{self, Aggregate, Finding, Gate, Polarity, Reasons, Source};

use super::{Seen, status_of, topology};
use crate::clusters::FIRST_FAILURES;
use crate::context::Found;
use crate::contract::Breach;
use crate::external::{self, Part, Shown};
use crate::machines::{self, Counted};
use crate::phase;

/// Takes over what providers say: endpoint, failure domains, what has been achieved for good.
///
/// # Errors
/// If an object breaks its contract; what could be read is taken over all the same.
pub(super) fn observe(cluster: &mut Cluster, seen: &Seen, now: Timestamp) -> Result<(), Breach> {
    let infrastructure = observe_infrastructure(cluster, seen, now);
    let control_plane = observe_control_plane(cluster, seen);
    infrastructure.and(control_plane)
}

fn observe_infrastructure(cluster: &mut Cluster, seen: &Seen, _: Timestamp) -> Result<(), Breach> {
    let deleting = seen.object.deleting();
    if cluster.spec.infrastructure_ref.is_none() {
        if !deleting && !topology::owes(cluster) {
            status_of(cluster).initialization.infrastructure_provisioned = Some(true);
        }
        return Ok(());
    }
    let Some(provider) = seen.infrastructure.there() else { return Ok(()) };
    let external = provider.read();
    let (reason, message) = external.failure();
    let kind = external.kind();
    let deprecated = legacy_of(cluster);
    deprecated.failure_reason = reason;
    deprecated.failure_message = message.map(|message| {
        format!(
            "Failure detected from referenced resource {kind} with name {:?}: {message}",
            provider.object.name()
        )
    });
    let before = status_of(cluster).initialization.infrastructure_provisioned == Some(true);
    if external.deleting() || !(external.provisioned()? || before) {
        return Ok(());
    }
    if !cluster.spec.control_plane_endpoint.is_valid()
        && let Some(endpoint) = external.endpoint()?
    {
        cluster.spec.control_plane_endpoint = endpoint;
    }
    let domains = external.failure_domains()?;
    let status = status_of(cluster);
    status.failure_domains = domains;
    status.initialization.infrastructure_provisioned = Some(true);
    Ok(())
}

fn observe_control_plane(cluster: &mut Cluster, seen: &Seen) -> Result<(), Breach> {
    if cluster.spec.control_plane_ref.is_none() {
        let up = seen.control_plane_machines().any(|(_, machine)| has_node(machine));
        if up {
            status_of(cluster).initialization.control_plane_initialized = Some(true);
        }
        return Ok(());
    }
    let Some(provider) = seen.control_plane.there() else { return Ok(()) };
    let external = provider.read();
    if external.deleting() {
        return Ok(());
    }
    if !cluster.spec.control_plane_endpoint.is_valid()
        && let Some(endpoint) = external.endpoint()?
    {
        cluster.spec.control_plane_endpoint = endpoint;
    }
    if external.initialized()? {
        status_of(cluster).initialization.control_plane_initialized = Some(true);
    }
    Ok(())
}

fn has_node(machine: &api::capi::v1beta2::Machine) -> bool {
    machine.status.as_ref().is_some_and(|status| status.node_ref.is_some())
}

fn legacy_of(cluster: &mut Cluster) -> &mut api::capi::v1beta2::V1Beta1Failure {
    status_of(cluster).deprecated.get_or_insert_default().v1beta1.get_or_insert_default()
}

/// Writes conditions, counters and the phase.
pub(super) fn write(cluster: &mut Cluster, seen: &Seen, now: Timestamp) {
    let generation = seen.object.meta().generation.unwrap_or_default();
    let mut list = std::mem::take(&mut status_of(cluster).conditions);
    let mut set = |finding: Finding| conditions::set(&mut list, finding, generation, now);
    for finding in [connection(cluster, seen, now)].into_iter().flatten() {
        set(finding);
    }
    if !seen.object.deleting() {
        set(Finding::no(types::DELETING, reasons::NOT_DELETING));
    }
    set(initialized(cluster, seen));
    set(workers_available(seen));
    for finding in machine_findings(seen, now) {
        set(finding);
    }
    for finding in movements(seen) {
        set(finding);
    }
    set(machines::remediating(&sources(seen, |_| true)));
    show_providers(cluster, seen, &mut list, (generation, now));
    topology::tell(cluster, &mut list, (generation, now));
    let available = available(cluster, seen, &list);
    conditions::set(&mut list, available, generation, now);
    status_of(cluster).conditions = list;
    write_counts(cluster, seen);
    write_legacy(cluster, seen, now);
    let phase = phase::of_cluster(cluster);
    status_of(cluster).phase = phase.into();
}

fn connection(cluster: &Cluster, seen: &Seen, now: Timestamp) -> Option<Finding> {
    let known = cluster
        .status
        .as_ref()
        .and_then(|status| conditions::find(&status.conditions, types::REMOTE_CONNECTION_PROBE));
    let no = |message: String| {
        Some(Finding::no(types::REMOTE_CONNECTION_PROBE, reasons::PROBE_FAILED).saying(message))
    };
    match seen.health.last_success {
        None if seen.health.failures < FIRST_FAILURES && known.is_some() => known.map(Finding::from),
        None => no("Remote connection not established yet".into()),
        Some(success) if now.duration_since(success) > seen.connection_grace => {
            let seconds = Timestamp::from_second(success.as_second()).unwrap_or(success);
            no(format!("Remote connection probe failed, probe last succeeded at {seconds}"))
        }
        Some(_) => Some(Finding::yes(types::REMOTE_CONNECTION_PROBE, reasons::PROBE_SUCCEEDED)),
    }
}

fn initialized(cluster: &Cluster, seen: &Seen) -> Finding {
    let done = cluster
        .status
        .as_ref()
        .is_some_and(|status| status.initialization.control_plane_initialized == Some(true));
    if done {
        return Finding::yes(types::CONTROL_PLANE_INITIALIZED, reasons::INITIALIZED);
    }
    let unknown =
        |reason, message: String| Finding::unknown(types::CONTROL_PLANE_INITIALIZED, reason).saying(message);
    match &seen.control_plane {
        Found::Unknown(why) => unknown(reasons::INTERNAL_ERROR, why.to_string()),
        Found::Missing => unknown(reasons::OBJECT_DOES_NOT_EXIST, "Control plane does not exist".into()),
        Found::There(_) => Finding::no(types::CONTROL_PLANE_INITIALIZED, reasons::NOT_INITIALIZED)
            .saying("Control plane not yet initialized"),
        Found::NotAsked => Finding::no(types::CONTROL_PLANE_INITIALIZED, reasons::NOT_INITIALIZED)
            .saying("Waiting for the first control plane machine to have status.nodeRef set"),
    }
}

fn workers_available(seen: &Seen) -> Finding {
    if seen.deployments.is_empty() {
        return Finding::yes(types::WORKERS_AVAILABLE, reasons::NO_WORKERS);
    }
    let aggregate = Aggregate {
        type_: types::AVAILABLE,
        polarity: Polarity::Positive,
        target: types::WORKERS_AVAILABLE,
        reasons: Reasons {
            issue: reasons::NOT_AVAILABLE,
            unknown: reasons::AVAILABLE_UNKNOWN,
            info: reasons::AVAILABLE,
        },
    };
    aggregate.over(&deployments(seen))
}

fn deployments(seen: &Seen) -> Vec<Source<'_>> {
    seen.deployments
        .iter()
        .map(|(object, deployment)| Source {
            kind: "MachineDeployment",
            name: object.name(),
            control_plane: false,
            conditions: deployment.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default(),
        })
        .collect()
}

fn sources(seen: &Seen, which: impl Fn(&kit::Object) -> bool) -> Vec<Source<'_>> {
    machines::sources(seen.machines.iter().filter(|(object, _)| which(object)))
}

fn machine_findings(seen: &Seen, now: Timestamp) -> [Finding; 4] {
    let control_plane =
        |object: &kit::Object| object.label(api::catalogue::labels::CAPI_CONTROL_PLANE).is_some();
    let servers = sources(seen, control_plane);
    let workers = sources(seen, |object| !control_plane(object));
    let settled = |which: &dyn Fn(&kit::Object) -> bool| {
        machines::sources(
            seen.machines.iter().filter(|(object, machine)| which(object) && machines::settled(machine, now)),
        )
    };
    [
        machines::ready(types::CONTROL_PLANE_MACHINES_READY, &servers),
        machines::ready(types::WORKER_MACHINES_READY, &workers),
        machines::up_to_date(
            types::CONTROL_PLANE_MACHINES_UP_TO_DATE,
            &settled(&control_plane),
            !servers.is_empty(),
        ),
        machines::up_to_date(
            types::WORKER_MACHINES_UP_TO_DATE,
            &settled(&|object| !control_plane(object)),
            !workers.is_empty(),
        ),
    ]
}

/// What is going on, of control plane, deployments and sets that stand alone.
fn movements(seen: &Seen) -> [Finding; 3] {
    let alone: Vec<Source<'_>> = seen
        .sets
        .iter()
        .filter(|(object, _)| Seen::stands_alone(object))
        .map(|(object, set)| Source {
            kind: "MachineSet",
            name: object.name(),
            control_plane: false,
            conditions: set.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default(),
        })
        .collect();
    let movement = |type_: &str, reasons: Reasons, with_sets: bool| {
        let said = match seen.control_plane.there() {
            // A provider that says nothing of it has nothing to say.
            Some(provider) => match conditions::provided(provider.object.document(), type_) {
                conditions::Provided::Said(condition) => Some((provider, vec![condition])),
                _ => None,
            },
            None => None,
        };
        let mut sources = deployments(seen);
        if with_sets {
            sources.extend(alone.iter().copied());
        }
        if let Some((provider, listed)) = &said {
            let kind = provider.cache.kind();
            sources.push(Source {
                kind: &kind.kind,
                name: provider.object.name(),
                control_plane: true,
                conditions: listed,
            });
        }
        Aggregate { type_, polarity: Polarity::Negative, target: type_, reasons }.over(&sources)
    };
    [
        movement(
            types::ROLLING_OUT,
            Reasons {
                issue: reasons::ROLLING_OUT,
                unknown: reasons::ROLLING_OUT_UNKNOWN,
                info: reasons::NOT_ROLLING_OUT,
            },
            false,
        ),
        movement(
            types::SCALING_UP,
            Reasons {
                issue: reasons::SCALING_UP,
                unknown: reasons::SCALING_UP_UNKNOWN,
                info: reasons::NOT_SCALING_UP,
            },
            true,
        ),
        movement(
            types::SCALING_DOWN,
            Reasons {
                issue: reasons::SCALING_DOWN,
                unknown: reasons::SCALING_DOWN_UNKNOWN,
                info: reasons::NOT_SCALING_DOWN,
            },
            true,
        ),
    ]
}

fn show_providers(
    cluster: &Cluster,
    seen: &Seen,
    list: &mut Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>,
    at: (i64, Timestamp),
) {
    let none = api::capi::v1beta2::ClusterStatus::default();
    let done = &cluster.status.as_ref().unwrap_or(&none).initialization;
    let deleting = seen.object.deleting();
    if let Some(reference) = &cluster.spec.infrastructure_ref {
        let shown = Shown {
            part: Part::Infrastructure,
            kind: &reference.kind,
            name: &reference.name,
            was_there: done.infrastructure_provisioned,
            deleting,
        };
        external::show(list, shown, &seen.infrastructure, at);
    } else if topology::owes(cluster) {
        conditions::set(list, topology::missing(types::INFRASTRUCTURE_READY), at.0, at.1);
    } else if !deleting {
        conditions::set(list, Finding::yes(types::INFRASTRUCTURE_READY, reasons::READY), at.0, at.1);
    }
    if let Some(reference) = &cluster.spec.control_plane_ref {
        let shown = Shown {
            part: Part::ControlPlane,
            kind: &reference.kind,
            name: &reference.name,
            was_there: done.control_plane_initialized,
            deleting,
        };
        external::show(list, shown, &seen.control_plane, at);
    } else {
        let up = done.control_plane_initialized == Some(true);
        let finding = match up {
            _ if topology::owes(cluster) => topology::missing(types::CONTROL_PLANE_AVAILABLE),
            true => Finding::yes(types::CONTROL_PLANE_AVAILABLE, reasons::AVAILABLE),
            false => Finding::no(types::CONTROL_PLANE_AVAILABLE, reasons::NOT_AVAILABLE)
                .saying("Waiting for the first control plane machine to have status.nodeRef set"),
        };
        conditions::set(list, finding, at.0, at.1);
    }
}

fn available(
    cluster: &Cluster,
    seen: &Seen,
    list: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition],
) -> Finding {
    let deleting = seen.object.deleting();
    let soft = |type_: &str| Gate::positive(type_).told_as(external::softened(list, type_, deleting));
    let mut gates = vec![
        Gate::negative(types::DELETING),
        Gate::positive(types::REMOTE_CONNECTION_PROBE),
        soft(types::INFRASTRUCTURE_READY),
        soft(types::CONTROL_PLANE_AVAILABLE),
        Gate::positive(types::WORKERS_AVAILABLE),
    ];
    let topology = Gate::positive(types::TOPOLOGY_RECONCILED);
    gates.push(if cluster.spec.topology.is_some() { topology } else { topology.optional() });
    gates.extend(machines::gates(&cluster.spec.availability_gates));
    let reasons = Reasons {
        issue: reasons::NOT_AVAILABLE,
        unknown: reasons::AVAILABLE_UNKNOWN,
        info: reasons::AVAILABLE,
    };
    conditions::summary(types::AVAILABLE, &gates, list, reasons)
}

fn write_counts(cluster: &mut Cluster, seen: &Seen) {
    let control_plane = match &seen.control_plane {
        Found::There(provider) => provider.read().replicas().ok().map(|found| ReplicaOverview {
            desired_replicas: found.desired,
            replicas: found.current,
            up_to_date_replicas: found.up_to_date,
            ready_replicas: found.ready,
            available_replicas: found.available,
            versions: found.versions,
            upgrade_plan: Vec::new(),
        }),
        Found::NotAsked => {
            let counted = Counted::of(seen.control_plane_machines().map(|(_, machine)| &**machine));
            (counted.replicas > 0).then(|| overview(counted, None))
        }
        Found::Missing | Found::Unknown(_) => None,
    };
    let mut total = Counted::default();
    let mut desired = 0;
    let mut any = false;
    for (_, deployment) in &seen.deployments {
        any = true;
        desired += deployment.spec.replicas.unwrap_or_default();
        if let Some(status) = &deployment.status {
            total.add(
                status.replicas,
                status.ready_replicas,
                status.available_replicas,
                status.up_to_date_replicas,
                &status.versions,
            );
        }
    }
    for (_, set) in seen.sets.iter().filter(|(object, _)| Seen::stands_alone(object)) {
        any = true;
        desired += set.spec.replicas.unwrap_or_default();
        if let Some(status) = &set.status {
            total.add(
                status.replicas,
                status.ready_replicas,
                status.available_replicas,
                status.up_to_date_replicas,
                &status.versions,
            );
        }
    }
    let alone: Vec<_> = seen.workers().filter(|(object, _)| Seen::stands_alone(object)).collect();
    if !alone.is_empty() {
        any = true;
        let counted = Counted::of(alone.iter().map(|(_, machine)| &**machine));
        desired += counted.replicas;
        total.merge(counted);
    }
    let status = status_of(cluster);
    status.control_plane = control_plane.filter(|found| *found != ReplicaOverview::default());
    status.workers = any.then(|| overview(total, Some(desired)));
}

fn overview(counted: Counted, desired: Option<i32>) -> ReplicaOverview {
    let versions: Vec<StatusVersion> = counted.versions();
    ReplicaOverview {
        desired_replicas: desired.or(Some(counted.replicas)),
        replicas: Some(counted.replicas),
        up_to_date_replicas: Some(counted.up_to_date),
        ready_replicas: Some(counted.ready),
        available_replicas: Some(counted.available),
        versions,
        upgrade_plan: Vec::new(),
    }
}

fn write_legacy(cluster: &mut Cluster, seen: &Seen, now: Timestamp) {
    let done = status_of(cluster).initialization.clone();
    let provisioned = done.infrastructure_provisioned == Some(true);
    let initialized = done.control_plane_initialized == Some(true);
    let own = cluster.spec.control_plane_ref.is_none();
    let owes = topology::owes(cluster);
    let list: &mut Vec<v1beta1::Condition> = &mut legacy_of(cluster).conditions;
    match &seen.infrastructure {
        Found::NotAsked if provisioned => legacy::mark_true(list, types::INFRASTRUCTURE_READY, now),
        found => external::show_legacy(
            list,
            types::INFRASTRUCTURE_READY,
            found,
            provisioned,
            reasons::WAITING_FOR_INFRASTRUCTURE,
            now,
        ),
    }
    external::show_legacy(
        list,
        types::CONTROL_PLANE_READY,
        &seen.control_plane,
        initialized,
        reasons::WAITING_FOR_CONTROL_PLANE,
        now,
    );
    match (initialized, own) {
        (true, _) => legacy::mark_true(list, types::CONTROL_PLANE_INITIALIZED, now),
        (false, true) => legacy::mark_false(
            list,
            types::CONTROL_PLANE_INITIALIZED,
            Severity::Info,
            reasons::MISSING_NODE_REF,
            "",
            now,
        ),
        (false, false) => legacy::mark_false(
            list,
            types::CONTROL_PLANE_INITIALIZED,
            Severity::Info,
            reasons::WAITING_FOR_CONTROL_PLANE_PROVIDER_INITIALIZED,
            "",
            now,
        ),
    }
    topology::tell_legacy(owes, list, now);
    legacy::summarise(list, &[types::CONTROL_PLANE_READY, types::INFRASTRUCTURE_READY], now);
}
