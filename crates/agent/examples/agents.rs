//! Many agents and one embedded API server in one process, on one thread, in simulated time: how fast a plan for each
//! of them is applied, what an agent costs in memory, and how often a fleet at rest writes within an hour.
//!
//! `agents <number>`; prints lines `measured <name> <value> <unit>`. Machines are simulated, all else is the product.

use std::convert::Infallible;
use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::apply::Applier;
use agent::client::Client;
use agent::config::Config;
use agent::connect::{self, Connect, Stream};
use agent::journal::Journal;
use agent::machine::{Ended, Executor, Later, Machine, NoImages, Prober, Program, Root};
use agent::remote::{Remote, Unobserved};
use agent::watch::Place;
use apiserver::auth::SigningKey;
use apiserver::http::Api;
use apiserver::instance::{Instance, Parts};
use apiserver::store::{MemoryStore, Options};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use clock::{Clock as _, RuntimeClock, SeededEntropy, SystemClock};
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kubeapi::authn::{MASTERS, User};
use plan::document::{Document, File, Instruction, OneTimeInstruction, Plan, Probe};
use serde_json::{Value, json};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const HOUR: Duration = Duration::from_secs(3600);

fn main() -> Result<(), Box<dyn Error>> {
    let agents: usize = std::env::args().nth(1).ok_or("usage: fleet <agents>")?.parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    runtime.block_on(measure(agents))
}

async fn measure(agents: usize) -> Result<(), Box<dyn Error>> {
    // Roots of machines are small files that are synced: in memory, if there is a place, so that no disk is measured.
    let memory = Path::new("/dev/shm");
    let roots = if memory.is_dir() { tempfile::tempdir_in(memory)? } else { tempfile::tempdir()? };
    let server = Server::start().await?;
    let before = resident()?;
    for number in 0..agents {
        server.ask("POST", SECRETS, &json!({"metadata": {"name": name(number)}})).await?;
        tokio::spawn(agent(&server, roots.path(), number)?.run());
    }
    // All of them have listed and watch.
    tokio::time::sleep(Duration::from_secs(30)).await;
    let started = SystemClock.monotonic();
    for number in 0..agents {
        let body = json!({"data": {"plan": plan(number), "plan-state": STANDARD.encode("pending")}});
        server.ask("PATCH", &format!("{SECRETS}/{}", name(number)), &body).await?;
    }
    server.until_all_are_well(agents).await?;
    let applied = SystemClock.monotonic().since(started);
    println!("measured fleet_applied {:.2} s", applied.as_secs_f64());
    println!("measured fleet_memory {:.0} KiB", (resident()? - before) / agents as f64);
    server.writes.store(0, Ordering::Relaxed);
    tokio::time::sleep(HOUR).await;
    println!("measured fleet_writes {} writes", server.writes.load(Ordering::Relaxed));
    Ok(())
}

fn name(number: usize) -> String {
    format!("plan-{number}")
}

/// A file, an instruction, a probe; encoded.
fn plan(number: usize) -> String {
    let content = STANDARD.encode(format!("machine {number}\n"));
    let file = File { path: "/etc/machine".into(), content, ..File::default() };
    let common = Instruction { name: "install".into(), command: "install".into(), ..Instruction::default() };
    let instruction = OneTimeInstruction { common, save_output: true, ..OneTimeInstruction::default() };
    let plan = Plan {
        files: vec![file],
        instructions: vec![instruction],
        probes: [("well".to_owned(), Probe::default())].into(),
        ..Plan::default()
    };
    STANDARD.encode(Document::encode(plan).bytes())
}

/// The embedded API server, reached through pipes.
#[derive(Clone)]
struct Server {
    instance: Arc<Instance>,
    writes: Arc<AtomicUsize>,
}

impl Server {
    async fn start() -> Result<Self, Box<dyn Error>> {
        let clock = Arc::new(RuntimeClock::starting_at("2026-01-01T00:00:00Z".parse()?));
        let store = Arc::new(MemoryStore::new(Options::default(), clock.clone()));
        let key = SigningKey::from_pem(include_str!("../tests/data/sa.key"))?;
        let parts = Parts::new(store, clock, Box::new(SeededEntropy::new(1)), "-- a certificate --", key);
        let instance = Instance::start(parts).await.map_err(|status| status.message)?;
        Ok(Server { instance: Arc::new(instance), writes: Arc::default() })
    }

