use std::time::Duration;

/// What a session may take of memory and patience.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Streams at once, in both directions together.
    pub streams: usize,
    /// Bytes in one `Data` message that we send. Streams take turns, one message each.
    pub chunk: usize,
    /// Bytes of a stream that were written and not sent yet. A writer waits while there are so many.
    pub unsent: usize,
    /// Bytes of a stream that were received and not read yet: above this the sender is asked to pause, ...
    pub pause_above: usize,
    /// ... below this to go on, ...
    pub resume_below: usize,
    /// ... and above this the stream ends with an error. Between lies what was under way when the sender heard of it.
    pub unread: usize,
    /// Messages that are not `Data` and wait to be sent. No more is received while there are so many.
    pub control: usize,
    /// How long a stream may be missing in their lists: longer than what we send is under way.
    pub absent: Duration,
    /// How long a stream that nobody holds any more may take to be rid of its last bytes and to hear the other side's end.
    pub linger: Duration,
    /// How long a stream of which one direction has ended may be silent in the other.
    pub half_closed: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            streams: 16_384,
            // What Go's copying sends at once; a TLS record is half of it.
            chunk: 32 << 10,
            unsent: 256 << 10,
            // Go pauses at twice of this. The rest of `unread` is for what its socket buffers still send.
            pause_above: 1 << 20,
            // Half of it is read while the sender hears that it may go on.
            resume_below: 512 << 10,
            unread: 16 << 20,
            control: 1024,
            absent: Duration::from_secs(10),
            linger: Duration::from_secs(30),
            half_closed: Duration::from_secs(120),
        }
    }
}
