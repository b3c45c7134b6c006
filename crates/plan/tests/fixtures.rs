//! Bytes that Go's encoders made (see data/generate.go) are the bytes that we make, and mean what they mean there.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use plan::document::{File, HttpGet, Instruction, OneTimeInstruction, PeriodicInstruction, Probe};
use plan::output::{self, PeriodicOutput};
use plan::position::Position;
use plan::probe::ProbeStatus;
use plan::secret::{Data, Feedback, Key, PlanState};
use plan::{Checksum, Document, Plan, PlanSecret, gotime, probe};

fn data(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)).unwrap()
}

fn full() -> Plan {
    let text = str::to_owned;
    let list = |items: &[&str]| items.iter().map(|item| text(item)).collect();
    let file = |path: &str| File { path: text(path), ..File::default() };
    Plan {
        files: vec![
            File {
                content: text("aGVsbG8K"),
                dynamic: true,
                ..file("/etc/rancher/rke2/config.yaml.d/50-rancher.yaml")
            },
            File {
                content: text("c2VjcmV0"),
                permissions: text("0644"),
                uid: 1000,
                gid: 2000,
                minor: true,
                ..file("/var/lib/x")
            },
            File { directory: true, permissions: text("0700"), ..file("/var/lib/dir") },
            File { action: text("delete"), ..file("/var/lib/old") },
        ],
        instructions: vec![
            OneTimeInstruction {
                common: Instruction {
                    name: text("install"),
                    image: text("rancher/system-agent-installer-rke2:v1.33.11-rke2r1"),
                    env: list(&["RESTART_STAMP=abc", "INSTALL_RKE2_EXEC=server"]),
                    args: list(&["-c", "run.sh"]),
                    command: text("sh"),
                    ..Instruction::default()
                },
                save_output: true,
                ..OneTimeInstruction::default()
            },
            OneTimeInstruction {
                common: Instruction {
                    name: text("scripted"),
                    script: text(
                        "#!/bin/sh\necho '<&>' \u{2028}\u{2029} \"quoted\" \\ \t\u{8}\u{c}\u{1}\u{7f} é 😀\n",
                    ),
                    ..Instruction::default()
                },
                ..OneTimeInstruction::default()
            },
        ],
        periodic_instructions: vec![PeriodicInstruction {
            common: Instruction {
                name: text("etcd-snapshots"),
                args: list(&["a<b", "c&&d", ">e"]),
                command: text("/bin/sh"),
                ..Instruction::default()
            },
            period_seconds: 120,
            save_stderr_output: true,
            ..PeriodicInstruction::default()
        }],
        error: text("none & <yet>"),
        probes: probes(),
        ..Plan::default()
    }
}

fn probes() -> BTreeMap<String, Probe> {
    let text = str::to_owned;
    let get = |url: &str| HttpGet { url: text(url), ..HttpGet::default() };
    let kubelet = Probe {
        initial_delay_seconds: 1,
        timeout_seconds: 5,
        success_threshold: 1,
        failure_threshold: 2,
        http_get: get("http://127.0.0.1:10248/healthz"),
        ..Probe::default()
    };
    let apiserver = Probe {
        name: text("kube-apiserver"),
        http_get: HttpGet {
            ca_cert: text("/ca.crt"),
            client_cert: text("/client.crt"),
            client_key: text("/client.key"),
            ..get("https://127.0.0.1:6443/readyz?a=1&b=2")
        },
        ..Probe::default()
    };
    let etcd = Probe { http_get: HttpGet { insecure: true, ..HttpGet::default() }, ..Probe::default() };
    BTreeMap::from([
        (text("kubelet"), kubelet),
        (text("kube-apiserver"), apiserver),
        (text("Empty"), Probe::default()),
        (text("etcd-é"), etcd),
    ])
}

fn statuses() -> BTreeMap<String, ProbeStatus> {
    let status = |healthy, success_count, failure_count| ProbeStatus {
        healthy,
        success_count,
        failure_count,
        ..ProbeStatus::default()
    };
    BTreeMap::from([
        ("kubelet".to_owned(), status(true, 1, 0)),
        ("kube-apiserver".to_owned(), status(true, 0, 2)),
        ("Empty".to_owned(), status(false, 0, 0)),
    ])
}

fn outputs() -> output::Outputs {
    let output = |name: &str, bytes: &[u8]| (name.to_owned(), bytes.to_vec());
    BTreeMap::from([output("install", b"hello\n"), output("b<&>", &[0, 255, 10]), output("a", b"")])
}

fn periodic_outputs() -> output::PeriodicOutputs {
    let text = str::to_owned;
    let snapshots = PeriodicOutput {
        name: text("etcd-snapshots"),
        stdout: b"snapshot\n".to_vec(),
        last_successful_run_time: text("Thu Mar  5 07:08:09 UTC 2026"),
        ..PeriodicOutput::default()
    };
    let gone = PeriodicOutput {
        name: text("gone"),
        stderr: b"no\n".to_vec(),
        exit_code: -1,
        last_successful_run_time: text("Thu Mar  5 07:00:00 UTC 2026"),
        failures: 3,
        last_failed_run_time: text("Thu Mar  5 07:08:09 UTC 2026"),
        ..PeriodicOutput::default()
    };
    BTreeMap::from([(text("etcd-snapshots"), snapshots), (text("gone"), gone)])
}

