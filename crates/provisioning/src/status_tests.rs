use api::rke::v1::RKEControlPlaneStatus;

use super::*;
use crate::Code;
use crate::graph::Refusal;

const EARLY: &str = "2026-01-01T00:00:00Z";
const LATE: &str = "2026-01-02T00:00:00Z";

fn condition(type_: &str, status: &str, message: &str) -> GenericCondition {
    GenericCondition {
        type_: type_.into(),
        status: status.into(),
        message: message.into(),
        ..Default::default()
    }
}

fn control_plane(conditions: Vec<GenericCondition>) -> RKEControlPlane {
    RKEControlPlane {
        status: Some(RKEControlPlaneStatus { conditions, ..Default::default() }),
        ..Default::default()
    }
}

fn wait() -> Wait {
    Wait::new(
        Code::InfrastructureClusterMissing,
        "VSphereCluster ns/x",
        "waiting for VSphereCluster ns/x",
        "create it",
    )
}

fn pass<'a>(
    graph: Result<(), &'a Hold>,
    control_plane: Option<&'a RKEControlPlane>,
    waits: &'a [Wait],
) -> Pass<'a> {
    Pass { graph, control_plane, waits, management: None, now: LATE }
}

fn found<'a>(status: &'a ClusterStatus, type_: &str) -> (&'a str, &'a str, &'a str) {
    let one = GenericCondition::find(&status.conditions, type_).unwrap_or_else(|| panic!("no {type_}"));
    (&one.status, &one.reason, &one.message)
}

#[test]
fn times_move_with_what_they_speak_of() {
    let mut all = Vec::new();
    set(&mut all, "Ready", Finding::waiting("a"), EARLY);
    let first = all.clone();
    set(&mut all, "Ready", Finding::waiting("a"), LATE);
    assert_eq!(all, first, "nothing new: no time moves");
    set(&mut all, "Ready", Finding::waiting("b"), LATE);
    assert_eq!((all[0].last_update_time.as_str(), all[0].last_transition_time.as_str()), (LATE, EARLY));
    set(&mut all, "Ready", Finding::yes(), LATE);
    assert_eq!(all[0].last_transition_time, LATE);
}

#[test]
fn the_control_planes_word_is_the_clusters() {
    let ready = control_plane(vec![condition("Ready", "True", "")]);
    let status = cluster(&Cluster::default(), "c-m-x", pass(Ok(()), Some(&ready), &[]));
    for type_ in ["Ready", "Updated", "Provisioned", "RKECluster", "Created"] {
        assert_eq!(found(&status, type_).0, "True", "{type_}");
    }
    assert_eq!(status.cluster_name, "c-m-x");

    let waiting = control_plane(vec![condition("Ready", "Unknown", "waiting for infrastructure ready")]);
    let waits = [wait()];
    let status = cluster(&Cluster::default(), "c-m-x", pass(Ok(()), Some(&waiting), &waits));
    let message = "waiting for infrastructure ready: waiting for VSphereCluster ns/x (create it)";
    assert_eq!(found(&status, "Ready"), ("Unknown", "", message));

    let status = cluster(&Cluster::default(), "c-m-x", pass(Ok(()), Some(&ready), &waits));
    assert_eq!(found(&status, "Ready").2, "", "a ready cluster is ready, whatever one machine waits for");
}

#[test]
fn a_graph_that_does_not_come_out_says_why() {
    let hold = Hold::Waiting(wait());
    let status = cluster(&Cluster::default(), "c-m-x", pass(Err(&hold), None, &[wait()]));
    assert_eq!(found(&status, "RKECluster").1, "InfrastructureClusterMissing");
    assert_eq!(
        found(&status, "Ready"),
        ("Unknown", "Waiting", "waiting for VSphereCluster ns/x (create it)")
    );
    assert_eq!((found(&status, "Reconciling").0, found(&status, "Stalled").0), ("True", "False"));

    let hold = Hold::Refused(Refusal::NoRole("p".into()));
    let status = cluster(&Cluster::default(), "c-m-x", pass(Err(&hold), None, &[]));
    assert_eq!(found(&status, "RKECluster").0, "False");
    assert_eq!(found(&status, "Stalled").0, "True");
    assert!(found(&status, "RKECluster").2.contains("at least one role"));
}

#[test]
fn ready_stays() {
    let mut one = Cluster::default();
    let connected =
        ManagementStatus { conditions: vec![condition("Connected", "True", "")], ..Default::default() };
    let status = cluster(&one, "c", Pass { management: Some(&connected), ..pass(Ok(()), None, &[]) });
    assert!(status.ready);
    one.status = Some(status);
    let lost =
        ManagementStatus { conditions: vec![condition("Connected", "False", "")], ..Default::default() };
    let status = cluster(&one, "c", Pass { management: Some(&lost), ..pass(Ok(()), None, &[]) });
    assert!(status.ready);
}

#[test]
fn the_management_cluster_follows_while_it_is_disturbed() {
    let busy = control_plane(vec![
        condition("Ready", "Unknown", "configuring worker node(s) a"),
        condition("Stable", "False", ""),
        condition("Provisioned", "True", ""),
    ]);
    let status = management(&ManagementStatus::default(), &busy, LATE);
    assert!(status.ready_reconciling);
    let ready = |status: &ManagementStatus| {
        GenericCondition::find(&status.conditions, "Ready").map(|one| one.status.clone()).unwrap_or_default()
    };
    assert_eq!(ready(&status), "Unknown");
    let done = control_plane(vec![condition("Ready", "True", ""), condition("Stable", "True", "")]);
    let status = management(&status, &done, LATE);
    assert!(!status.ready_reconciling);
    assert_eq!(ready(&status), "True", "the last word of the disturbance");
    let mut tunnel = status;
    set(&mut tunnel.conditions, "Ready", Finding::error("cluster agent is not connected"), LATE);
    assert_eq!(ready(&management(&tunnel, &done, LATE)), "False", "then the tunnel decides");
}

#[test]
fn a_cluster_that_goes_shows_what_it_waits_for() {
    let all = removing(&[], Finding::waiting("waiting for machine [a] to delete"), LATE);
    let removed = GenericCondition::find(&all, "Removed").unwrap();
    assert_eq!((removed.status.as_str(), removed.reason.as_str()), ("Unknown", "Waiting"));
    assert!(GenericCondition::find(&all, "Updated").unwrap().is_true());
}
