//! The options of a request, as webhooks and policies see them.

use kubeapi::request::{DeleteOptions, Propagation, Query};
use serde_json::{Value, json};

use super::Operation;

/// Of a write that is no deletion.
pub(super) fn of_write(query: &Query, operation: Operation) -> Value {
    let kind = if operation == Operation::Create { "CreateOptions" } else { "UpdateOptions" };
    let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    if !query.all("dryRun").is_empty() {
        options["dryRun"] = json!(query.all("dryRun"));
    }
    for field in ["fieldManager", "fieldValidation"] {
        if let Some(value) = query.first(field).filter(|value| !value.is_empty()) {
            options[field] = json!(value);
        }
    }
    options
}

pub(super) fn of_deletion(options: &DeleteOptions) -> Value {
    let mut shown = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
    let propagation = options.propagation.map(|propagation| match propagation {
        Propagation::Orphan => "Orphan",
        Propagation::Background => "Background",
        Propagation::Foreground => "Foreground",
    });
    let mut preconditions = json!({});
    set(&mut preconditions, "uid", options.preconditions.uid.as_deref());
    set(&mut preconditions, "resourceVersion", options.preconditions.resource_version.as_deref());
    set(&mut shown, "preconditions", (preconditions != json!({})).then_some(preconditions));
    set(&mut shown, "gracePeriodSeconds", options.grace_period_seconds);
    set(&mut shown, "orphanDependents", options.orphan_dependents);
    set(&mut shown, "propagationPolicy", propagation);
    set(&mut shown, "dryRun", options.dry_run.then_some(["All"]));
    shown
}

fn set(options: &mut Value, field: &str, value: Option<impl serde::Serialize>) {
    if let Some(value) = value {
        options[field] = json!(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_shown_as_they_were_sent() {
        let query = Query::parse("dryRun=All&fieldManager=m&pretty=true");
        let wanted = json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"], "fieldManager": "m"});
        assert_eq!(of_write(&query, Operation::Create), wanted);
        let plain = json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"});
        assert_eq!(of_write(&Query::default(), Operation::Update), plain);
        let body =
            json!({"gracePeriodSeconds": 3, "propagationPolicy": "Orphan", "preconditions": {"uid": "u"}});
        let options = DeleteOptions::parse(&Query::default(), Some(&body)).unwrap();
        let mut wanted = body;
        wanted["kind"] = json!("DeleteOptions");
        wanted["apiVersion"] = json!("meta.k8s.io/v1");
        assert_eq!(of_deletion(&options), wanted);
    }
}
