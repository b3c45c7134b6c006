//! Log lines on stderr.

use tracing_subscriber::EnvFilter;

/// Starts logging: what `HERDSMAN_LOG` asks for (such as `debug` or `apiserver=trace`), `info` by default.
pub(crate) fn start() {
    let filter = EnvFilter::try_from_env("HERDSMAN_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}