    fn api(&self) -> &Api {
        self.instance.api()
    }

    async fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, Box<dyn Error>> {
        let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder().method(method).uri(path).header("content-type", content);
        let request = request.extension(admin()).body(Full::new(Bytes::from(text)))?;
        let (parts, body) = self.api().handle(request).await.into_parts();
        let bytes = body.collect().await?.to_bytes();
        if !parts.status.is_success() {
            return Err(format!("{method} {path}: {}", String::from_utf8_lossy(&bytes)).into());
        }
        Ok(serde_json::from_slice(&bytes)?)
    }

    async fn until_all_are_well(&self, agents: usize) -> Result<(), Box<dyn Error>> {
        loop {
            let list = self.ask("GET", SECRETS, &Value::Null).await?;
            let well = |secret: &&Value| {
                let is = |key: &str, text: &str| secret["data"][key] == STANDARD.encode(text);
                is("plan-state", "succeeded")
                    && is("probe-statuses", r#"{"well":{"healthy":true,"successCount":1}}"#)
            };
            let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
            if items.iter().filter(well).count() == agents {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

fn admin() -> User {
    User { name: "admin".into(), groups: vec![MASTERS.into()], ..User::default() }
}

impl Connect for Server {
    fn connect(&self) -> Later<'_, Result<Box<dyn Stream>, connect::Error>> {
        let (near, far) = tokio::io::duplex(16 << 10);
        let server = self.clone();
        let serve = service_fn(move |mut request: Request<hyper::body::Incoming>| {
            let server = server.clone();
            async move {
                server.writes.fetch_add(usize::from(request.method() != Method::GET), Ordering::Relaxed);
                request.extensions_mut().insert(admin());
                Ok::<_, Infallible>(server.api().handle(request).await)
            }
        });
        // It ends with the agent's end of the pipe.
        tokio::spawn(async move {
            let _ =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(far), serve).await;
        });
        let stream: Box<dyn Stream> = Box::new(near);
        Box::pin(std::future::ready(Ok(stream)))
    }
}

/// The agent of a machine of its own.
fn agent(server: &Server, roots: &Path, number: usize) -> Result<Remote, Box<dyn Error>> {
    let root = Root::at(roots.join(number.to_string()));
    let config = config();
    let machine = Machine {
        root: root.clone(),
        executor: Arc::new(Nothing),
        images: Arc::new(NoImages),
        prober: Arc::new(Nothing),
        clock: Arc::new(RuntimeClock::starting_at("2026-01-01T00:00:00Z".parse()?)),
        entropy: Arc::new(Mutex::new(Box::new(SeededEntropy::new(number as u64)))),
        environment: Vec::new(),
        process: 1,
    };
    Ok(Remote {
        client: Client::new(Arc::new(server.clone()), &"http://server".parse()?, None)?,
        place: Place::new("default", &name(number)).ok_or("not a name")?,
        applier: Arc::new(Applier::new(machine, &config)),
        journal: Journal::open(&root, &config.state_directory)?,
        observer: Arc::new(Unobserved),
        authority: None,
    })
}

fn config() -> Config {
    Config {
        work_directory: "/work".into(),
        preserve_work_directory: false,
        local_enabled: false,
        local_plan_directory: "/plans".into(),
        applied_plan_directory: None,
        remote_enabled: true,
        connection_info_file: "/none".into(),
        images_directory: "/images".into(),
        agent_registries_file: "/none".into(),
        credential_provider_config: "/none".into(),
        credential_provider_directory: "/none".into(),
        interlock_directory: Some("/interlock".into()),
        state_directory: "/state".into(),
    }
}

/// Everything succeeds at once.
struct Nothing;

impl Executor for Nothing {
    fn run<'a>(&'a self, program: &'a Program) -> Later<'a, Ended> {
        let output = program.command.clone().into_bytes();
        let ended = Ended { combined: output.clone(), stdout: output, stderr: Vec::new(), exit_code: 0 };
        Box::pin(std::future::ready(ended))
    }

    fn is_alive(&self, _: u32) -> bool {
        false
    }
}

impl Prober for Nothing {
    fn ask<'a>(&'a self, _: &'a Probe) -> Later<'a, Result<(), String>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Resident memory of this process, in KiB.
fn resident() -> Result<f64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}
