//! The planner's side: what it writes, and how it reads what agents of all ages write.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/words.rs"]
mod words;

use std::collections::BTreeMap;
use std::time::Duration;

use plan::document::{Instruction, PeriodicInstruction, Probe};
use plan::orchestrator::{
    self, Health, Limit, Progress, Terms, deliver, plan_applied_is_false, status, upkeep,
};
use plan::output::{self, PeriodicOutput};
use plan::secret::{self, Data, PROBES_PASSED_ANNOTATION};
use plan::{Document, Plan, PlanSecret};
use words::{data, keys, now, plan_bytes};

const NOW: &str = "2027-01-15T08:00:00Z";

fn terms(max_failures: Limit, failure_threshold: Limit) -> Terms {
    Terms { max_failures, failure_threshold, probe_period: None }
}

#[test]
fn deliveries() {
    // before, plan, limits, what is written
    let table = [
        ("statuses=none", "X", (Limit::Unset, Limit::Unset), "plan=X state=pending", "the first"),
        (
            "plan=X state=succeeded applied=X max=3 threshold=1",
            "Y",
            (Limit::Unset, Limit::Unset),
            "threshold=- max=- plan=Y state=pending statuses=-",
            "another: limits and statuses go",
        ),
        (
            "plan=X state=succeeded applied=X",
            "Y",
            (Limit::Times(5), Limit::Times(2)),
            "threshold=2 max=5 plan=Y state=pending statuses=-",
            "with limits",
        ),
        (
            "plan=X state=failed failed=X failures=1",
            "X",
            (Limit::Unlimited, Limit::Unlimited),
            "failed=- threshold=-1 max=-1 state=pending statuses=-",
            "the same again: an order also to agents that go by checksums",
        ),
        (
            "plan=Y state=failed failed=Y failures=1 applied=X",
            "X",
            (Limit::Unset, Limit::Unset),
            "applied=- plan=X state=pending statuses=-",
            "back to the last that was applied",
        ),
    ];
    for (before, plan, (max, threshold), expected, why) in table {
        let document = Document::parse(plan_bytes(plan)).unwrap();
        let update = deliver(&data(before), &document, terms(max, threshold), now()).unwrap();
        assert_eq!(keys(&update.data), expected, "{before}: {why}");
        assert_eq!(update.annotations[secret::LAST_UPDATED_ANNOTATION], NOW);
        assert_eq!(update.annotations[PROBES_PASSED_ANNOTATION], "");
    }
    let document = Document::encode(Plan::default());
    let refused = |max, threshold| deliver(&Data::new(), &document, terms(max, threshold), now()).is_err();
    assert!(refused(Limit::Times(1), Limit::Times(2)) && refused(Limit::Unset, Limit::Times(1)));
    let slow = Terms { probe_period: Some(Duration::from_millis(2500)), ..Terms::default() };
    let update = deliver(&Data::new(), &document, slow, now()).unwrap();
    assert_eq!(update.data[secret::PROBE_PERIOD].as_deref(), Some(b"2.5".as_slice()));
    assert!(!refused(Limit::Unlimited, Limit::Times(2)) && !refused(Limit::Times(1), Limit::Unlimited));
}

#[test]
fn progress() {
    let table = [
        ("", Progress::NoPlan, "nothing delivered"),
        ("plan=X state=pending", Progress::Pending, "not taken yet"),
        ("plan=X state=pending applied=Y", Progress::Pending, "not taken yet"),
        ("plan=X state=pending applied=X", Progress::Applied, "an agent without plan-state"),
        ("plan=X applied=X", Progress::Applied, "an agent without plan-state"),
        ("plan=X state=pending failed=X failures=1", Progress::Failed, "an agent without plan-state"),
        ("plan=X failed=X failures=1 threshold=2", Progress::Retrying, "below the threshold"),
        ("plan=X failed=X failures=2 threshold=2", Progress::Failed, "at the threshold"),
        ("plan=X failed=X failures=9 threshold=-1", Progress::Retrying, "no threshold"),
        ("plan=X failed=Y failures=9", Progress::Pending, "another plan's failures"),
        ("plan=X state=in-progress applied=X", Progress::InProgress, "being run again"),
        ("plan=X state=succeeded applied=X", Progress::Applied, "done"),
        ("plan=X state=succeeded applied=Y", Progress::Pending, "done is another one"),
        ("plan=X state=failed failed=X failures=1 threshold=-1", Progress::Failed, "the state counts"),
        ("plan=X state=failed applied=X failures=0", Progress::Failed, "what a Go agent v0.15 makes of it"),
        ("plan=X state=cancelled", Progress::Cancelled, "called off"),
        ("plan=X state=paused applied=X", Progress::Cancelled, "a word of the future"),
        ("plan=Z state=failed", Progress::Failed, "a plan that cannot be read"),
    ];
    for (words, expected, why) in table {
        let status = status(&PlanSecret::read(&data(words)), &BTreeMap::new());
        assert_eq!(status.progress, expected, "{words}: {why}");
    }
}

