//! A binary that replaces the agent's.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use agent::client::Client;
use agent::daemon::{self, End};
use agent::machine::{Later, Machine};
use agent::remote::Observer;
use agent::update::{Event, Followed, Keeper, Verdict};
use plan::binary::{Binaries, REFUSED, RUNNING, Running, WANTED, Wanted, architecture};
use plan::secret::Data;
use sha2::{Digest as _, Sha256};
use tokio::sync::Mutex;

use crate::support::{Said, Script, World, config, machine};

struct Place {
    root: tempfile::TempDir,
    script: Arc<Script>,
}

impl Place {
    fn new() -> Self {
        let place = Place { root: tempfile::tempdir().unwrap(), script: Arc::default() };
        place.install("old");
        place
    }

    fn binary(&self) -> PathBuf {
        self.root.path().join("agent")
    }

    /// Another binary takes the place, as a plan does it: at once.
    fn install(&self, content: &str) {
        let new = self.root.path().join("agent.new");
        std::fs::write(&new, content).unwrap();
        std::fs::rename(new, self.binary()).unwrap();
    }

    fn installed(&self) -> String {
        std::fs::read_to_string(self.binary()).unwrap()
    }

    fn machine(&self) -> Machine {
        machine(self.root.path(), self.script.clone())
    }

    /// A process that is started from what is in the place.
    fn start(&self) -> Keeper {
        Keeper::new(self.machine(), self.binary(), &config().state_directory).unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_binary_that_reaches_its_server_stays() {
    let place = Place::new();
    let mut old = place.start();
    assert_eq!(old.happened(Event::Started).unwrap(), Verdict::Keep);
    assert_eq!(old.happened(Event::Connected).unwrap(), Verdict::Keep);
    assert!(!old.found_another().await.unwrap());
    place.install("new");
    assert!(old.found_another().await.unwrap());
    let mut new = place.start();
    assert!(matches!(new.happened(Event::Started).unwrap(), Verdict::Until(_)));
    assert_eq!(new.happened(Event::Connected).unwrap(), Verdict::Keep);
    assert_eq!(place.start().happened(Event::Started).unwrap(), Verdict::Keep, "it has proved itself");
    let kept = place.root.path().join("var/agent/state/agent.good");
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "new", "it is the one to fall back to now");
}

#[tokio::test(start_paused = true)]
async fn a_binary_that_does_not_run_is_left_alone() {
    let place = Place::new();
    let mut old = place.start();
    old.happened(Event::Connected).unwrap();
    let command = place.binary().display().to_string();
    place.script.on(&command, Said::Output("", 127));
    place.install("broken");
    assert!(!old.found_another().await.unwrap());
    assert!(!old.found_another().await.unwrap());
    assert_eq!(place.script.runs().len(), 1, "it is not tried again and again");
    assert_eq!(place.installed(), "old", "the next start finds one that runs");
    place.script.on(&command, Said::Output("", 0));
    place.install("better");
    assert!(old.found_another().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_binary_that_crashes_is_taken_back() {
    let place = Place::new();
    let mut old = place.start();
    old.happened(Event::Connected).unwrap();
    place.install("new");
    assert!(old.found_another().await.unwrap());
    let verdicts: Vec<_> = (0..6).map(|_| place.start().happened(Event::Started).unwrap()).collect();
    assert!(verdicts[..5].iter().all(|verdict| matches!(verdict, Verdict::Until(_))), "{verdicts:?}");
    assert_eq!((verdicts[5], place.installed().as_str()), (Verdict::FallBack, "old"));
    let mut old = place.start();
    assert_eq!(old.happened(Event::Started).unwrap(), Verdict::Keep);
    place.install("new");
    assert!(
        !old.found_another().await.unwrap(),
        "the plan may put it there again: it is left alone for a while"
    );
}

#[tokio::test(start_paused = true)]
async fn a_service_that_does_not_reach_its_server_goes_back() {
    let place = Place::new();
    let mut old = place.start();
    old.happened(Event::Connected).unwrap();
    place.install("new");
    assert!(old.found_another().await.unwrap());
    let kubeconfig = "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n";
    let info = serde_json::json!({"kubeConfig": kubeconfig, "namespace": "default", "secretName": "plan"});
    let path = place.root.path().join("etc/agent/connection.json");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, info.to_string()).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let end = daemon::run(&config(), false, place.machine(), Some(place.binary())).await.unwrap();
    assert_eq!((end, place.installed().as_str()), (End::Replaced(place.binary()), "old"));
}

/// What the service does about its binary, without the rest of it.
struct Kept(Mutex<Keeper>);

impl Observer for Kept {
    fn connected(&self) -> Later<'_, ()> {
        Box::pin(async { assert!(self.0.lock().await.happened(Event::Connected).is_ok()) })
    }

    fn at_rest(&self) -> Later<'_, bool> {
        Box::pin(async { self.0.lock().await.found_another().await.unwrap() })
    }

