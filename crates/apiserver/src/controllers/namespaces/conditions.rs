//! What a namespace that goes says about how far it is.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

/// What is left in a namespace, and why.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Remains {
    /// How many objects of which resource are left: `<plural>.<group>`.
    pub(super) objects: BTreeMap<String, usize>,
    /// How many objects each finalizer holds.
    pub(super) finalizers: BTreeMap<String, usize>,
    /// What went wrong with deletions.
    pub(super) errors: Vec<String>,
}

/// A condition while all is well: type, reason and message. Nothing here can fail for the first two.
const GOOD: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];

impl Remains {
    /// Reason and message of a condition that holds.
    fn trouble(&self, kind: &str) -> Option<(&'static str, String)> {
        let list = |counts: &BTreeMap<String, usize>, between: &str| {
            let mut parts: Vec<String> = counts
                .iter()
                .map(|(what, count)| format!("{what} {between} {count} resource instances"))
                .collect();
            parts.sort();
            parts.join(", ")
        };
        match kind {
            "NamespaceDeletionContentFailure" if !self.errors.is_empty() => {
                let mut errors = self.errors.clone();
                errors.sort();
                let (count, errors) = (errors.len(), errors.join(", "));
                let message = format!("Failed to delete all resource types, {count} remaining: {errors}");
                Some(("ContentDeletionFailed", message))
            }
            "NamespaceContentRemaining" if !self.objects.is_empty() => {
                let message = format!("Some resources are remaining: {}", list(&self.objects, "has"));
                Some(("SomeResourcesRemain", message))
            }
            "NamespaceFinalizersRemaining" if !self.finalizers.is_empty() => {
                let list = list(&self.finalizers, "in");
                let message = format!("Some content in the namespace has finalizers remaining: {list}");
                Some(("SomeFinalizersRemain", message))
            }
            _ => None,
        }
    }

    /// Brings the conditions of a namespace up to date. Gives whether something changed.
    pub(super) fn tell(&self, namespace: &mut Value, now: Timestamp) -> bool {
        let time = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
        let mut conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let mut changed = false;
        for (kind, good, all_is_well) in GOOD {
            let (status, reason, message) = match self.trouble(kind) {
                Some((reason, message)) => ("True", reason, message),
                None => ("False", good, all_is_well.to_owned()),
            };
            let mut wanted = json!({
                "type": kind, "status": status, "lastTransitionTime": time, "reason": reason, "message": message,
            });
            match conditions.iter_mut().find(|one| one["type"] == kind) {
                None => conditions.push(wanted),
                Some(old) => {
                    if old["status"] == status {
                        wanted["lastTransitionTime"] = old["lastTransitionTime"].clone();
                    }
                    if *old == wanted {
                        continue;
                    }
                    *old = wanted;
                }
            }
            changed = true;
        }
        if changed {
            namespace["status"]["conditions"] = conditions.into();
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn shown(namespace: &Value) -> Vec<String> {
        let conditions = namespace["status"]["conditions"].as_array().unwrap();
        let text = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
        let show = |one: &Value| {
            ["status", "lastTransitionTime", "reason", "message"].map(|field| text(one, field)).join(" ")
        };
        conditions.iter().map(show).collect()
    }

    #[test]
    fn conditions_follow_what_remains() {
        let mut namespace = json!({"status": {"phase": "Terminating"}});
        let left = Remains {
            objects: [("pods.".to_owned(), 2), ("things.example.com".to_owned(), 1)].into(),
            finalizers: [("b/x".to_owned(), 1), ("a/x".to_owned(), 2)].into(),
            errors: vec!["no".into(), "also no".into()],
        };
        assert!(left.tell(&mut namespace, at(0)));
        assert!(!left.tell(&mut namespace, at(5)));
        let [zero, seven] = ["1970-01-01T00:00:00Z", "1970-01-01T00:00:07Z"];
        let discovery = [
            format!("False {zero} ResourcesDiscovered All resources successfully discovered"),
            format!("False {zero} ParsedGroupVersions All legacy kube types successfully parsed"),
        ];
        let trouble = [
            format!(
                "True {zero} ContentDeletionFailed Failed to delete all resource types, 2 remaining: also no, no"
            ),
            format!(
                "True {zero} SomeResourcesRemain Some resources are remaining: pods. has 2 resource instances, things.example.com has 1 resource instances"
            ),
            format!(
                "True {zero} SomeFinalizersRemain Some content in the namespace has finalizers remaining: a/x in 2 resource instances, b/x in 1 resource instances"
            ),
        ];
        assert_eq!(shown(&namespace), [&discovery[..], &trouble].concat());
        assert!(Remains::default().tell(&mut namespace, at(7)));
        let well = [
            format!(
                "False {seven} ContentDeleted All content successfully deleted, may be waiting on finalization"
            ),
            format!("False {seven} ContentRemoved All content successfully removed"),
            format!("False {seven} ContentHasNoFinalizers All content-preserving finalizers finished"),
        ];
        assert_eq!(shown(&namespace), [&discovery[..], &well].concat());
    }
}
