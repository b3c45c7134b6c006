//! The agent on whole machines, with a real systemd, from `install.sh` to `uninstall.sh`, and what befalls machines in
//! between.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

#[path = "install/server.rs"]
#[expect(dead_code, reason = "the suite of the script needs more of it")]
mod server;
#[path = "machines/world.rs"]
mod world;

use plan::document::{HttpGet, Instruction, OneTimeInstruction, Plan, Probe};
use plan::orchestrator::{Health, Progress, Terms};
use plan::secret::{Changes, Data, PlanState};
use std::time::Duration;
use world::{MARKS, SECRET, UNIT, World, file, held, image_archive, plan_of, script};

/// A service that answers HTTP with what it finds under /srv/health, by systemd alone.
const SOCKET: &str =
    "[Socket]\nListenStream=127.0.0.1:8099\nAccept=yes\n[Install]\nWantedBy=sockets.target\n";
const SERVICE: &str =
    "[Service]\nExecStart=-/usr/local/bin/answer\nStandardInput=socket\nStandardOutput=socket\n";
const ANSWER: &str = "#!/bin/sh
while read -r line && [ \"${#line}\" -gt 1 ]; do :; done
printf 'HTTP/1.1 %s\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n' \"$(cat /srv/health)\"
";

/// Everything that plans have: files, an image's program, a unit that is started, a probe of it.
fn whole_plan() -> Plan {
    let common = Instruction {
        name: "from-image".into(),
        image: "herdsman.test/installer:v1".into(),
        env: vec!["GREETING=hello there".into()],
        ..Instruction::default()
    };
    let from_image = OneTimeInstruction { common, save_output: true, ..OneTimeInstruction::default() };
    let mut directory = file("/srv/made", "", "0710");
    directory.directory = true;
    let mut gone = file("/srv/gone", "", "");
    gone.action = "delete".into();
    let mut owned = file("/srv/made/owned", "owned\n", "0640");
    (owned.uid, owned.gid) = (1, 2);
    let probe = Probe {
        success_threshold: 1,
        failure_threshold: 2,
        http_get: HttpGet { url: "http://127.0.0.1:8099/".into(), ..HttpGet::default() },
        ..Probe::default()
    };
    Plan {
        files: vec![
            file("/etc/systemd/system/answer.socket", SOCKET, "0644"),
            file("/etc/systemd/system/answer@.service", SERVICE, "0644"),
            file("/usr/local/bin/answer", ANSWER, "0755"),
            file("/srv/health", "200 OK", "0644"),
            directory,
            owned,
            gone,
        ],
        instructions: vec![
            from_image,
            script(
                "start",
                "systemctl daemon-reload; systemctl enable --now answer.socket; echo started >> /srv/starts",
            ),
        ],
        probes: [("answer".to_owned(), probe)].into(),
        ..Plan::default()
    }
}

const RUN: &str = "#!/bin/sh
echo \"$GREETING from $(basename \"$PWD\" | cut -d_ -f2), attempt $CATTLE_AGENT_ATTEMPT_NUMBER\"
test \"$PWD\" = \"$CATTLE_AGENT_EXECUTION_PWD\"
";

/// Puts the image where the agent looks for images, and delivers the plan.
fn deliver_whole_plan(world: &World) {
    let (_directory, archive) = image_archive("herdsman.test/installer:v1", RUN);
    world.sh("mkdir -p /var/lib/rancher/agent/images; echo old > /srv/gone");
    world.machine.copy_in(&archive, "/var/lib/rancher/agent/images/installer.tar").unwrap();
    let terms = Terms { probe_period: Some(Duration::from_secs(1)), ..Terms::default() };
    world.plans.deliver(SECRET, whole_plan(), terms).unwrap();
}

fn until_health(world: &World, wanted: &Health) {
    world.until("that well", |stored| stored.status().health == *wanted);
}

#[test]
#[ignore = "real: node-image"]
fn from_installation_to_removal() {
    let Some(world) = World::bare("whole") else { return };
    assert_eq!(world.sh("ip route show default"), "", "a machine has no route out");
    // Of other programs too.
    world.sh("mkdir -p /etc/rancher");
    let before = world.sh("find /usr/local /etc/systemd/system /etc/rancher /opt | sort");
    let output = world.install();
    let headers = world.registration.registration();
    for (name, value) in [
        ("authorization", "Bearer t0ken"),
        ("x-cattle-role-worker", "true"),
        ("x-cattle-role-etcd", "false"),
        ("x-cattle-node-name", "n1"),
        ("x-cattle-labels", "a=b"),
    ] {
        assert_eq!(headers.get(name).map(String::as_str), Some(value), "{name}\n{output}");
    }
    assert_eq!(
        world.sh(&format!("systemctl is-active {UNIT}; systemctl is-enabled {UNIT}")),
        "active\nenabled\n"
    );
    assert_eq!(world.read("/etc/rancher/agent/cattle-id").trim(), headers["x-cattle-id"]);

    deliver_whole_plan(&world);
    let stored = world.until_applied();
    let status = stored.status();
    assert_eq!(status.output["from-image"], b"hello there from 0, attempt 1\n");
    assert_eq!(stored.secret().revision.get(), Some(&1));
    assert_eq!(world.sh("systemctl is-active answer.socket"), "active\n");
    assert_eq!(world.sh("stat -c '%a %u:%g %s' /srv/made /srv/made/owned"), "710 0:0 4096\n640 1:2 6\n");
    assert_eq!(world.sh("test -e /srv/gone && echo there || echo gone"), "gone\n");
    until_health(&world, &Health::Healthy);
    world.plans.upkeep(SECRET).unwrap();
    let stored = world.plans.stored(SECRET).unwrap();
    assert!(stored.status().probes_usable && stored.secret().applied_plan == stored.secret().checksum);

    world.sh("echo '503 Service Unavailable' > /srv/health");
    until_health(&world, &Health::Unhealthy(vec!["answer".into()]));
    world.sh("echo '200 OK' > /srv/health");
    until_health(&world, &Health::Healthy);

    // The tunnel runs from the moment that a plan has brought its configuration.
    let tunnel = format!("{UNIT}-tunnel");
    let state = format!("systemctl is-active {tunnel}.path {tunnel}.service || true");
    assert_eq!(world.sh(&state), "active\ninactive\n");
    let config = format!("serverUrl: {}\n", world.registration.url());
    let files = vec![file("/etc/rancher/agent/tunnel.yaml", &config, "0600")];
    world.deliver(Plan { files, ..Plan::default() });
    world.until_applied();
    world.until_on_machine("the tunnel runs", &format!("systemctl is-active {tunnel}.service"));
    world.until_on_machine(
        "it says what it waits for",
        &format!("journalctl -u {tunnel} | grep clusterTokenFile"),
    );

    world.sh("sh /usr/local/bin/rancher-system-agent-uninstall.sh");
    assert_eq!(world.sh(&format!("systemctl is-active {UNIT} || true")), "inactive\n");
    assert_eq!(world.sh(&state), "inactive\ninactive\n");
    world.sh("systemctl disable --now answer.socket; rm /etc/systemd/system/answer* /usr/local/bin/answer");
    let after = world.sh("find /usr/local /etc/systemd/system /etc/rancher /opt | sort");
    assert_eq!(before, after);
    assert_eq!(world.sh("ls /var/lib/rancher"), "");
}

#[test]
#[ignore = "real: node-image"]
fn a_reboot_runs_no_plan_twice() {
    let Some(world) = World::new("reboot") else { return };
    deliver_whole_plan(&world);
    world.until_applied();
    until_health(&world, &Health::Healthy);
    let applied = world.plans.stored(SECRET).unwrap();
    for how in ["in order", "by the plug"] {
        // What a reboot has to bring back, so that it shows.
        world.sh("echo '503 Service Unavailable' > /srv/health");
        until_health(&world, &Health::Unhealthy(vec!["answer".into()]));
        if how == "in order" { world.machine.reboot() } else { world.machine.power_cycle() }.unwrap();
        world.sh("echo '200 OK' > /srv/health");
        until_health(&world, &Health::Healthy);
        assert_eq!(world.read("/srv/starts"), "started\n", "{how}: nothing ran again");
        assert_eq!(world.sh("systemctl is-active answer.socket"), "active\n");
        let after = world.plans.stored(SECRET).unwrap();
        for key in ["plan-state", "plan-revision", "applied-checksum", "applied-output", "last-apply-time"] {
            assert_eq!(after.data.get(key), applied.data.get(key), "{how}: {key}");
        }
    }
    // The plug is pulled in the middle: the plan begins again.
    world.deliver(plan_of(vec![held("power")]));
    world.until_on_machine("begun", &format!("test -e {MARKS}/power"));
    world.machine.power_cycle().unwrap();
    world.sh(&format!("touch {MARKS}/power.go"));
    let stored = world.until_applied();
    assert_eq!(world.read(&format!("{MARKS}/power")), "begin-1\nbegin-1\nend\n");
    assert_eq!(stored.status().output["power"], b"done-power\n");
    // Without `plan-state` each start runs the plan again, as Rancher's agents do.
    world.plans.change(SECRET, &Changes::from([("plan-state", None)])).unwrap();
    world.machine.reboot().unwrap();
    world.until_on_machine("run again", &format!("test $(grep -c end {MARKS}/power) = 2"));
}

#[test]
#[ignore = "real: node-image"]
fn killed_in_the_middle_it_begins_again() {
    let Some(world) = World::new("kill") else { return };
    let mut plan = plan_of(vec![script("before", "echo x >> /srv/before"), held("killed")]);
    plan.files = vec![file("/srv/whole", &"0123456789".repeat(30_000), "0600")];
    world.deliver(plan);
    world.until_on_machine("begun", &format!("test -e {MARKS}/killed"));
    let pid = world.pid();
    let child = world.sh("pgrep -f 'until test -e'");
    world.sh(&format!("kill -9 {pid}"));
    world.until_on_machine("begun again", &format!("test $(grep -c begin {MARKS}/killed) = 2"));
    assert_ne!(world.pid(), pid);
    assert_ne!(world.sh("pgrep -f 'until test -e'"), child, "what it ran before is gone");
    let stored = world.plans.stored(SECRET).unwrap();
    assert_eq!(stored.status().progress, Progress::InProgress);
    world.sh(&format!("touch {MARKS}/killed.go"));
    let stored = world.until_applied();
    assert_eq!(world.read(&format!("{MARKS}/killed")), "begin-1\nbegin-1\nend\n");
    assert_eq!(world.read("/srv/before"), "x\nx\n", "from the beginning");
    assert_eq!(world.sh("stat -c '%a %s' /srv/whole").trim(), "600 300000");
    assert_eq!(stored.secret().revision.get(), Some(&1), "the same delivery");
    assert_eq!(stored.status().output["killed"], b"done-killed\n");
    assert_eq!(world.sh("ls /var/lib/rancher/agent/interlock"), "", "no interlock is left");
}

#[test]
#[ignore = "real: node-image"]
fn without_a_network_nothing_is_lost() {
    let Some(world) = World::new("network") else { return };
    world.deliver(plan_of(vec![held("alone")]));
    world.until_on_machine("begun", &format!("test -e {MARKS}/alone"));
    world.machine.unplug().unwrap();
    world.sh(&format!("touch {MARKS}/alone.go"));
    let result = "/var/lib/rancher/agent/state/report.json";
    world.until_on_machine("done", &format!("test -s {result}"));
    // It dies with a result that nobody knows, and comes back to a machine without a network.
    let pid = world.pid();
    world.sh(&format!("kill -9 {pid}"));
    world.until_on_machine(
        "started again",
        &format!(
            "systemctl is-active {UNIT} && test $(systemctl show --value --property MainPID {UNIT}) != {pid}"
        ),
    );
    assert_eq!(world.plans.stored(SECRET).unwrap().status().progress, Progress::InProgress);
    world.machine.plug().unwrap();
    let stored = world.until_applied();
    assert_eq!(stored.status().output["alone"], b"done-alone\n");
    assert_eq!(world.read(&format!("{MARKS}/alone")), "begin-1\nend\n", "once");
    // A plan that comes while the machine is away is applied when it is back, by the same process.
    let pid = world.pid();
    world.machine.unplug().unwrap();
    world.deliver(plan_of(vec![script("later", "echo later >> /srv/later")]));
    world.machine.plug().unwrap();
    world.until_applied();
    assert_eq!((world.read("/srv/later").as_str(), world.pid()), ("later\n", pid));
}

#[test]
#[ignore = "real: node-image"]
fn a_server_may_restart() {
    let Some(mut world) = World::new("server") else { return };
    let pid = world.pid();
    world.deliver(plan_of(vec![held("meanwhile")]));
    world.until_on_machine("begun", &format!("test -e {MARKS}/meanwhile"));
    world.plans.stop();
    world.sh(&format!("touch {MARKS}/meanwhile.go"));
    world.until_on_machine("done", &format!("grep end {MARKS}/meanwhile"));
    world.plans.start_again().unwrap();
    let stored = world.until_applied();
    assert_eq!(stored.status().output["meanwhile"], b"done-meanwhile\n");
    assert_eq!(world.read(&format!("{MARKS}/meanwhile")), "begin-1\nend\n", "once");
    world.plans.stop();
    world.plans.start_again().unwrap();
    world.deliver(plan_of(vec![script("next", "echo next >> /srv/next")]));
    world.until_applied();
    assert_eq!((world.read("/srv/next").as_str(), world.pid()), ("next\n", pid));
}

#[test]
#[ignore = "real: node-image"]
fn a_full_disk_is_waited_out() {
    let Some(world) = World::bare("disk") else { return };
    // The agent's own files, and what a plan writes, each on a small disk.
    world.sh("mkdir -p /var/lib/rancher/agent /srv/small; mount -t tmpfs -o size=24m small /var/lib/rancher/agent; mount -t tmpfs -o size=1m small /srv/small");
    world.install();
    let fill = |directory: &str| {
        world.sh(&format!(
            "cat /dev/zero > {directory}/filler 2>/dev/null || true; df --output=avail {directory} | tail -1"
        ))
    };
    let write = |content: &str, name: &str| {
        let mut plan = plan_of(vec![script(name, &format!("echo {name} >> /srv/{name}"))]);
        plan.files = vec![file("/srv/small/file", &content.repeat(60_000), "0644")];
        world.deliver(plan);
    };
    let until_said = |words: &str| {
        world.until_on_machine(
            "said so",
            &format!("journalctl --unit {UNIT} | grep -q '{words}.*No space left'"),
        );
        assert_eq!(world.plans.stored(SECRET).unwrap().status().progress, Progress::InProgress);
    };

    // Its own disk is full: what it does cannot be remembered, therefore it does nothing.
    let own = "/var/lib/rancher/agent";
    world.until_on_machine("connected", &format!("grep -q good {own}/state/update.json"));
    assert_eq!(fill(own).trim(), "0");
    write("old", "first");
    until_said("interlock");
    assert_eq!(world.sh("ls -A /srv"), "small\n", "nothing ran");
    assert_eq!(world.sh("ls -A /srv/small"), "", "nothing is written");
    world.sh(&format!("rm {own}/filler"));
    let stored = world.until_applied();
    assert_eq!(world.sh("head -c 6 /srv/small/file; cat /srv/first"), "oldoldfirst\n");
    assert_eq!((stored.secret().failures(), stored.secret().state), (0, Some(PlanState::Succeeded)));

    // The disk of a plan's file is.
    assert_eq!(fill("/srv/small").trim(), "0");
    write("new", "second");
    until_said("/srv/small");
    let there = world.sh("head -c 6 /srv/small/file; ls -A /srv/small");
    assert_eq!(there, "oldoldfile\nfiller\n", "whole, and alone");
    assert_eq!(world.read("/srv/second"), "", "nothing runs before its files are there");
    world.sh("rm /srv/small/filler");
    let stored = world.until_applied();
    assert_eq!(world.sh("head -c 6 /srv/small/file; cat /srv/second"), "newnewsecond\n");
    assert_eq!(stored.secret().failures(), 0, "a full disk is not the plan's failure");
}

#[test]
#[ignore = "real: node-image"]
fn a_secret_that_is_made_anew_is_another_order() {
    let Some(world) = World::new("anew") else { return };
    world.deliver(plan_of(vec![script("count", "echo ran >> /srv/count")]));
    let first = world.until_applied();
    let anew = |state: Option<&str>| {
        let keys = [("plan", first.data["plan"].clone())];
        let state = state.map(|state| ("plan-state", state.as_bytes().to_vec()));
        let data: Data = keys.into_iter().chain(state).map(|(key, value)| (key.to_owned(), value)).collect();
        world.plans.delete(SECRET).unwrap();
        world.plans.create(SECRET, &data).unwrap();
    };
    anew(Some("pending"));
    let second = world.until_applied();
    assert_ne!(first.uid, second.uid);
    assert_eq!(second.secret().revision.get(), Some(&1));
    assert_eq!(world.read("/srv/count"), "ran\nran\n");
    // Restored with its result: nothing to do.
    anew(Some("succeeded"));
    // Without `plan-state` a Secret that was never seen is run.
    anew(None);
    world.until_applied();
    assert_eq!(world.read("/srv/count"), "ran\nran\nran\n");
}

#[test]
#[ignore = "real: node-image"]
fn a_plan_replaces_the_agent() {
    let Some(world) = World::new("replace") else { return };
    let pid = world.pid();
    let binary = "/usr/local/bin/rancher-system-agent";
    let replace = format!("cp {binary} {binary}.new; echo >> {binary}.new; mv {binary}.new {binary}");
    world.deliver(plan_of(vec![script("replace", &replace)]));
    world.until_applied();
    let state = "/var/lib/rancher/agent/state";
    world.until_on_machine("gone over", &format!("cmp {state}/agent.good {binary}"));
    assert_eq!(world.pid(), pid, "the process is the same");
    assert_eq!(world.sh(&format!("readlink /proc/{pid}/exe")).trim(), binary, "what it runs is not");
    // One that does not run is not gone over to.
    world.deliver(plan_of(vec![script(
        "break",
        &format!("echo nonsense > {binary}.new; chmod 755 {binary}.new; mv {binary}.new {binary}"),
    )]));
    world.until_applied();
    world.until_on_machine("seen", &format!("grep -q rejected {state}/update.json"));
    world.deliver(plan_of(vec![script("on", "echo on > /srv/on")]));
    world.until_applied();
    assert_eq!((world.read("/srv/on").as_str(), world.pid()), ("on\n", pid));
}
