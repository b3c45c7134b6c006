//! Conditions as Cluster API v1beta1 had them, with a severity. Kept filled for readers of that version.

use api::capi::v1beta1::Condition;
use jiff::Timestamp;
use serde_json::Value;

use super::{Status, seconds};

/// How bad it is that a condition is `False`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Somebody has to act.
    Error,
    /// Somebody may have to act.
    Warning,
    /// All goes as it should.
    Info,
}

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "Error",
            Severity::Warning => "Warning",
            Severity::Info => "Info",
        }
    }
}

/// Marks a condition as fulfilled.
pub fn mark_true(conditions: &mut Vec<Condition>, type_: &str, now: Timestamp) {
    put(conditions, condition(type_, Status::True, "", "", ""), now);
}

/// Marks a condition as not fulfilled.
pub fn mark_false(
    conditions: &mut Vec<Condition>,
    type_: &str,
    severity: Severity,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    put(conditions, condition(type_, Status::False, severity.as_str(), reason, message), now);
}

/// Marks a condition as one that cannot be told.
pub fn mark_unknown(
    conditions: &mut Vec<Condition>,
    type_: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    put(conditions, condition(type_, Status::Unknown, "", reason, message), now);
}

/// Takes a condition away.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) {
    conditions.retain(|condition| condition.type_ != type_);
}

/// Shows a condition of a provider's object under our own type; gives whether there was one.
pub fn mirror(
    conditions: &mut Vec<Condition>,
    object: &Value,
    source: &str,
    target: &str,
    now: Timestamp,
) -> bool {
    let list = object.pointer("/status/conditions").and_then(Value::as_array);
    let found = list.and_then(|list| list.iter().find(|one| one["type"] == source));
    let Some(found) = found else { return false };
    let text = |field: &str| found[field].as_str().unwrap_or_default();
    let Some(status) = Status::read(text("status")) else { return false };
    // A provider of the newer contract has no severities: what is False is worth a look, no more.
    let severity = match (status, text("severity")) {
        (Status::False, "") => Severity::Info.as_str(),
        (Status::False, severity) => severity,
        _ => "",
    };
    let mut shown = condition(target, status, severity, text("reason"), text("message"));
    shown.last_transition_time = text("lastTransitionTime").parse().ok().map(|time: Timestamp| seconds(time));
    put(conditions, shown, now);
    true
}

/// Sums up the conditions of these types as `Ready`: the worst of them is shown. Nothing is said if there are none.
pub fn summarise(conditions: &mut Vec<Condition>, types: &[&str], now: Timestamp) {
    let parts = types.iter().filter_map(|type_| conditions.iter().find(|one| one.type_ == *type_));
    let Some(worst) = parts.min_by_key(|one| rank(one)) else {
        return;
    };
    let ready = Condition { type_: "Ready".into(), last_transition_time: None, ..worst.clone() };
    let ready = match ready.status.as_str() {
        "True" => condition("Ready", Status::True, "", "", ""),
        _ => ready,
    };
    put(conditions, ready, now);
}

fn rank(condition: &Condition) -> u8 {
    match (condition.status.as_str(), condition.severity.as_str()) {
        ("False", "Error") => 0,
        ("False", "Warning") => 1,
        ("False", _) => 2,
        ("True", _) => 3,
        _ => 4,
    }
}

fn condition(type_: &str, status: Status, severity: &str, reason: &str, message: &str) -> Condition {
    Condition {
        type_: type_.into(),
        status: status.as_str().into(),
        severity: severity.into(),
        reason: reason.into(),
        message: message.into(),
        last_transition_time: None,
    }
}

/// Writes a condition. Its time stays while nothing else of it changes, as v1beta1 has it.
fn put(conditions: &mut Vec<Condition>, mut new: Condition, now: Timestamp) {
    let before = conditions.iter_mut().find(|one| one.type_ == new.type_);
    if new.last_transition_time.is_none() {
        let same = before
            .as_ref()
            .filter(|before| Condition { last_transition_time: None, ..(***before).clone() } == new);
        new.last_transition_time =
            same.and_then(|before| before.last_transition_time.clone()).or_else(|| Some(seconds(now)));
    }
    match before {
        Some(before) => *before = new,
        None => conditions.push(new),
    }
    conditions.sort_by_key(|one| (one.type_ != "Ready", one.type_.clone()));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_worst_is_ready() {
        let mut conditions = Vec::new();
        mark_true(&mut conditions, "A", at(1));
        mark_false(&mut conditions, "B", Severity::Info, "Waiting", "for it", at(1));
        mark_false(&mut conditions, "C", Severity::Warning, "Broken", "a bit", at(1));
        mark_unknown(&mut conditions, "D", "Lost", "", at(1));
        summarise(&mut conditions, &["A", "B", "C", "D"], at(2));
        assert_eq!(conditions[0].type_, "Ready");
        assert_eq!((conditions[0].reason.as_str(), conditions[0].severity.as_str()), ("Broken", "Warning"));
        summarise(&mut conditions, &["A"], at(3));
        assert_eq!((conditions[0].status.as_str(), conditions[0].severity.as_str()), ("True", ""));
        assert_eq!(conditions[0].reason, "");
    }

    #[test]
    fn the_time_stays_while_nothing_changes() {
        let mut conditions = Vec::new();
        mark_false(&mut conditions, "A", Severity::Info, "R", "m", at(1));
        let first = conditions.clone();
        mark_false(&mut conditions, "A", Severity::Info, "R", "m", at(2));
        assert_eq!(conditions, first);
        mark_false(&mut conditions, "A", Severity::Info, "R", "other", at(3));
        assert_eq!(conditions[0].last_transition_time, Some(seconds(at(3))));
    }

    #[test]
    fn providers_conditions_are_mirrored() {
        let object = json!({"status": {"conditions": [
            {"type": "Ready", "status": "False", "severity": "Error", "reason": "NoQuota", "message": "x", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        ]}});
        let mut conditions = Vec::new();
        assert!(mirror(&mut conditions, &object, "Ready", "InfrastructureReady", at(5)));
        assert_eq!((conditions[0].severity.as_str(), conditions[0].reason.as_str()), ("Error", "NoQuota"));
        assert_eq!(
            conditions[0].last_transition_time.as_ref().unwrap().0,
            "2026-01-01T00:00:00Z".parse().unwrap()
        );
        assert!(!mirror(&mut conditions, &json!({}), "Ready", "InfrastructureReady", at(5)));
    }
}
