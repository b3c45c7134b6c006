//! The audit log's part of the command line.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::apiserver::audit::{Audit, Output, Rotation};
use anyhow::Context as _;
use clock::Clock;
use kubeapi::audit::{Level, Policy};

/// What can be said of the audit log. The names are upstream's.
#[derive(Debug, clap::Args)]
pub(crate) struct AuditArguments {
    /// Where requests are logged, as lines of JSON; `-` for stdout. Without it nothing is
    #[arg(long, value_name = "FILE")]
    audit_log_path: Option<PathBuf>,
    /// What is logged: a Policy of audit.k8s.io/v1. Without it, the metadata of every request when it is over
    #[arg(long, value_name = "FILE", requires = "audit_log_path")]
    audit_policy_file: Option<PathBuf>,
    /// Begin a new file before this one has more megabytes
    #[arg(long, value_name = "MEGABYTES", default_value_t = 100)]
    audit_log_maxsize: u64,
    /// Keep so many older files
    #[arg(long, value_name = "FILES", default_value_t = 10)]
    audit_log_maxbackup: usize,
}

impl AuditArguments {
    /// Begins the log, if there is to be one.
    pub(crate) fn start(&self, clock: &Arc<dyn Clock>) -> anyhow::Result<Option<Arc<Audit>>> {
        let Some(path) = &self.audit_log_path else { return Ok(None) };
        let policy = match &self.audit_policy_file {
            None => Policy::everything(Level::Metadata),
            Some(file) => read(file).with_context(|| format!("the audit policy {}", file.display()))?,
        };
        let rotation = Rotation {
            most_bytes: self.audit_log_maxsize.saturating_mul(1 << 20),
            kept_files: self.audit_log_maxbackup,
        };
        let output = match path.as_os_str() == "-" {
            true => Output::Stdout,
            false => Output::File(path.clone(), rotation),
        };
        let audit = Audit::start(policy, &output, clock.clone());
        Ok(Some(Arc::new(audit.with_context(|| format!("cannot write the audit log {}", path.display()))?)))
    }
}

fn read(file: &Path) -> anyhow::Result<Policy> {
    let text = std::fs::read_to_string(file).context("cannot be read")?;
    let object: serde_json::Value = serde_saphyr::from_str(&text).context("is not YAML")?;
    Ok(Policy::parse(&object)?)
}
