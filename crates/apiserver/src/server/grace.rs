//! How long an object may go on when it is deleted.

use jiff::{SignedDuration, Timestamp};
use kubeapi::meta;
use serde_json::Value;

use crate::registry::Resource;

/// What a deletion means for an object that may end on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grace {
    /// Its kind has no such thing, or its time is over.
    None,
    /// It is ending already, and no sooner because of this.
    Pending,
    /// It ends by then.
    Until {
        /// When it is to be gone.
        time: Timestamp,
        /// How long that is from its deletion.
        seconds: i64,
    },
}

fn later(time: Timestamp, seconds: i64) -> Timestamp {
    time.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

/// Whether objects of a resource may take time to end: pods may.
pub(super) fn is_given(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.plural == "pods"
}

/// Decides about the deletion of a pod with the grace period that is asked for. Its time can only be shortened.
pub(super) fn decide(object: &Value, asked: Option<i64>, now: Timestamp) -> Grace {
    // A negative one is as short as can be.
    let asked = asked.map(|seconds| if seconds < 0 { 1 } else { seconds });
    if !meta::is_being_deleted(object) {
        let seconds = first(object, asked);
        return Grace::Until { time: later(now, seconds), seconds };
    }
    let given = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    match asked {
        _ if given == 0 => Grace::None,
        None => Grace::Pending,
        Some(seconds) if seconds >= given => Grace::Pending,
        Some(seconds) => {
            let ends = meta::text(object, "deletionTimestamp").parse::<Timestamp>().unwrap_or(now);
            match later(ends, seconds - given) {
                // Its time is over, but it is still its own to go.
                time if time < now => Grace::Until { time: now, seconds: seconds.min(1) },
                time => Grace::Until { time, seconds },
            }
        }
    }
}

/// A pod that runs nowhere, or no more, needs no time.
fn first(pod: &Value, asked: Option<i64>) -> i64 {
    let scheduled = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let finished = matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
    let wanted = asked.or_else(|| pod["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(0);
    match scheduled && !finished {
        true if wanted < 0 => 1,
        true => wanted,
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn pods_that_run_get_time_and_no_more() {
        let (now, until) = (at(1000), |second, seconds| Grace::Until { time: at(second), seconds });
        let spec = |node: &str| json!({"nodeName": node, "terminationGracePeriodSeconds": 30});
        let running = json!({"spec": spec("n"), "status": {"phase": "Running"}});
        let ending = |left: i64, given: i64| {
            json!({"spec": spec("n"), "metadata": {
                "deletionTimestamp": at(1000 + left).to_string(), "deletionGracePeriodSeconds": given,
            }})
        };
        let rows = [
            (running.clone(), None, until(1030, 30)),
            (running.clone(), Some(5), until(1005, 5)),
            (running.clone(), Some(0), until(1000, 0)),
            (running, Some(-7), until(1001, 1)),
            (json!({"spec": spec("")}), None, until(1000, 0)),
            (json!({"spec": spec("n"), "status": {"phase": "Failed"}}), Some(9), until(1000, 0)),
            (ending(20, 30), None, Grace::Pending),
            (ending(20, 30), Some(30), Grace::Pending),
            (ending(20, 30), Some(20), until(1010, 20)),
            (ending(20, 30), Some(5), until(1000, 1)),
            (ending(20, 30), Some(0), until(1000, 0)),
            (ending(0, 0), Some(5), Grace::None),
        ];
        for (pod, asked, wanted) in rows {
            assert_eq!(decide(&pod, asked, now), wanted, "{pod} {asked:?}");
        }
    }
}
