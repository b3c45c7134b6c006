//! Whether this machine can have the peers, and what a test does if not.

use std::io::Write;

use crate::command::find_program;

/// What getting the peers takes, and what each is for.
const NEEDED: [(&str, &str); 3] =
    [("go", "builds Kubernetes"), ("apt-get", "downloads etcd"), ("dpkg", "unpacks etcd")];

/// Why this machine cannot have the peers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// A program is missing.
    #[error("{program} is not installed ({purpose})")]
    Missing {
        /// The program.
        program: &'static str,
        /// What it is needed for.
        purpose: &'static str,
    },
    /// Only root can have machines.
    #[error("only root can boot machines")]
    NotRoot,
}

/// Whether this machine can have the peers.
pub fn available() -> Result<(), Unavailable> {
    check(|program| find_program(program).is_some())
}

/// Whether a test is to be skipped because the peers cannot be had. If so, a line says it and why.
///
/// ```no_run
/// # fn some_test() {
/// if peers::skip("conformance") {
///     return;
/// }
/// # }
/// ```
///
/// # Panics
/// On a CI machine (`CI=true`), where nothing may be skipped.
pub fn skip(suite: &str) -> bool {
    skip_because(suite, available())
}

/// The same for another reason.
pub(crate) fn skip_because(suite: &str, available: Result<(), Unavailable>) -> bool {
    let Err(reason) = available else { return false };
    let line = format!("skip {suite}: {reason}");
    assert!(!on_ci(), "{line}, and CI must not skip it");
    // Not println: the test harness would swallow the line of a test that passes. A closed pipe is no reason to fail.
    let _ = writeln!(std::io::stdout(), "{line}");
    true
}

/// Whether this is a CI machine.
pub fn on_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

fn check(installed: impl Fn(&str) -> bool) -> Result<(), Unavailable> {
    let missing = NEEDED.into_iter().find(|(program, _)| !installed(program));
    missing.map_or(Ok(()), |(program, purpose)| Err(Unavailable::Missing { program, purpose }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_the_reason() {
        assert_eq!(check(|_| true), Ok(()));
        let reason = check(|program| program != "go").unwrap_err();
        assert_eq!(reason.to_string(), "go is not installed (builds Kubernetes)");
    }
}
