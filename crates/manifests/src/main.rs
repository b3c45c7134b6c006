//! Writes `deploy/crds` and `deploy/clusterctl` from the API types. `cargo xtask crds` runs it.

mod clusterctl;
mod crds;
#[cfg(test)]
mod unit;

fn main() -> anyhow::Result<()> {
    crds::write_all()
}
