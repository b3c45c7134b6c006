//! The last changes as lines of JSON, made once for all who watch.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::registry::Resource;
use crate::store::Revision;

/// Who watches takes a change soon after it happened, or makes the line for itself.
const KEPT: usize = 16;

/// The lines of the last changes. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines(Arc<Mutex<VecDeque<Line>>>);

#[derive(Debug)]
struct Line {
    revision: Revision,
    /// In the version of which resource the object is told.
    resource: Arc<Resource>,
    bytes: Bytes,
}

impl Lines {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Line>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The line of a change, if somebody has made it.
    pub(super) fn get(&self, revision: Revision, resource: &Arc<Resource>) -> Option<Bytes> {
        let lines = self.lock();
        let same = |line: &&Line| line.revision == revision && Arc::ptr_eq(&line.resource, resource);
        // The newest are asked for most.
        lines.iter().rev().find(same).map(|line| line.bytes.clone())
    }

    /// Keeps a line for others.
    pub(super) fn put(&self, revision: Revision, resource: &Arc<Resource>, bytes: &Bytes) {
        let mut lines = self.lock();
        if lines.len() == KEPT {
            lines.pop_front();
        }
        lines.push_back(Line { revision, resource: resource.clone(), bytes: bytes.clone() });
    }
}
