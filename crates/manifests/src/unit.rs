//! The unit of `herdsman up`, judged by systemd itself.

use std::path::Path;
use std::process::Command;

/// The most that systemd may find exposed, in tenths; 82 without the hardening.
const MOST_EXPOSED: &str = "20";

#[test]
fn little_is_exposed() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/systemd");
    let unit = std::fs::read_to_string(directory.join("herdsman.service")).unwrap();
    for line in ["User=herdsman", "CapabilityBoundingSet=", "NoNewPrivileges=yes", "ProtectSystem=strict"] {
        assert!(unit.lines().any(|one| one == line), "{line}");
    }
    let users = std::fs::read_to_string(directory.join("herdsman.sysusers")).unwrap();
    assert!(users.lines().any(|line| line.starts_with("u herdsman ")), "the unit's user is made");
    let mut judge = Command::new("systemd-analyze");
    judge.args(["security", "--offline=true", "--no-pager", "--threshold", MOST_EXPOSED]);
    match judge.arg(directory.join("herdsman.service")).output() {
        Ok(judged) => assert!(
            judged.status.success(),
            "{}{}",
            String::from_utf8_lossy(&judged.stdout),
            String::from_utf8_lossy(&judged.stderr)
        ),
        Err(error) => println!("skipped: systemd-analyze does not run here: {error}"),
    }
}
