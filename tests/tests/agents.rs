//! One script of the planner's side, three agents: ours, and Rancher's with and without `plan-state`. What happens on
//! the machine and what the planner reads is the same, but for what is listed here.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

#[path = "agents/agent.rs"]
mod agent;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use agent::{Agent, Which, healthy_server};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use plan::document::{File, HttpGet, Instruction, OneTimeInstruction, PeriodicInstruction, Plan, Probe};
use plan::orchestrator::{Health, Limit, Progress, Terms, plan_applied_is_false};
use plan::output::Outputs;
use suites::plans::{PlanServer, Stored, until};

const SECRET: &str = "machine-plan";

/// What was seen, by a name for it.
type Trace = BTreeMap<&'static str, String>;

/// Where Rancher's agents differ from ours, and why.
fn differences(which: Which) -> &'static [(&'static str, &'static str)] {
    match which {
        Which::Herdsman => &[],
        Which::Rancher => &[
            // It erases what failed as soon as it has reported it, and calls the failed plan applied.
            ("failed: detail stays", "false"),
            // Each delivery counts from 1, so that an idempotent step takes the second for the first.
            ("again: attempts", "1 1"),
        ],
        Which::RancherLegacy => &[
            // `action` came with v0.3.13: before, a deleted file is an empty one.
            ("shrunk: deleted file", "empty"),
            // It knows no state: every start runs the plan again.
            ("restarted: runs", "2"),
            ("first: revision", "none"),
        ],
    }
}

fn script(name: &str, script: String) -> OneTimeInstruction {
    let common = Instruction {
        name: name.into(),
        command: "sh".into(),
        args: vec!["-ec".into(), script],
        env: vec!["GREETING=hello".into()],
        ..Instruction::default()
    };
    OneTimeInstruction { common, save_output: true, ..OneTimeInstruction::default() }
}

fn file(path: &Path, content: &str) -> File {
    File {
        path: path.display().to_string(),
        content: BASE64_STANDARD.encode(content),
        permissions: "0640".into(),
        ..File::default()
    }
}

/// One agent and its server.
struct World<'a> {
    plans: PlanServer,
    agent: Agent,
    directory: &'a Path,
    trace: Trace,
}

impl World<'_> {
    fn until(&mut self, what: &str, mut wanted: impl FnMut(&Stored) -> bool) -> Stored {
        let agent = &mut self.agent;
        let reached = self.plans.until(SECRET, what, |stored| {
            agent.supervise();
            wanted(stored)
        });
        reached.unwrap_or_else(|error| panic!("{error}\n{}", self.agent.log()))
    }

    fn until_progress(&mut self, wanted: Progress) -> Stored {
        self.until(&format!("{wanted:?}"), |stored| stored.status().progress == wanted)
    }

    fn deliver(&self, plan: Plan, terms: Terms) {
        self.plans.deliver(SECRET, plan, terms).unwrap();
    }

    fn see(&mut self, name: &'static str, value: impl ToString) {
        self.trace.insert(name, value.to_string());
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.join(name)).unwrap_or_default()
    }
}

