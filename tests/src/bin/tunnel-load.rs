//! Measures our tunnel, Go's and a plain websocket under the same load; `cargo xtask bench tunnel` builds and runs it.

use anyhow::{Context, Result};
use suites::tunnel::bench::{Plan, run};
use suites::tunnel::program::Programs;

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let ours = words.next().context("usage: tunnel-load <tunnel-peer> [--quick]")?;
    let plan = if words.next().as_deref() == Some("--quick") { Plan::QUICK } else { Plan::WHOLE };
    let programs = Programs::new(ours)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run(&programs, plan, |line| println!("{line}")))
}
