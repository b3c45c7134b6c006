//! Images on a simulated machine: the distributions' installers, and nothing else.

use std::path::Path;
use std::sync::Arc;

use agent::machine::{ImageError, Images, Later};

use crate::distro::{Runtime, Version};
use crate::machine::Machine;

/// In the directory of an installer: the image that it came from.
const MARK: &str = "image";

/// Gives installers.
pub(crate) struct Installers(Arc<Machine>);

impl Installers {
    pub(crate) fn new(machine: Arc<Machine>) -> Self {
        Installers(machine)
    }

    fn stage_now(&self, image: &str, into: &Path) -> Result<(), ImageError> {
        if self.0.faults().no_images {
            return Err(ImageError(format!("{image}: the registry does not answer")));
        }
        if installer(image).is_none() {
            return Err(ImageError(format!("{image}: not found; a simulated machine has installers only")));
        }
        let failed = |error: std::io::Error| ImageError(format!("{image}: {error}"));
        std::fs::create_dir_all(into).map_err(failed)?;
        std::fs::write(into.join("run.sh"), "#!/bin/sh\n").map_err(failed)?;
        std::fs::write(into.join(MARK), image).map_err(failed)
    }
}

impl Images for Installers {
    fn stage<'a>(&'a self, image: &'a str, into: &'a Path) -> Later<'a, Result<(), ImageError>> {
        Box::pin(std::future::ready(self.stage_now(image, into)))
    }
}

/// The installer whose image was put into a directory.
pub(crate) fn staged(directory: &Path) -> Option<(Runtime, Version)> {
    installer(std::fs::read_to_string(directory.join(MARK)).ok()?.trim())
}

/// Which distribution an image installs, and which version of it.
fn installer(image: &str) -> Option<(Runtime, Version)> {
    let (name, tag) = image.rsplit_once(':')?;
    let runtime = name.rsplit('/').next()?.strip_prefix("system-agent-installer-")?;
    let runtime = Runtime::parse(runtime)?;
    Some((runtime, Version::of_tag(runtime, tag)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_images_install_what() {
        let k3s = installer("rancher/system-agent-installer-k3s:v1.34.2-k3s1").unwrap();
        assert_eq!((k3s.0, k3s.1.as_str()), (Runtime::K3s, "v1.34.2+k3s1"));
        let rke2 =
            installer("registry.example:5000/rancher/system-agent-installer-rke2:v1.33.1-rke2r1").unwrap();
        assert_eq!((rke2.0, rke2.1.as_str()), (Runtime::Rke2, "v1.33.1+rke2r1"));
        for image in ["busybox:1", "rancher/system-agent-installer-k3s", "system-agent-installer-k3s:latest"]
        {
            assert!(installer(image).is_none(), "{image}");
        }
    }
}
