//! Between requests and the disk: events wait here, and no request does.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::Output;
use super::output::Writer;

/// Events that wait, at most: a few seconds of a busy server.
const EVENTS: usize = 10_000;

/// The bytes of events that wait, at most: with bodies, a few of them are large.
const BYTES: usize = 64 << 20;

/// Events that are written in one go, at most.
const BATCH: usize = 256;

/// A queue that a thread of its own writes out.
pub(super) struct Queue {
    /// Taken when the log ends: the thread writes what waits, and ends too.
    sender: Option<SyncSender<Vec<u8>>>,
    counters: Arc<Counters>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Counters {
    /// Bytes that wait.
    waiting: AtomicUsize,
    dropped: AtomicU64,
}

impl Queue {
    pub(super) fn start(output: &Output) -> io::Result<Self> {
        let writer = Writer::open(output)?;
        let (sender, receiver) = sync_channel(EVENTS);
        let counters: Arc<Counters> = Arc::default();
        let shared = counters.clone();
        let thread = std::thread::Builder::new().name("audit-log".into());
        let thread = thread.spawn(move || write_out(&receiver, writer, &shared))?;
        Ok(Queue { sender: Some(sender), counters, thread: Some(thread) })
    }

    pub(super) fn dropped(&self) -> u64 {
        self.counters.dropped.load(Ordering::Relaxed)
    }

    /// Takes an event to be written, or drops it if too many wait.
    pub(super) fn push(&self, line: Vec<u8>) {
        let bytes = line.len();
        let waiting = self.counters.waiting.fetch_add(bytes, Ordering::Relaxed);
        let is_taken =
            waiting <= BYTES && self.sender.as_ref().is_some_and(|sender| sender.try_send(line).is_ok());
        if !is_taken {
            self.counters.waiting.fetch_sub(bytes, Ordering::Relaxed);
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.sender = None;
        // One that panicked has already said so.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write_out(receiver: &Receiver<Vec<u8>>, mut writer: Writer, counters: &Counters) {
    let mut told = 0;
    while let Ok(first) = receiver.recv() {
        // What waits already goes out together.
        let lines: Vec<Vec<u8>> = std::iter::once(first).chain(receiver.try_iter().take(BATCH)).collect();
        let batch = lines.concat();
        if let Err(error) = writer.write(&batch) {
            counters.dropped.fetch_add(lines.len() as u64, Ordering::Relaxed);
            tracing::debug!(%error, "audit events could not be written");
        }
        counters.waiting.fetch_sub(batch.len(), Ordering::Relaxed);
        let dropped = counters.dropped.load(Ordering::Relaxed);
        if dropped > told {
            tracing::warn!(dropped, "audit events could not be written, or not in time: they are lost");
            told = dropped;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue that nobody empties.
    fn stuck() -> (Queue, Receiver<Vec<u8>>) {
        let (sender, receiver) = sync_channel(EVENTS);
        (Queue { sender: Some(sender), counters: Arc::default(), thread: None }, receiver)
    }

    #[test]
    fn what_is_too_much_is_dropped_and_counted() {
        let (queue, receiver) = stuck();
        (0..EVENTS + 5).for_each(|_| queue.push(b"x".to_vec()));
        assert_eq!((queue.dropped(), receiver.try_iter().count()), (5, EVENTS));

        let (queue, receiver) = stuck();
        (0..70).for_each(|_| queue.push(vec![0; 1 << 20]));
        let kept = receiver.try_iter().count();
        assert!((64..70).contains(&kept), "{kept}");
        assert_eq!(queue.dropped(), 70 - kept as u64);
    }
}
