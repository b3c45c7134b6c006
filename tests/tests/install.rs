//! `install.sh` and its counterpart, run by the shells that machines have, in a root of their own: the system's
//! programs are mounted into it, everything else is the test's. A server of ours plays the management server.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

#[path = "install/machine.rs"]
mod machine;
#[path = "install/server.rs"]
mod server;

use std::os::unix::fs::PermissionsExt;

use machine::{Machine, Run};
use server::{Answer, Server, sha256};

const UNIT: &str = "etc/systemd/system/rancher-system-agent.service";
const ENVIRONMENT: &str = "etc/systemd/system/rancher-system-agent.env";
const CONFIG: &str = "etc/rancher/agent/config.yaml";
const IDENTITY: &str = "etc/rancher/agent/cattle-id";
const CONNECTION: &str = "var/lib/rancher/agent/rancher2_connection_info.json";
const PENDING: &str = "var/lib/rancher/agent/interlock/restart-pending";
const BINARY: &str = "usr/local/bin/rancher-system-agent";
const UNINSTALLER: &str = "usr/local/bin/rancher-system-agent-uninstall.sh";

/// Every shell, with the tools of the system, with only busybox's and curl, and with only busybox's and GNU wget: its own
/// shell would take its own wget.
const SHELLS: [machine::Shell; 4] = [
    machine::Shell { command: &["dash"], tools: "/usr/bin:/usr/sbin" },
    machine::Shell { command: &["busybox", "sh"], tools: "/usr/bin:/usr/sbin" },
    machine::Shell { command: &["busybox", "sh"], tools: "/applets:/curl" },
    machine::Shell { command: &["dash"], tools: "/applets:/wget" },
];

/// A run with everything that a successful one needs.
fn install<'a>(machine: &'a Machine, server: &Server) -> Run<'a> {
    machine
        .run("/install.sh")
        .arguments(&["--server", &server.url(), "--token", "t0ken", "--worker"])
        .arguments(&["--ca-checksum", &sha256(server.ca().as_bytes())])
        .variable("HERDSMAN_INSTALL_PAUSE", "0")
        .variable("HERDSMAN_INSTALL_TRIES", "3")
}

#[test]
#[ignore = "default: busybox, shellcheck"]
fn it_installs_with_every_shell() {
    for shell in SHELLS {
        let Some(machine) = Machine::new(shell) else { return };
        let server = Server::start();
        let output = install(&machine, &server)
            .arguments(&["--controlplane", "--etcd", "--node-name", "n1", "--address", "192.0.2.7"])
            .arguments(&["-i", "lo", "-l", "a=b", "--label", "c=d e\"f\\g", "--taint", "x=y:NoSchedule"])
            .variable("CATTLE_LABELS", "from=env")
            .variable("CATTLE_AGENT_LOGLEVEL", "DEBUG")
            .variable("NO_PROXY", "10.0.0.0/8,127.0.0.0/8")
            .variable("HTTPS_PROXY", "http://127.0.0.1:9")
            .succeed();
        let headers = server.registration();
        for (name, value) in [
            ("authorization", "Bearer t0ken"),
            ("x-cattle-role-etcd", "true"),
            ("x-cattle-role-control-plane", "true"),
            ("x-cattle-role-worker", "true"),
            ("x-cattle-node-name", "n1"),
            ("x-cattle-address", "192.0.2.7"),
            ("x-cattle-internal-address", "127.0.0.1"),
            ("x-cattle-labels", "from=env,a=b,c=d e\"f\\g"),
            ("x-cattle-taints", "x=y:NoSchedule"),
        ] {
            assert_eq!(headers.get(name).map(String::as_str), Some(value), "{name} by {shell:?}\n{output}");
        }
        let identity = machine.read(IDENTITY);
        assert_eq!(identity.trim(), headers["x-cattle-id"]);
        assert_eq!(identity.trim().len(), 63);
        assert_eq!(machine.read(CONNECTION), server::CONNECTION);
        assert_eq!(machine.read(BINARY), server::AGENT);
        for (path, mode) in [
            (CONNECTION, 0o600),
            (CONFIG, 0o600),
            (IDENTITY, 0o600),
            (ENVIRONMENT, 0o600),
            (UNIT, 0o644),
            (BINARY, 0o755),
            (UNINSTALLER, 0o755),
            ("etc/rancher/agent", 0o700),
            ("var/lib/rancher/agent", 0o700),
            ("var/lib/rancher/agent/interlock", 0o700),
        ] {
            let metadata = machine.path(path).metadata().unwrap();
            assert_eq!(metadata.permissions().mode() & 0o7777, mode, "{path} by {shell:?}");
        }
        let unit = machine.read(UNIT);
        for line in [
            "Environment=CATTLE_LOGLEVEL=debug",
            "Environment=CATTLE_AGENT_STRICT_VERIFY=false",
            "ExecStart=/usr/local/bin/rancher-system-agent sentinel",
        ] {
            assert!(unit.lines().any(|found| found == line), "{line} in\n{unit}");
        }
        let environment = "HTTPS_PROXY=http://127.0.0.1:9\nNO_PROXY=10.0.0.0/8,127.0.0.0/8\n";
        assert_eq!(machine.read(ENVIRONMENT), environment);
        let calls = [
            "is-active --quiet rancher-system-agent.service",
            "daemon-reload",
            "enable rancher-system-agent",
        ];
        assert_eq!(
            machine.systemctl(),
            [&calls[..], &["restart rancher-system-agent"]].concat(),
            "{shell:?}"
        );
        machine.assert_nothing_is_left_behind();
    }
}

