//! The end of a host that registered by its own hand: its last plan takes off what was put on it.
//!
//! Rancher leaves such hosts as they are. Here the agent gets one more plan before its Secret goes: the distribution
//! uninstalls itself, then the agent does. A host that does not answer is waited for as long as [`PATIENCE`], not longer.

use api::catalogue::{annotations, labels};
use api::rke::v1::CustomMachine;
use jiff::{SignedDuration, Timestamp};
use plan::document::{Document, Instruction, OneTimeInstruction, Plan};
use plan::orchestrator::{self, Limit, Progress, Terms, Update};
use plan::secret::{Data, PlanSecret};

use crate::bootstrap::script::quoted;
use crate::management::AGENT_VAR_DIR;
use crate::{Code, Wait};

/// How long a host may take: uninstalling stops every container first.
pub const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

/// Tries of a plan that fails.
const TRIES: u32 = 3;

/// The distributions' own ways off a host, wherever their installers put them.
const DISTRIBUTION: &str = r#"failed=0
for name in k3s-agent-uninstall.sh k3s-uninstall.sh rke2-uninstall.sh; do
    for directory in /usr/local/bin /usr/bin /opt/bin /opt/rke2/bin; do
        if [ -x "$directory/$name" ]; then
            "$directory/$name" || failed=1
        fi
    done
done
exit "$failed""#;

/// The agent goes a little later, so that it can still tell how this plan went, and from outside of its own unit, which
/// takes everything in it along.
const AGENT: &str = r#"for directory in /usr/local/bin /opt/rancher-system-agent/bin; do
    script="$directory/rancher-system-agent-uninstall.sh"
    if [ -x "$script" ]; then
        if command -v systemd-run >/dev/null 2>&1; then
            exec systemd-run --quiet --collect --on-active=20 --setenv=CATTLE_AGENT_VAR_DIR="${CATTLE_AGENT_VAR_DIR:-}" "$script"
        fi
        (sleep 20; exec "$script") >/dev/null 2>&1 &
        exit 0
    fi
done"#;

/// What there is.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The host, which is being deleted.
    pub host: &'a CustomMachine,
    /// Data of its plan Secret, as long as there is one.
    pub data: Option<&'a Data>,
    /// The agent's directory, if the cluster has another than the usual one.
    pub agent_directory: &'a str,
    /// The time.
    pub now: Timestamp,
}

/// What to do about a host that goes.
#[derive(Clone, Debug, PartialEq)]
pub enum Farewell {
    /// It is clean, or nothing was ever on it.
    Release,
    /// Deliver the last plan.
    Deliver(Box<Update>),
    /// It is on its way; look again then at the latest.
    Wait(Wait, Timestamp),
    /// It is let go as it is: what the user should know.
    GiveUp(String),
}

/// What to do about a host that goes.
pub fn farewell(facts: &Facts<'_>) -> Farewell {
    let meta = &facts.host.metadata;
    let name = meta.name.as_deref().unwrap_or_default();
    let Some(data) = facts.data else { return Farewell::Release };
    let is = |map: &Option<std::collections::BTreeMap<String, String>>, key: &str, value: &str| {
        map.as_ref().and_then(|map| map.get(key)).is_some_and(|found| found == value)
    };
    if is(&meta.annotations, annotations::FORCE_MACHINE_REMOVE, "true") {
        return Farewell::GiveUp(by_hand(name, "its removal is forced"));
    }
    if is(&meta.labels, labels::OS, "windows") {
        return Farewell::GiveUp(by_hand(name, "hosts with Windows cannot be cleaned from here"));
    }
    let last = last_plan(facts.agent_directory);
    let since = meta.deletion_timestamp.as_ref().map_or(facts.now, |time| time.0);
    let end = since.saturating_add(PATIENCE).unwrap_or(since);
    let delivered = data.get(plan::secret::PLAN).is_some_and(|bytes| bytes == last.bytes());
    let progress = orchestrator::status(&PlanSecret::read(data), &Default::default()).progress;
    match progress {
        Progress::Applied if delivered => Farewell::Release,
        Progress::Failed if delivered => Farewell::GiveUp(by_hand(name, "uninstalling failed")),
        _ if facts.now >= end => Farewell::GiveUp(by_hand(name, "its agent does not answer")),
        _ if delivered => Farewell::Wait(wait(name), end),
        _ => {
            let limit = Limit::Times(TRIES);
            let terms = Terms { max_failures: limit, failure_threshold: limit, probe_period: None };
            match orchestrator::deliver(data, &last, terms, facts.now) {
                Ok(update) => Farewell::Deliver(Box::new(update)),
                Err(error) => Farewell::GiveUp(by_hand(name, &error.to_string())),
            }
        }
    }
}

