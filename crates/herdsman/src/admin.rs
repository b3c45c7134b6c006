//! The administrator's way in: a bearer token, kept in `admin.kubeconfig` and nowhere else.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use apiserver::auth::Tokens;
use apiserver::files;
use apiserver::pki::ADMIN;
use clock::Entropy;
use kube::config::Kubeconfig;
use kubeapi::authn::{MASTERS, User};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::data_dir;

/// What an administrator's token begins with.
const PREFIX: &str = "hadm_";

/// Knows the administrator.
pub(crate) struct Admin {
    hash: [u8; 32],
    token: String,
}

impl Admin {
    /// With the token of the data directory's kubeconfig, or with a new one. [`Admin::write`] keeps it.
    pub(crate) fn open(directory: &Path, entropy: &mut dyn Entropy) -> Self {
        let token = kept(&data_dir::admin_kubeconfig(directory))
            .unwrap_or_else(|| format!("{PREFIX}{}", api::names::token(entropy)));
        Admin { hash: Sha256::digest(&token).into(), token }
    }

    /// Writes the kubeconfig: for this URL, and who vouches for it.
    pub(crate) fn write(&self, directory: &Path, url: &str, ca: &str) -> anyhow::Result<PathBuf> {
        let path = data_dir::admin_kubeconfig(directory);
        files::replace_secret(&path, self.kubeconfig(url, ca)?.as_bytes())?;
        Ok(path)
    }

    fn kubeconfig(&self, url: &str, ca: &str) -> anyhow::Result<String> {
        use base64::Engine as _;
        let mut cluster = json!({"server": url});
        if !ca.is_empty() {
            cluster["certificate-authority-data"] =
                base64::engine::general_purpose::STANDARD.encode(ca).into();
        }
        let document = json!({
            "apiVersion": "v1", "kind": "Config",
            "clusters": [{"name": "herdsman", "cluster": cluster}],
            "users": [{"name": ADMIN, "user": {"token": self.token}}],
            "contexts": [{"name": "herdsman", "context": {"cluster": "herdsman", "user": ADMIN}}],
            "current-context": "herdsman",
        });
        Ok(serde_saphyr::to_string(&document)?)
    }

    fn is_good(&self, token: &str) -> bool {
        let hash: [u8; 32] = Sha256::digest(token).into();
        // All of it is compared, whatever is found: the time tells nothing.
        hash.iter().zip(&self.hash).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
    }
}

/// The token of a kubeconfig that we wrote.
fn kept(path: &Path) -> Option<String> {
    let found = Kubeconfig::read_from(path).ok()?;
    let written = serde_json::to_value(&found.auth_infos).ok()?;
    let token = written[0]["user"]["token"].as_str()?.to_owned();
    token.starts_with(PREFIX).then_some(token)
}

/// The administrator, and whom somebody else knows.
pub(crate) struct AdminAnd<T>(pub(crate) Arc<Admin>, pub(crate) T);

impl<T: Tokens> Tokens for AdminAnd<T> {
    fn holder<'a>(
        &'a self,
        token: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<User>, String>> + Send + 'a>> {
        if token.starts_with(PREFIX) && self.0.is_good(token) {
            let user = User { name: ADMIN.into(), groups: vec![MASTERS.into()], ..User::default() };
            return Box::pin(std::future::ready(Ok(Some(user))));
        }
        self.1.holder(token)
    }
}

#[cfg(test)]
mod tests {
    use clock::SeededEntropy;

    use super::*;

    #[test]
    fn the_token_stays_and_is_the_only_good_one() {
        let directory = tempfile::tempdir().unwrap();
        let mut entropy = SeededEntropy::new(1);
        let first = Admin::open(directory.path(), &mut entropy);
        first.write(directory.path(), "https://a", "-- ca --").unwrap();
        let second = Admin::open(directory.path(), &mut entropy);
        assert_eq!(first.token, second.token);
        assert!(second.is_good(&first.token) && !second.is_good("hadm_x"));
        let other = Admin::open(&directory.path().join("other"), &mut entropy);
        assert_ne!(first.token, other.token);
    }
}
