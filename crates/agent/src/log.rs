//! The log: lines on standard output in the form that people know from Rancher's agent.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;

use clock::Clock;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// What `CATTLE_LOGLEVEL` may say.
pub fn level(word: &str) -> Option<LevelFilter> {
    Some(match word.to_ascii_lowercase().as_str() {
        "" | "info" => LevelFilter::INFO,
        "trace" => LevelFilter::TRACE,
        "debug" => LevelFilter::DEBUG,
        "warn" | "warning" => LevelFilter::WARN,
        "error" | "fatal" | "panic" => LevelFilter::ERROR,
        _ => return None,
    })
}

/// Writes events as lines. There are no spans.
pub struct Lines {
    level: LevelFilter,
    clock: Arc<dyn Clock>,
}

impl Lines {
    /// Events of this level and worse.
    pub fn new(level: LevelFilter, clock: Arc<dyn Clock>) -> Self {
        Lines { level, clock }
    }

    fn line(&self, event: &Event<'_>) -> String {
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        };
        let second = jiff::Timestamp::from_second(self.clock.now().as_second()).unwrap_or_default();
        let mut values = Values::default();
        event.record(&mut values);
        format!("time=\"{second}\" level={level} msg={:?}{}\n", values.message, values.others)
    }
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("level", &self.level).finish_non_exhaustive()
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        // A log that nobody takes is no reason to stop.
        let _ = std::io::stdout().write_all(self.line(event).as_bytes());
    }
}

#[derive(Default)]
struct Values {
    message: String,
    others: String,
}

impl Visit for Values {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.others, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use clock::ManualClock;

    use super::*;

    #[test]
    fn levels() {
        assert_eq!(level("WARNING"), Some(LevelFilter::WARN));
        assert_eq!(level(""), Some(LevelFilter::INFO));
        assert_eq!(level("loud"), None);
    }

    /// Keeps lines instead of printing them.
    struct Kept(Lines, Arc<Mutex<Vec<String>>>);

    impl Subscriber for Kept {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            self.0.enabled(metadata)
        }
        fn new_span(&self, span: &Attributes<'_>) -> Id {
            self.0.new_span(span)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            self.1.lock().unwrap().push(self.0.line(event));
        }
    }

    #[test]
    fn lines() {
        let clock = Arc::new(ManualClock::at("2026-01-02T03:04:05.678Z".parse().unwrap()));
        let kept = Arc::new(Mutex::new(Vec::new()));
        let subscriber = Kept(Lines::new(LevelFilter::INFO, clock), kept.clone());
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(plan = "x y", code = 3, "a \"word\"\nmore");
            tracing::debug!("not this");
        });
        let line =
            "time=\"2026-01-02T03:04:05Z\" level=info msg=\"a \\\"word\\\"\\nmore\" plan=\"x y\" code=3\n";
        assert_eq!(*kept.lock().unwrap(), [line]);
    }
}
