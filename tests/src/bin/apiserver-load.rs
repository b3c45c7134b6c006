//! Measures `herdsman apiserver` and a real kube-apiserver with etcd under the same load; `cargo xtask bench apiserver`
//! builds and runs it.

use std::path::PathBuf;

use anyhow::{Context, Result};
use suites::load::{Part, Plan, run};

const USAGE: &str = "usage: apiserver-load [--quick] <herdsman> [empty-starts|lists|events|everything]...";

fn main() -> Result<()> {
    let (options, words): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word.starts_with("--"));
    let (herdsman, parts) = words.split_first().context(USAGE)?;
    let parts: Option<Vec<Part>> = parts.iter().map(|part| Part::named(part)).collect();
    let parts = parts.context(USAGE)?;
    let parts = if parts.is_empty() { Part::ALL.to_vec() } else { parts };
    let plan = if options == ["--quick"] { Plan::QUICK } else { Plan::WHOLE };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let herdsman = PathBuf::from(herdsman).canonicalize()?;
    runtime.block_on(run(plan, &parts, &herdsman, |pair| println!("{pair}")))
}
