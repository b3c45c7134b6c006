//! Both flows, one table each: a Secret, and what the agent does; then what it writes after that.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/words.rs"]
mod words;

use std::collections::BTreeMap;

use plan::agent::{GiveUp, Local, Merge, Outcome, Report, Seen, Source, Step, Tended, Write, decide, merge};
use plan::document::{Instruction, PeriodicInstruction, Probe};
use plan::periodic::Run;
use plan::secret::{self, Data, PlanSecret, apply_changes};
use plan::{Document, Plan};
use words::{after, keys, now};

fn seen(secret: &str) -> Seen {
    Seen {
        uid: "u1".into(),
        resource_version: "100".into(),
        source: Source::Live,
        secret: PlanSecret::read(&words::data(secret)),
    }
}

fn step(step: &Step) -> String {
    match step {
        Step::Reread => "reread".into(),
        Step::Write(Write::Claim(_), changes) => format!("claim: {}", keys(changes)),
        Step::Write(_, changes) => format!("write: {}", keys(changes)),
        Step::Apply(job) => format!("apply attempt={}", job.attempt),
        Step::Tend(chores) => format!("tend periodic={:?} probes={:?}", chores.periodic, chores.probes),
        Step::Wait { until, why } => match until.map(|until| until.as_second() - now().as_second()) {
            Some(seconds) => format!("wait {why:?} {seconds}s"),
            None => format!("wait {why:?}"),
        },
    }
}

/// A process that is past its first pass, and one that has just started.
fn running() -> Local {
    let (first, local) = decide(&seen("plan=X applied=X state=succeeded"), &Local::default(), now());
    assert_eq!(step(&first), "wait Applied");
    local
}

fn check(table: &[(&str, &str, &str)], local: &Local) {
    for (secret, expected, why) in table {
        assert_eq!(step(&decide(&seen(secret), local, now()).0), *expected, "{secret}: {why}");
    }
}

fn outcome(ok: bool, text: &str) -> Outcome {
    let outputs = BTreeMap::from([("run".to_owned(), text.as_bytes().to_vec())]);
    if ok { Outcome::Succeeded(outputs) } else { Outcome::Failed(outputs) }
}

fn check_results(table: &[(&str, bool, &str, &str)]) {
    for (secret, ok, expected, why) in table {
        let seen = seen(secret);
        let (Step::Apply(job), local) = decide(&seen, &running(), now()) else { panic!("{secret}: {why}") };
        let (next, _) = decide(&seen, &local.applied(&job, outcome(*ok, "new"), now()), now());
        assert_eq!(step(&next), format!("write: {expected}"), "{secret}: {why}");
    }
}

#[test]
fn with_plan_state() {
    let table = [
        ("", "wait NoPlan", "nothing to do"),
        ("plan=X state=pending", "claim: rev=1 state=in-progress", "the first delivery"),
        ("plan=X state=pending rev=7", "claim: rev=8 state=in-progress", "the next one"),
        ("plan=X state=pending rev=x", "claim: rev=1 state=in-progress", "a count that is none"),
        ("plan=X state=pending applied=X", "claim: rev=1 state=in-progress", "pending is an order"),
        (
            "plan=X state=pending failed=X failures=9 max=1 last=-1",
            "claim: rev=1 state=in-progress",
            "no limits",
        ),
        ("plan=Z state=pending", "claim: rev=1 state=in-progress", "it will fail in progress"),
        ("plan=X state=in-progress rev=1", "apply attempt=1", "claimed, or a crash"),
        ("plan=X state=in-progress rev=2 failed=X failures=1", "apply attempt=2", "delivered again"),
        (
            "plan=Y state=in-progress rev=2 failed=X failures=1",
            "apply attempt=2",
            "never a number seen before",
        ),
        ("plan=X state=in-progress rev=1 applied=X", "apply attempt=1", "in progress means not done"),
        ("plan=X state=succeeded applied=X", "wait Applied", "at rest"),
        ("plan=X state=failed failed=X failures=1", "wait Failed", "at rest, and nothing is erased"),
        ("plan=X state=failed applied=X failures=0", "wait Failed", "what a Go agent leaves"),
        ("plan=Y state=succeeded applied=X", "wait NotForUs", "not run, and not called applied"),
        ("plan=X state=succeeded", "wait NotForUs", "not run, and not called applied"),
        ("plan=X state=cancelled", "wait NotForUs", "called off"),
        ("plan=X state=paused", "wait NotForUs", "a word of the future"),
        ("plan=X state=failed failed=X failures=1 statuses=none", "write: statuses={}", "no probes, said"),
    ];
    check(&table, &Local::default());
    check(&table, &running());
}