/// Rancher's own command, word for word: what follows `sh -s -`, then the roles that its page adds.
#[test]
#[ignore = "default: busybox, shellcheck"]
fn ranchers_command_registers() {
    for shell in SHELLS {
        let Some(machine) = Machine::new(shell) else { return };
        let server = Server::start();
        let (url, checksum) = (server.url(), sha256(server.ca().as_bytes()));
        let line = format!(
            "--server {url} --label 'cattle.io/os=linux' --token t0ken --ca-checksum {checksum} --etcd --controlplane --worker"
        );
        let words: Vec<&str> = line.split(' ').map(|word| word.trim_matches('\'')).collect();
        let run = machine.run("/install.sh").arguments(&words);
        run.variable("HERDSMAN_INSTALL_PAUSE", "0").variable("HERDSMAN_INSTALL_TRIES", "3").succeed();
        let headers = server.registration();
        for (name, value) in [
            ("x-cattle-labels", "cattle.io/os=linux"),
            ("x-cattle-role-etcd", "true"),
            ("x-cattle-role-control-plane", "true"),
            ("x-cattle-role-worker", "true"),
        ] {
            assert_eq!(headers.get(name).map(String::as_str), Some(value), "{name} by {shell:?}");
        }
        // The server takes what it is sent.
        let labels = headers["x-cattle-labels"].split_once('=').unwrap();
        let labels = [(labels.0.to_owned(), labels.1.to_owned())].into();
        assert_eq!(provisioning::custom::label_problem(&labels), None);
    }
}

/// Whoever reads a log of the installation must not be able to register with it.
#[test]
#[ignore = "default: busybox, shellcheck"]
fn a_shell_that_shows_every_step_shows_no_token() {
    for shell in SHELLS {
        let Some(machine) = Machine::new(shell) else { return };
        let server = Server::start();
        let output = install(&machine, &server).variable("DEBUG", "1").succeed();
        assert!(output.contains("+ "), "nothing is shown by {shell:?}:\n{output}");
        assert!(!output.contains("t0ken"), "{shell:?} in\n{output}");
    }
}

#[test]
#[ignore = "default: busybox, shellcheck"]
fn the_configuration_is_the_agents() {
    let Some(machine) = Machine::new(SHELLS[0]) else { return };
    let server = Server::start();
    install(&machine, &server).variable("CATTLE_LOCAL_ENABLED", "True").succeed();
    let expected = "workDirectory: /var/lib/rancher/agent/work\n\
        appliedPlanDirectory: /var/lib/rancher/agent/applied\n\
        remoteEnabled: true\n\
        localEnabled: true\n\
        localPlanDirectory: /var/lib/rancher/agent/plans\n\
        interlockDirectory: /var/lib/rancher/agent/interlock\n\
        preserveWorkDirectory: false\n\
        connectionInfoFile: /var/lib/rancher/agent/rancher2_connection_info.json\n";
    assert_eq!(machine.read(CONFIG), expected);
}

#[test]
#[ignore = "default: busybox, shellcheck"]
fn a_second_run_keeps_the_identity_and_restarts() {
    for shell in [SHELLS[0], SHELLS[1]] {
        let Some(machine) = Machine::new(shell) else { return };
        let server = Server::start();
        install(&machine, &server).succeed();
        let first = machine.read(IDENTITY);
        machine.forget_systemctl();
        install(&machine, &server).succeed();
        assert_eq!(machine.read(IDENTITY), first);
        let calls = machine.systemctl();
        assert!(calls.contains(&"stop rancher-system-agent".into()), "{calls:?}");
        assert_eq!(calls.last().unwrap(), "restart rancher-system-agent");
        machine.assert_nothing_is_left_behind();
    }
}

