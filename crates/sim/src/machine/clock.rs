//! A machine's clock, which may be wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use clock::{Clock, Monotonic};
use jiff::{SignedDuration, Timestamp};

/// The world's time, off by something.
pub(crate) struct MachineClock {
    real: Arc<dyn Clock>,
    milliseconds: AtomicI64,
}

impl MachineClock {
    pub(crate) fn new(real: Arc<dyn Clock>) -> Self {
        MachineClock { real, milliseconds: AtomicI64::new(0) }
    }

    pub(crate) fn set_off(&self, by: SignedDuration) {
        let milliseconds = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.milliseconds.store(milliseconds, Ordering::Relaxed);
    }
}

impl Clock for MachineClock {
    fn now(&self) -> Timestamp {
        let off = SignedDuration::from_millis(self.milliseconds.load(Ordering::Relaxed));
        let now = self.real.now();
        now.checked_add(off).unwrap_or(now)
    }

    fn monotonic(&self) -> Monotonic {
        self.real.monotonic()
    }
}
