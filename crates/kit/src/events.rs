//! Events: what happened to an object, for people who look at it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use clock::{Clock, Entropy};
use kube::api::{DynamicObject, PostParams};
use kube::{Api, Client};
use serde_json::json;

use crate::object::{KindId, Object};

/// How many events are remembered so that they are not told twice.
const REMEMBERED: usize = 10_000;

/// How bad an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// All goes well.
    Normal,
    /// Somebody may want to look.
    Warning,
}

/// Tells events. The same one of the same object is told once.
pub struct Events {
    client: Client,
    clock: Arc<dyn Clock>,
    entropy: Arc<Mutex<dyn Entropy>>,
    component: &'static str,
    told: Mutex<BTreeSet<String>>,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "events of {}", self.component)
    }
}

impl Events {
    /// Events that name `component` as their source.
    pub fn new(
        client: Client,
        clock: Arc<dyn Clock>,
        entropy: Arc<Mutex<dyn Entropy>>,
        component: &'static str,
    ) -> Self {
        Events { client, clock, entropy, component, told: Mutex::default() }
    }

    /// Tells an event. Whether it arrives is nobody's business: work does not stop for it.
    pub async fn tell(
        &self,
        kind: &KindId,
        object: &Object,
        severity: Severity,
        reason: &str,
        message: &str,
    ) {
        if !self.remember(format!("{} {reason} {message}", object.uid())) {
            return;
        }
        let severity = match severity {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        };
        let mut ending = [0; 8];
        self.entropy.lock().unwrap_or_else(std::sync::PoisonError::into_inner).fill(&mut ending);
        let now = crate::conditions::seconds(self.clock.now());
        let namespace = if object.namespace().is_empty() { "default" } else { object.namespace() };
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"namespace": namespace, "name": format!("{}.{:016x}", object.name(), u64::from_be_bytes(ending))},
            "involvedObject": {
                "apiVersion": kind.api_version(), "kind": kind.kind, "namespace": object.namespace(),
                "name": object.name(), "uid": object.uid(), "resourceVersion": object.meta().resource_version
            },
            "type": severity, "reason": reason, "message": message, "count": 1,
            "firstTimestamp": now, "lastTimestamp": now,
            "source": {"component": self.component}, "reportingComponent": self.component
        });
        let events = KindId::new("", "v1", "Event", "events");
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), namespace, &events.resource());
        let Ok(event) = serde_json::from_value(event) else { return };
        if let Err(error) = api.create(&PostParams::default(), &event).await {
            tracing::debug!(%error, reason, "an event was not taken");
        }
    }

    fn remember(&self, event: String) -> bool {
        let mut told = self.told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if told.len() >= REMEMBERED {
            told.clear();
        }
        told.insert(event)
    }
}