#[test]
#[ignore = "default: busybox, shellcheck"]
fn what_cannot_be_right_is_refused() {
    for shell in [SHELLS[0], SHELLS[3]] {
        let Some(machine) = Machine::new(shell) else { return };
        let server = Server::start();
        let other = sha256(b"another CA");
        for (run, message) in [
            (install(&machine, &server).arguments(&["--ca-checksum", &other]), "somebody is between us"),
            (
                install(&machine, &server).variable("CATTLE_AGENT_BINARY_CHECKSUM", &other),
                "the agent has the checksum",
            ),
            (
                install(&machine, &server).variable("CATTLE_AGENT_UNINSTALL_CHECKSUM", &other),
                "the uninstall script has the checksum",
            ),
            (install(&machine, &server).arguments(&["--ca-checksum", ""]), "pass --ca-checksum"),
            (
                install(&machine, &server).arguments(&["-c", ""]).variable("STRICT_VERIFY", "true"),
                "strict verification needs the checksum",
            ),
            (install(&machine, &server).arguments(&["--unknown"]), "unknown argument --unknown"),
            (install(&machine, &server).arguments(&["--label"]), "--label needs a value"),
            (install(&machine, &server).arguments(&["--label", "a=b\nX-Cattle-Id: 1"]), "line break"),
            (machine.run("/install.sh").arguments(&["-s", "https://x", "-t", "t"]), "no role"),
            (machine.run("/install.sh").arguments(&["-s", "https://x", "-w"]), "no token"),
            (machine.run("/install.sh").arguments(&["-t", "t", "-w"]), "no server"),
            (machine.run("/install.sh").arguments(&["-s", "http://x", "-t", "t", "-w"]), "is not encrypted"),
            (install(&machine, &server).arguments(&["--token", "a\nX-Cattle-Id: 1"]), "line break"),
            (
                machine.run("/install.sh").variable("CATTLE_REMOTE_ENABLED", "false"),
                "neither remote nor local",
            ),
        ] {
            let output = run.fail();
            assert!(output.contains(message), "`{message}` by {shell:?} in\n{output}");
            assert!(!machine.path(BINARY).exists() && !machine.path(UNIT).exists(), "{message}");
            machine.assert_nothing_is_left_behind();
        }
        assert_eq!(server.registrations(), 0);
    }
}

#[test]
#[ignore = "default: busybox, shellcheck"]
fn a_server_that_refuses_is_told_of() {
    let Some(machine) = Machine::new(SHELLS[1]) else { return };
    let server = Server::start();
    install(&machine, &server).succeed();
    let connection = machine.read(CONNECTION);
    server.answer(&[Answer::Unauthorized]);
    machine.forget_systemctl();
    let output = install(&machine, &server).arguments(&["--token", "wrong"]).fail();
    assert!(output.contains("status 401") && output.contains("get a new one"), "{output}");
    assert_eq!(machine.read(CONNECTION), connection);
    assert!(machine.systemctl().is_empty(), "the running agent is left alone");
    machine.assert_nothing_is_left_behind();
}

#[test]
#[ignore = "default: busybox, shellcheck"]
fn a_server_that_is_not_ready_is_asked_again() {
    for shell in [SHELLS[0], SHELLS[2], SHELLS[3]] {
        let Some(machine) = Machine::new(shell) else { return };
        let server = Server::start();
        server.answer(&[Answer::NotReady, Answer::Nonsense, Answer::Ready]);
        let output = install(&machine, &server).succeed();
        assert!(output.contains("status 503; once more in 1 s"), "{shell:?}: {output}");
        assert!(output.contains("not what it should be; once more in 0 s"), "{shell:?}: {output}");
        assert_eq!(server.registrations(), 3);
        assert_eq!(machine.read(CONNECTION), server::CONNECTION);
    }
}

#[test]
#[ignore = "default: busybox, shellcheck"]
fn a_failed_start_leaves_no_file_that_blocks_the_agent() {
    let Some(machine) = Machine::new(SHELLS[1]) else { return };
    let server = Server::start();
    install(&machine, &server).succeed();
    machine.break_systemctl("restart");
    let output = install(&machine, &server).fail();
    assert!(output.contains("journalctl -u rancher-system-agent"), "{output}");
    assert_eq!(machine.systemctl().last().unwrap(), "start rancher-system-agent");
    assert!(!machine.path(PENDING).exists());
    machine.assert_nothing_is_left_behind();
}

