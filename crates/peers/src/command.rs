//! Running other programs to their end, with errors that show what they said.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Output};
use std::time::Duration;

/// How much of a failed program's output an error repeats.
const TAIL_LINES: usize = 30;

/// Why a program did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program is not on this machine.
    #[error("{0} is not installed")]
    Missing(String),
    /// It could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// What the operating system says.
        source: io::Error,
    },
    /// It ran and failed.
    #[error("{command} failed ({status}):\n{output}")]
    Failed {
        /// The command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it printed.
        output: String,
    },
}

/// Runs a command to its end and gives its standard output.
pub fn run(command: &mut Command) -> Result<String, Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::Missing(program.clone()),
        _ => Error::Start { program: program.clone(), source },
    })?;
    if !output.status.success() {
        return Err(failure(command, &output));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// How long to wait before each further try of what failed for the network.
const PAUSES: [Duration; 3] = [Duration::from_secs(2), Duration::from_secs(10), Duration::from_secs(30)];

/// What programs print when the network failed them, and another try may succeed.
const NETWORK_ERRORS: [&str; 14] = [
    "connection refused",
    "connection reset",
    "Connection failed",
    "Could not connect",
    "context deadline exceeded",
    "dial tcp",
    "handshake timeout",
    "i/o timeout",
    "server misbehaving",
    "stream error",
    "Temporary failure",
    "unexpected EOF",
    "502 Bad Gateway",
    "503 Service Unavailable",
];

/// Like [`run`], for what downloads: tried again a few times when the network failed.
pub fn run_with_retries(command: &mut Command) -> Result<String, Error> {
    retry(command, &PAUSES)
}

fn retry(command: &mut Command, pauses: &[Duration]) -> Result<String, Error> {
    for &pause in pauses {
        match run(command) {
            Err(error) if is_network_error(&error) => {
                eprintln!("again in {} s: {error}", pause.as_secs());
                std::thread::sleep(pause);
            }
            result => return result,
        }
    }
    run(command)
}

fn is_network_error(error: &Error) -> bool {
    let Error::Failed { output, .. } = error else { return false };
    NETWORK_ERRORS.iter().any(|words| output.contains(words))
}

fn failure(command: &Command, output: &Output) -> Error {
    let said = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    Error::Failed {
        command: words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" "),
        status: output.status,
        output: tail(&String::from_utf8_lossy(said), TAIL_LINES),
    }
}

/// The last lines of a text.
pub(crate) fn tail(text: &str, lines: usize) -> String {
    let all: Vec<_> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// Where a program lies on the search path, if it does.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_given_back() {
        assert_eq!(run(Command::new("echo").arg("hello")).unwrap(), "hello\n");
    }

    #[test]
    fn a_failure_shows_the_command_and_what_it_said() {
        let error = run(Command::new("sh").args(["-c", "echo broken >&2; exit 3"])).unwrap_err().to_string();
        assert!(error.contains("sh -c") && error.contains("broken") && error.contains('3'), "{error}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = run(&mut Command::new("no-such-program-here")).unwrap_err();
        assert!(matches!(error, Error::Missing(program) if program == "no-such-program-here"));
        assert_eq!(find_program("no-such-program-here"), None);
    }

    #[test]
    fn only_what_failed_for_the_network_is_tried_again() {
        let failed = |words: &str| {
            run(Command::new("sh").args(["-c", &format!("echo '{words}' >&2; exit 1")])).unwrap_err()
        };
        assert!(is_network_error(&failed("Get \"https://p/x\": dial tcp: lookup p: i/o timeout")));
        assert!(!is_network_error(&failed("x.go:1: undefined: y")));
        assert!(!is_network_error(&Error::Missing("go".into())));
    }

    #[test]
    fn a_second_try_may_succeed() {
        let directory = crate::scratch::Scratch::new("retries");
        let script = "test -e tried || { touch tried; echo connection reset >&2; exit 1; }; echo done";
        let mut command = Command::new("sh");
        let said = retry(command.args(["-c", script]).current_dir(directory.path()), &[Duration::ZERO]);
        assert_eq!(said.unwrap(), "done\n");
    }

    #[test]
    fn a_tail_is_the_end() {
        assert_eq!(tail("a\nb\nc\n", 2), "b\nc");
        assert_eq!(tail("a", 2), "a");
    }
}
