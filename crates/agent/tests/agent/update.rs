//! A binary that replaces the agent's.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use agent::daemon::{self, End};
use agent::machine::Machine;
use agent::update::{Event, Keeper, Verdict};

use crate::support::{Said, Script, config, machine};

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
