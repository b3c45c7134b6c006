//! Release data: which arguments the versions of RKE2 and K3s take.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use controllers::controlplane::Releases;

/// What can be said on the command line.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct ReleaseArguments {
    /// Which arguments distributions take: a file in the format of Rancher's release metadata (data.json). Versions that it does
    /// not list, and all without it, go by a table of our own
    #[arg(long, value_name = "FILE", env = "HERDSMAN_RELEASE_DATA")]
    release_data: Option<PathBuf>,
}

impl ReleaseArguments {
    /// Reads the file, if there is one.
    pub(crate) fn read(&self) -> anyhow::Result<Arc<Releases>> {
        let Some(path) = &self.release_data else { return Ok(Arc::default()) };
        let place = path.display();
        let bytes = std::fs::read(path).with_context(|| format!("--release-data: cannot read {place}"))?;
        let releases = Releases::parse(&bytes);
        Ok(Arc::new(releases.with_context(|| format!("--release-data: {place} cannot be used"))?))
    }
}
