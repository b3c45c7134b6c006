//! What is said of a drain. Others look for pieces of these texts to tell what holds a deletion: they stay as they are.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::{Selection, pod_name};

/// How many pods are named.
const NAMES: usize = 3;
/// How many different failures are told.
const FAILURES: usize = 5;

/// What became of an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The pod is going.
    Accepted,
    /// It was gone already.
    Gone,
    /// A disruption budget holds it, for this reason.
    Held(String),
    /// It failed.
    Failed(String),
}

/// What is said while a drain is not done; none when it is. `attempts` are the outcomes for the pods of
/// [`Selection::evict`], in order.
pub fn report(selection: &Selection<'_>, attempts: &[Attempt], started: Timestamp) -> Option<String> {
    let mut terminating: Vec<String> = selection.terminating.iter().map(|pod| pod_name(pod)).collect();
    let mut held: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut failed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (pod, attempt) in selection.evict.iter().zip(attempts) {
        match attempt {
            Attempt::Accepted => terminating.push(pod_name(pod)),
            Attempt::Gone => {}
            Attempt::Held(why) => held.entry(why.clone()).or_default().push(pod_name(pod)),
            Attempt::Failed(why) => failed.entry(why.clone()).or_default().push(pod_name(pod)),
        }
    }
    // Those that the time did not suffice for.
    let untried = selection.evict.iter().skip(attempts.len()).map(|pod| pod_name(pod));
    let mut later: Vec<String> = selection.later.iter().map(|pod| pod_name(pod)).chain(untried).collect();
    terminating.sort();
    later.sort();
    let mut lines = Vec::new();
    if !terminating.is_empty() {
        lines.push(format!(
            "* {}: deletionTimestamp set, but still not removed from the Node",
            pods(&terminating)
        ));
    }
    for (why, names) in &held {
        lines.push(format!("* {}: {why}", pods(names)));
    }
    for (why, names) in failed.iter().take(FAILURES) {
        lines.push(format!("* {}: failed to evict Pod, {why}", pods(names)));
    }
    let untold: usize = failed.values().skip(FAILURES).map(Vec::len).sum();
    if untold > 0 {
        lines.push(format!("* {untold} Pods with other issues"));
    }
    if !selection.waiting.is_empty() {
        let names: Vec<String> = selection.waiting.iter().map(|pod: &&Pod| pod_name(pod)).collect();
        lines.push(format!("* {}: waiting for completion", pods(&names)));
    }
    if lines.is_empty() && later.is_empty() {
        return None;
    }
    if !later.is_empty() {
        lines.push(format!(
            "After above Pods have been removed from the Node, the following Pods will be evicted: {}",
            listed(&later)
        ));
    }
    let seconds = Timestamp::from_second(started.as_second()).unwrap_or(started);
    Some(format!("Drain not completed yet (started at {seconds}):\n{}", lines.join("\n")))
}

fn pods(names: &[String]) -> String {
    format!("Pod{} {}", if names.len() == 1 { "" } else { "s" }, listed(names))
}

fn listed(names: &[String]) -> String {
    let named = names.iter().take(NAMES).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES) {
        0 => named,
        more => format!("{named}, ... ({more} more)"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": "n"}})).unwrap()
    }

    #[test]
    fn a_drain_says_what_holds_it() {
        let all: Vec<Pod> = ["a", "b", "c", "d", "e", "f", "g"].map(pod).into();
        let selection = Selection {
            evict: all[..4].iter().collect(),
            terminating: vec![&all[4]],
            later: vec![&all[5]],
            waiting: vec![&all[6]],
            ..Selection::default()
        };
        let budget = "cannot evict pod as it would violate the pod's disruption budget. x";
        let attempts =
            [Attempt::Accepted, Attempt::Gone, Attempt::Held(budget.into()), Attempt::Failed("no".into())];
        let started = "2026-01-01T00:00:00.5Z".parse().unwrap();
        assert_eq!(
            report(&selection, &attempts, started).unwrap(),
            "Drain not completed yet (started at 2026-01-01T00:00:00Z):\n\
             * Pods n/a, n/e: deletionTimestamp set, but still not removed from the Node\n\
             * Pod n/c: cannot evict pod as it would violate the pod's disruption budget. x\n\
             * Pod n/d: failed to evict Pod, no\n\
             * Pod n/g: waiting for completion\n\
             After above Pods have been removed from the Node, the following Pods will be evicted: n/f"
        );
    }

    #[test]
    fn a_drain_that_is_done_says_nothing() {
        let started = Timestamp::UNIX_EPOCH;
        assert_eq!(report(&Selection::default(), &[], started), None);
        let pod = pod("a");
        let selection = Selection { evict: vec![&pod], ..Selection::default() };
        assert_eq!(report(&selection, &[Attempt::Gone], started), None);
        assert!(report(&selection, &[], started).is_some(), "not tried is not done");
    }

    #[test]
    fn many_pods_and_many_failures_are_counted() {
        let all: Vec<Pod> = (0..9).map(|number| pod(&format!("p{number}"))).collect();
        let selection = Selection { evict: all.iter().collect(), ..Selection::default() };
        let attempts: Vec<Attempt> = (0..9).map(|number| Attempt::Failed(format!("why {number}"))).collect();
        let text = report(&selection, &attempts, Timestamp::UNIX_EPOCH).unwrap();
        assert!(text.ends_with("* 4 Pods with other issues"), "{text}");
        let same = vec![Attempt::Failed("why".into()); 9];
        let text = report(&selection, &same, Timestamp::UNIX_EPOCH).unwrap();
        assert!(text.ends_with("* Pods n/p0, n/p1, n/p2, ... (6 more): failed to evict Pod, why"), "{text}");
    }
}
