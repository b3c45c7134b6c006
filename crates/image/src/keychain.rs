//! Credentials that are not in `registries.yaml`: kubelet's credential providers, then Docker's own file.
//!
//! Both are asked for the endpoint that a request goes to, so that a registry's password never reaches a mirror of it.

use std::path::PathBuf;

use crate::attempts::Attempt;
use crate::credentials::{Credentials, from_docker};
use crate::provider;

/// Where to look.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keychain {
    /// Docker's `config.json`.
    pub(crate) docker: Option<PathBuf>,
    /// The configuration of credential providers and the directory that they are in.
    pub(crate) providers: Option<(PathBuf, PathBuf)>,
}

impl Keychain {
    /// What there is for the endpoint and repository that are tried. A provider that fails is passed over with a
    /// warning: the image may be public.
    pub(crate) async fn find(&self, attempt: &Attempt) -> Credentials {
        let authority = &attempt.endpoint.authority;
        if let Some((config, programs)) = &self.providers {
            let image = format!("{authority}/{}", attempt.repository);
            match provider::credentials(config, programs, &image).await {
                Ok(Some(auth)) => return Credentials::of(&auth),
                Ok(None) => {}
                Err(error) => tracing::warn!("no credentials for {image} from a provider: {error}"),
            }
        }
        let auth = self.docker.as_deref().and_then(|config| from_docker(config, authority));
        auth.map_or(Credentials::Anonymous, |auth| Credentials::of(&auth))
    }
}
