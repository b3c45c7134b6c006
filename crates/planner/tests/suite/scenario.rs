//! Scenarios: text files of commands (`> ...`) and, under each, what happened. `UPDATE_GOLDEN=1` writes what happens now.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::catalogue::annotations;
use jiff::SignedDuration;
use planner::{Address, Beacon, CapiCluster, Driver, DriverAddresses, Object, Operation, preview};
use serde_json::Value;

use crate::computer::config;
use crate::spec;
use crate::world::World;

const MANUAL: &str = "no such command; see docs/planner.md";

fn run(script: &str) -> String {
    let mut world = World::new("demo", "v1.34.2+rke2r1");
    let mut output = String::new();
    for line in script.lines() {
        let Some(command) = line.strip_prefix("> ") else {
            if line.starts_with('#') || line.is_empty() {
                output += line;
                output += "\n";
            }
            continue;
        };
        writeln!(output, "> {command}").unwrap();
        command_line(&mut world, command);
        for line in world.log.drain(..) {
            writeln!(output, "  {line}").unwrap();
        }
    }
    output
}

fn command_line(world: &mut World, command: &str) {
    let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let json =
        |text: &str| -> Value { serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.into())) };
    match verb {
        "cluster" => *world = World::new(words[0], words[1]),
        "machine" => {
            world.add(words[0], &words[1..]);
        }
        "set" => {
            let (path, value) = rest.split_once(' ').unwrap();
            world.edit(|cluster| cluster.spec = spec::set(&cluster.spec, path, json(value)));
        }
        "preview" => {
            let (path, value) = rest.split_once(' ').unwrap();
            preview_of(world, path, json(value), &BTreeSet::new());
        }
        "replace" => {
            let replaced = words.iter().map(|name| (*name).into()).collect();
            preview_of(world, "provisionGeneration", Value::Null, &replaced);
        }
        "run" => {
            world.run(SignedDuration::from_mins(words.first().map_or(2, |minutes| minutes.parse().unwrap())))
        }
        "later" => world.pass(words[0].parse().unwrap()),
        "delete" => words.iter().for_each(|name| world.delete(name)),
        "wanted" => world.state.etcd_wanted = words[0].parse().ok(),
        "pause" | "unpause" => world.state.capi.as_mut().unwrap().paused = verb == "pause",
        "beacon" => {
            world.state.beacon = match words[0] {
                "free" => Beacon::Free,
                owner => Beacon::Held(owner.to_owned()),
            }
        }
        "pre-bootstrap" => world.edit(|cluster| cluster.pre_bootstrap = words[0] == "on"),
        "operation" => {
            world.state.operations.insert(Operation::RotateCertificates);
        }
        "delete-cluster" => {
            world.state.capi = Some(CapiCluster { deleting: true, ..world.state.capi.unwrap() });
            let names: Vec<String> = world.computers.keys().cloned().collect();
            names.iter().for_each(|name| world.delete(name));
        }
        "designate" => world.state.designated_init = format!("id-{}", words[0]),
        "authorize" => {
            // A Secret by that name, for machineSelectorFiles.
            let data = [("content".to_owned(), b"hello\n".to_vec())].into();
            let annotations = [(annotations::AUTHORIZED_FOR_CLUSTERS.to_owned(), words[1].to_owned())].into();
            let object = Object { type_: "Opaque".into(), annotations, data };
            world.edit(|cluster| {
                cluster.secrets.insert(words[0].into(), object);
            });
        }
        "show" => show(world, &words),
        _ => machine_command(world, verb, &words),
    }
}

