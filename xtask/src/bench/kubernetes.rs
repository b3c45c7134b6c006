//! How much a test pays for a Kubernetes of its own.

use super::Effort;
use super::figure::{Bar, Figure};
use super::measured::{measure, value};
use crate::run::{cargo, program, succeed, target};

pub(crate) fn run(_: Effort) -> anyhow::Result<Vec<Figure>> {
    succeed(cargo().args(["build", "--quiet", "--workspace", "--example", "peer-kubernetes"]))?;
    let measured = measure(&mut program(target().join("debug/examples/peer-kubernetes")))?;
    let figure = |name: &str, unit, most| {
        let value = value(&measured, name)?;
        Ok(Figure { name: format!("peer_kubernetes_{name}"), value, unit, bar: Bar::AtMost(most) })
    };
    [figure("start", "s", 15.0), figure("stop", "s", 6.0), figure("memory", "MB", 800.0)]
        .into_iter()
        .collect()
}