#[test]
fn conditions() {
    let table = [
        ("plan=X state=failed", true),
        ("plan=X state=succeeded applied=X", false),
        ("plan=X failed=X failures=1 max=-1", true),
        ("plan=X failed=X failures=1 max=3", false),
        ("plan=X failed=X failures=3 max=3", true),
        ("plan=X failed=Y failures=3 max=3", false),
    ];
    for (words, expected) in table {
        assert_eq!(plan_applied_is_false(&PlanSecret::read(&data(words))), expected, "{words}");
    }
}

/// A plan with the probes `a` and `b` and the periodic instruction `p`, with these statuses.
fn probed(statuses: Option<&str>) -> Data {
    let common = Instruction { name: "p".into(), ..Instruction::default() };
    let plan = Plan {
        periodic_instructions: vec![PeriodicInstruction { common, ..PeriodicInstruction::default() }],
        probes: ["a", "b"].map(|name| (name.to_owned(), Probe::default())).into(),
        ..Plan::default()
    };
    let mut data = Data::from([(secret::PLAN.to_owned(), Document::encode(plan).bytes().to_vec())]);
    data.extend(statuses.map(|text| (secret::PROBE_STATUSES.to_owned(), text.into())));
    data
}

#[test]
fn health() {
    let unhealthy = |names: &[&str]| Health::Unhealthy(names.iter().map(|name| (*name).to_owned()).collect());
    let table = [
        (None, Health::Unknown, "nothing is known"),
        (Some("nonsense"), Health::Unknown, "nothing can be known"),
        (Some(""), Health::Unknown, "nothing is known"),
        (Some("{}"), unhealthy(&["a", "b"]), "a probe without a status is not healthy"),
        (Some(r#"{"a":{"healthy":true}}"#), unhealthy(&["b"]), "a probe without a status is not healthy"),
        (Some(r#"{"a":{"healthy":true},"b":{}}"#), unhealthy(&["b"]), "said"),
        (
            Some(r#"{"a":{"healthy":true},"b":{"healthy":true},"old":{}}"#),
            Health::Healthy,
            "only its own probes",
        ),
    ];
    for (statuses, expected, why) in table {
        let status = status(&PlanSecret::read(&probed(statuses)), &BTreeMap::new());
        assert_eq!(status.health, expected, "{statuses:?}: {why}");
    }
    let none = status(&PlanSecret::read(&data("plan=X state=succeeded applied=X")), &BTreeMap::new());
    assert_eq!(none.health, Health::Healthy, "no probes, and the agent said so");
}

#[test]
fn what_follows_from_reports() {
    let passed = BTreeMap::from([(PROBES_PASSED_ANNOTATION.to_owned(), NOW.to_owned())]);
    let table = [
        ("plan=X state=succeeded applied=X", "appliedPlan=X"),
        ("plan=X applied=X", "appliedPlan=X"),
        ("plan=X state=failed applied=X", ""),
        ("plan=X applied=Y", ""),
    ];
    for (words, expected) in table {
        let mut data = data(words);
        let update = upkeep(&data, &passed, now());
        assert_eq!(keys(&update.data), expected, "{words}");
        secret::apply_changes(&mut data, &update.data);
        assert!(upkeep(&data, &passed, now()).is_empty(), "{words}: once");
    }

    let healthy = probed(Some(r#"{"a":{"healthy":true},"b":{"healthy":true}}"#));
    assert_eq!(upkeep(&healthy, &BTreeMap::new(), now()).annotations[PROBES_PASSED_ANNOTATION], NOW);
    assert!(upkeep(&healthy, &passed, now()).is_empty());
    assert!(upkeep(&probed(None), &BTreeMap::new(), now()).is_empty(), "unknown is not healthy");
}

#[test]
fn outputs_of_no_instruction_go() {
    let with = |names: &[&str]| {
        let outputs = names.iter().map(|name| ((*name).to_owned(), PeriodicOutput::default())).collect();
        let mut data = probed(None);
        data.insert(secret::APPLIED_PERIODIC_OUTPUT.into(), output::encode_periodic(&outputs));
        data
    };
    let written = |names: &[&str]| keys(&orchestrator::upkeep(&with(names), &BTreeMap::new(), now()).data);
    assert_eq!(written(&["p"]), "");
    assert_eq!(written(&["p", "old"]), "periodic=p:0");
    assert_eq!(written(&["old"]), "periodic=-");
}
