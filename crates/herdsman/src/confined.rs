//! `herdsman confined`: a program that sees no more of this machine than it needs, and gains no rights. The server starts drivers by it.
//!
//! What is not allowed is taken from the process by itself, before it becomes the program: `unsafe` code between fork and exec is not needed.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, bail};
use landlock::{
    ABI, Access as _, AccessFs, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
    path_beneath_rules,
};
use rustix::process::{Resource, Rlimit, setrlimit};

/// What is asked of the kernel; an older one is asked for what it knows.
const VERSION: ABI = ABI::V6;

/// What every program may read and run: the system's programs, and how names and certificates are found.
const SYSTEM: [&str; 29] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/run/current-system",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssh/ssh_config",
    "/etc/ssh/ssh_config.d",
    "/etc/ssl",
    "/var/lib/ca-certificates",
    "/dev/urandom",
    "/dev/random",
];

/// What every program may write.
const WRITABLE: [&str; 1] = ["/dev/null"];

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A file or directory that the program may read and run, beside the system's own; may be repeated
    #[arg(long, value_name = "PATH")]
    read: Vec<PathBuf>,
    /// A directory that the program may write; may be repeated
    #[arg(long, value_name = "PATH")]
    write: Vec<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    program: Vec<OsString>,
}

/// Becomes the program. Comes back only if that fails.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    // No memory with credentials on the disk.
    let nothing = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, nothing).context("cannot limit core dumps")?;
    restrict(arguments).context("cannot confine the driver")?;
    let Some((program, rest)) = arguments.program.split_first() else { bail!("no program is named") };
    let error: io::Error = Command::new(program).args(rest).exec();
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}

/// No new privileges; and where the kernel has Landlock: no files but these, no signals to and no look into processes outside.
fn restrict(arguments: &Arguments) -> anyhow::Result<()> {
    let read = SYSTEM.iter().map(PathBuf::from).chain(arguments.read.iter().cloned());
    let write = WRITABLE.iter().map(PathBuf::from).chain(arguments.write.iter().cloned());
    let restricted = Ruleset::default()
        .handle_access(AccessFs::from_all(VERSION))?
        .scope(Scope::from_all(VERSION))?
        .create()?
        .add_rules(path_beneath_rules(read, AccessFs::from_read(VERSION)))?
        .add_rules(path_beneath_rules(write, AccessFs::from_all(VERSION)))?
        .restrict_self()?;
    if restricted.ruleset == RulesetStatus::NotEnforced {
        eprintln!("this kernel has no Landlock: the driver may read what the server may read");
    }
    Ok(())
}
