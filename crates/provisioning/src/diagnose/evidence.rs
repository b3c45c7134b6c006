//! What objects of others say of themselves, whatever contract they keep.

use jiff::Timestamp;
use serde_json::Value;

use crate::Object;

/// One condition, of Kubernetes' or of Cluster API's v1beta1 shape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Condition<'a>(&'a Value);

impl<'a> Condition<'a> {
    pub(super) fn type_(self) -> &'a str {
        self.text("type")
    }
    pub(super) fn status(self) -> &'a str {
        self.text("status")
    }
    pub(super) fn reason(self) -> &'a str {
        self.text("reason")
    }
    pub(super) fn message(self) -> &'a str {
        self.text("message")
    }
    pub(super) fn severity(self) -> &'a str {
        self.text("severity")
    }

    fn text(self, field: &str) -> &'a str {
        self.0[field].as_str().unwrap_or_default()
    }

    /// `reason: message`, or the half that is there.
    pub(super) fn words(self) -> String {
        match (self.reason(), self.message()) {
            (reason, "") => reason.to_owned(),
            ("", message) => message.to_owned(),
            (reason, message) => format!("{reason}: {message}"),
        }
    }
}

/// Conditions, those of the newer contract first.
pub(super) fn conditions(object: &Object) -> impl Iterator<Item = Condition<'_>> {
    let status = &object.document()["status"];
    let lists = [
        &status["conditions"],
        &status["v1beta2"]["conditions"],
        &status["deprecated"]["v1beta1"]["conditions"],
    ];
    lists.into_iter().filter_map(Value::as_array).flatten().map(Condition)
}

pub(super) fn condition<'a>(object: &'a Object, type_: &str) -> Option<Condition<'a>> {
    conditions(object).find(|condition| condition.type_() == type_)
}

/// Whether an infrastructure object is there, by either contract.
pub(super) fn is_provisioned(object: &Object) -> bool {
    let status = &object.document()["status"];
    status["initialization"]["provisioned"] == true || status["ready"] == true
}

/// Whether a controller has ever written to the object.
pub(super) fn is_touched(object: &Object) -> bool {
    let document = object.document();
    let some = |value: &Value| match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => false,
    };
    some(&document["status"]) || some(&document["metadata"]["finalizers"])
}

/// What the object says is wrong: a terminal failure, else its summary, else the first thing that is not as it should
/// be.
pub(super) fn problem(object: &Object) -> Option<String> {
    let status = &object.document()["status"];
    let failures = [status, &status["deprecated"]["v1beta1"]];
    let failure = failures.into_iter().find_map(|one| one["failureMessage"].as_str());
    let reason = failures.into_iter().find_map(|one| one["failureReason"].as_str());
    if let Some(message) = failure.or(reason) {
        return Some(match reason.filter(|reason| *reason != message) {
            Some(reason) => format!("{reason}: {message}"),
            None => message.to_owned(),
        });
    }
    let bad = |one: &Condition<'_>| one.status() != "True" && !one.words().is_empty();
    let detailed =
        conditions(object).filter(bad).find(|one| one.type_() != "Ready" && one.status() == "False");
    let summary = conditions(object).filter(bad).find(|one| one.type_() == "Ready");
    // A summary without a message points at the condition that has one.
    let summary = summary.filter(|one| !one.message().is_empty() || detailed.is_none());
    summary.or(detailed).map(Condition::words)
}

/// Seconds since the object was made.
pub(super) fn age(object: &Object, now: Timestamp) -> Option<i64> {
    since(object.document()["metadata"]["creationTimestamp"].as_str()?, now)
}

/// Seconds since a time in RFC 3339.
pub(super) fn since(time: &str, now: Timestamp) -> Option<i64> {
    let time: Timestamp = time.parse().ok()?;
    Some(now.as_second() - time.as_second())
}

/// When the condition last changed.
pub(super) fn changed<'a>(condition: Condition<'a>) -> &'a str {
    condition.text("lastTransitionTime")
}