fn go_secret() -> Data {
    let encoded: BTreeMap<String, String> = serde_json::from_slice(&data("secret.json")).unwrap();
    encoded.into_iter().map(|(key, value)| (key, STANDARD.decode(value).unwrap())).collect()
}

#[test]
fn plans_have_the_bytes_that_go_gives_them() {
    let sums = String::from_utf8(data("checksums.txt")).unwrap();
    let sum = |name: &str| -> Checksum {
        let line = sums.lines().find(|line| line.ends_with(&format!("  {name}"))).unwrap();
        line[..64].parse().unwrap()
    };
    let encoded = Document::encode(full());
    assert_eq!(String::from_utf8_lossy(encoded.bytes()), String::from_utf8_lossy(&data("plan.json")));
    assert_eq!(encoded.checksum(), sum("plan.json"));
    assert_eq!(Document::encode(Plan::default()).checksum(), sum("plan-empty.json"));

    let read = Document::parse(data("plan.json")).unwrap();
    assert!(*read.plan() == full(), "what Go wrote is read as what it meant");
    assert_eq!(read.checksum(), sum("plan.json"));
}

#[test]
fn the_checksum_is_over_the_bytes_that_came() {
    let other_order = Document::parse(data("plan-agent-order.json")).unwrap();
    assert!(*other_order.plan() == Plan { error: String::new(), ..full() });
    let sums = String::from_utf8(data("checksums.txt")).unwrap();
    assert!(sums.contains(&format!("{}  plan-agent-order.json", other_order.checksum())));
    assert_ne!(Document::encode(other_order.plan().clone()).checksum(), other_order.checksum());
}

#[test]
fn a_secret_of_gos_agent() {
    let data = go_secret();
    let secret = PlanSecret::read(&data);
    let time: Timestamp = "2026-03-05T07:08:09Z".parse().unwrap();
    assert!(secret.plan.get().is_some_and(|document| *document.plan() == full()));
    assert!(secret.plan_applied() && !secret.plan_failed());
    assert_eq!(secret.applied_plan, secret.checksum);
    assert_eq!(secret.state, Some(PlanState::Succeeded));
    assert_eq!((secret.max_failures, secret.failure_threshold), (Some(5), Some(-1)));
    assert_eq!(secret.probe_period, Duration::from_millis(2500));
    assert_eq!(secret.revision, Key::Is(7));
    assert_eq!(secret.applied_output, Key::Is(outputs()));
    assert_eq!(secret.periodic_output, Key::Is(periodic_outputs()));
    assert_eq!((secret.failed_output.clone(), secret.failed_checksum.clone()), (Key::Missing, Key::Missing));
    assert_eq!((secret.failure_count.clone(), secret.success_count.clone()), (Key::Is(0), Key::Is(4)));
    assert_eq!(secret.last_apply_time, Key::Is(time));
    assert_eq!(secret.probe_statuses, Key::Is(statuses()));

    let same = Feedback {
        state: Some(PlanState::Succeeded),
        revision: Some(7),
        applied_checksum: Some(secret.checksum),
        applied_output: Some(outputs()),
        periodic_output: Some(periodic_outputs()),
        failed_checksum: Some(None),
        failed_output: Some(BTreeMap::new()),
        failure_count: Some(0),
        success_count: Some(4),
        last_apply_time: Some(time),
        probe_statuses: Some(statuses()),
    };
    assert!(same.changes(&secret).is_empty(), "what another compressor wrote is not written again");
}

#[test]
fn outputs_are_the_json_that_go_writes_in_gzip() {
    let inner = |packed: &[u8]| {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(packed), &mut text).unwrap();
        text
    };
    assert_eq!(inner(&output::encode(&outputs())).as_bytes(), data("outputs.json"));
    // Go tells no bytes (null) from zero bytes; its readers do not.
    let expected = String::from_utf8(data("periodic-outputs.json")).unwrap().replace("null", "\"\"");
    assert_eq!(inner(&output::encode_periodic(&periodic_outputs())), expected);
    assert_eq!(probe::encode(&statuses()), go_secret()["probe-statuses"]);
}

#[test]
fn a_position_of_gos_agent() {
    let position = Position::decode(&data("position.json")).unwrap();
    assert!(!position.needs_apply(&Document::parse(data("plan.json")).unwrap()));
    assert!(position.needs_apply(&Document::encode(Plan::default())));
    assert_eq!((&position.output, &position.periodic_output), (&outputs(), &periodic_outputs()));
    assert_eq!(position.probe_statuses, statuses());
    assert_eq!(Position::decode(&position.encode()).unwrap(), position);
    assert_eq!(Position::decode(b"").unwrap(), Position::default());
    assert_eq!(Position::default().encode(), b"{}");
}

#[test]
fn times() {
    for line in String::from_utf8(data("unixdate.txt")).unwrap().lines() {
        let (second, text) = line.split_once(' ').unwrap();
        let time = Timestamp::from_second(second.parse().unwrap()).unwrap();
        assert_eq!(gotime::format(time), text);
        assert_eq!(gotime::parse(text), Some(time));
    }
}
