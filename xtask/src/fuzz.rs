//! `cargo xtask fuzz`: every fuzz target for a while.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context, bail, ensure};

use crate::report::{Report, Skips, Verdict};
use crate::run::{program, root, succeed};
use crate::tools::CARGO_FUZZ;

/// How long each target runs if nothing else is asked for.
const SECONDS: u32 = 60;

/// The most memory that a target may take: what is asked for a few bytes must not grow without end.
const MEGABYTES: u32 = 2048;

/// The most seconds that one input may take: far more than any should, as the machine may be busy with others.
const ONE_INPUT: u32 = 25;

/// The compiler that can build with a sanitizer.
const NIGHTLY: &str = "nightly";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How long each target runs.
    #[arg(long, default_value_t = SECONDS)]
    seconds: u32,
    /// Only these targets.
    targets: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut report = Report::new(Skips::Forbidden);
    report.suite("fuzz", || fuzz(arguments.seconds, &arguments.targets));
    report.close()
}

fn fuzz(seconds: u32, only: &[String]) -> anyhow::Result<Verdict> {
    let manifest = std::fs::read_to_string(root().join("fuzz/Cargo.toml")).context("the fuzz workspace")?;
    let all = targets(&manifest);
    let chosen = chosen(&all, only)?;
    let sanitizer = Sanitizer::best();
    let built = build(sanitizer, &chosen, chosen.len() == all.len())?;
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    let mut waiting: VecDeque<&str> = chosen.iter().copied().collect();
    let mut running: VecDeque<(&str, Child)> = VecDeque::new();
    // What one target finds is no reason to leave the others: a run takes hours.
    let mut found = Vec::new();
    while !waiting.is_empty() || !running.is_empty() {
        while running.len() < at_once
            && let Some(name) = waiting.pop_front()
        {
            println!("fuzz {name} for {seconds} s");
            running.push_back((name, start(sanitizer, &built, name, seconds)?));
        }
        if let Some((name, child)) = running.pop_front() {
            found.extend(finish(name, child)?);
        }
    }
    ensure!(found.is_empty(), "{}", found.join("\n\n"));
    Ok(Verdict::Ran(format!("{} targets, {seconds} s each, {}", chosen.len(), sanitizer.words())))
}

/// Those that are asked for; all if none are.
fn chosen<'a>(all: &[&'a str], only: &[String]) -> anyhow::Result<Vec<&'a str>> {
    if let Some(unknown) = only.iter().find(|only| !all.contains(&only.as_str())) {
        bail!("no target {unknown:?}; there are: {}", all.join(", "));
    }
    let is_chosen = |name: &&&str| only.is_empty() || only.iter().any(|only| only == **name);
    Ok(all.iter().filter(is_chosen).copied().collect())
}

/// What watches over memory while a target runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sanitizer {
    None,
    /// It also sees what the C libraries below do wrong.
    Address,
}

impl Sanitizer {
    /// One needs a nightly compiler.
    fn best() -> Self {
        let nightly = Command::new("rustup").args(["run", NIGHTLY, "rustc", "--version"]).output();
        match nightly {
            Ok(output) if output.status.success() => Sanitizer::Address,
            _ => Sanitizer::None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Sanitizer::None => "none",
            Sanitizer::Address => "address",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Sanitizer::None => "without a sanitizer (no nightly compiler)",
            Sanitizer::Address => "with the address sanitizer",
        }
    }
}

/// Builds targets; gives where they are.
fn build(sanitizer: Sanitizer, targets: &[&str], is_all: bool) -> anyhow::Result<PathBuf> {
    // One for each: their flags differ.
    let directory = root().join("fuzz/target").join(sanitizer.name());
    let builder = CARGO_FUZZ.provide()?;
    let build = |target: Option<&str>| {
        let mut build = program(&builder);
        build.args(["build", "--sanitizer", sanitizer.name(), "--target-dir"]).arg(&directory).args(target);
        if sanitizer == Sanitizer::Address {
            build.env("RUSTUP_TOOLCHAIN", NIGHTLY).env_remove("CARGO").env_remove("RUSTC");
        }
        succeed(&mut build)
    };
    // One call takes one target or all of them, which is a wait of half an hour.
    match is_all {
        true => build(None)?,
        false => targets.iter().try_for_each(|target| build(Some(target)))?,
    }
    Ok(directory.join(host()?).join("release"))
}

/// The machine that the compiler builds for.
fn host() -> anyhow::Result<String> {
    let output = Command::new("rustc").args(["--print", "host-tuple"]).output().context("rustc")?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn start(sanitizer: Sanitizer, built: &Path, name: &str, seconds: u32) -> anyhow::Result<Child> {
    let corpus = root().join("fuzz/corpus").join(name);
    let artifacts = root().join("fuzz/artifacts").join(name);
    for directory in [&corpus, &artifacts] {
        std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    }
    let log = std::fs::File::create(artifacts.join("log"))?;
    let mut target = program(built.join(name));
    target
        .arg(corpus)
        .arg(format!("-seed_inputs={}", root().join("fuzz/seeds").join(name).display()))
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={ONE_INPUT}"))
        .arg(format!("-rss_limit_mb={MEGABYTES}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .stderr(log);
    if sanitizer == Sanitizer::Address {
        // SQLite has two tables of one name in one file, each in a function of its own.
        target.env("ASAN_OPTIONS", "detect_odr_violation=0");
    }
    target.spawn().with_context(|| format!("cannot start {name}"))
}

/// Waits for the end of a target. What it found, if it did not end well.
fn finish(name: &str, mut child: Child) -> anyhow::Result<Option<String>> {
    if child.wait()?.success() {
        return Ok(None);
    }
    let artifacts = root().join("fuzz/artifacts").join(name);
    let log = std::fs::read(artifacts.join("log")).unwrap_or_default();
    let tail = &log[log.len().saturating_sub(4000)..];
    let found = format!("{name}: {}\n{}", artifacts.display(), String::from_utf8_lossy(tail));
    println!("{found}");
    Ok(Some(found))
}

/// The targets that a manifest has.
fn targets(manifest: &str) -> Vec<&str> {
    let of_targets = manifest.split("[[bin]]").skip(1);
    of_targets.filter_map(|target| target.split("name = \"").nth(1)?.split('"').next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_the_programs_of_the_manifest() {
        let manifest =
            "[package]\nname = \"fuzz\"\n[[bin]]\nname = \"a\"\npath = \"x\"\n[[bin]]\nname = \"b\"\n";
        assert_eq!(targets(manifest), ["a", "b"]);
    }

    #[test]
    fn targets_are_chosen_by_name() {
        let all = ["a", "b", "c"];
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(chosen(&all, &[]).unwrap(), all);
        assert_eq!(chosen(&all, &names(&["c", "a"])).unwrap(), ["a", "c"]);
        let error = chosen(&all, &names(&["a", "d"])).unwrap_err().to_string();
        assert_eq!(error, "no target \"d\"; there are: a, b, c");
    }
}
