//! Plans in a directory.

use std::sync::Arc;

use agent::apply::Applier;
use agent::local::Local;
use plan::document::{Document, Probe};
use plan::position::Position;

use crate::support::{Said, Script, commands, config, machine};

struct Machine {
    root: tempfile::TempDir,
    script: Arc<Script>,
}

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("var/agent/plans")).unwrap();
        Machine { root, script: Arc::default() }
    }

    /// An agent that has just been started.
    fn local(&self) -> Local {
        let config = config();
        let applier = Applier::new(machine(self.root.path(), self.script.clone()), &config);
        Local::new(Arc::new(applier), &config.local_plan_directory)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.root.path().join("var/agent/plans").join(name), bytes).unwrap();
    }

    fn position(&self, name: &str) -> Position {
        let path = self.root.path().join("var/agent/plans").join(name);
        Position::decode(&std::fs::read(path).unwrap()).unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn each_plan_is_run_once() {
    let machine = Machine::new();
    let document = Document::encode(commands(&["b"]));
    machine.write("b.plan", document.bytes());
    machine.write("a.plan", Document::encode(commands(&["a"])).bytes());
    let mut local = machine.local();
    local.pass().await;
    local.pass().await;
    machine.local().pass().await;
    assert_eq!(machine.script.runs(), ["a", "b"], "in order, once, whoever starts");
    assert_eq!(machine.script.attempts(), ["0", "0"]);
    let position = machine.position("b.pos");
    assert_eq!((position.applied, position.output["b"].as_slice()), (Some(document.checksum()), &b"b\n"[..]));
    machine.write("b.plan", Document::encode(commands(&["c"])).bytes());
    local.pass().await;
    assert_eq!(machine.script.runs(), ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn what_failed_is_not_tried_again_and_what_is_broken_stops_nobody() {
    let machine = Machine::new();
    machine.write("a.plan", b"not a plan");
    machine.write("b.plan", Document::encode(commands(&["b"])).bytes());
    machine.write("c.plan", Document::encode(commands(&["c"])).bytes());
    machine.script.on("b", Said::Output("no\n", 1));
    let mut local = machine.local();
    local.pass().await;
    local.pass().await;
    assert_eq!(machine.script.runs(), ["b", "c"]);
    assert_eq!(machine.position("b.pos").output["b"], b"no\n");
}

#[tokio::test(start_paused = true)]
async fn probes_are_asked_at_each_pass_and_told_when_they_change() {
    let machine = Machine::new();
    let mut plan = commands(&[]);
    let mut probe = Probe::default();
    probe.http_get.url = "http://well".into();
    plan.probes.insert("well".into(), probe);
    machine.write("a.plan", Document::encode(plan).bytes());
    let mut local = machine.local();
    local.pass().await;
    assert!(machine.position("a.pos").probe_statuses["well"].healthy);
    let written =
        || std::fs::metadata(machine.root.path().join("var/agent/plans/a.pos")).unwrap().modified().unwrap();
    let before = written();
    local.pass().await;
    assert_eq!(written(), before, "nothing changed");
    machine.script.health("http://well", false);
    for _ in 0..3 {
        local.pass().await;
    }
    assert!(!machine.position("a.pos").probe_statuses["well"].healthy);
}
