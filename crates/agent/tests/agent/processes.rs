//! Real processes, in real time.

use std::path::Path;
use std::sync::Arc;

use agent::apply::Applier;
use agent::linux::Processes;
use agent::machine::{Executor as _, Machine};
use plan::agent::Outcome;
use plan::document::{Document, Instruction, OneTimeInstruction, PeriodicInstruction, Plan};
use plan::output::Outputs;

use crate::support::{Script, config, machine};

fn real(root: &Path) -> Machine {
    Machine { executor: Arc::new(Processes), ..machine(root, Arc::new(Script::default())) }
}

fn shell(name: &str, script: &str) -> Instruction {
    let args = ["-c", script].map(str::to_owned).into();
    Instruction {
        name: name.into(),
        command: "sh".into(),
        args,
        env: vec!["GIVEN=value".into()],
        ..Default::default()
    }
}

fn once(scripts: &[(&str, &str)]) -> Document {
    let instruction = |(name, script): &(&str, &str)| OneTimeInstruction {
        common: shell(name, script),
        save_output: true,
        ..OneTimeInstruction::default()
    };
    Document::encode(Plan { instructions: scripts.iter().map(instruction).collect(), ..Plan::default() })
}

async fn run(scripts: &[(&str, &str)]) -> (bool, Outputs) {
    let root = tempfile::tempdir().unwrap();
    let applier = Applier::new(real(root.path()), &config());
    match applier.apply(&once(scripts), 4, &Outputs::new()).await {
        Outcome::Succeeded(outputs) => (true, outputs),
        Outcome::Failed(outputs) => (false, outputs),
        Outcome::Postponed(until) => panic!("{until:?}"),
    }
}

fn text(outputs: &Outputs, name: &str) -> String {
    String::from_utf8(outputs[name].clone()).unwrap()
}

#[tokio::test]
async fn what_a_program_sees() {
    let script = "echo $GIVEN $CATTLE_AGENT_ATTEMPT_NUMBER; test \"$PWD\" = \"$CATTLE_AGENT_EXECUTION_PWD\" && echo here; \
                  case $PATH in *:$PWD) echo path;; esac; cat; echo err >&2";
    let (good, outputs) = run(&[("env", script)]).await;
    assert!(good);
    assert_eq!(text(&outputs, "env"), "value 4\nhere\npath\n", "standard output alone, and no input");
}

#[tokio::test]
async fn what_fails_tells_all_and_ends_the_run() {
    let (good, outputs) = run(&[("a", "echo out; echo err >&2; exit 3"), ("b", "echo no")]).await;
    assert!(!good);
    let said = text(&outputs, "a");
    assert!(said.contains("out\n") && said.contains("err\n"), "{said}");
    assert!(!outputs.contains_key("b"));
    let (good, _) = run(&[("signal", "kill -9 $$")]).await;
    assert!(!good);
    let root = tempfile::tempdir().unwrap();
    let missing =
        Instruction { name: "m".into(), command: "/does/not/exist".into(), ..Instruction::default() };
    let missing = OneTimeInstruction { common: missing, save_output: true, ..OneTimeInstruction::default() };
    let document = Document::encode(Plan { instructions: vec![missing], ..Plan::default() });
    let applier = Applier::new(real(root.path()), &config());
    let Outcome::Failed(outputs) = applier.apply(&document, 1, &Outputs::new()).await else { panic!() };
    assert!(text(&outputs, "m").starts_with("cannot run /does/not/exist: "));
}

#[tokio::test]
async fn lines_of_any_length() {
    let zeros = |count: u32| format!("head -c {count} /dev/zero | tr '\\0' x");
    let (ten, just, more) = (zeros(10 << 20), zeros(64 << 10), zeros((64 << 10) + 1));
    let (good, outputs) =
        run(&[("ten", &ten), ("just", &just), ("more", &more), ("after", "echo after")]).await;
    assert!(good);
    assert_eq!(outputs["just"].len(), (64 << 10) + 1);
    assert_eq!(outputs["more"].len(), (64 << 10) + 2);
    assert_eq!(text(&outputs, "after"), "after\n");
    let ten = text(&outputs, "ten");
    let left_out = (10 << 20) + 1 - (1 << 20);
    assert!(
        ten.contains(&format!("\n[{left_out} bytes left out]\n")) && ten.len() < 2 << 20,
        "{}",
        ten.len()
    );
}

#[tokio::test]
async fn a_flood_on_both_streams() {
    let flood = "yes out | head -c 3000000 & yes err | head -c 3000000 >&2; wait";
    let (good, outputs) = run(&[("flood", flood)]).await;
    assert!(good && text(&outputs, "flood").starts_with("out\n"));
}

#[tokio::test]
async fn what_stays_in_the_background_does_not_hold_us() {
    let root = tempfile::tempdir().unwrap();
    let pid = root.path().join("pid");
    let script = format!("sleep 1000 & echo $! > {}; echo done", pid.display());
    let (good, outputs) = run(&[("leaves", &script)]).await;
    assert!(good);
    assert_eq!(text(&outputs, "leaves"), "done\n");
    let pid: u32 = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    assert!(Processes.is_alive(pid), "as with any service that an instruction starts");
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn who_is_dropped_is_killed_with_all_it_started() {
    let root = tempfile::tempdir().unwrap();
    let pid = root.path().join("pid");
    let script = format!("sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait", pid.display());
    let applier = Applier::new(real(root.path()), &config());
    let document = once(&[("hangs", &script)]);
    let kept = Outputs::new();
    let apply = applier.apply(&document, 1, &kept);
    let started = async {
        while !pid.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        _ = apply => panic!("it hangs"),
        () = started => {}
    }
    let pid: u32 = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    // Nobody may be there to take its end in: a zombie is dead as well.
    let dead = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.map_or(true, |stat| stat.rsplit(')').next().unwrap().trim().starts_with('Z'))
    };
    while !dead() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert!(!root.path().join("var/agent/interlock/applyinator-active").exists());
}

#[tokio::test]
async fn periodic_instructions_stop_at_the_first_failure() {
    let root = tempfile::tempdir().unwrap();
    let applier = Applier::new(real(root.path()), &config());
    let scripts = [("a", "echo a; echo e >&2"), ("b", "exit 7"), ("c", "echo c")];
    let periodic = |(name, script)| PeriodicInstruction {
        common: shell(name, script),
        save_stderr_output: true,
        ..PeriodicInstruction::default()
    };
    let plan = Plan { periodic_instructions: scripts.map(periodic).into(), ..Plan::default() };
    let document = Document::encode(plan);
    let runs = applier.periodic(&document, &[0, 1, 2], &Default::default()).await.unwrap();
    let codes: Vec<_> = runs.iter().map(|(index, run, _)| (*index, run.exit_code)).collect();
    assert_eq!(codes, [(0, 0), (1, 7)]);
    assert_eq!((runs[0].1.stdout.as_slice(), runs[0].1.stderr.as_slice()), (&b"a\n"[..], &b"e\n"[..]));
}
