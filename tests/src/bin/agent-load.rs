//! How long the agent takes from a change of its Secret to the first instruction, and what it needs, beside a program
//! that does nothing but follow the same Secret. `cargo xtask bench agent` runs it.
//!
//! `agent-load <agent> <watcher> [--quick]`; prints lines `measured <name> <value> <unit>`. The API server is the
//! program that `HERDSMAN_BIN` names.

use std::fs::{File, Permissions};
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clock::{Clock, Monotonic, SystemClock};
use plan::document::{Instruction, OneTimeInstruction, Plan};
use plan::orchestrator::{Progress, Terms};
use suites::plans::PlanServer;

const SECRET: &str = "machine-plan";
/// How long one round may take.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (agent, watcher, rounds) = match &arguments[..] {
        [agent, watcher] => (agent, watcher, 300),
        [agent, watcher, quick] if quick == "--quick" => (agent, watcher, 60),
        _ => bail!("usage: agent-load <agent> <watcher> [--quick]"),
    };
    let directory = tempfile::tempdir()?;
    let plans = PlanServer::start(Ipv4Addr::LOCALHOST.into())?;
    let connection = plans.enrol(SECRET)?;
    let watcher = Watcher::start(Path::new(watcher), directory.path(), &connection)?;
    let agent = start_agent(Path::new(agent), directory.path(), &connection)?;
    let begun = Begun::listen(&directory.path().join("begun"))?;
    let (mut instruction, mut event) = (Vec::new(), Vec::new());
    // The first ones find everything cold.
    for round in 0..rounds + 10 {
        let delivered = plans.deliver(SECRET, plan(round, &begun.path), Terms::default())?;
        let seen = watcher.saw(&delivered.version)?;
        let began = begun.times.recv_timeout(PATIENCE).context("the agent does not begin")?;
        plans.until(SECRET, "applied", |stored| stored.status().progress == Progress::Applied)?;
        if round >= 10 {
            instruction.push(began.since(delivered.sent));
            event.push(seen.since(delivered.sent));
        }
    }
    for (name, times) in [("first_instruction", &mut instruction), ("watcher_event", &mut event)] {
        times.sort();
        println!("measured {name}_median {:.3} ms", milliseconds(times[times.len() / 2]));
        println!("measured {name}_p99 {:.3} ms", milliseconds(times[times.len() * 99 / 100]));
    }
    println!("measured rss {:.2} MB", resident(agent.0.id())?);
    println!("measured watcher_rss {:.2} MB", resident(watcher.child.0.id())?);
    Ok(())
}

/// Says when it begins, and is another one in each round.
fn plan(round: u32, begun: &str) -> Plan {
    let common = Instruction {
        name: "begin".into(),
        command: "sh".into(),
        args: vec!["-c".into(), format!("echo {round} > {begun}")],
        ..Instruction::default()
    };
    let instruction = OneTimeInstruction { common, save_output: true, ..OneTimeInstruction::default() };
    Plan { instructions: vec![instruction], ..Plan::default() }
}

/// A process that does not outlive us.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only for a process that has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_agent(program: &Path, directory: &Path, connection: &str) -> Result<Running> {
    let at = |name: &str| directory.join(name).display().to_string();
    private(&directory.join("connection.json"), connection)?;
    let config = format!(
        "remoteEnabled: true\nconnectionInfoFile: {}\nworkDirectory: {}\ninterlockDirectory: {}\n",
        at("connection.json"),
        at("work"),
        at("interlock")
    );
    private(&directory.join("config.yaml"), &config)?;
    let mut command = Command::new(program);
    command.arg("run").env("CATTLE_AGENT_CONFIG", directory.join("config.yaml"));
    Ok(Running(command.stdout(Stdio::null()).spawn()?))
}

fn private(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text)?;
    Ok(std::fs::set_permissions(path, Permissions::from_mode(0o600))?)
}

/// The times at which somebody wrote into a pipe.
struct Begun {
    path: String,
    times: Receiver<Monotonic>,
}

impl Begun {
    fn listen(path: &Path) -> Result<Self> {
        peers::command::run(Command::new("mkfifo").arg(path))?;
        let (sender, times) = channel();
        let fifo = path.to_owned();
        std::thread::spawn(move || {
            // Each opening lasts until its writer is gone.
            while let Ok(mut file) = File::open(&fifo) {
                let mut byte = [0];
                if matches!(file.read(&mut byte), Ok(1)) && sender.send(SystemClock.monotonic()).is_err() {
                    return;
                }
                let _ = std::io::copy(&mut file, &mut std::io::sink());
            }
        });
        Ok(Begun { path: path.display().to_string(), times })
    }
}

/// The program that only follows.
struct Watcher {
    child: Running,
    events: Receiver<(String, Monotonic)>,
}

impl Watcher {
    fn start(program: &Path, directory: &Path, connection: &str) -> Result<Self> {
        let info: serde_json::Value = serde_json::from_str(connection)?;
        let text = |key: &str| info[key].as_str().unwrap_or_default().to_owned();
        let kubeconfig = directory.join("watcher.kubeconfig");
        std::fs::write(&kubeconfig, text("kubeConfig"))?;
        let mut command = Command::new(program);
        command.arg(kubeconfig).args([text("namespace"), text("secretName")]);
        let mut child = Running(command.stdout(Stdio::piped()).spawn()?);
        let output = child.0.stdout.take().context("no output")?;
        let (sender, events) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send((line, SystemClock.monotonic())).is_err() {
                    return;
                }
            }
        });
        Ok(Watcher { child, events })
    }

    /// When it saw this version.
    fn saw(&self, version: &str) -> Result<Monotonic> {
        loop {
            let (seen, at) = self.events.recv_timeout(PATIENCE).context("the watcher sees nothing")?;
            if seen == version {
                return Ok(at);
            }
        }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Resident memory of a process.
fn resident(id: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes / 1024.0)
}