#[test]
fn results_with_plan_state() {
    let first = "plan=X state=in-progress rev=1 statuses=none";
    let again = "plan=X state=in-progress rev=2 applied=X output=old failures=0 successes=3";
    let failed = "plan=X state=in-progress rev=3 failed=X failures=2 failed-output=old last=-90";
    let other = "plan=Y state=in-progress rev=3 applied=X output=old failures=0";
    check_results(&[
        (
            first,
            true,
            "applied=X output=new failures=0 last=0 state=succeeded statuses={} successes=1",
            "success",
        ),
        (
            first,
            false,
            "failed=X failed-output=new failures=1 last=0 state=failed statuses={} successes=0",
            "failure",
        ),
        (again, true, "output=new last=0 state=succeeded successes=4", "only what differs"),
        (
            again,
            false,
            "applied=- failed=X failed-output=new failures=1 last=0 state=failed successes=0",
            "what failed is no longer applied",
        ),
        (
            failed,
            true,
            "applied=X output=new failed=- failed-output=- failures=0 last=0 state=succeeded successes=1",
            "the failure is over",
        ),
        (failed, false, "failed-output=new failures=3 last=0 state=failed successes=0", "one more"),
        (
            other,
            false,
            "failed=Y failed-output=new failures=1 last=0 state=failed successes=0",
            "X is still the one applied last",
        ),
    ]);
}

#[test]
fn a_plan_that_cannot_be_read_fails() {
    let (next, local) = decide(&seen("plan=Z state=in-progress rev=1"), &Local::default(), now());
    assert_eq!(step(&next), "write: failed=Z failures=1 last=0 state=failed successes=0");
    assert!(local.report().is_some_and(|report| !report.succeeded));
}

#[test]
fn without_plan_state() {
    let table = [
        ("", "wait NoPlan", "nothing to do"),
        ("plan=X", "apply attempt=1", "new"),
        ("plan=Y applied=X", "apply attempt=1", "changed"),
        ("plan=X applied=X", "wait Applied", "at rest"),
        ("plan=X failed=X failures=1 last=-10", "wait CoolingDown 20s", "30 s after a failure"),
        ("plan=X failed=X failures=1 last=-29", "wait CoolingDown 1s", "30 s after a failure"),
        ("plan=X failed=X failures=1 last=-30", "apply attempt=2", "over"),
        ("plan=X failed=X failures=1", "apply attempt=2", "no time, no cooldown"),
        ("plan=X failed=X failures=1 last=5000", "apply attempt=2", "a clock that was set back"),
        ("plan=X failed=X failures=2 max=3 last=-60", "apply attempt=3", "once more"),
        ("plan=X failed=X failures=3 max=3 last=-60", "wait TooManyFailures", "as often as it may"),
        ("plan=X failed=X failures=99 max=-1 last=-60", "apply attempt=100", "without limit"),
        ("plan=X failed=X failures=99 max=lots last=-60", "apply attempt=100", "what is no number is none"),
        ("plan=Y failed=X failures=3 max=3 last=-1", "apply attempt=4", "another plan does not rest"),
        ("plan=X applied=X failed=X failures=0", "wait Applied", "no failures, no failure"),
        ("plan=X applied=X failed=Y failures=1 last=-1", "apply attempt=2", "another one failed in between"),
        ("plan=X applied=X failures=x", "wait Applied", "a count that is none"),
        ("plan=Z", "wait Unreadable", "nothing can be done"),
        ("plan=X applied=X statuses=none", "write: statuses={}", "no probes, said"),
    ];
    check(&table, &running());

    let table = [
        ("plan=X applied=X", "apply attempt=1", "once after each start"),
        ("plan=X", "apply attempt=1", "new"),
        ("plan=X failed=X failures=1 last=-10", "wait CoolingDown 20s", "a start does not break the rest"),
        ("plan=X failed=X failures=3 max=3 last=-60", "wait TooManyFailures", "nor the limit"),
    ];
    check(&table, &Local::default());
}

#[test]
fn results_without_plan_state() {
    let failed = "plan=X failed=X failures=2 failed-output=old last=-90 successes=0";
    check_results(&[
        ("plan=X", true, "applied=X output=new failures=0 last=0 successes=1", "success"),
        ("plan=X", false, "failed=X failed-output=new failures=1 last=0 successes=0", "failure"),
        (failed, false, "failed-output=new failures=3 last=0", "one more"),
        (
            failed,
            true,
            "applied=X output=new failed=- failed-output=- failures=0 last=0 successes=1",
            "the failure is over",
        ),
        (
            "plan=X applied=Y output=old",
            false,
            "failed=X failed-output=new failures=1 last=0 successes=0",
            "Y is still the one applied last",
        ),
    ]);
}

