//! The binary: arguments, exit codes, signals.

#![expect(clippy::unwrap_used, reason = "in a test the panic is the message")]

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn agent(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_herdsman-agent"));
    command.args(args).env_remove("CATTLE_LOGLEVEL").env_remove("CATTLE_AGENT_CONFIG");
    command
}

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn write(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    path
}

#[test]
fn usage() {
    let (code, stdout, _) = said(&agent(&["version"]).output().unwrap());
    assert_eq!((code, stdout.starts_with("herdsman-agent ")), (Some(0), true));
    for wrong in [&[][..], &["fly"], &["apply"]] {
        let (code, _, stderr) = said(&agent(wrong).output().unwrap());
        assert_eq!((code, stderr.starts_with("usage:")), (Some(2), true), "{wrong:?}");
    }
    let mut tunnel = agent(&["tunnel"]);
    let (code, _, stderr) =
        said(&tunnel.env("CATTLE_TUNNEL_CONFIG", "/does/not/exist.yaml").output().unwrap());
    assert_eq!((code, stderr.contains("cannot read /does/not/exist.yaml")), (Some(1), true), "{stderr}");
}

#[test]
fn validation() {
    let directory = tempfile::tempdir().unwrap();
    let good = write(directory.path(), "c.yaml", "localEnabled: true\nlocalPlanDirectory: /does/not/exist\n");
    let (code, _, stderr) = said(&agent(&["validate-config", good.to_str().unwrap()]).output().unwrap());
    assert_eq!(code, Some(0));
    assert!(stderr.starts_with("warning: localPlanDirectory: "), "{stderr}");
    let bad = write(directory.path(), "b.yaml", "remoteEnabled: true\n");
    let (code, _, stderr) = said(&agent(&["validate-config", bad.to_str().unwrap()]).output().unwrap());
    assert_eq!(code, Some(1));
    assert!(stderr.contains("connectionInfoFile: Required value"), "{stderr}");
    let info = write(directory.path(), "i.json", r#"{"kubeConfig":"x: [","namespace":"n","secretName":"s"}"#);
    let (code, _, stderr) = said(&agent(&["validate-connection", info.to_str().unwrap()]).output().unwrap());
    assert_eq!((code, stderr.contains("kubeConfig: not a kubeconfig")), (Some(1), true), "{stderr}");
}

fn local_config(directory: &Path) -> PathBuf {
    let at = |name: &str| directory.join(name).display().to_string();
    let text = format!(
        "localEnabled: true\nlocalPlanDirectory: {}\nworkDirectory: {}\ninterlockDirectory: {}\n",
        at("plans"),
        at("work"),
        at("interlock")
    );
    write(directory, "config.yaml", &text)
}

#[test]
fn a_plan_by_hand() {
    let directory = tempfile::tempdir().unwrap();
    let config = local_config(directory.path());
    let plan = |script: &str| {
        let text = format!(
            r#"{{"instructions":[{{"name":"say","command":"sh","args":["-c","{script}"],"saveOutput":true}}]}}"#
        );
        write(directory.path(), "p.plan", &text)
    };
    let run = |path: &Path| {
        let output =
            agent(&["apply", path.to_str().unwrap()]).env("CATTLE_AGENT_CONFIG", &config).output().unwrap();
        said(&output)
    };
    let (code, stdout, _) = run(&plan("echo hello"));
    assert_eq!(code, Some(0));
    assert!(stdout.contains("say:\nhello\napplied "), "{stdout}");
    let (code, stdout, stderr) = run(&plan("echo bad; exit 1"));
    assert_eq!((code, stdout.contains("say:\nbad\n")), (Some(1), true), "{stdout}");
    assert!(stderr.contains("failed "), "{stderr}");
}

#[test]
fn a_service_ends_when_it_is_asked() {
    if !rustix::process::getuid().is_root() {
        return println!("skip: only root may run the service");
    }
    let directory = tempfile::tempdir().unwrap();
    let config = local_config(directory.path());
    std::fs::create_dir(directory.path().join("plans")).unwrap();
    let plan =
        r#"{"instructions":[{"name":"hang","command":"sh","args":["-c","echo hanging; sleep 1000"]}]}"#;
    write(&directory.path().join("plans"), "a.plan", plan);
    let mut child =
        agent(&["sentinel"]).env("CATTLE_AGENT_CONFIG", &config).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains(":stdout]: hanging")), "it is in the middle of it");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!directory.path().join("interlock/applyinator-active").exists());
    assert!(!directory.path().join("plans/a.pos").exists(), "it is not done");
}
