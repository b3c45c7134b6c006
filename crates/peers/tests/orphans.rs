//! Nothing outlives a test process that crashes.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use clock::{Deadline, SystemClock};
use peers::process::Process;

/// Set in the process that is going to be killed.
const VICTIM: &str = "HERDSMAN_TEST_VICTIM";

#[test]
fn a_process_ends_with_a_parent_that_is_killed() {
    if std::env::var_os(VICTIM).is_some() {
        return start_and_wait_for_death();
    }
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_process_ends_with_a_parent_that_is_killed", "--nocapture"])
        .env(VICTIM, "yes")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let id: u32 = lines
        .map_while(Result::ok)
        .find_map(|line| line.split_once("child=").and_then(|(_, id)| id.parse().ok()))
        .unwrap();
    assert!(is_running(id));
    victim.kill().unwrap();
    victim.wait().unwrap();
    let deadline = Deadline::after(&SystemClock, Duration::from_secs(10));
    while is_running(id) {
        assert!(!deadline.passed(&SystemClock), "process {id} outlives its parent");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn start_and_wait_for_death() {
    let arguments = ["60".to_owned()];
    let started = Process::start(
        "sleeper",
        Path::new("/bin/sleep"),
        &arguments,
        Path::new(env!("CARGO_TARGET_TMPDIR")),
    );
    println!("child={}", started.as_ref().map_or(0, wait_until_arranged));
    std::thread::sleep(Duration::from_secs(60));
}

/// From the moment that the program itself runs, the kernel knows what to do.
fn wait_until_arranged(process: &Process) -> u32 {
    let id = process.id();
    while std::fs::read_link(format!("/proc/{id}/exe")).is_ok_and(|program| program.ends_with("setpriv")) {
        std::thread::sleep(Duration::from_millis(5));
    }
    id
}

/// Dead ones that nobody has waited for do not count.
fn is_running(id: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}