fn machine_command(world: &mut World, verb: &str, words: &[&str]) {
    let url = "sim://".to_owned() + words[0];
    let computer = world.computer(words[0]);
    match verb {
        "infra" => {
            computer.infrastructure_ready = words[1] == "ready";
            computer.broken = words[1] == "failed";
        }
        "conflicts" => computer.conflicts = words[1].parse().unwrap(),
        "kill" => computer.alive = false,
        "revive" => computer.alive = true,
        "agent" => {
            computer.agent_up = words[1] == "up";
            computer.restart_agent();
        }
        "fail" => computer.failures = words[1].parse().unwrap(),
        "sick" => computer.sick = words[1..].iter().map(|&probe| probe.into()).collect(),
        "force" => computer.force_remove = true,
        "address" => {
            let list = words[1..].iter().map(|address| (*address).to_owned()).collect::<Vec<_>>().join(",");
            computer.bootstrap.annotations.insert(annotations::INTERNAL_ADDRESS.into(), list);
        }
        "driver" => {
            let saved = DriverAddresses {
                external: "203.0.113.7".into(),
                internal: computer.address(),
                ipv6: String::new(),
            };
            let saved = (words[2] == "saved").then_some(saved);
            computer.infra.driver = Some(Driver { name: words[1].into(), saved });
        }
        "native" => {
            computer.infra.native = true;
            computer.infra.provider_id = words.get(1).map_or(url, |id| (*id).to_owned());
            let address = computer.address();
            computer.infra.addresses = vec![
                Address { kind: "InternalIP".into(), address },
                Address { kind: "ExternalIP".into(), address: "203.0.113.9".into() },
                Address { kind: "ExternalDNS".into(), address: "demo.example.com".into() },
            ];
        }
        "hook" => {
            let asked = computer.note(annotations::DRAIN_OPTIONS).cloned();
            computer.annotate(words[1], asked);
        }
        _ => panic!("{verb}: {MANUAL}"),
    }
    world.computer(words[0]).touch();
}

fn preview_of(world: &mut World, path: &str, value: Value, replaced: &BTreeSet<planner::MachineName>) {
    let current = world.snapshot();
    let mut proposed = current.clone();
    let mut cluster = (*current.cluster).clone();
    cluster.spec = spec::set(&cluster.spec, path, value);
    proposed.cluster = Arc::new(cluster);
    let preview = preview(&current, &proposed, replaced);
    let text = preview.to_string();
    text.lines().for_each(|line| world.say(line));
    world.say(format!("impact {}", preview.impact()));
}

fn show(world: &mut World, words: &[&str]) {
    let lines: Vec<String> = match words {
        ["waits"] => world.last.waits.iter().map(ToString::to_string).collect(),
        ["warnings"] => world.last.report.warnings.iter().cloned().collect(),
        ["init"] => vec![format!("init {}", world.init().unwrap_or("-"))],
        ["members"] => vec![format!("members {:?} started {}", world.members, world.started)],
        ["config", name] => {
            let machine = world.computer(name).gather();
            let delivered = machine.plan.delivered.clone().unwrap();
            let pretty = serde_json::to_string_pretty(&config(delivered.plan())).unwrap();
            pretty.lines().map(str::to_owned).collect()
        }
        ["files", name] => {
            let machine = world.computer(name).gather();
            let plan = machine.plan.delivered.clone().unwrap();
            let flags = |dynamic: bool, minor: bool| match (dynamic, minor) {
                (_, true) => " minor",
                (true, false) => " dynamic",
                (false, false) => "",
            };
            plan.plan()
                .files
                .iter()
                .map(|file| format!("{}{}", file.path, flags(file.dynamic, file.minor)))
                .collect()
        }
        ["probes", name] => {
            let machine = world.computer(name).gather();
            let plan = machine.plan.delivered.clone().unwrap();
            plan.plan().probes.iter().map(|(name, probe)| format!("{name} {}", probe.http_get.url)).collect()
        }
        ["disturbances"] => world
            .disturbances()
            .iter()
            .map(|(name, [drains, restarts, _])| format!("{name} restarts={restarts} drains={drains}"))
            .collect(),
        _ => panic!("show: {MANUAL}"),
    };
    lines.into_iter().for_each(|line| world.say(line));
}

fn scripts(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn scenarios_are_as_written() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let [k3s, rke2] = ["k3s", "rke2"].map(|runtime| scripts(&directory.join(runtime)));
    let names = |paths: &[PathBuf]| -> BTreeSet<_> {
        paths.iter().map(|path| path.file_name().unwrap().to_owned()).collect()
    };
    let only: Vec<_> = names(&rke2).symmetric_difference(&names(&k3s)).cloned().collect();
    assert_eq!(only, ["14-windows.txt"], "both runtimes have the same scenarios; K3s has no Windows");
    for path in k3s.into_iter().chain(rke2) {
        let golden = fs::read_to_string(&path).unwrap();
        let now = run(&golden);
        assert!(!now.contains("WRONG"), "{}:\n{now}", path.display());
        if update && now != golden {
            fs::write(&path, &now).unwrap();
        } else if now != golden {
            let at = now.lines().zip(golden.lines()).position(|(a, b)| a != b).unwrap_or(0);
            let near: Vec<_> = now.lines().skip(at).take(8).collect();
            panic!("{} line {} (UPDATE_GOLDEN=1 rewrites it):\n{}", path.display(), at + 1, near.join("\n"));
        }
    }
}
