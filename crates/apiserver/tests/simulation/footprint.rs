//! What one more server in the process costs, with its users, controllers and first objects.

use std::process::Command;

use crate::world::World;

const CHILD: &str = "SERVER_FOOTPRINT";
const INSTANCES: usize = 50;

/// What this process has in memory, in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
#[ignore = "child process: one that the test below measures"]
async fn instances() {
    // Somebody runs all ignored tests.
    if std::env::var(CHILD).is_err() {
        return;
    }
    // The first one brings what all share.
    let mut servers = vec![World::new(0).await];
    let before = resident();
    for seed in 1..=INSTANCES {
        servers.push(World::new(seed as u64).await);
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    println!("each {} KiB", (resident() - before) / INSTANCES);
}

/// In a process of its own, where nothing else takes memory.
#[test]
fn a_second_server_costs_at_most_two_mebibytes() {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["footprint::instances", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env(CHILD, "1");
    let output = String::from_utf8(child.output().unwrap().stdout).unwrap();
    let (_, rest) = output.split_once("each ").unwrap_or_else(|| panic!("{output}"));
    let each: usize = rest.split(' ').next().unwrap().parse().unwrap();
    println!("{each} KiB each");
    assert!(each <= 2048, "{each} KiB");
}