/// The plan that takes everything off a host.
fn last_plan(agent_directory: &str) -> Document {
    let instruction = |name: &str, script: &str| OneTimeInstruction {
        common: Instruction {
            name: name.into(),
            command: "sh".into(),
            args: vec!["-c".into(), script.into()],
            ..Default::default()
        },
        save_output: true,
        ..Default::default()
    };
    let agent = match agent_directory {
        "" => AGENT.to_owned(),
        directory => format!("export {AGENT_VAR_DIR}={}\n{AGENT}", quoted(directory)),
    };
    let instructions =
        vec![instruction("remove-distribution", DISTRIBUTION), instruction("remove-agent", &agent)];
    Document::encode(Plan { instructions, ..Default::default() })
}

fn wait(name: &str) -> Wait {
    Wait::new(
        Code::CleaningHost,
        format!("CustomMachine {name}"),
        format!("waiting for host {name} to uninstall the distribution and its agent"),
        format!("if the host is gone for good, annotate it with {}=true", annotations::FORCE_MACHINE_REMOVE),
    )
}

fn by_hand(name: &str, why: &str) -> String {
    format!(
        "host {name} was let go as it is: {why}. To clean it by hand, run k3s-uninstall.sh, k3s-agent-uninstall.sh or \
         rke2-uninstall.sh on it, then rancher-system-agent-uninstall.sh"
    )
}

#[cfg(test)]
mod tests {
    use plan::secret::{APPLIED_CHECKSUM, PLAN, PLAN_STATE, apply_changes};
    use serde_json::json;

    use super::*;

    fn at(text: &str) -> Timestamp {
        format!("2026-01-01T10:{text}Z").parse().unwrap()
    }

    fn host(extra: serde_json::Value) -> CustomMachine {
        let mut document = json!({
            "apiVersion": "rke.cattle.io/v1", "kind": "CustomMachine",
            "metadata": {"name": "h", "deletionTimestamp": "2026-01-01T10:00:00Z"}
        });
        for (key, value) in extra.as_object().unwrap() {
            document["metadata"][key] = value.clone();
        }
        serde_json::from_value(document).unwrap()
    }

    fn look(host: &CustomMachine, data: Option<&Data>, now: &str) -> Farewell {
        farewell(&Facts { host, data, agent_directory: "", now: at(now) })
    }

    #[test]
    fn a_host_gets_one_more_plan_and_goes_when_it_is_applied() {
        let host = host(json!({}));
        assert_eq!(look(&host, None, "00:00"), Farewell::Release, "there is nothing to reach it by");
        let mut data: Data = [(PLAN.to_owned(), b"{}".to_vec())].into();
        let Farewell::Deliver(update) = look(&host, Some(&data), "00:01") else { panic!() };
        apply_changes(&mut data, &update.data);
        let text = String::from_utf8(data[PLAN].clone()).unwrap();
        assert!(text.contains("rke2-uninstall.sh") && text.contains("rancher-system-agent-uninstall.sh"));
        let Farewell::Wait(wait, until) = look(&host, Some(&data), "01:00") else { panic!() };
        assert_eq!((wait.code, until), (Code::CleaningHost, at("05:00")));
        assert!(
            matches!(look(&host, Some(&data), "05:00"), Farewell::GiveUp(why) if why.contains("does not answer"))
        );
        let mut failed = data.clone();
        failed.insert(PLAN_STATE.into(), b"failed".to_vec());
        assert!(
            matches!(look(&host, Some(&failed), "01:00"), Farewell::GiveUp(why) if why.contains("failed"))
        );
        data.insert(PLAN_STATE.into(), b"succeeded".to_vec());
        let checksum = last_plan("").checksum().to_string();
        data.insert(APPLIED_CHECKSUM.into(), checksum.into_bytes());
        assert_eq!(look(&host, Some(&data), "06:00"), Farewell::Release);
    }

    #[test]
    fn some_hosts_are_let_go_as_they_are() {
        let data: Data = [(PLAN.to_owned(), b"{}".to_vec())].into();
        let forced = host(json!({"annotations": {annotations::FORCE_MACHINE_REMOVE: "true"}}));
        let windows = host(json!({"labels": {labels::OS: "windows"}}));
        for host in [forced, windows] {
            let Farewell::GiveUp(why) = look(&host, Some(&data), "00:01") else { panic!() };
            assert!(why.contains("rancher-system-agent-uninstall.sh"), "{why}");
        }
    }

    /// What the scripts do, on directories of the test's own.
    #[test]
    fn the_script_runs_every_uninstaller_there_is() {
        let directory = std::env::temp_dir().join(format!("herdsman-farewell-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let here = directory.to_str().unwrap();
        for (name, code) in [("k3s-uninstall.sh", 0), ("rke2-uninstall.sh", 1)] {
            let path = directory.join(name);
            std::fs::write(&path, format!("#!/bin/sh\necho {name} >>{here}/ran\nexit {code}\n")).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&path, mode).unwrap();
        }
        let script = DISTRIBUTION.replace("/usr/local/bin /usr/bin /opt/bin /opt/rke2/bin", here);
        let run = || std::process::Command::new("sh").args(["-c", &script]).status().unwrap().code();
        assert_eq!(run(), Some(1), "one that fails does not keep the others from being run");
        let ran = std::fs::read_to_string(directory.join("ran")).unwrap();
        assert_eq!(ran, "k3s-uninstall.sh\nrke2-uninstall.sh\n");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
