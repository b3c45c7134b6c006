use std::sync::{Arc, Mutex, PoisonError};

use kubeapi::audit::{Annotations, Level};

/// What those who are asked about a request note for the audit log. Clones are the same notes.
#[derive(Clone, Debug, Default)]
pub struct Notes(Arc<Mutex<Annotations>>);

impl Notes {
    /// Notes something for events of this level and above.
    pub(crate) fn add(&self, level: Level, key: String, value: String) {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !notes.add(level, key.as_str(), value) {
            tracing::warn!(
                key,
                "an annotation for the audit log has no proper key, or another value already"
            );
        }
    }

    /// What an event of this level shows.
    pub(crate) fn at(&self, level: Level) -> Vec<(String, String)> {
        let notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        notes.at(level).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }
}