#[test]
fn a_forced_run_that_fails_is_tried_again() {
    let start = seen("plan=X applied=X");
    let (Step::Apply(job), local) = decide(&start, &Local::default(), now()) else { panic!() };
    let (next, _) = decide(&start, &local.applied(&job, outcome(false, "new"), now()), now());
    assert_eq!(step(&next), "write: applied=- failed=X failed-output=new failures=1 last=0 successes=0");
}

#[test]
fn merging() {
    let report = |words: &str, ok| {
        let (Step::Apply(job), local) = decide(&seen(words), &running(), now()) else { panic!("{words}") };
        Write::Report(local.applied(&job, outcome(ok, "new"), now()).report().unwrap().clone())
    };
    let claim = |words: &str| match decide(&seen(words), &running(), now()).0 {
        Step::Write(write, _) => write,
        step => panic!("{words}: {step:?}"),
    };
    let s = report("plan=X state=in-progress rev=1", false);
    let l = report("plan=X", true);
    let claimed = claim("plan=X state=pending rev=1");
    let all = "failed=X failed-output=new failures=1 last=0 state=failed successes=0";
    // what we wanted to write, what the Secret says by now, what to write
    let table = [
        (&s, "plan=X state=in-progress rev=1 max=3", all, "somebody wrote another key"),
        (
            &s,
            "plan=X state=failed rev=1 failed=X failures=1 failed-output=new last=0 successes=0",
            "done",
            "the answer got lost",
        ),
        (&s, "plan=Y state=pending rev=1", "PlanChanged", "another plan"),
        (&s, "plan=X state=pending rev=1", "Redelivered", "the same plan again"),
        (&s, "plan=X state=in-progress rev=2", "Redelivered", "somebody is at a later one"),
        (
            &s,
            "plan=X state=cancelled rev=1",
            "failed=X failed-output=new failures=1 last=0 successes=0",
            "called off: not our word, but our result",
        ),
        (&s, "", "PlanChanged", "no plan"),
        (
            &l,
            "plan=X max=3",
            "applied=X output=new failures=0 last=0 successes=1",
            "somebody wrote another key",
        ),
        (&l, "plan=Y", "PlanChanged", "another plan"),
        (&l, "plan=X state=pending", "Redelivered", "the orchestrator learned plan-state"),
        (&claimed, "plan=X state=pending rev=1 max=3", "rev=2 state=in-progress", "still there"),
        (&claimed, "plan=X state=in-progress rev=2", "done", "the answer got lost"),
        (&claimed, "plan=X state=cancelled rev=1", "Redelivered", "called off in time"),
        (&claimed, "plan=Y state=pending rev=1", "PlanChanged", "another plan"),
    ];
    for (write, latest, expected, why) in table {
        let answer = match merge(&seen(latest), write) {
            Merge::Write(changes) => keys(&changes),
            Merge::Done => "done".into(),
            Merge::GiveUp(reason) => format!("{reason:?}"),
        };
        assert_eq!(answer, expected, "{latest}: {why}");
    }
    let elsewhere = Seen { uid: "u2".into(), ..seen("plan=X state=in-progress rev=1") };
    assert_eq!(merge(&elsewhere, &s), Merge::GiveUp(GiveUp::Recreated));
}

#[test]
fn a_revision_that_went_back_is_looked_up_and_believed() {
    let local = running();
    let watch = |version: &str, words: &str| Seen {
        resource_version: version.into(),
        source: Source::Watch,
        ..seen(words)
    };
    let back = watch("99", "plan=Y state=pending rev=1");
    assert_eq!(step(&decide(&back, &local, now()).0), "reread");
    let live = Seen { source: Source::Live, ..back };
    let (next, local) = decide(&live, &local, now());
    assert_eq!(step(&next), "claim: rev=2 state=in-progress");
    let on = watch("99", "plan=Y state=cancelled");
    assert_eq!(step(&decide(&on, &local, now()).0), "wait NotForUs", "and from then on");
    let opaque = watch("abc", "plan=Y state=cancelled");
    assert_eq!(step(&decide(&opaque, &local, now()).0), "wait NotForUs", "what is no number is never old");
    assert_eq!(step(&decide(&on, &Local::default(), now()).0), "reread", "a list may be behind");
}

#[test]
fn a_secret_that_was_made_again_is_a_new_one() {
    let again = Seen { uid: "u2".into(), resource_version: "5".into(), ..seen("plan=X applied=X") };
    assert_eq!(step(&decide(&again, &running(), now()).0), "apply attempt=1", "forced, and not too old");
}