    fn binary<'a>(&'a self, client: &'a Client, wanted: &'a str) -> Later<'a, Followed> {
        Box::pin(async move { self.0.lock().await.follow(client, wanted).await })
    }
}

fn digest(content: &str) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl World {
    fn binary(&self) -> PathBuf {
        self.root.path().join("agent")
    }

    /// Starts a process from the binary in its place.
    fn start_kept(&mut self) {
        let machine = self.machine();
        let mut keeper = Keeper::new(machine.clone(), self.binary(), &config().state_directory).unwrap();
        keeper.happened(Event::Started).unwrap();
        self.start_observed(machine, Arc::new(Kept(Mutex::new(keeper))));
    }

    /// Asks for the binary with this content.
    async fn want(&self, content: &str) {
        let binaries = Binaries::from([(architecture(std::env::consts::ARCH).to_owned(), digest(content))]);
        self.server.annotate(WANTED, &Wanted { since: 0, binaries }.text()).await;
    }

    /// Waits until the agent says so.
    async fn until_said(&self, note: &str, value: &str) {
        for _ in 0..20_000 {
            if self.server.document().await["metadata"]["annotations"][note] == value {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("{note} is not {value}: {}", self.server.document().await["metadata"]);
    }

    async fn until_runs_binary(&self, content: &str) {
        let running = Running {
            architecture: architecture(std::env::consts::ARCH).to_owned(),
            binary: digest(content),
        };
        self.until_said(RUNNING, &running.text()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_servers_binary_is_taken() {
    let mut world = World::new().await;
    std::fs::write(world.binary(), "old").unwrap();
    world.server.create(&Data::from([("plan".to_owned(), b"{}".to_vec())])).await;
    world.start_kept();
    world.until_runs_binary("old").await;
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    world.server.take_puts();
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    assert_eq!(world.server.take_puts(), 0, "it says so once");

    // There is none yet, then another one than was asked for: it stays what it is, and tries again.
    world.want("new").await;
    tokio::time::sleep(std::time::Duration::from_secs(120)).await;
    world.server.give(b"wrong");
    tokio::time::sleep(std::time::Duration::from_secs(120)).await;
    assert_eq!(std::fs::read_to_string(world.binary()).unwrap(), "old");
    world.server.give(b"new");
    world.ended().await;
    assert_eq!(std::fs::read_to_string(world.binary()).unwrap(), "new");
    assert_eq!(std::fs::metadata(world.binary()).unwrap().permissions().mode() & 0o777, 0o755);
    world.start_kept();
    world.until_runs_binary("new").await;

    // One that does not run is refused, and said to be.
    let command = world.binary().display().to_string();
    world.script.on(&command, Said::Output("", 127));
    world.server.give(b"broken");
    world.want("broken").await;
    world.until_said(REFUSED, &digest("broken")).await;
    world.until_runs_binary("new").await;
}
