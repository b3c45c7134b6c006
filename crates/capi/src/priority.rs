//! Which machines go first when a MachineSet has too many.

use api::capi::v1beta2::Machine;
use api::capi::v1beta2::values::deletion_order;
use api::catalogue::{annotations, conditions as types};
use jiff::Timestamp;
use kit::conditions::{self, Status};

/// After this many days the age of a machine hardly makes a difference any more.
const DAYS: f64 = 10.0;

/// The machines to delete, in order, so that `keep` are left. Those that are going already are among them.
pub fn to_delete<'a>(machines: &[&'a Machine], keep: usize, order: &str, now: Timestamp) -> Vec<&'a Machine> {
    let mut ranked: Vec<(f64, &Machine)> =
        machines.iter().map(|machine| (priority(machine, order, now), *machine)).collect();
    ranked.sort_by(|(a, left), (b, right)| {
        b.total_cmp(a).then_with(|| left.metadata.name.cmp(&right.metadata.name))
    });
    ranked.into_iter().take(machines.len().saturating_sub(keep)).map(|(_, machine)| machine).collect()
}

fn priority(machine: &Machine, order: &str, now: Timestamp) -> f64 {
    let noted = |key: &str| machine.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(key));
    if machine.metadata.deletion_timestamp.is_some() {
        return 100.0;
    }
    if noted(annotations::DELETE_MACHINE) {
        return 80.0;
    }
    if noted(annotations::UPDATE_IN_PROGRESS) {
        return 75.0;
    }
    if unhealthy(machine) {
        return 50.0;
    }
    match order {
        deletion_order::OLDEST => age(machine, now),
        deletion_order::NEWEST => 50.0 - age(machine, now),
        _ => 20.0,
    }
}

fn unhealthy(machine: &Machine) -> bool {
    let Some(status) = &machine.status else { return true };
    let bad = |type_| conditions::has(&status.conditions, type_, Status::False);
    status.node_ref.is_none() || bad(types::NODE_HEALTHY) || bad(types::HEALTH_CHECK_SUCCEEDED)
}

/// From 0 for a new machine to 50 for an old one.
fn age(machine: &Machine, now: Timestamp) -> f64 {
    let Some(created) = &machine.metadata.creation_timestamp else { return 0.0 };
    let days = now.duration_since(created.0).as_secs_f64().max(0.0) / 86_400.0;
    50.0 * (1.0 - (-days / DAYS).exp())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-01-31T00:00:00Z";

    fn machine(name: &str, created: &str, change: Value) -> Machine {
        let mut document = json!({
            "metadata": {"name": name, "creationTimestamp": created},
            "status": {"nodeRef": {"name": name}}
        });
        for (path, value) in change.as_object().unwrap() {
            let (parent, field) = path.split_once('.').unwrap();
            document[parent][field] = value.clone();
        }
        serde_json::from_value(document).unwrap()
    }

    fn order(machines: &[Machine], keep: usize, order: &str) -> Vec<String> {
        let all: Vec<&Machine> = machines.iter().collect();
        let gone = to_delete(&all, keep, order, NOW.parse().unwrap());
        gone.iter().map(|machine| machine.metadata.name.clone().unwrap()).collect()
    }

    #[test]
    fn what_is_marked_or_broken_goes_first() {
        let machines = [
            machine("fine", "2026-01-01T00:00:00Z", json!({})),
            machine("no-node", "2026-01-01T00:00:00Z", json!({"status.nodeRef": null})),
            machine(
                "updating",
                "2026-01-01T00:00:00Z",
                json!({"metadata.annotations": {annotations::UPDATE_IN_PROGRESS: ""}}),
            ),
            machine(
                "marked",
                "2026-01-01T00:00:00Z",
                json!({"metadata.annotations": {annotations::DELETE_MACHINE: "yes"}}),
            ),
            machine("going", "2026-01-01T00:00:00Z", json!({"metadata.deletionTimestamp": NOW})),
            machine(
                "sick",
                "2026-01-01T00:00:00Z",
                json!({"status.conditions": [
                    {"type": "HealthCheckSucceeded", "status": "False", "reason": "x", "message": "", "lastTransitionTime": NOW}
                ]}),
            ),
        ];
        assert_eq!(order(&machines, 0, "Random"), ["going", "marked", "updating", "no-node", "sick", "fine"]);
        assert_eq!(order(&machines, 4, "Random"), ["going", "marked"]);
        assert_eq!(order(&machines, 6, "Random"), Vec::<String>::new());
        assert_eq!(order(&machines, 9, "Random"), Vec::<String>::new());
    }

    #[test]
    fn age_decides_among_the_healthy() {
        let machines = [
            machine("b-new", "2026-01-30T00:00:00Z", json!({})),
            machine("c-old", "2026-01-01T00:00:00Z", json!({})),
            machine("a-mid", "2026-01-20T00:00:00Z", json!({})),
        ];
        assert_eq!(order(&machines, 0, "Newest"), ["b-new", "a-mid", "c-old"]);
        assert_eq!(order(&machines, 0, "Oldest"), ["c-old", "a-mid", "b-new"]);
        assert_eq!(
            order(&machines, 0, "Random"),
            ["a-mid", "b-new", "c-old"],
            "by name, so that it stays the same"
        );
    }
}
