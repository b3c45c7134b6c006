//! How a Job goes, from the Job and its pods. The same on a real Kubernetes and where [`crate::jobs`] runs Jobs.

use std::sync::Arc;

use jiff::Timestamp;
use kit::Object;
use provisioning::machine::{JobState, JobView, deletes};
use serde_json::Value;

/// A Job as decisions see it. `pods` are the Job's.
pub(super) fn job(job: &Object, pods: &[Arc<Object>]) -> JobView {
    let document = provisioning::Object::from_document(job.document().clone());
    JobView {
        name: job.name().into(),
        uid: job.uid().into(),
        deletes: deletes(&document),
        state: state(job.document(), pods),
    }
}

fn state(job: &Value, pods: &[Arc<Object>]) -> JobState {
    if condition(job, "Complete").is_some() {
        return JobState::Complete;
    }
    let Some(failed) = condition(job, "Failed") else { return JobState::Running };
    let time = failed["lastTransitionTime"].as_str().and_then(|time| time.parse().ok());
    let (exit_code, message) = last_words(pods).unwrap_or_default();
    JobState::Failed {
        at: time.unwrap_or(Timestamp::UNIX_EPOCH),
        exit_code,
        message: message.unwrap_or_else(|| failed["message"].as_str().unwrap_or_default().to_owned()),
    }
}

fn condition<'a>(job: &'a Value, type_: &str) -> Option<&'a Value> {
    let all = job["status"]["conditions"].as_array()?;
    all.iter().find(|one| one["type"] == type_ && one["status"] == "True")
}

/// Exit code and words of the last pod whose program failed.
fn last_words(pods: &[Arc<Object>]) -> Option<(Option<i32>, Option<String>)> {
    let ended = |pod: &Arc<Object>| {
        let statuses = pod.document()["status"]["containerStatuses"].as_array()?;
        let ends = statuses.iter().map(|one| &one["state"]["terminated"]);
        let end = ends.into_iter().find(|end| end["exitCode"].as_i64().is_some_and(|code| code != 0))?;
        let code = end["exitCode"].as_i64().and_then(|code| i32::try_from(code).ok());
        let words = end["message"].as_str().filter(|words| !words.trim().is_empty()).map(str::to_owned);
        Some((pod.meta().creation_timestamp.clone(), pod.name().to_owned(), (code, words)))
    };
    let mut ends: Vec<_> = pods.iter().filter_map(ended).collect();
    ends.sort_by(|left, right| (&left.0, &left.1).cmp(&(&right.0, &right.1)));
    ends.pop().map(|(_, _, words)| words)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(document: Value) -> Arc<Object> {
        Arc::new(Object::from_document(document).unwrap())
    }

    fn pod(second: u32, code: i32, message: &str) -> Arc<Object> {
        object(json!({
            "metadata": {"name": format!("p{second}"), "creationTimestamp": format!("2026-01-01T00:00:0{second}Z")},
            "status": {"containerStatuses": [{"state": {"terminated": {"exitCode": code, "message": message}}}]},
        }))
    }

    fn seen(conditions: Value, pods: &[Arc<Object>]) -> JobState {
        let found = object(json!({
            "metadata": {"name": "j", "uid": "u"},
            "spec": {"template": {"metadata": {"labels": {"rke.cattle.io/infra-remove": "true"}}}},
            "status": {"conditions": conditions},
        }));
        let view = job(&found, pods);
        assert!(view.deletes && view.uid == "u");
        view.state
    }

    #[test]
    fn a_job_is_seen_as_it_is() {
        assert_eq!(seen(json!(null), &[]), JobState::Running);
        let target = json!([{"type": "FailureTarget", "status": "True"}]);
        assert_eq!(seen(target, &[pod(1, 1, "x")]), JobState::Running, "not yet");
        assert_eq!(seen(json!([{"type": "Complete", "status": "True"}]), &[]), JobState::Complete);
    }

    #[test]
    fn the_last_pod_has_the_last_word() {
        let at = "2026-01-01T00:01:00Z";
        let failed =
            json!([{"type": "Failed", "status": "True", "lastTransitionTime": at, "message": "limit"}]);
        let expect = |exit_code, message: &str| JobState::Failed {
            at: at.parse().unwrap(),
            exit_code,
            message: message.into(),
        };
        let pods = [pod(2, 3, "no quota"), pod(1, 1, "older"), pod(3, 0, "went well")];
        assert_eq!(seen(failed.clone(), &pods), expect(Some(3), "no quota"));
        assert_eq!(seen(failed.clone(), &[pod(1, 2, " ")]), expect(Some(2), "limit"));
        assert_eq!(seen(failed, &[]), expect(None, "limit"), "pods may be gone");
    }
}
