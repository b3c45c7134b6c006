//! A condition of a provider's object, shown on ours.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::Value;

use super::{Finding, Status, set};

/// What a provider's object says under a type.
#[derive(Clone, Debug, PartialEq)]
pub enum Provided {
    /// Nothing.
    Missing,
    /// This.
    Said(Condition),
    /// Something that is no condition.
    Invalid(String),
}

/// The condition of a type on an object of whatever kind: where the contract v1beta1 keeps the new ones, else at the
/// usual place.
pub fn provided(object: &Value, type_: &str) -> Provided {
    let new = object.pointer("/status/v1beta2/conditions").filter(|list| !list.is_null());
    let Some(list) = new.or_else(|| object.pointer("/status/conditions")) else { return Provided::Missing };
    let Some(list) = list.as_array() else {
        return Provided::Invalid("status.conditions is not a list".into());
    };
    let Some(found) = list.iter().find(|one| one["type"] == type_) else { return Provided::Missing };
    let text = |field: &str| found[field].as_str().unwrap_or_default();
    let Some(status) = Status::read(text("status")) else {
        return Provided::Invalid(format!(
            "status.conditions[{type_}].status is {}, one of True, False, Unknown is needed",
            found["status"]
        ));
    };
    let reason = match text("reason") {
        "" if status == Status::True => type_,
        "" => "NoReasonReported",
        reason => reason,
    };
    let since: Option<Timestamp> = text("lastTransitionTime").parse().ok();
    Provided::Said(Condition {
        type_: type_.into(),
        status: status.as_str().into(),
        reason: reason.into(),
        message: text("message").into(),
        observed_generation: None,
        last_transition_time: Time(since.unwrap_or(Timestamp::UNIX_EPOCH)),
    })
}

/// Shows what a provider says under our own type, with its time; `fallback` if it says nothing.
pub fn mirror(
    conditions: &mut Vec<Condition>,
    said: Provided,
    fallback: Finding,
    generation: i64,
    now: Timestamp,
) {
    let type_ = fallback.type_.clone();
    match said {
        Provided::Missing => set(conditions, fallback, generation, now),
        Provided::Invalid(problem) => {
            let finding = Finding::unknown(&type_, "InvalidConditionReported").saying(problem);
            set(conditions, finding, generation, now);
        }
        Provided::Said(condition) => {
            let known = condition.last_transition_time.0 > Timestamp::UNIX_EPOCH;
            let finding = Finding { type_: type_.clone(), ..Finding::from(&condition) };
            set(conditions, finding, generation, now);
            if known && let Some(shown) = conditions.iter_mut().find(|one| one.type_ == type_) {
                shown.last_transition_time = super::seconds(condition.last_transition_time.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn providers_say_it_in_several_places() {
        let condition = |reason: &str| json!([{"type": "Ready", "status": "True", "reason": reason}]);
        let cases = [
            (json!({}), None),
            (json!({"status": {"conditions": condition("Old")}}), Some("Old")),
            (
                json!({"status": {"conditions": condition("Old"), "v1beta2": {"conditions": condition("New")}}}),
                Some("New"),
            ),
            (json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}), Some("Ready")),
            (
                json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
                Some("NoReasonReported"),
            ),
            (json!({"status": {"conditions": [{"type": "Other", "status": "False"}]}}), None),
        ];
        for (object, reason) in cases {
            match (provided(&object, "Ready"), reason) {
                (Provided::Said(found), Some(reason)) => assert_eq!(found.reason, reason, "{object}"),
                (Provided::Missing, None) => {}
                (found, _) => panic!("{object}: {found:?}"),
            }
        }
        for bad in [
            json!({"status": {"conditions": 1}}),
            json!({"status": {"conditions": [{"type": "Ready", "status": 1}]}}),
        ] {
            assert!(matches!(provided(&bad, "Ready"), Provided::Invalid(_)), "{bad}");
        }
    }

    #[test]
    fn a_mirrored_condition_keeps_its_time() {
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let object = json!({"status": {"conditions": [
            {"type": "Ready", "status": "False", "reason": "Slow", "message": "wait", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        ]}});
        let mut conditions = Vec::new();
        let fallback = Finding::no("InfrastructureReady", "NotReady");
        mirror(&mut conditions, provided(&object, "Ready"), fallback.clone(), 3, now);
        assert_eq!(conditions[0].type_, "InfrastructureReady");
        assert_eq!((conditions[0].reason.as_str(), conditions[0].message.as_str()), ("Slow", "wait"));
        assert_eq!(conditions[0].last_transition_time.0, "2026-01-01T00:00:00Z".parse().unwrap());
        mirror(&mut conditions, Provided::Missing, fallback, 3, now);
        assert_eq!(conditions[0].reason, "NotReady");
        mirror(
            &mut conditions,
            Provided::Invalid("bad".into()),
            Finding::no("InfrastructureReady", "x"),
            3,
            now,
        );
        assert_eq!((conditions[0].status.as_str(), conditions[0].message.as_str()), ("Unknown", "bad"));
    }
}
