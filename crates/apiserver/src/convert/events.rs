//! Events are served in two shapes, by the groups `core` and `events.k8s.io`.

use serde_json::{Value, json};

/// What the fields are called in the core group and in `events.k8s.io`; others have one name.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Gives an Event the shape of the version `to`.
pub(super) fn convert(event: &mut Value, to: &str) {
    let Some(fields) = event.as_object_mut() else { return };
    for (core, other) in NAMES {
        let (from, into) = if to == "v1" { (other, core) } else { (core, other) };
        if let Some(value) = fields.remove(from) {
            fields.insert(into.into(), value);
        }
    }
    fields.insert("apiVersion".into(), json!(to));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_renamed_both_ways() {
        let core = json!({
            "kind": "Event", "apiVersion": "v1", "metadata": {"name": "a"}, "involvedObject": {"kind": "Pod"},
            "reason": "R", "message": "m", "source": {"component": "c"}, "firstTimestamp": "1", "lastTimestamp": "2",
            "count": 3, "type": "Normal", "eventTime": "4", "action": "A", "related": {}, "series": {"count": 5},
            "reportingComponent": "rc", "reportingInstance": "ri",
        });
        let other = json!({
            "kind": "Event", "apiVersion": "events.k8s.io/v1", "metadata": {"name": "a"}, "regarding": {"kind": "Pod"},
            "reason": "R", "note": "m", "deprecatedSource": {"component": "c"}, "deprecatedFirstTimestamp": "1",
            "deprecatedLastTimestamp": "2", "deprecatedCount": 3, "type": "Normal", "eventTime": "4", "action": "A",
            "related": {}, "series": {"count": 5}, "reportingController": "rc", "reportingInstance": "ri",
        });
        let mut event = core.clone();
        convert(&mut event, "events.k8s.io/v1");
        assert_eq!(event, other);
        convert(&mut event, "v1");
        assert_eq!(event, core);
    }
}
