//! The two files by which the installer and the agent stay out of each other's way.
//!
//! `restart-pending` is made by the installer (empty) before it restarts the agent: nothing is applied while it is
//! there, for at most five minutes. `applyinator-active` is made by the agent while it applies: the installer waits for
//! it to go.
//!
//! Rancher's agent writes the time at which it first saw `restart-pending` into it, and does not clear an
//! `applyinator-active` that a killed agent left. Here a file may name its owner (`pid=` and `time=` lines, as upstream
//! is about to do); what a process left that is no more does not count. Anything else in a file is a time, or nothing.

use jiff::{SignedDuration, Timestamp};

use crate::gotime;

/// Name of the installer's file.
pub const RESTART_PENDING: &str = "restart-pending";
/// Name of the agent's file.
pub const APPLY_ACTIVE: &str = "applyinator-active";

const RESTART_PENDING_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);

/// What a file says. Both parts may be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interlock {
    /// The process that made it.
    pub pid: Option<u32>,
    /// When it was made, or first seen.
    pub time: Option<Timestamp>,
}

impl Interlock {
    /// Reads a file; never fails.
    pub fn parse(contents: &[u8]) -> Self {
        let text = String::from_utf8_lossy(contents);
        if !text.trim_start().starts_with("pid=") {
            return Interlock { pid: None, time: time(&text) };
        }
        let value =
            |key: &str| text.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='));
        Interlock {
            pid: value("pid").and_then(|pid| pid.trim().parse().ok()),
            time: value("time").and_then(time),
        }
    }

    /// The file's contents. Without an owner it is what Rancher's agent writes.
    pub fn format(&self) -> String {
        let time = self.time.map(gotime::format);
        match (self.pid, time) {
            (None, time) => time.unwrap_or_default(),
            (Some(pid), None) => format!("pid={pid}\n"),
            (Some(pid), Some(time)) => format!("pid={pid}\ntime={time}\n"),
        }
    }

    /// Whether the file was left by a process that is no more. A file without an owner never is: one cannot know.
    pub fn is_stale(&self, alive: impl FnOnce(u32) -> bool) -> bool {
        self.pid.is_some_and(|pid| !alive(pid))
    }
}

fn time(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    gotime::parse(text).or_else(|| text.parse().ok())
}

/// What `restart-pending` means for an apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restart {
    /// It is not there.
    Clear,
    /// It has been there too long, or its owner is gone: remove it, and apply.
    Overdue,
    /// Do not apply until then.
    Pending {
        /// When it is overdue.
        until: Timestamp,
        /// Write this into the file first: it did not say since when it is there.
        note: Option<String>,
    },
}

/// Looks at `restart-pending`. A time in the future is none.
pub fn restart(contents: Option<&[u8]>, now: Timestamp, alive: impl FnOnce(u32) -> bool) -> Restart {
    let Some(contents) = contents else { return Restart::Clear };
    let interlock = Interlock::parse(contents);
    if interlock.is_stale(alive) {
        return Restart::Overdue;
    }
    let deadline = |since: Timestamp| since.checked_add(RESTART_PENDING_TIMEOUT).unwrap_or(Timestamp::MAX);
    match interlock.time.filter(|since| *since <= now) {
        Some(since) if deadline(since) <= now => Restart::Overdue,
        Some(since) => Restart::Pending { until: deadline(since), note: None },
        None => {
            let note = Interlock { time: Some(now), ..interlock }.format();
            Restart::Pending { until: deadline(now), note: Some(note) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    #[test]
    fn contents() {
        let time = at(0);
        let text = gotime::format(time);
        // contents, pid, time
        let table = [
            (String::new(), None, None),
            ("nonsense".into(), None, None),
            (text.clone(), None, Some(time)),
            (format!("{text}\n"), None, Some(time)),
            ("pid=12\n".into(), Some(12), None),
            (format!("pid=12\ntime={text}\n"), Some(12), Some(time)),
            (format!("pid=12\ntime={time}\nhost=x"), Some(12), Some(time)),
            ("pid=x\ntime=y".into(), None, None),
        ];
        for (contents, pid, time) in table {
            let interlock = Interlock::parse(contents.as_bytes());
            assert_eq!(interlock, Interlock { pid, time }, "{contents:?}");
            assert_eq!(Interlock::parse(interlock.format().as_bytes()), interlock, "{contents:?}");
        }
        assert_eq!(Interlock::parse(&[0xff, 0xfe]), Interlock::default());
    }

    #[test]
    fn restarts() {
        let since = gotime::format(at(0));
        let owned = format!("pid=7\ntime={since}\n");
        let first = Restart::Pending { until: at(300), note: Some(gotime::format(at(0))) };
        let waiting = Restart::Pending { until: at(300), note: None };
        // contents, now, owner alive, answer
        let table = [
            (None, 0, true, Restart::Clear),
            (Some(""), 0, true, first.clone()),
            (Some("nonsense"), 0, true, first),
            (Some(since.as_str()), 299, true, waiting.clone()),
            (Some(since.as_str()), 300, true, Restart::Overdue),
            (Some(owned.as_str()), 299, true, waiting),
            (Some(owned.as_str()), 1, false, Restart::Overdue),
        ];
        for (contents, now, alive, answer) in table {
            assert_eq!(
                restart(contents.map(str::as_bytes), at(now), |_| alive),
                answer,
                "{contents:?} at {now}"
            );
        }
        let future = restart(Some(since.as_bytes()), at(-10), |_| true);
        assert!(
            matches!(future, Restart::Pending { note: Some(_), .. }),
            "the clock was set back: {future:?}"
        );
    }
}
