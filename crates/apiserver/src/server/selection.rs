//! Which objects a list, watch or deletecollection is about.

use std::collections::BTreeMap;

use kubeapi::Status;
use kubeapi::request::ListOptions;
use kubeapi::selector::{field, label};
use serde_json::Value;

use crate::registry::{Origin, Resource};

/// Fields that selectors may use on built-in kinds, beside name and namespace.
const BUILTIN_FIELDS: &[(&str, &str, &[&str])] = &[
    (
        "",
        "events",
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
    ),
    ("", "namespaces", &["status.phase"]),
    ("", "nodes", &["spec.unschedulable"]),
    (
        "",
        "pods",
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
    ),
    ("", "secrets", &["type"]),
    ("", "services", &["spec.clusterIP", "spec.type"]),
    ("batch", "jobs", &["status.successful"]),
    (
        "events.k8s.io",
        "events",
        &[
            "reason",
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reportingController",
            "type",
        ],
    ),
];

/// Fields that selectors may use on all kinds.
const OF_ALL: [&str; 2] = ["metadata.name", "metadata.namespace"];

/// A choice of objects, by labels and fields.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    labels: label::Selector,
    fields: field::Selector,
}

impl Selection {
    /// Takes the selectors of a request, if the resource knows all the fields.
    pub(super) fn new(resource: &Resource, options: &ListOptions) -> Result<Self, Status> {
        let own = own_fields(resource);
        for term in options.field_selector.terms() {
            if OF_ALL.contains(&term.field.as_str()) || own.contains(&term.field) {
                continue;
            }
            let plain = own.is_empty() && resource.as_custom().is_none();
            return Err(Status::bad_request(match plain {
                true => format!(
                    "{:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                    term.field
                ),
                false => format!("field label not supported: {}", term.field),
            }));
        }
        Ok(Selection { labels: options.label_selector.clone(), fields: options.field_selector.clone() })
    }

    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_empty()
    }

    /// Whether it looks at nothing but an object's metadata.
    pub(super) fn is_by_metadata(&self) -> bool {
        self.fields.terms().iter().all(|term| OF_ALL.contains(&term.field.as_str()))
    }

    /// Whether an object is chosen.
    pub(super) fn matches(&self, object: &Value) -> bool {
        if !self.labels.matches(&object["metadata"]["labels"].as_object()) {
            return false;
        }
        let fields =
            self.fields.terms().iter().map(|term| (term.field.clone(), field_text(object, &term.field)));
        self.fields.matches(&fields.collect::<BTreeMap<_, _>>())
    }
}

fn own_fields(resource: &Resource) -> Vec<String> {
    match &resource.origin {
        Origin::Custom(custom) => {
            let paths = custom.version.selectable_fields.iter();
            paths.map(|path| path.trim_start_matches('.').to_owned()).collect()
        }
        Origin::Builtin(one) => BUILTIN_FIELDS
            .iter()
            .filter(|(group, plural, _)| (*group, *plural) == (one.group, one.plural))
            .flat_map(|(_, _, fields)| fields.iter().map(|field| (*field).to_owned()))
            .collect(),
    }
}

/// What a field selector compares: the field's value as text, empty if it is not there.
fn field_text(object: &Value, field: &str) -> String {
    let field = match field {
        // Newer reporters say who they are elsewhere.
        "source" if object["source"]["component"].as_str().is_none_or(str::is_empty) => "reportingComponent",
        "source" => "source.component",
        "status.successful" => "status.succeeded",
        other => other,
    };
    match field.split('.').fold(object, |value, part| &value[part]) {
        Value::String(text) => text.clone(),
        Value::Null if matches!(field, "spec.unschedulable" | "spec.hostNetwork") => "false".into(),
        Value::Null if field == "status.succeeded" => "0".into(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
