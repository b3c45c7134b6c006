//! The administrator's way in: a bearer token, kept in `admin.kubeconfig` and nowhere else.

use std::path::{Path, PathBuf};

use apiserver::files;
use clock::Entropy;
use gateway::admin;
use kube::config::Kubeconfig;

use crate::data_dir;

/// The token of the data directory's kubeconfig; a new one if there is none.
pub(crate) fn token(directory: &Path, entropy: &mut dyn Entropy) -> String {
    let kept = std::fs::read_to_string(data_dir::admin_kubeconfig(directory)).ok();
    kept.and_then(|text| admin::token_in(&text)).unwrap_or_else(|| admin::token(entropy))
}

/// Writes the kubeconfig: for this URL, and who vouches for it.
pub(crate) fn write(directory: &Path, url: &str, ca: &str, token: &str) -> Result<PathBuf, files::Error> {
    let path = data_dir::admin_kubeconfig(directory);
    files::replace_secret(&path, admin::kubeconfig(url, ca, token).as_bytes())?;
    Ok(path)
}

/// The port of the server that the data directory's kubeconfig is for.
pub(crate) fn port(directory: &Path) -> Option<u16> {
    let found = Kubeconfig::read_from(data_dir::admin_kubeconfig(directory)).ok()?;
    let server = found.clusters.first()?.cluster.as_ref()?.server.as_deref()?.parse::<http::Uri>().ok()?;
    server.port_u16()
}

#[cfg(test)]
mod tests {
    use clock::SeededEntropy;

    use super::*;

    #[test]
    fn token_and_port_stay() {
        let directory = tempfile::tempdir().unwrap();
        let mut entropy = SeededEntropy::new(1);
        let first = token(directory.path(), &mut entropy);
        assert_eq!(port(directory.path()), None);
        write(directory.path(), "https://a:8443", "-- ca --", &first).unwrap();
        assert_eq!((token(directory.path(), &mut entropy), port(directory.path())), (first, Some(8443)));
    }
}
