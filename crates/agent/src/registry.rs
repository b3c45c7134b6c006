//! Images from local archives and from registries.

use std::path::Path;

use image::{Options, stage};

use crate::config::Config;
use crate::machine::{ImageError, Images, Later, variable};

/// Gets images as the agent's configuration says.
#[derive(Clone)]
pub struct Registry(Options);

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").field("images", &self.0.images).finish_non_exhaustive()
    }
}

impl Registry {
    /// With the files that the configuration names, and the agent's environment: Docker's own configuration and
    /// proxies come from there.
    pub fn new(config: &Config, environment: &[(String, String)]) -> Self {
        let mut options = Options::from_variables(|name| variable(environment, name));
        options.images.clone_from(&config.images_directory);
        // After the agent's own file come those of the distributions.
        if let Some(first) = options.registries.first_mut() {
            first.clone_from(&config.agent_registries_file);
        }
        options.credential_providers =
            Some((config.credential_provider_config.clone(), config.credential_provider_directory.clone()));
        Registry(options)
    }
}

impl Images for Registry {
    fn stage<'a>(&'a self, image: &'a str, into: &'a Path) -> Later<'a, Result<(), ImageError>> {
        Box::pin(async move {
            let staged = stage(&self.0, image, into).await.map_err(|error| ImageError(error.to_string()))?;
            tracing::info!(image, from = staged.source, "image staged");
            Ok(())
        })
    }
}
