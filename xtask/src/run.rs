//! Running programs from the repository's root.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Where cargo builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into)
}

/// A program, to be run at the root.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root());
    command
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// What is measured, and what measures it.
const MEASURED: [&str; 16] = [
    "--bin",
    "herdsman",
    "--bin",
    "apiserver-load",
    "--bin",
    "tunnel-peer",
    "--bin",
    "tunnel-load",
    "--example",
    "decisions",
    "--example",
    "fleet",
    "--example",
    "herd",
    "--example",
    "load",
];

/// The profile of what is given to users, and so of what is measured.
pub(crate) const DIST: &str = "dist";

/// Builds what is measured, all of it at a time, and says where it is.
///
/// Cargo chooses features by what it builds: asked for one after the other, each would have the crates below built anew. The
/// features of all of them together can only make the product larger than what `cargo xtask dist` makes.
pub(crate) fn measured_programs() -> anyhow::Result<PathBuf> {
    succeed(cargo().args(["build", "--profile", DIST, "--quiet", "--workspace"]).args(MEASURED))?;
    Ok(target().join(DIST))
}

/// Runs to success, with the output where ours goes.
pub(crate) fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", line(command)))?;
    if !status.success() {
        bail!("{} failed ({status})", line(command));
    }
    Ok(())
}

/// What a program printed, and whether it succeeded.
pub(crate) struct Transcript {
    pub(crate) success: bool,
    pub(crate) lines: Vec<String>,
}

/// Runs to the end, shows the output as it comes, and gives standard output back.
pub(crate) fn listen(command: &mut Command) -> anyhow::Result<Transcript> {
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start {}", line(command)))?;
    let mut lines = Vec::new();
    for bytes in child.stdout.take().into_iter().flat_map(|stdout| BufReader::new(stdout).split(b'\n')) {
        let text = String::from_utf8_lossy(&bytes?).into_owned();
        println!("{text}");
        lines.push(text);
    }
    Ok(Transcript { success: child.wait()?.success(), lines })
}

/// The command line, for people.
pub(crate) fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_kept_in_lines() {
        let transcript = listen(Command::new("sh").args(["-c", "echo one; echo two; exit 1"])).unwrap();
        assert_eq!(transcript.lines, ["one", "two"]);
        assert!(!transcript.success);
    }

    #[test]
    fn a_failure_names_its_command() {
        let error = succeed(Command::new("/bin/sh").args(["-c", "exit 3"])).unwrap_err().to_string();
        assert!(error.starts_with("sh -c exit 3 failed"), "{error}");
    }

    #[test]
    fn the_root_is_the_workspace() {
        assert!(root().join("Cargo.lock").is_file());
    }
}