#[test]
fn a_result_survives_the_process_and_a_restored_server() {
    let running_it = seen("plan=X state=in-progress rev=1");
    let (Step::Apply(job), local) = decide(&running_it, &Local::default(), now()) else { panic!() };
    let disk = local.applied(&job, outcome(true, "new"), now()).report().unwrap().encode();
    let resumed = Local::resume(Some(Report::decode(&disk).unwrap()));
    let (next, local) = decide(&running_it, &resumed, after(60));
    let result = "write: applied=X output=new failures=0 last=0 state=succeeded successes=1";
    assert_eq!(step(&next), result, "reported, not run again");

    let Step::Write(write, _) = next else { panic!() };
    let local = local.written(&write, &running_it);
    assert!(local.report().is_some_and(|report| report.reported));
    assert_eq!(step(&decide(&running_it, &local, after(90)).0), result, "restored to before the report");
}

#[test]
fn an_apply_that_is_postponed_is_still_owed() {
    let secret = seen("plan=X applied=X");
    let (Step::Apply(job), local) = decide(&secret, &Local::default(), now()) else { panic!() };
    let once = local.applied(&job, Outcome::Postponed(None), now());
    assert_eq!(step(&decide(&secret, &once, now()).0), "wait Postponed 5s");
    assert_eq!(step(&decide(&secret, &once, after(5)).0), "apply attempt=1");
    let twice = once.applied(&job, Outcome::Postponed(None), after(5));
    assert_eq!(step(&decide(&secret, &twice, after(5)).0), "wait Postponed 15s");
    let until = once.applied(&job, Outcome::Postponed(Some(after(300))), now());
    assert_eq!(step(&decide(&secret, &until, after(299)).0), "wait Postponed 300s");
    assert_eq!(step(&decide(&seen("plan=Y"), &until, now()).0), "apply attempt=1", "another plan");
}

/// A plan with two periodic instructions and two probes, in progress.
fn busy() -> Data {
    let instruction = |name: &str| PeriodicInstruction {
        common: Instruction { name: name.into(), command: "c".into(), ..Instruction::default() },
        ..PeriodicInstruction::default()
    };
    let probe = |initial_delay_seconds| Probe { initial_delay_seconds, ..Probe::default() };
    let document = Document::encode(Plan {
        periodic_instructions: vec![instruction("a"), instruction("b")],
        probes: BTreeMap::from([("now".to_owned(), probe(0)), ("later".to_owned(), probe(12))]),
        ..Plan::default()
    });
    let mut data = words::data("state=in-progress rev=1 statuses=none");
    data.insert(secret::PLAN.to_owned(), document.bytes().to_vec());
    data
}

#[test]
fn from_an_apply_to_rest() {
    let mut data = busy();
    let read = |data: &Data| Seen { secret: PlanSecret::read(data), ..seen("") };
    let (Step::Apply(job), local) = decide(&read(&data), &Local::default(), now()) else { panic!() };
    let mut local = local.applied(&job, Outcome::Succeeded(BTreeMap::new()), now());
    let (mut log, mut time) = (Vec::new(), now());
    while log.len() < 14 {
        let (next, state) = decide(&read(&data), &local, time);
        log.push(step(&next));
        local = match next {
            Step::Write(write, changes) => {
                apply_changes(&mut data, &changes);
                state.written(&write, &read(&data))
            }
            Step::Tend(chores) => {
                // The first instruction fails, the second one does not; probes succeed.
                let first = chores.periodic.iter().take(1).copied();
                let run = |index| Run { exit_code: if index == 0 { 1 } else { 0 }, ..Run::default() };
                let answers = chores.probes.iter().map(|name| (name.clone(), true)).collect();
                state.tended(
                    &chores,
                    Tended { runs: first.map(|i| (i, run(i), time)).collect(), answers },
                    time,
                )
            }
            Step::Wait { until, .. } => {
                time = until.unwrap();
                state
            }
            other => panic!("{other:?}"),
        };
    }
    let healthy = r#"{"healthy":true,"successCount":1}"#;
    let expected = [
        r#"write: applied=another failures=0 last=0 state=succeeded statuses={"later":{},"now":{}} successes=1"#,
        r#"tend periodic=[0, 1] probes=["now"]"#,
        &format!(r#"write: periodic=a:1 statuses={{"later":{{}},"now":{healthy}}}"#),
        "wait Applied 5s",
        r#"tend periodic=[1] probes=["now"]"#,
        "write: periodic=a:1,b:0",
        "wait Applied 10s",
        r#"tend periodic=[] probes=["now"]"#,
        "wait Applied 12s",
        r#"tend periodic=[] probes=["later", "now"]"#,
        &format!(r#"write: statuses={{"later":{healthy},"now":{healthy}}}"#),
        "wait Applied 17s",
        r#"tend periodic=[] probes=["later", "now"]"#,
        "wait Applied 22s",
    ];
    assert_eq!(log, expected);
}
