//! Custom machines whose node is gone.

use api::GoDuration;
use api::capi::v1beta2::Machine;
use api::catalogue::{annotations, conditions, reasons};
use api::rke::v1::RKECluster;
use jiff::Timestamp;

/// What to do about a custom machine whose node may be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Nothing.
    Keep,
    /// Look again then.
    Until(Timestamp),
    /// Make sure that there is really no such node, then delete the Machine.
    Delete,
}

/// What to do about a custom machine: clusters may ask that those without a node are deleted after a time.
pub fn missing(cluster: &RKECluster, machine: &Machine, now: Timestamp) -> Missing {
    let after = cluster.metadata.annotations.as_ref();
    let after = after.and_then(|all| all.get(annotations::DELETE_MISSING_CUSTOM_MACHINES_AFTER));
    let Some(after) = after.and_then(|text| text.parse::<GoDuration>().ok()).filter(|one| one.seconds() > 0)
    else {
        return Missing::Keep;
    };
    let found = machine.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let gone = found.iter().find(|one| {
        one.type_ == conditions::NODE_HEALTHY && one.status == "False" && one.reason == reasons::NODE_DELETED
    });
    let Some(gone) = gone.filter(|_| machine.metadata.deletion_timestamp.is_none()) else {
        return Missing::Keep;
    };
    let due = gone.last_transition_time.0.as_second().saturating_add(after.seconds());
    match Timestamp::from_second(due) {
        Ok(due) if now < due => Missing::Until(due),
        _ => Missing::Delete,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_after_the_time_that_was_asked_for() {
        let machine = |status: &str, reason: &str| -> Machine {
            serde_json::from_value(serde_json::json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                "status": {"conditions": [{
                    "type": "NodeHealthy", "status": status, "reason": reason,
                    "lastTransitionTime": "2026-01-01T10:00:00Z", "message": "",
                }]},
            }))
            .unwrap()
        };
        let cluster = |after: &str| {
            let mut cluster = RKECluster::default();
            let key = annotations::DELETE_MISSING_CUSTOM_MACHINES_AFTER;
            cluster.metadata.annotations = Some([(key.to_owned(), after.to_owned())].into());
            cluster
        };
        let at = |text: &str| -> Timestamp { format!("2026-01-01T{text}:00Z").parse().unwrap() };
        let gone = machine("False", "NodeDeleted");
        assert_eq!(missing(&cluster("1h"), &gone, at("10:59")), Missing::Until(at("11:00")));
        assert_eq!(missing(&cluster("1h"), &gone, at("11:00")), Missing::Delete);
        for (cluster, machine) in [
            (cluster(""), gone.clone()),
            (cluster("soon"), gone.clone()),
            (cluster("0s"), gone),
            (cluster("1h"), machine("False", "NodeNotReady")),
            (cluster("1h"), machine("True", "NodeDeleted")),
        ] {
            assert_eq!(missing(&cluster, &machine, at("20:00")), Missing::Keep);
        }
    }
}
