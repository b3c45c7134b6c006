use std::sync::Arc;
use std::time::Duration;

use super::Seal;

/// How much a store keeps, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// History older than this goes with the next [`trim`](super::Store::trim).
    pub history_age: Duration,
    /// The oldest history goes with the next [`trim`](super::Store::trim) while all of it takes more than this.
    pub history_bytes: u64,
    /// Changes that are held in memory for watches that resume, at most. Older ones come from the file.
    pub recent_events: usize,
    /// The size of the changes held in memory, at most.
    pub recent_bytes: usize,
    /// Changes that wait for one slow watch, at most. One more, and that watch ends.
    pub watch_buffer: usize,
    /// The size that the file may grow to. Writes beyond it fail as on a full disk.
    pub quota_bytes: Option<u64>,
    /// Which values are encrypted in the file, and how. Memory holds them as they are.
    pub seal: Arc<Seal>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            history_age: Duration::from_secs(24 * 3600),
            history_bytes: 256 << 20,
            recent_events: 16_384,
            recent_bytes: 4 << 20,
            watch_buffer: 4096,
            quota_bytes: None,
            seal: Arc::default(),
        }
    }
}