#[test]
#[ignore = "default: busybox, shellcheck"]
fn a_plan_that_is_being_applied_is_waited_for() {
    let Some(machine) = Machine::new(SHELLS[0]) else { return };
    let server = Server::start();
    install(&machine, &server).succeed();
    let active = machine.path("var/lib/rancher/agent/interlock/applyinator-active");
    std::fs::write(&active, "Mon Jan  2 15:04:05 UTC 2006\n").unwrap();
    let output = install(&machine, &server).succeed();
    assert_eq!(output.matches("the agent is applying a plan").count(), 59, "{output}");
    std::fs::write(&active, "pid=4194304\ntime=1\n").unwrap();
    let output = install(&machine, &server).succeed();
    assert!(!output.contains("the agent is applying a plan"), "its owner is gone: {output}");
}

#[test]
#[ignore = "default: busybox, shellcheck"]
fn local_files_and_other_places_are_used() {
    let Some(machine) = Machine::new(SHELLS[0]) else { return };
    for (name, content) in [("agent", server::AGENT), ("gone.sh", "#!/bin/sh\n")] {
        std::fs::write(machine.path(name), content).unwrap();
    }
    machine
        .run("/install.sh")
        .variable("CATTLE_REMOTE_ENABLED", "false")
        .variable("CATTLE_LOCAL_ENABLED", "true")
        .variable("CATTLE_AGENT_BINARY_LOCAL", "true")
        .variable("CATTLE_AGENT_BINARY_LOCAL_LOCATION", "/agent")
        .variable("CATTLE_AGENT_UNINSTALL_LOCAL", "true")
        .variable("CATTLE_AGENT_UNINSTALL_LOCAL_LOCATION", "/gone.sh")
        .variable("CATTLE_AGENT_CONFIG_DIR", "/srv/agent/config")
        .variable("CATTLE_AGENT_VAR_DIR", "/srv/agent/var")
        .variable("CATTLE_AGENT_BIN_PREFIX", "/srv/prefix")
        .succeed();
    let config = machine.read("srv/agent/config/config.yaml");
    assert!(config.contains("remoteEnabled: false") && config.contains("workDirectory: /srv/agent/var/work"));
    assert!(!config.contains("connectionInfoFile"));
    assert!(machine.read(UNIT).contains("ExecStart=/srv/prefix/bin/rancher-system-agent sentinel"));
}

#[test]
#[ignore = "default: busybox, shellcheck"]
fn a_mounted_prefix_is_avoided() {
    let Some(machine) = Machine::new(SHELLS[1]) else { return };
    let server = Server::start();
    install(&machine, &server)
        .mounted("/usr/local")
        .variable("CATTLE_AGENT_FALLBACK_PATH", "/x/bin")
        .succeed();
    assert!(machine.path("opt/rancher-system-agent/bin/rancher-system-agent").exists());
    assert!(machine.read(ENVIRONMENT).trim_end().ends_with(":/x/bin"), "{}", machine.read(ENVIRONMENT));
    machine
        .run("/opt/rancher-system-agent/bin/rancher-system-agent-uninstall.sh")
        .mounted("/usr/local")
        .succeed();
    assert!(!machine.path("opt/rancher-system-agent").exists());
}

#[test]
#[ignore = "default: busybox, shellcheck"]
fn the_uninstaller_removes_everything() {
    for shell in SHELLS {
        let Some(machine) = Machine::new(shell) else { return };
        let server = Server::start();
        let before = machine.files();
        install(&machine, &server).succeed();
        machine.forget_systemctl();
        machine.run(&format!("/{UNINSTALLER}")).succeed();
        assert_eq!(machine.systemctl()[..2], ["stop rancher-system-agent", "disable rancher-system-agent"]);
        assert_eq!(machine.files(), before, "{shell:?}");
        // What is gone already is no error.
        std::fs::copy(machine.path("uninstall.sh"), machine.path("again.sh")).unwrap();
        machine.run("/again.sh").succeed();
        let output = machine.run("/uninstall.sh").variable("CATTLE_AGENT_VAR_DIR", "/var").fail();
        assert!(output.contains("too near to the top"), "{output}");
    }
}

#[test]
#[ignore = "default: busybox, shellcheck"]
fn shellcheck_has_nothing_to_say() {
    if peers::skip("install") {
        return;
    }
    let shellcheck = peers::Peer::Shellcheck.provide().unwrap().path.join("usr/bin/shellcheck");
    let scripts = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/agent/install");
    let mut command = std::process::Command::new(shellcheck);
    command.args(["--shell", "sh", "install.sh", "uninstall.sh"]).current_dir(scripts);
    peers::command::run(&mut command).unwrap();
}
