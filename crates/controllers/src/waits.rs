//! Waits become events: each once, as long as it lasts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use kit::events::{Events, Severity};
use kit::{Key, KindId, Object};
use provisioning::{Code, Wait};

use crate::Parts;
use crate::controlplane::Waits;

/// What was told of which object, so that a wait whose words change (minutes, counts) is not told again.
#[derive(Debug)]
pub(crate) struct Told {
    group: &'static str,
    counted: Arc<Waits>,
    told: Mutex<BTreeMap<Key, BTreeSet<(Code, String)>>>,
}

impl Told {
    /// What a group of controllers tells; its waits are counted with everybody's.
    pub(crate) fn new(group: &'static str, parts: &Parts) -> Self {
        Told { group, counted: parts.waits.clone(), told: Mutex::default() }
    }

    /// Tells of the waits that were not there at the last look.
    pub(crate) async fn tell(&self, events: &Events, kind: &KindId, object: &Object, waits: &[Wait]) {
        for wait in self.news(&object.key(), waits) {
            tracing::debug!(kind = kind.kind, object = %object.key(), code = %wait.code, "{wait}");
            if is_momentary(wait.code) {
                continue;
            }
            let message = wait.to_string();
            events.tell(kind, object, Severity::Warning, wait.code.as_str(), &message).await;
        }
    }

    /// The object is gone.
    pub(crate) fn forget(&self, key: &Key) {
        self.counted.set(self.group, key, Vec::new());
        self.told.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    fn news<'a>(&self, key: &Key, waits: &'a [Wait]) -> Vec<&'a Wait> {
        let now: BTreeSet<(Code, String)> =
            waits.iter().map(|wait| (wait.code, wait.subject.clone())).collect();
        self.counted.set(self.group, key, waits.iter().map(|wait| wait.code.as_str()).collect());
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let before = told.insert(key.clone(), now).unwrap_or_default();
        waits.iter().filter(|wait| !before.contains(&(wait.code, wait.subject.clone()))).collect()
    }
}

/// Waits that every object passes through in moments: conditions and logs have them, an event each would only hide the
/// others.
fn is_momentary(code: Code) -> bool {
    matches!(
        code,
        Code::WaitingForManagementCluster
            | Code::WaitingForFinalizer
            | Code::WaitingForMachine
            | Code::WaitingForCluster
            | Code::WaitingForInfrastructure
            | Code::WaitingForToken
            | Code::WaitingForBootstrapData
            | Code::InfrastructureClusterNotReady
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_news_once_until_it_was_gone() {
        let counted: Arc<Waits> = Arc::default();
        let told = Told { group: "x", counted: counted.clone(), told: Mutex::default() };
        let key = Key::new("n", "c");
        let minutes = |minutes| {
            [Wait::new(Code::NodeNotRegistered, "Machine n/m", format!("since {minutes} minutes"), "look")]
        };
        assert_eq!(told.news(&key, &minutes(10)).len(), 1);
        assert_eq!(told.news(&key, &minutes(11)).len(), 0, "other words, the same wait");
        assert_eq!(counted.counts()[Code::NodeNotRegistered.as_str()], 1);
        assert_eq!(told.news(&key, &[]).len(), 0);
        assert!(counted.counts().is_empty());
        assert_eq!(told.news(&key, &minutes(1)).len(), 1, "it came back");
    }
}
