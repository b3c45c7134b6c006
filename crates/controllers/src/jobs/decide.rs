//! What is to be done about a Job: what Kubernetes' Job controller would.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kit::conditions::seconds;
use kit::{Key, Object};
use serde_json::{Value, json};

/// The pause after the first failure; each further one doubles it.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(10);
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_mins(10);

/// What to do now.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Nothing: it has ended, or its attempt runs.
    Nothing,
    /// Begin an attempt.
    Start,
    /// An attempt was begun that nobody knows of: this process was started meanwhile.
    Resume(Key),
    /// Say how it stands, then look again.
    Status(Value),
    /// Say how it stands, and begin another attempt after this time.
    Later(Duration, Value),
}

/// What to do about a Job with these pods. `runs` tells whether a pod's attempt runs in this process.
pub(super) fn decide(
    job: &Object,
    pods: &[Arc<Object>],
    runs: impl Fn(&Object) -> bool,
    now: Timestamp,
) -> Step {
    let status = &job.document()["status"];
    if has(status, "Complete") || has(status, "Failed") {
        return Step::Nothing;
    }
    let active = pods.iter().find(|pod| !["Succeeded", "Failed"].contains(&phase(pod)));
    let count = |name: &str| pods.iter().filter(|pod| phase(pod) == name).count();
    let (succeeded, failed) = (count("Succeeded"), count("Failed"));
    if let Some(pod) = active {
        if !runs(pod) {
            return Step::Resume(pod.key());
        }
        let ready = usize::from(phase(pod) == "Running");
        let said = json!({
            "startTime": started(status, now), "active": 1, "ready": ready, "failed": nonzero(failed),
            "terminating": 0, "uncountedTerminatedPods": {},
        });
        return if says(status, &said) { Step::Nothing } else { Step::Status(said) };
    }
    let limit = usize::try_from(job.document()["spec"]["backoffLimit"].as_i64().unwrap_or(6)).unwrap_or(0);
    let rest = json!({
        "startTime": started(status, now), "active": null, "ready": 0, "terminating": 0, "failed": nonzero(failed),
        "succeeded": nonzero(succeeded), "uncountedTerminatedPods": {},
    });
    if succeeded > 0 {
        return Step::Status(completed(rest, now));
    }
    if failed > limit {
        return Step::Status(given_up(rest, now));
    }
    let due = pods.iter().filter_map(|pod| finished(pod)).max().map(|last| last + pause(failed));
    match due.filter(|due| *due > now) {
        None => Step::Start,
        Some(due) => Step::Later(due.duration_since(now).unsigned_abs(), rest),
    }
}

fn completed(mut status: Value, now: Timestamp) -> Value {
    status["completionTime"] = json!(seconds(now));
    let (reason, words) = ("CompletionsReached", "Reached expected number of succeeded pods");
    status["conditions"] =
        json!(["SuccessCriteriaMet", "Complete"].map(|type_| condition(type_, reason, words, now)));
    status
}

fn given_up(mut status: Value, now: Timestamp) -> Value {
    let (reason, words) = ("BackoffLimitExceeded", "Job has reached the specified backoff limit");
    status["conditions"] =
        json!(["FailureTarget", "Failed"].map(|type_| condition(type_, reason, words, now)));
    status
}

fn condition(type_: &str, reason: &str, message: &str, now: Timestamp) -> Value {
    let now = seconds(now);
    json!({
        "type": type_, "status": "True", "reason": reason, "message": message,
        "lastProbeTime": now, "lastTransitionTime": now,
    })
}

/// Whether the status says so already.
fn says(status: &Value, said: &Value) -> bool {
    let same = |(field, value): (&String, &Value)| status.get(field).unwrap_or(&Value::Null) == value;
    said.as_object().is_some_and(|said| said.iter().all(same))
}

fn started(status: &Value, now: Timestamp) -> Value {
    match &status["startTime"] {
        Value::Null => json!(seconds(now)),
        known => known.clone(),
    }
}

fn nonzero(count: usize) -> Value {
    if count == 0 { Value::Null } else { json!(count) }
}

fn has(status: &Value, type_: &str) -> bool {
    let all = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().any(|one| one["type"] == type_ && one["status"] == "True")
}

fn phase(pod: &Object) -> &str {
    pod.document()["status"]["phase"].as_str().unwrap_or_default()
}

fn finished(pod: &Object) -> Option<Timestamp> {
    let end = pod.document().pointer("/status/containerStatuses/0/state/terminated/finishedAt")?;
    end.as_str()?.parse().ok()
}

fn pause(failures: usize) -> SignedDuration {
    let doublings = u32::try_from(failures.saturating_sub(1)).unwrap_or(u32::MAX).min(10);
    (FIRST_PAUSE * 2_i32.pow(doublings)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    fn object(document: Value) -> Arc<Object> {
        Arc::new(Object::from_document(document).unwrap())
    }

    fn job(limit: i64, status: Value) -> Arc<Object> {
        object(json!({"metadata": {"name": "j"}, "spec": {"backoffLimit": limit}, "status": status}))
    }

    fn pod(phase: &str, ended: i64) -> Arc<Object> {
        let end = json!([{"state": {"terminated": {"finishedAt": at(ended).to_string()}}}]);
        object(json!({"metadata": {"name": "p"}, "status": {"phase": phase, "containerStatuses": end}}))
    }

    fn types(step: &Step) -> Vec<&str> {
        let Step::Status(status) = step else { panic!("{step:?}") };
        let all = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        all.iter().filter_map(|one| one["type"].as_str()).collect()
    }

    #[test]
    fn a_job_goes_its_way() {
        let new = job(0, json!({}));
        assert_eq!(decide(&new, &[], |_| false, at(0)), Step::Start);
        let running = [pod("Running", 0)];
        let Step::Status(status) = decide(&new, &running, |_| true, at(0)) else { panic!() };
        assert_eq!((&status["active"], &status["ready"]), (&json!(1), &json!(1)));
        assert_eq!(decide(&job(0, status), &running, |_| true, at(9)), Step::Nothing, "nothing new");
        let lost = decide(&new, &running, |_| false, at(0));
        assert!(matches!(lost, Step::Resume(_)), "its process is gone");
        let done = decide(&new, &[pod("Succeeded", 5)], |_| false, at(6));
        assert_eq!(types(&done), ["SuccessCriteriaMet", "Complete"]);
        let Step::Status(status) = done else { panic!() };
        assert_eq!(decide(&job(0, status), &[pod("Succeeded", 5)], |_| false, at(7)), Step::Nothing);
    }

    #[test]
    fn failures_are_tried_again_as_often_as_asked() {
        let failed = |count: i64| (0..count).map(|end| pod("Failed", end * 10)).collect::<Vec<_>>();
        let create = decide(&job(0, json!({})), &failed(1), |_| false, at(1));
        assert_eq!(types(&create), ["FailureTarget", "Failed"], "a create is not repeated by the Job");
        let delete = job(3, json!({}));
        let Step::Later(wait, status) = decide(&delete, &failed(1), |_| false, at(4)) else { panic!() };
        assert_eq!((wait.as_secs(), &status["failed"]), (6, &json!(1)));
        assert_eq!(decide(&delete, &failed(1), |_| false, at(10)), Step::Start);
        let Step::Later(wait, _) = decide(&delete, &failed(3), |_| false, at(20)) else { panic!() };
        assert_eq!(wait.as_secs(), 40);
        assert_eq!(types(&decide(&delete, &failed(4), |_| false, at(30))), ["FailureTarget", "Failed"]);
    }
}
