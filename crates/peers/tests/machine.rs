//! Machines boot, are alone with their network, keep their disks over reboots, and leave nothing behind, however it
//! ends.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use peers::docker::{Docker, Network};
use peers::machine::{Machine, skip};

/// Set in the process that is going to be killed.
const VICTIM: &str = "HERDSMAN_TEST_VICTIM";
const NETWORK: &str = "herdsman-peers";

#[test]
#[ignore = "real: node-image"]
fn machines() {
    if skip("machine") {
        return;
    }
    if std::env::var_os(VICTIM).is_some() {
        return boot_and_wait_for_death();
    }
    let left_by_the_dead = bridge_of_a_killed_process();
    let docker = Docker::shared().unwrap();
    assert_eq!(docker.run(&["ps", "--all", "--quiet"]).unwrap(), "", "what was left is gone");
    let bridges = peers::command::run(Command::new("ip").args(["-brief", "link"])).unwrap();
    assert!(!bridges.contains(&left_by_the_dead), "{left_by_the_dead} in {bridges}");

    let network = Network::create(&docker, NETWORK).unwrap();
    let [one, two] = ["one", "two"].map(|name| Machine::boot(&network, name, &[]).unwrap());
    let identities = [&one, &two].map(|machine| machine.sh("cat /etc/machine-id").unwrap());
    assert_ne!(identities[0], identities[1], "each has an identity of its own");
    two.sh(&format!("getent hosts {}", one.name())).unwrap();
    for machine in [&one, &two] {
        assert_eq!(machine.sh("ip route show default").unwrap(), "", "there is no way out");
        machine.sh("echo kept > /srv/disk; echo lost > /run/memory").unwrap();
    }
    one.reboot().unwrap();
    two.power_cycle().unwrap();
    for machine in [&one, &two] {
        assert_eq!(machine.sh("cat /srv/disk; ls /run/memory 2>/dev/null || true").unwrap(), "kept\n");
        assert_eq!(machine.sh("ip route show default").unwrap(), "");
    }
    one.unplug().unwrap();
    assert!(one.sh(&format!("ip address | grep {}", network.gateway)).is_err());
    assert_eq!(one.sh("ip -brief -4 address show scope global").unwrap(), "");
    one.plug().unwrap();
    one.sh(&format!("getent hosts {}", two.name())).unwrap();
    drop((one, two, network));
    assert_eq!(docker.run(&["ps", "--all", "--quiet"]).unwrap(), "");
    let networks = docker.run(&["network", "ls", "--format", "{{.Name}}"]).unwrap();
    assert!(!networks.contains(NETWORK), "{networks}");
}

/// Kills a process that has a machine, and gives the name of that machine's network device.
fn bridge_of_a_killed_process() -> String {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "machines", "--ignored", "--nocapture"])
        .env(VICTIM, "yes")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let network = lines
        .map_while(Result::ok)
        .find_map(|line| line.split_once("network=").map(|(_, network)| network.to_owned()))
        .unwrap();
    victim.kill().unwrap();
    victim.wait().unwrap();
    format!("br-{}", &network[..12])
}

fn boot_and_wait_for_death() {
    let docker = Docker::shared().unwrap();
    let network = Network::create(&docker, NETWORK).unwrap();
    let _machine = Machine::boot(&network, "victim", &[]).unwrap();
    println!("network={}", docker.run(&["network", "inspect", "--format", "{{.Id}}", NETWORK]).unwrap());
    std::thread::sleep(std::time::Duration::from_secs(60));
}
