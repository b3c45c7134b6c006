//! `cargo xtask crds`: the files under `deploy/` that come from the API types.

use crate::run::{cargo, program, succeed, target};

pub(crate) fn run() -> anyhow::Result<()> {
    // Of the whole workspace: the features that tests are built with.
    succeed(cargo().args(["build", "--quiet", "--workspace", "--bin", "manifests"]))?;
    succeed(&mut program(target().join("debug/manifests")))
}
