use std::fmt;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::{Event, Stored};

/// A hash over a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogHash(pub [u8; 32]);

impl fmt::Display for LogHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A hash that grows with the log.
#[derive(Clone, Debug, Default)]
pub(super) struct LogHasher(Sha256);

impl LogHasher {
    /// Takes in the next change, every field with its length, so that two logs never read the same.
    pub(super) fn follow(&mut self, event: &Event) {
        let revision_of = |object: Option<&Stored>| object.map_or(0, |object| object.modified.0);
        let expires = event.current.as_ref().and_then(|current| current.expires);
        let numbers = [
            event.revision.0,
            event.time.as_millisecond(),
            revision_of(event.previous.as_deref()),
            revision_of(event.current.as_deref()),
            expires.map_or(-1, Timestamp::as_millisecond),
        ];
        numbers.iter().for_each(|number| self.0.update(number.to_le_bytes()));
        let value = event.current.as_ref().map(|current| current.value()).unwrap_or_default();
        for field in [event.key.as_bytes(), &value] {
            self.0.update(field.len().to_le_bytes());
            self.0.update(field);
        }
    }

    pub(super) fn hash(&self) -> LogHash {
        LogHash(self.0.clone().finalize().into())
    }
}
