//! The real binary, over TLS, with real processes: killed in the middle, and asked to end.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plan::document::{Document, Instruction, OneTimeInstruction, Plan};
use plan::secret::{Data, PlanState};

use crate::support::{Authority, Server};

const BINARY: &str = env!("CARGO_BIN_EXE_herdsman-agent");

/// Below `directory` is all that the agent touches.
fn start(binary: &Path, directory: &Path) -> Agent {
    let child = Command::new(binary)
        .arg("run")
        .env("CATTLE_AGENT_CONFIG", directory.join("config.yaml"))
        .env("CATTLE_AGENT_STRICT_VERIFY", "TRUE")
        .stdout(Stdio::null())
        .spawn();
    Agent(child.unwrap())
}

/// Does not outlive the test.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn private(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn configure(directory: &Path, server: &str, authority: &Authority) {
    let kubeconfig = format!(
        "clusters: [{{name: a, cluster: {{server: '{server}', certificate-authority-data: {}}}}}]\nusers: [{{name: a, user: {{token: t}}}}]\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\ncurrent-context: a\n",
        STANDARD.encode(&authority.pem)
    );
    let info = serde_json::json!({"kubeConfig": kubeconfig, "namespace": "default", "secretName": "plan"});
    private(&directory.join("connection.json"), &info.to_string());
    let at = |name: &str| directory.join(name).display().to_string();
    let config = format!(
        "remoteEnabled: true\nconnectionInfoFile: {}\nworkDirectory: {}\ninterlockDirectory: {}\n",
        at("connection.json"),
        at("work"),
        at("interlock")
    );
    private(&directory.join("config.yaml"), &config);
}

async fn until(what: &str, mut good: impl AsyncFnMut() -> bool) {
    for _ in 0..9000 {
        if good().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not {what}");
}

/// A server, and the directory of an agent that is to reach it.
async fn furnished() -> (Server, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let (server, authority) = (Server::new().await, Authority::new());
    let address = server.listen(authority.server(false)).await;
    configure(directory.path(), &format!("https://{address}"), &authority);
    (server, directory)
}

#[tokio::test]
async fn from_delivery_to_the_end() {
    if !rustix::process::getuid().is_root() {
        return println!("skip: only root may run the service");
    }
    let (server, directory) = furnished().await;
    let mark = directory.path().join("mark");
    let script = format!(
        "echo $CATTLE_AGENT_ATTEMPT_NUMBER >> {0}; test -e {0}.go || sleep 1000; echo done",
        mark.display()
    );
    let args = ["-c".to_owned(), script].into();
    let common = Instruction { name: "wait".into(), command: "sh".into(), args, ..Instruction::default() };
    let plan = Plan {
        instructions: vec![OneTimeInstruction { common, save_output: true, ..OneTimeInstruction::default() }],
        ..Plan::default()
    };
    let pending = Data::from([
        ("plan".to_owned(), Document::encode(plan).bytes().to_vec()),
        ("plan-state".to_owned(), b"pending".to_vec()),
    ]);
    server.create(&pending).await;

    let agent = start(BINARY.as_ref(), directory.path());
    until("running", async || mark.exists()).await;
    drop(agent);
    std::fs::write(mark.with_extension("go"), "").unwrap();
    let agent = start(BINARY.as_ref(), directory.path());
    let secret = async || plan::PlanSecret::read(&server.data().await);
    until("succeeded", async || secret().await.state == Some(PlanState::Succeeded)).await;
    assert_eq!(secret().await.applied_output.get().unwrap()["wait"], b"done\n");
    assert_eq!(std::fs::read_to_string(&mark).unwrap(), "1\n1\n");

    end(agent);
}

/// As the service manager does it.
fn end(mut agent: Agent) {
    let pid = rustix::process::Pid::from_child(&agent.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(agent.0.wait().unwrap().code(), Some(0));
}

#[tokio::test]
async fn it_goes_over_to_another_binary() {
    if !rustix::process::getuid().is_root() {
        return println!("skip: only root may run the service");
    }
    let (server, directory) = furnished().await;
    server.create(&Data::from([("plan".to_owned(), b"{}".to_vec())])).await;
    let binary = directory.path().join("agent");
    std::fs::copy(BINARY, &binary).unwrap();
    let agent = start(&binary, directory.path());
    let good = || {
        let text = std::fs::read(directory.path().join("state/update.json")).ok()?;
        let state: agent::update::State = serde_json::from_slice(&text).ok()?;
        state.good
    };
    until("connected", async || good().is_some()).await;
    let first = good();

    // One that differs, and runs.
    let other = directory.path().join("other");
    std::fs::copy(BINARY, &other).unwrap();
    std::io::Write::write_all(&mut std::fs::OpenOptions::new().append(true).open(&other).unwrap(), b"x")
        .unwrap();
    std::fs::rename(&other, &binary).unwrap();
    let plan = r#"{"error":"a change, so that there is something to do"}"#;
    server.set(&Data::from([("plan".to_owned(), plan.into())])).await;
    until("gone over", async || good() != first).await;
    let running = std::fs::read_link(format!("/proc/{}/exe", agent.0.id())).unwrap();
    assert_eq!(running, binary, "the process is the same, what it runs is not");
    end(agent);
}
