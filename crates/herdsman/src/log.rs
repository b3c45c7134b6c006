//! Log lines on stderr.

use tracing_subscriber::EnvFilter;

/// Starts logging to a file: the terminal is somebody else's.
///
/// # Errors
/// If the file cannot be opened.
pub(crate) fn start_in(path: &std::path::Path) -> std::io::Result<()> {
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    let filter = EnvFilter::try_from_env("HERDSMAN_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(file).init();
    Ok(())
}

/// Starts logging: what `HERDSMAN_LOG` asks for (such as `debug` or `apiserver=trace`), `info` by default.
pub(crate) fn start() {
    let filter = EnvFilter::try_from_env("HERDSMAN_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}
