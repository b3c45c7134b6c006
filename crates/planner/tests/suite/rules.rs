//! The linter finds what it is for: decisions that break one rule each.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;
use plan::document::File;
use plan::{Document, Plan};
use planner::{
    Decision, Impact, LARGEST_PLAN, MachineName, PlanWrite, Release, Rule, Snapshot, Why, decide, lint,
};
use serde_json::json;

use crate::spec;
use crate::world::World;

/// Three servers and three workers at rest, with drain.
fn at_rest() -> World {
    let mut world = World::new("demo", "v1.34.2+rke2r1");
    let strategy = json!({"workerDrainOptions": {"enabled": true}});
    world.edit(|cluster| cluster.spec = spec::set(&cluster.spec, "upgradeStrategy", strategy));
    for name in ["s1", "s2", "s3"] {
        world.add(name, &["etcd", "control-plane"]);
    }
    for name in ["w1", "w2", "w3"] {
        world.add(name, &["worker"]);
    }
    world.run(SignedDuration::from_mins(5));
    assert!(world.last.waits.is_empty(), "{:?}", world.last.waits);
    world
}

fn write(plan: Plan, why: Why, impact: Impact) -> PlanWrite {
    PlanWrite { plan: Arc::new(Document::encode(plan)), terms: Default::default(), why, impact }
}

fn writes(names: &[&str], plan: &Plan, why: Why, impact: Impact) -> Decision {
    let mut decision = Decision::default();
    decision.report.init = Some("s1".into());
    let of = |name: &&str| (MachineName::from(*name), write(plan.clone(), why, impact));
    decision.writes = names.iter().map(of).collect::<BTreeMap<_, _>>();
    decision
}

fn found(snapshot: &Snapshot, decision: &Decision) -> Vec<Rule> {
    let mut rules: Vec<Rule> = lint(snapshot, decision).iter().map(|violation| violation.rule).collect();
    rules.dedup();
    rules
}

#[test]
fn every_rule_is_kept_watch_over() {
    let mut world = at_rest();
    let snapshot = world.snapshot();
    let plain = Plan::default();
    let file = |permissions: &str, content: &[u8]| {
        use base64::Engine as _;
        let content = base64::prelude::BASE64_STANDARD.encode(content);
        let file = File { path: "/x".into(), permissions: permissions.into(), content, ..File::default() };
        Plan { files: vec![file], ..Plan::default() }
    };
    let token = spec::tokens().server;
    let huge = file("600", &vec![b'x'; LARGEST_PLAN]);
    let release = |machines: &[&str]| Decision {
        releases: machines
            .iter()
            .map(|name| Release::RemoveMember { machine: (*name).into(), node: (*name).to_owned() })
            .collect(),
        ..Decision::default()
    };
    let dropped = Release::DropHook { machine: "s2".into(), reason: "" };
    let dropped = Decision { releases: vec![dropped], ..Decision::default() };
    let (change, restart) = (Why::Change, Impact::Restart);
    let table: [(&str, Decision, &[Rule]); 14] = [
        ("one restart", writes(&["s2"], &plain, change, restart), &[]),
        ("two members restart", writes(&["s1", "s2"], &plain, change, restart), &[Rule::Quorum]),
        ("one worker restarts", writes(&["w1"], &plain, change, restart), &[]),
        ("two workers restart", writes(&["w1", "w2"], &plain, change, restart), &[Rule::Concurrency]),
        ("two workers get files", writes(&["w1", "w2"], &plain, change, Impact::Files), &[]),
        ("not drained", writes(&["w1"], &plain, change, Impact::DrainRestart), &[Rule::DrainFirst]),
        (
            "a token for all to read",
            writes(&["w1"], &file("644", token.as_bytes()), change, Impact::Files),
            &[Rule::SecretInReadableFile],
        ),
        ("a token for root", writes(&["w1"], &file("600", token.as_bytes()), change, Impact::Files), &[]),
        ("something else for all", writes(&["w1"], &file("644", b"hello"), change, Impact::Files), &[]),
        ("too large", writes(&["w1"], &huge, change, Impact::Files), &[Rule::PlanSize]),
        ("a second cluster", writes(&["s2"], &plain, Why::Initial, Impact::None), &[Rule::OneInit]),
        ("one member removed", release(&["s2"]), &[]),
        ("two members removed", release(&["s2", "s3"]), &[Rule::Quorum]),
        ("a voter let go", dropped, &[Rule::Quorum]),
    ];
    for (what, decision, rules) in table {
        assert_eq!(found(&snapshot, &decision), rules, "{what}");
    }
    // With a member down, no other may restart or go.
    world.computer("s3").alive = false;
    world.computer("s3").touch();
    let snapshot = world.snapshot();
    assert_eq!(found(&snapshot, &writes(&["s2"], &plain, change, restart)), [Rule::Quorum]);
    assert_eq!(found(&snapshot, &release(&["s2"])), [Rule::Quorum]);
    assert_eq!(found(&snapshot, &release(&["s3"])), []);
}

#[test]
fn a_plan_that_does_not_fit_is_said_so_and_not_written() {
    let mut world = at_rest();
    let huge = json!("x".repeat(LARGEST_PLAN));
    world.edit(|cluster| cluster.spec = spec::set(&cluster.spec, "additionalManifest", huge));
    let decision = decide(&world.snapshot());
    assert!(decision.writes.is_empty() && decision.refused.is_empty());
    let codes: Vec<_> = decision.waits.iter().map(|wait| wait.code.as_str()).collect();
    assert!(codes.contains(&"plan-too-large"), "{codes:?}");
}
