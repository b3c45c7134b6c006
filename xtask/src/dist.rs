//! `cargo xtask dist`: what is put on machines, as servers give it out, and with `--all` everything that a release has.
//!
//! `target/dist` has the agent, linked to nothing, under the name that `install.sh` asks for, with its checksum, and
//! both scripts; with `--all` also the product, its systemd unit, the images ([`crate::image`]) and the checksums of all.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use peers::archive::sha256;

use crate::run::{DIST, cargo, program, root, succeed, target};

/// What the agent is built for.
const TARGET: &str = "x86_64-unknown-linux-musl";
/// What its machines call themselves.
const ARCHITECTURE: &str = "amd64";

/// The product's unit, the user that it runs as, and what the driver docker needs beside it.
const UNIT: [&str; 3] = ["herdsman.service", "herdsman.sysusers", "herdsman-docker.conf"];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Everything that a release has: the product too, images, checksums
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let agent = build()?;
    say("dist", &agent)?;
    if !arguments.all {
        return Ok(());
    }
    let directory = directory()?;
    let product = directory.join(format!("herdsman-{ARCHITECTURE}"));
    put(&product, &fs::read(build_product()?)?, 0o755)?;
    let mut files = vec![agent, product];
    for name in UNIT {
        let file = directory.join(name);
        put(&file, &fs::read(root().join("deploy/systemd").join(name))?, 0o644)?;
        files.push(file);
    }
    files.extend(crate::image::build(crate::image::Which::All)?);
    let sums = directory.join("SHA256SUMS");
    put(&sums, checksums(&files)?.as_bytes(), 0o644)?;
    files.iter().skip(1).chain([&sums]).try_for_each(|file| say("dist", file))
}

/// Prints where something is and how large it is.
pub(crate) fn say(what: &str, file: &Path) -> anyhow::Result<()> {
    println!("{what} {} ({:.1} MB)", file.display(), megabytes(fs::metadata(file)?.len()));
    Ok(())
}

/// As `sha256sum --check` reads them.
fn checksums(files: &[PathBuf]) -> anyhow::Result<String> {
    let line = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(format!("{}  {name}\n", sha256(&fs::read(file)?)))
    };
    files.iter().map(line).collect()
}

/// Where everything goes.
pub(crate) fn directory() -> anyhow::Result<PathBuf> {
    let directory = target().join("dist");
    fs::create_dir_all(&directory)?;
    Ok(directory)
}

/// The product, linked to nothing.
pub(crate) fn build_product() -> anyhow::Result<PathBuf> {
    provide_target()?;
    let mut build = static_build("herdsman", "herdsman");
    succeed(build.args(["--profile", DIST]))?;
    linked_to_nothing(target().join(TARGET).join(DIST).join("herdsman"))
}

fn linked_to_nothing(program: PathBuf) -> anyhow::Result<PathBuf> {
    let bytes = fs::read(&program).with_context(|| program.display().to_string())?;
    ensure!(!needs_interpreter(&bytes)?, "{} is not static", program.display());
    Ok(program)
}

/// The directory with all of it, and the agent in it.
pub(crate) fn build() -> anyhow::Result<PathBuf> {
    provide_target()?;
    let mut build = static_build("agent", "herdsman-agent");
    succeed(build.args(["--profile", "agent"]))?;
    let directory = directory()?;
    let built = linked_to_nothing(target().join(TARGET).join("agent/herdsman-agent"))?;
    let bytes = fs::read(&built)?;
    let agent = directory.join(format!("rancher-system-agent-{ARCHITECTURE}"));
    put(&agent, &bytes, 0o755)?;
    let name = agent.file_name().unwrap_or_default().to_string_lossy();
    put(
        &directory.join(format!("{name}.sha256")),
        format!("{}  {name}\n", sha256(&bytes)).as_bytes(),
        0o644,
    )?;
    for (from, to) in
        [("install.sh", "system-agent-install.sh"), ("uninstall.sh", "system-agent-uninstall.sh")]
    {
        put(&directory.join(to), &fs::read(root().join("crates/agent/install").join(from))?, 0o755)?;
    }
    Ok(agent)
}

/// The standard library for the target, fetched by rustup if it is not there.
fn provide_target() -> anyhow::Result<()> {
    // Two of rustup at a time take each other's files away, and what one has begun is not there yet. The lock goes with the value.
    let place = std::env::temp_dir().join("herdsman-rustup.lock");
    let turn = fs::File::create(&place).with_context(|| place.display().to_string())?;
    turn.lock()?;
    if has_target()? {
        return Ok(());
    }
    succeed(program("rustup").args(["target", "add", TARGET]))
        .with_context(|| format!("no standard library for {TARGET}"))
}

fn has_target() -> anyhow::Result<bool> {
    let mut ask = program("rustc");
    let directory = peers::command::run(ask.args(["--print", "target-libdir", "--target", TARGET]))?;
    Ok(Path::new(directory.trim()).is_dir())
}

fn static_build(package: &str, program: &str) -> Command {
    let mut build = cargo();
    build.args(["build", "--quiet", "--package", package, "--bin", program, "--target", TARGET]);
    // Cryptography is C. Any compiler for Linux will do, as long as it does not call what only glibc has.
    for (variable, value) in
        [("CC_x86_64_unknown_linux_musl", "cc"), ("CFLAGS_x86_64_unknown_linux_musl", "-U_FORTIFY_SOURCE")]
    {
        if std::env::var_os(variable).is_none() {
            build.env(variable, value);
        }
    }
    build
}

/// Whole or not at all: somebody may be reading it, and another may be writing it as tests run side by side.
fn put(path: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    let new = tempfile::NamedTempFile::new_in(path.parent().context("no directory")?)?;
    fs::write(new.path(), bytes)?;
    fs::set_permissions(new.path(), fs::Permissions::from_mode(mode))?;
    new.persist(path)?;
    Ok(())
}

/// Whether a 64-bit ELF program wants a dynamic loader.
fn needs_interpreter(elf: &[u8]) -> anyhow::Result<bool> {
    const PT_INTERP: usize = 3;
    let field = |at: usize, length: usize| elf.get(at..at + length).context("not an ELF file");
    ensure!(field(0, 5)? == b"\x7fELF\x02", "not a 64-bit ELF file");
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0usize, |sum, byte| sum << 8 | usize::from(*byte));
    let (start, size, count) = (number(field(0x20, 8)?), number(field(0x36, 2)?), number(field(0x38, 2)?));
    for index in 0..count {
        if number(field(start + index * size, 4)?) == PT_INTERP {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Of a million bytes.
pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_as_their_tool_reads_them() {
        let sums = checksums(&["/etc/hostname".into()]);
        let line = sums.unwrap();
        assert!(line.ends_with("  hostname\n") && line.split(' ').next().unwrap().len() == 64, "{line}");
    }

    #[test]
    fn programs_that_need_a_loader_are_told() {
        let shell = fs::read("/bin/sh").unwrap();
        assert!(needs_interpreter(&shell).unwrap());
        let mut patched = shell;
        let start = usize::try_from(u64::from_le_bytes(patched[0x20..0x28].try_into().unwrap())).unwrap();
        let count = usize::from(u16::from_le_bytes(patched[0x38..0x3a].try_into().unwrap()));
        for header in (0..count).map(|index| start + index * 56) {
            if patched[header] == 3 {
                patched[header] = 0;
            }
        }
        assert!(!needs_interpreter(&patched).unwrap());
        assert!(needs_interpreter(b"#!/bin/sh").is_err());
    }
}
