//! Pods of Jobs, as they are written.

use jiff::Timestamp;
use kit::conditions::seconds;
use kit::{KindId, Object, owners};
use serde_json::{Value, json};

use super::context::is_marked;
use crate::machine::rendering::Rendered;

/// How much of a program's output stays with its pod; as much as a kubelet keeps.
const MOST_WORDS: usize = 4096;

/// The scheduler of pods that stand for what runs here.
const SCHEDULER: &str = "herdsman-local";

/// The pod of a new attempt: as rendered, not as the Job's template says. One that cannot be rendered only says why.
pub(super) fn pod(job: &Object, rendered: Option<&Rendered>, suffix: &str) -> Value {
    let template = rendered.map(|rendered| rendered.ordered.job.document()["spec"]["template"].clone());
    pod_of(job, template.as_ref(), suffix)
}

fn pod_of(job: &Object, template: Option<&Value>, suffix: &str) -> Value {
    let owner = owners::reference(&KindId::new("batch", "v1", "Job", "jobs"), job, true);
    let container = json!({"name": "machine", "image": "none"});
    let nothing = || json!({"containers": [container], "restartPolicy": "Never"});
    let mut spec = template.map_or_else(nothing, |template| template["spec"].clone());
    if is_marked(job) {
        // No scheduler has this name: no kubelet ever runs what we run.
        spec["schedulerName"] = SCHEDULER.into();
    }
    let mut labels = template.map(|template| template["metadata"]["labels"].clone()).unwrap_or(json!({}));
    // As Kubernetes' own controller labels the pods of a Job.
    for prefix in ["", "batch.kubernetes.io/"] {
        labels[format!("{prefix}job-name")] = job.name().into();
        labels[format!("{prefix}controller-uid")] = job.uid().into();
    }
    json!({
        "metadata": {
            "name": format!("{}-{suffix}", job.name()), "namespace": job.namespace(),
            "labels": labels, "ownerReferences": [owner],
        },
        "spec": spec,
    })
}

/// The status of a pod whose program runs.
pub(super) fn running(pod: &Object, now: Timestamp) -> Value {
    let now = seconds(now);
    let ready = ["Initialized", "Ready", "ContainersReady", "PodScheduled"];
    let ready = ready.map(|type_| json!({"type": type_, "status": "True", "lastTransitionTime": now}));
    json!({
        "phase": "Running", "startTime": now, "conditions": ready,
        "containerStatuses": [container(pod, true, json!({"running": {"startedAt": now}}))],
    })
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) exit_code: i32,
    /// What it said last.
    pub(super) words: String,
}

/// The status of a pod whose program has ended.
pub(super) fn ended(pod: &Object, end: &End, started: Option<String>, now: Timestamp) -> Value {
    let now = seconds(now);
    let (phase, reason) = match end.exit_code {
        0 => ("Succeeded", "Completed"),
        _ => ("Failed", "Error"),
    };
    let state = json!({"terminated": {
        "exitCode": end.exit_code, "reason": reason, "message": tail(&end.words),
        "startedAt": started.map_or_else(|| json!(now), Value::from), "finishedAt": now,
    }});
    let over = ["Ready", "ContainersReady"].map(|type_| {
        let reason = if end.exit_code == 0 { "PodCompleted" } else { "PodFailed" };
        json!({"type": type_, "status": "False", "reason": reason, "lastTransitionTime": now})
    });
    json!({"phase": phase, "conditions": over, "containerStatuses": [container(pod, false, state)]})
}

fn container(pod: &Object, ready: bool, state: Value) -> Value {
    let spec = &pod.document()["spec"]["containers"][0];
    json!({
        "name": spec["name"], "image": spec["image"], "imageID": "", "ready": ready, "started": ready,
        "restartCount": 0, "state": state,
    })
}

/// The end of a text, from the beginning of a line if there is one.
fn tail(words: &str) -> &str {
    let mut from = words.len().saturating_sub(MOST_WORDS);
    while !words.is_char_boundary(from) {
        from += 1;
    }
    let tail = &words[from..];
    match (from, tail.split_once('\n')) {
        (1.., Some((_, whole_lines))) => whole_lines,
        _ => tail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_kubelet_runs_what_runs_here() {
        let job =
            |spec: Value| Object::from_document(json!({"metadata": {"name": "j", "uid": "u"}, "spec": spec}));
        let template =
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"schedulerName": "default-scheduler"}});
        let ours = job(json!({"managedBy": "herdsman.io/local"})).unwrap();
        for template in [None, Some(&template)] {
            assert_eq!(pod_of(&ours, template, "x")["spec"]["schedulerName"], SCHEDULER);
        }
        let embedded = pod_of(&job(json!({})).unwrap(), Some(&template), "x");
        assert_eq!(embedded["spec"]["schedulerName"], "default-scheduler");
        let labels = &embedded["metadata"]["labels"];
        assert_eq!(
            (&labels["a"], &labels["job-name"], &labels["controller-uid"]),
            (&json!("b"), &json!("j"), &json!("u"))
        );
    }

    #[test]
    fn nothing_of_the_jobs_own_template_is_in_its_pod() {
        let evil = json!({"nodeName": "control-plane", "hostPID": true, "containers": [{"name": "x", "image": "evil"}]});
        let document = json!({
            "metadata": {"name": "j", "uid": "u"},
            "spec": {"template": {"metadata": {"labels": {"evil": "yes"}}, "spec": evil}},
        });
        let job = Object::from_document(document).unwrap();
        let text = pod(&job, None, "x").to_string();
        assert!(
            !text.contains("evil") && !text.contains("control-plane") && !text.contains("hostPID"),
            "{text}"
        );
    }

    #[test]
    fn the_end_of_a_text_is_kept_in_whole_lines() {
        assert_eq!(tail("short"), "short");
        let long = format!("{}\nlast ä\n", "x".repeat(5000));
        assert_eq!(tail(&long), "last ä\n");
        let one = "ä".repeat(5000);
        assert!(tail(&one).len() <= MOST_WORDS && tail(&one).starts_with('ä'));
    }
}
