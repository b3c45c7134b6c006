//! The MachineHealthCheck controller: finds unhealthy machines and marks them.

mod mark;

use std::sync::Arc;
use std::time::Duration;

use api::capi::v1beta1;
use api::capi::v1beta2::{Cluster, Machine, MachineHealthCheck};
use api::catalogue::{conditions as types, reasons};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kit::conditions::legacy::{self, Severity as Legacy};
use kit::conditions::{self, Finding, Status};
use kit::events::Severity;
use kit::index;
use kit::runner::Controller;
use kit::{Ended, Key, Object, Turn};

use crate::context::{Context, Error, kind_of, typed};
use crate::health::{self, ClusterState, SeenNode, Target, Verdict};
use crate::selector::Selector;
use crate::start::{self, Ours as _, Start};

/// The conditions that this controller alone writes.
const OWNED: [&str; 2] = ["RemediationAllowed", "Paused"];

/// A machine and what is found of it.
pub(crate) struct Judged {
    pub(crate) object: Arc<Object>,
    pub(crate) machine: Arc<Machine>,
    pub(crate) verdict: Verdict,
}

/// Looks after MachineHealthChecks.
pub(crate) struct Checks(pub(crate) Arc<Context>);

impl Controller for Checks {
    type Error = Error;

    fn name(&self) -> &'static str {
        "machinehealthcheck"
    }

    fn object(&self, key: &Key) -> Option<Arc<Object>> {
        self.0.checks.get(key)
    }

    async fn reconcile(&self, key: &Key, turn: &Turn) -> Result<Ended, Error> {
        let context = &self.0;
        let start = start::begin(context, turn, &context.checks, key, |_| true).await?;
        let Start { object, mut edit, cluster, now, generation } = match start {
            Ok(start) => start,
            Err(ended) => return Ok(ended),
        };
        if object.deleting() {
            return Ok(Ended::Well);
        }
        let view = cluster.view::<Cluster>()?;
        let judged = self.judge(&edit, &cluster, &view, now)?;
        let healthy = judged.iter().filter(|one| one.verdict == Verdict::Healthy).count();
        let (total, healthy) = (count(judged.len()), count(healthy));
        let budget = health::budget(&edit.spec.remediation.trigger_if, total, healthy)
            .map_err(|why| Error::Impossible(why.to_string()))?;
        write(&mut edit, &judged, (total, healthy), &budget, (generation, now));
        let unhealthy = judged.iter().any(|one| matches!(one.verdict, Verdict::Unhealthy { .. }));
        if !budget.allowed && unhealthy {
            context
                .events
                .tell(
                    &kind_of::<MachineHealthCheck>(),
                    &object,
                    Severity::Warning,
                    "RemediationRestricted",
                    &budget.message,
                )
                .await;
        }
        let marked = mark::all(context, turn, &edit, &judged, budget.allowed).await;
        mark::show_legacy(legacy_of(&mut edit), &marked.external, now);
        if marked.outcome.is_ok() {
            edit.observed(generation);
        }
        context.writer.apply(turn, edit, &OWNED).await?;
        marked.outcome?;
        let next = judged.iter().filter_map(|one| match &one.verdict {
            Verdict::Pending(until) => *until,
            _ => None,
        });
        Ok(next.min().map_or(Ended::Well, |until| Ended::Again(wait(until, now))))
    }
}

/// A second more than until then, so that the time has come for sure.
fn wait(until: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(now)).unwrap_or_default() + Duration::from_secs(1)
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

impl Checks {
    fn judge(
        &self,
        check: &MachineHealthCheck,
        cluster: &Arc<Object>,
        view: &Cluster,
        now: Timestamp,
    ) -> Result<Vec<Judged>, Error> {
        let context = &self.0;
        let selector = Selector::read(&check.spec.selector)
            .map_err(|why| Error::Impossible(format!("spec.selector: {why}")))?;
        let since = |type_: &str| {
            let status = view.status.as_ref()?;
            let found = conditions::find(&status.conditions, type_)
                .filter(|one| one.status == Status::True.as_str())?;
            Some(found.last_transition_time.0)
        };
        let state = ClusterState {
            infrastructure_since: since(types::INFRASTRUCTURE_READY),
            control_plane_since: since(types::CONTROL_PLANE_INITIALIZED),
        };
        let entry = index::cluster(cluster.namespace(), cluster.name());
        let machines = typed::<Machine>(&context.machines.filed(&entry));
        let mut targets: Vec<(Arc<Object>, Arc<Machine>)> = machines
            .into_iter()
            .filter(|(object, machine)| {
                selector.takes(object.meta().labels.as_ref()) && health::looks_at(machine)
            })
            .collect();
        targets.sort_by_key(|(object, _)| object.key());
        if state.control_plane_since.is_some() && !targets.is_empty() {
            // Without a look at the nodes nothing can be said.
            let connection = context.access.connection(&cluster.key())?;
            let nodes = connection.caches.of_cluster(&crate::clusters::nodes(), crate::clusters::trim_node);
            return targets
                .into_iter()
                .map(|(object, machine)| {
                    let referred = machine.status.as_ref().and_then(|status| status.node_ref.as_ref());
                    let found = referred.and_then(|node| nodes.get(&Key::new("", &node.name)));
                    let found: Option<Arc<Node>> = found.map(|node| node.view()).transpose()?;
                    let node = match (&found, referred) {
                        (Some(node), _) => SeenNode::There(node),
                        (None, Some(_)) => SeenNode::Gone,
                        (None, None) => SeenNode::NotYet,
                    };
                    let verdict =
                        health::judge(Target { machine: &machine, node }, &check.spec.checks, state, now);
                    Ok(Judged { object, machine, verdict })
                })
                .collect();
        }
        let judged = targets.into_iter().map(|(object, machine)| {
            let target = Target { machine: &machine, node: SeenNode::NotYet };
            let verdict = health::judge(target, &check.spec.checks, state, now);
            Judged { verdict, object, machine }
        });
        Ok(judged.collect())
    }
}

fn legacy_of(check: &mut MachineHealthCheck) -> &mut Vec<v1beta1::Condition> {
    let status = check.status.get_or_insert_default();
    &mut status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default().conditions
}

fn write(
    check: &mut MachineHealthCheck,
    judged: &[Judged],
    (total, healthy): (i32, i32),
    budget: &health::Budget,
    (generation, now): (i64, Timestamp),
) {
    let status = check.status.get_or_insert_default();
    status.expected_machines = Some(total);
    status.current_healthy = Some(healthy);
    status.remediations_allowed = Some(budget.left);
    status.targets = judged.iter().map(|one| one.object.name().to_owned()).collect();
    let finding = match budget.allowed {
        true => Finding::yes(types::REMEDIATION_ALLOWED, types::REMEDIATION_ALLOWED),
        false => Finding::no(types::REMEDIATION_ALLOWED, reasons::TOO_MANY_UNHEALTHY).saying(&budget.message),
    };
    conditions::set(&mut status.conditions, finding, generation, now);
    let list = legacy_of(check);
    match budget.allowed {
        true => legacy::mark_true(list, types::REMEDIATION_ALLOWED, now),
        false => legacy::mark_false(
            list,
            types::REMEDIATION_ALLOWED,
            Legacy::Warning,
            reasons::TOO_MANY_UNHEALTHY,
            &budget.message,
            now,
        ),
    }
}