fn words(outputs: &Outputs) -> String {
    let word = |(name, output): (&String, &Vec<u8>)| format!("{name}={:?}", String::from_utf8_lossy(output));
    outputs.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Files, instructions with and without output, a periodic one, a probe.
fn first_plan(directory: &Path, url: &str) -> Plan {
    let mut quiet = script("quiet", "echo nobody hears this".into());
    quiet.save_output = false;
    let tick = Instruction {
        name: "tick".into(),
        command: "sh".into(),
        args: vec!["-c".into(), "echo tick; echo tock >&2".into()],
        ..Instruction::default()
    };
    let probe = Probe {
        http_get: HttpGet { url: url.into(), ..HttpGet::default() },
        timeout_seconds: 5,
        ..Probe::default()
    };
    Plan {
        files: vec![file(&directory.join("made/file"), "content <&>\n")],
        instructions: vec![
            script(
                "greet",
                "echo $GREETING $CATTLE_AGENT_ATTEMPT_NUMBER; echo aside >&2; printf 'no end'".into(),
            ),
            quiet,
        ],
        periodic_instructions: vec![PeriodicInstruction { common: tick, ..PeriodicInstruction::default() }],
        probes: [("up".to_owned(), probe)].into(),
        ..Plan::default()
    }
}

fn apply(world: &mut World<'_>) {
    let terms = Terms { probe_period: Some(Duration::from_secs(1)), ..Terms::default() };
    world.deliver(first_plan(world.directory, &healthy_server()), terms);
    world.until_progress(Progress::Applied);
    let stored = world.until("well", |stored| stored.status().health == Health::Healthy);
    let status = stored.status();
    world.see("first: output", words(&status.output));
    let tick = &status.periodic_output["tick"];
    let said = String::from_utf8_lossy(&tick.stdout).into_owned();
    world.see("first: periodic", format!("{said:?} {} {}", tick.exit_code, tick.failures));
    world.see("first: revision", status.revision.map_or("none".into(), |revision| revision.to_string()));
    world.see("first: failures", stored.secret().failures());
    let mode = world.directory.join("made/file").metadata().unwrap().permissions().mode();
    let content = world.read("made/file");
    world.see("first: file", format!("{content:?} {:o}", mode & 0o7777));
    world.plans.upkeep(SECRET).unwrap();
    let stored = world.plans.stored(SECRET).unwrap();
    let copied = stored.secret().applied_plan == stored.secret().checksum;
    world.see("first: upkeep", format!("{copied} {}", stored.status().probes_usable));
}

fn fail_and_deliver_again(world: &mut World<'_>, which: Which) {
    let (log, fixed) = (world.directory.join("log").display().to_string(), world.directory.join("fixed"));
    let attempt = format!("echo $CATTLE_AGENT_ATTEMPT_NUMBER >> {log}");
    let bad = format!("{attempt}; echo why; test -e {} || exit 3", fixed.display());
    let plan = Plan {
        instructions: vec![script("bad", bad), script("after", "echo after".into())],
        ..Plan::default()
    };
    let terms =
        Terms { max_failures: Limit::Times(1), failure_threshold: Limit::Times(1), ..Terms::default() };
    world.deliver(plan.clone(), terms);
    let stored = world.until_progress(Progress::Failed);
    world.see("failed: condition", plan_applied_is_false(&stored.secret()));
    let stored = match which {
        // What it does to its report some moments later.
        Which::Rancher => world.until("overwritten", |stored| stored.secret().plan_applied()),
        _ => stored,
    };
    world.see("failed: still failed", stored.status().progress == Progress::Failed);
    // Rancher's agents carry outputs of other plans along.
    let detail = stored.status().failed_output.get("bad").is_some_and(|output| output == b"why\n");
    world.see("failed: detail stays", detail);
    std::fs::write(fixed, "").unwrap();
    world.deliver(plan, terms);
    let stored = world.until_progress(Progress::Applied);
    let output = stored.status().output;
    world.see("again: output", words(&Outputs::from([("after".into(), output["after"].clone())])));
    world.see("again: attempts", world.read("log").split_whitespace().collect::<Vec<_>>().join(" "));
    world.see("again: failures", stored.secret().failures());
}

fn shrink(world: &mut World<'_>) {
    let path = world.directory.join("made/file");
    let mut gone = file(&path, "");
    gone.action = "delete".into();
    let count = format!("echo ran >> {}", world.directory.join("count").display());
    let plan = Plan { files: vec![gone], instructions: vec![script("count", count)], ..Plan::default() };
    world.deliver(plan, Terms::default());
    world.until_progress(Progress::Applied);
    world.plans.upkeep(SECRET).unwrap();
    let stored = world.plans.stored(SECRET).unwrap();
    world.see("shrunk: periodic outputs", stored.status().periodic_output.len());
    let there = if path.exists() { "empty" } else { "gone" };
    world.see("shrunk: deleted file", there);
}

fn restart(world: &mut World<'_>, which: Which) {
    world.agent.restart();
    if which == Which::RancherLegacy {
        let directory = world.directory;
        let count = || std::fs::read_to_string(directory.join("count")).unwrap_or_default().lines().count();
        until("run again", || count() == 2).unwrap();
    }
    world.deliver(
        Plan { instructions: vec![script("last", "echo last".into())], ..Plan::default() },
        Terms::default(),
    );
    let stored = world.until_progress(Progress::Applied);
    world.see(
        "restarted: output",
        words(&Outputs::from([("last".into(), stored.status().output["last"].clone())])),
    );
    world.see("restarted: runs", world.read("count").lines().count());
}

fn run(which: Which, program: &Path) -> Trace {
    let directory = tempfile::tempdir().unwrap();
    let plans = PlanServer::start(Ipv4Addr::LOCALHOST.into()).unwrap();
    let connection = plans.enrol(SECRET).unwrap();
    let agent = Agent::start(program, directory.path(), &connection);
    let mut world = World { plans, agent, directory: directory.path(), trace: Trace::new() };
    apply(&mut world);
    fail_and_deliver_again(&mut world, which);
    shrink(&mut world);
    restart(&mut world, which);
    world.trace
}

#[test]
#[ignore = "peers: system-agent, system-agent-legacy"]
fn three_agents_do_the_same() {
    // Rancher's agents, as ours, run for root alone.
    if peers::machine::skip("agents") {
        return;
    }
    let programs = Which::ALL.map(|which| (which, which.program()));
    let traces = std::thread::scope(|scope| {
        let runs = programs.each_ref().map(|(which, program)| scope.spawn(|| run(*which, program)));
        runs.map(|run| run.join().unwrap())
    });
    let [ours, ..] = &traces;
    for (which, trace) in Which::ALL.into_iter().zip(&traces) {
        let mut expected = ours.clone();
        expected.extend(differences(which).iter().map(|(name, value)| (*name, (*value).to_owned())));
        assert_eq!(*trace, expected, "{which:?}");
    }
    for (name, value) in [
        ("first: output", r#"greet="hello 1\nno end\n""#),
        ("first: periodic", r#""tick\n" 0 0"#),
        ("first: file", r#""content <&>\n" 640"#),
        ("first: upkeep", "true true"),
        ("failed: still failed", "true"),
        ("again: attempts", "1 2"),
        ("shrunk: periodic outputs", "0"),
        ("restarted: runs", "1"),
    ] {
        assert_eq!(ours[name], value, "{name}");
    }
}
