//! CustomResourceDefinitions: their names are accepted and their resources served with the write itself.

use std::sync::Arc;

use jiff::Timestamp;
use kubeapi::crd::{self, Condition};
use serde_json::{Value, json};

use super::Server;
use crate::registry::{DEFINITIONS, Registry, Resource};
use crate::store::{Scope, View};

/// The key of the CRD that defines a custom resource.
pub(super) fn key_of(resource: &Resource) -> String {
    format!("{DEFINITIONS}{}.{}", resource.plural, resource.group)
}

pub(super) fn is_definition(resource: &Resource) -> bool {
    resource.plural == "customresourcedefinitions" && resource.group == "apiextensions.k8s.io"
}

/// Makes a new CRD ready to be validated.
pub(super) fn prepare_create(definition: &mut Value) {
    crd::default(definition);
    crd::prepare_create(definition);
}

/// Makes a CRD ready to replace `old`.
pub(super) fn prepare_update(definition: &mut Value, old: &Value) {
    crd::default(definition);
    crd::prepare_update(definition, old);
}

/// Decides about the names, beside the CRDs in `view`.
pub(super) fn accept(definition: &mut Value, view: &View, now: Timestamp) {
    let scope = Scope::prefix(DEFINITIONS);
    let others = view.scan(&scope).filter_map(|stored| serde_json::from_slice::<Value>(&stored.value).ok());
    let others: Vec<Value> = others.collect();
    let acceptance = crd::accept_names(definition, &others);
    let status = &mut definition["status"];
    status["acceptedNames"] = acceptance.names.to_json();
    set_condition(status, &acceptance.names_accepted, now);
    set_condition(status, &acceptance.established, now);
}

/// The time of a condition is that of its last change.
pub(super) fn set_condition(status: &mut Value, condition: &Condition, now: Timestamp) {
    let holds = if condition.holds { "True" } else { "False" };
    let time = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    let mut next = json!({
        "type": condition.kind, "status": holds, "lastTransitionTime": time,
        "reason": condition.reason, "message": condition.message,
    });
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    match conditions.iter_mut().find(|one| one["type"] == condition.kind) {
        Some(before) => {
            if before["status"] == holds {
                next["lastTransitionTime"] = before["lastTransitionTime"].clone();
            }
            *before = next;
        }
        None => conditions.push(next),
    }
}

impl Server {
    /// Serves what the CRDs in the store define now. The caller holds the CRDs' lock, so that no older registry
    /// replaces a newer one.
    pub(super) fn refresh_registry(&self) {
        let next = Registry::build(&self.store.view(), &self.registry.load());
        self.registry.store(Arc::new(next));
    }

    /// The CRDs' lock, where a write is about one.
    pub(super) async fn lock_definitions(
        &self,
        resource: &Resource,
    ) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        match is_definition(resource) {
            true => Some(self.definitions.lock().await),
            false => None,
        }
    }
}
