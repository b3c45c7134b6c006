//! Tokens of kubeconfigs: each is good for one cluster's proxy, and for nothing else.
//!
//! The control plane controller makes them and keeps each in the Secret `<cluster>-kubeconfig`, for Cluster API's tools and for users.
//! A Secret counts only as that of the provisioning cluster whose name and namespace it has, and a cluster is reached only by the Secret
//! of the provisioning cluster that its management Cluster was made for. Deleting the Secret ends its token.

use std::sync::Arc;

use api::catalogue::secrets::keys;
use api::names::kubeconfig_secret;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kit::{Cache, Caches, Key};

use crate::book;
use crate::credential::Hash;
use crate::lineage::Lineage;

/// What such a token begins with; the cluster's id and a colon follow.
const PREFIX: &str = "kubeconfig-";

/// Knows them.
#[derive(Clone, Debug)]
pub(crate) struct Kubeconfigs {
    secrets: Arc<Cache>,
    lineage: Lineage,
}

impl Kubeconfigs {
    pub(crate) fn new(caches: &Caches) -> Self {
        Kubeconfigs { secrets: caches.of(&book::secrets()), lineage: Lineage::new(caches) }
    }

    /// Whether a token opens the proxy of a cluster.
    pub(crate) fn opens(&self, token: &str, id: &str) -> bool {
        named(token) == Some(id)
            // Hashes are compared: how long it takes tells nothing of the token.
            && self.kept(id).is_some_and(|kept| Hash::of(&kept) == Hash::of(token))
    }

    /// The token of a cluster's kubeconfig.
    fn kept(&self, id: &str) -> Option<String> {
        let cluster = self.lineage.cluster(id)?;
        let key = Key::new(cluster.namespace(), &kubeconfig_secret(cluster.name()));
        let secret = self.secrets.get(&key)?;
        let value = STANDARD.decode(secret.document()["data"][keys::TOKEN].as_str()?).ok()?;
        String::from_utf8(value).ok().filter(|token| !token.is_empty())
    }
}

/// The cluster that a token says it is for.
fn named(token: &str) -> Option<&str> {
    Some(token.strip_prefix(PREFIX)?.split_once(':')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_cluster() {
        assert_eq!(named("kubeconfig-c-m-abc:secret"), Some("c-m-abc"));
        for other in ["kubeconfig-c-m-abc", "c-m-abc:secret", "", "hat_x:y"] {
            assert_eq!(named(other), None, "{other}");
        }
    }
}
