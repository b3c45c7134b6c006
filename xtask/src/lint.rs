//! `cargo xtask lint`: everything that can be checked without running the product.

mod layout;

use std::path::PathBuf;

use anyhow::Context;

use crate::report::{Report, Skips, Verdict};
use crate::run::{cargo, program, root, succeed};
use crate::tools::{CARGO_DENY, CARGO_MACHETE};

pub(crate) fn run() -> anyhow::Result<()> {
    // The one check that may be left out says so: a database that cannot be fetched must not stop all work.
    let mut report = Report::new(Skips::Allowed);
    report.suite("format", || cargo_does(&["fmt", "--all", "--check"]));
    report.suite("clippy", || {
        cargo_does(&["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"])
    });
    report.suite("rustdoc", rustdoc);
    report.suite("dependencies", || deny(&["bans", "licenses", "sources"]));
    report.suite("advisories", advisories);
    report.suite("unused", unused_dependencies);
    report.suite("layout", || layout::check(&root()));
    report.close()
}

fn cargo_does(arguments: &[&str]) -> anyhow::Result<Verdict> {
    succeed(cargo().args(arguments))?;
    Ok(Verdict::Ran(String::new()))
}

fn rustdoc() -> anyhow::Result<Verdict> {
    let mut doc = cargo();
    doc.args(["doc", "--quiet", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
    succeed(&mut doc)?;
    Ok(Verdict::Ran(String::new()))
}

fn deny(checks: &[&str]) -> anyhow::Result<Verdict> {
    let mut deny = program(CARGO_DENY.provide()?);
    succeed(deny.args(["--all-features", "check", "--hide-inclusion-graph"]).args(checks))?;
    Ok(Verdict::Ran(checks.join(", ")))
}

/// The database is a git repository of its own that not every machine reaches.
fn advisories() -> anyhow::Result<Verdict> {
    let databases = cargo_home()?.join("advisory-dbs");
    let fetched = || Some(databases.read_dir().ok()?.flatten().any(|entry| entry.path().is_dir()));
    if fetched() != Some(true) {
        let place = databases.display();
        return Ok(Verdict::Skipped(format!(
            "no advisory database in {place} (`cargo deny fetch db` gets it)"
        )));
    }
    let mut deny = program(CARGO_DENY.provide()?);
    succeed(deny.args(["--offline", "--all-features", "check", "--hide-inclusion-graph", "advisories"]))?;
    Ok(Verdict::Ran(String::new()))
}

fn cargo_home() -> anyhow::Result<PathBuf> {
    let given = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    given.or_else(|| std::env::home_dir().map(|home| home.join(".cargo"))).context("no home directory")
}

fn unused_dependencies() -> anyhow::Result<Verdict> {
    succeed(program(CARGO_MACHETE.provide()?).args(["--skip-target-dir", "."]))?;
    Ok(Verdict::Ran(String::new()))
}
