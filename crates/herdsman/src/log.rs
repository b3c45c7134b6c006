//! Log lines. What controllers say bears the cluster and the machine that it is about.

use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Starts logging to a file: the terminal is somebody else's.
///
/// # Errors
/// If the file cannot be opened.
pub(crate) fn start_in(path: &Path) -> std::io::Result<()> {
    begin(open(path)?, Some(false));
    Ok(())
}

/// Opens a log that nobody else may read.
fn open(path: &Path) -> std::io::Result<std::fs::File> {
    let file = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    // One that an earlier version made may be readable by others.
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Starts logging to stderr.
pub(crate) fn start() {
    begin(std::io::stderr, None);
}

/// What `HERDSMAN_LOG` asks for (such as `debug` or `apiserver=trace`), `info` by default; as JSON if
/// `HERDSMAN_LOG_FORMAT` is `json`.
fn begin(writer: impl for<'a> MakeWriter<'a> + Send + Sync + 'static, colours: Option<bool>) {
    let filter = EnvFilter::try_from_env("HERDSMAN_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    let lines = match colours {
        Some(colours) => lines.with_ansi(colours),
        None => lines,
    };
    match std::env::var("HERDSMAN_LOG_FORMAT").is_ok_and(|format| format == "json") {
        true => lines.json().flatten_event(true).with_span_list(false).init(),
        false => lines.init(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_for_nobody_else() {
        let directory = tempfile::tempdir().unwrap();
        let (new, old) = (directory.path().join("new.log"), directory.path().join("old.log"));
        std::fs::write(&old, "before\n").unwrap();
        std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o644)).unwrap();
        for path in [&new, &old] {
            let file = open(path).unwrap();
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
        }
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "before\n");
    }
}
