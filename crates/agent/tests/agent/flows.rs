//! Both flows, from delivery to report.

use std::time::Duration;

use plan::document::{File, PeriodicInstruction, Plan, Probe};
use plan::secret::{Data, PlanState};

use crate::support::{Said, World, commands, delivery, tree};

const HOUR: Duration = Duration::from_secs(3600);

fn with_file(mut plan: Plan) -> Plan {
    let content = "aGVsbG8K".to_owned();
    plan.files =
        vec![File { path: "/etc/x/y".into(), content, permissions: "0640".into(), ..File::default() }];
    plan
}

fn succeeded(secret: &plan::PlanSecret) -> bool {
    secret.state == Some(PlanState::Succeeded)
}

#[tokio::test(start_paused = true)]
async fn with_plan_state_a_plan_is_applied_once() {
    let mut world = World::new().await;
    world.server.create(&delivery(with_file(commands(&["one", "two"])), Some("pending"))).await;
    world.start();
    let secret = world.until("succeeded", succeeded).await;
    assert_eq!(world.text("/etc/x/y").unwrap(), "hello\n");
    assert_eq!(world.script.runs(), ["one", "two"]);
    assert!(secret.plan_applied());
    assert_eq!(secret.applied_output.get().unwrap()["two"], b"two\n");
    assert_eq!(secret.revision.get(), Some(&1));
    assert_eq!(world.text("/var/agent/work"), None, "the work directory is gone");
    assert_eq!(tree(&world.path("/var/agent/interlock")).len(), 0, "the interlock is gone");
    assert_eq!(tree(&world.path("/var/agent/applied")).len(), 1, "there is a history");
    world.restart().await;
    tokio::time::sleep(HOUR).await;
    assert_eq!(world.script.runs().len(), 2, "a start runs nothing");
}

#[tokio::test(start_paused = true)]
async fn at_rest_nothing_is_written() {
    let mut world = World::new().await;
    let mut plan = commands(&["one"]);
    plan.probes.insert("well".into(), Probe::default());
    world.server.create(&delivery(plan, Some("pending"))).await;
    world.start();
    world
        .until("healthy", |secret| secret.known_probe_statuses().get("well").is_some_and(|well| well.healthy))
        .await;
    assert_eq!(world.server.take_puts(), 3, "claim, result, health");
    world.server.take_gets();
    tokio::time::sleep(HOUR).await;
    assert_eq!(world.server.take_puts(), 0);
    let gets = world.server.take_gets();
    assert!((20..=40).contains(&gets), "one list and one watch every few minutes: {gets}");
}

#[tokio::test(start_paused = true)]
async fn with_plan_state_a_failure_stays_until_it_is_delivered_again() {
    let mut world = World::new().await;
    world.script.on("two", Said::Output("no\n", 3));
    world.server.create(&delivery(commands(&["one", "two", "three"]), Some("pending"))).await;
    world.start();
    let secret = world.until("failed", |secret| secret.state == Some(PlanState::Failed)).await;
    assert!(secret.plan_failed() && !secret.plan_applied());
    assert_eq!(secret.failed_output.get().unwrap()["two"], b"no\n");
    tokio::time::sleep(HOUR).await;
    assert_eq!(world.script.runs(), ["one", "two"]);
    world.script.on("two", Said::Output("yes\n", 0));
    world.server.set(&Data::from([("plan-state".into(), b"pending".to_vec())])).await;
    let secret = world.until("succeeded", succeeded).await;
    assert_eq!(world.script.attempts(), ["1", "1", "2", "2", "2"]);
    assert_eq!((secret.failures(), secret.failed_output.get()), (0, None));
    assert_eq!(secret.applied_output.get().unwrap()["two"], b"yes\n");
}

#[tokio::test(start_paused = true)]
async fn without_plan_state_a_failed_plan_is_tried_again() {
    let mut world = World::new().await;
    world.script.on("one", Said::Output("no\n", 1));
    let mut data = delivery(commands(&["one"]), None);
    data.insert("max-failures".into(), b"3".to_vec());
    world.server.create(&data).await;
    world.start();
    let secret = world.until("failed thrice", |secret| secret.failures() == 3).await;
    assert!(secret.plan_failed());
    tokio::time::sleep(HOUR).await;
    assert_eq!(world.script.attempts(), ["1", "2", "3"]);
    world.server.set(&delivery(commands(&["two"]), None)).await;
    world.until("applied", |secret| secret.plan_applied()).await;
    world.restart().await;
    world.until_runs(5).await;
    tokio::time::sleep(HOUR).await;
    assert_eq!(world.script.runs()[3..], ["two", "two"], "once more after a start");
}

#[tokio::test(start_paused = true)]
async fn a_plan_with_a_mistake_touches_nothing_and_fails() {
    let mut world = World::new().await;
    let mut plan = with_file(commands(&["one"]));
    plan.files.push(File { path: "/etc/z".into(), content: "*".into(), ..File::default() });
    world.server.create(&delivery(plan, Some("pending"))).await;
    world.start();
    let secret = world.until("failed", |secret| secret.state == Some(PlanState::Failed)).await;
    assert_eq!(world.text("/etc/x/y"), None);
    let said = String::from_utf8(secret.failed_output.get().unwrap()["herdsman-agent"].clone()).unwrap();
    assert!(said.starts_with("files[1].content: Invalid value: not base64"), "{said}");
    assert!(world.script.runs().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_change_acts_at_once() {
    let mut world = World::new().await;
    world.server.create(&Data::new()).await;
    world.start();
    tokio::time::sleep(HOUR).await;
    let clock = world.machine().clock;
    world.server.set(&delivery(commands(&["one"]), Some("pending"))).await;
    world.until_runs(1).await;
    assert!(
        clock.now().as_second() - "2026-01-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap().as_second() < 2
    );
}

#[tokio::test(start_paused = true)]
async fn periodic_instructions() {
    let mut world = World::new().await;
    let mut plan = commands(&["once"]);
    let common = plan::document::Instruction { name: "p".into(), command: "p".into(), ..Default::default() };
    plan.periodic_instructions =
        vec![PeriodicInstruction { common, period_seconds: 600, ..PeriodicInstruction::default() }];
    world.server.create(&delivery(plan, Some("pending"))).await;
    world.start();
    let ran = |secret: &plan::PlanSecret| secret.known_periodic_output().contains_key("p");
    let secret = world.until("run", ran).await;
    assert_eq!(secret.known_periodic_output()["p"].stdout, b"p\n");
    world.server.take_puts();
    tokio::time::sleep(HOUR).await;
    let runs = world.script.runs().iter().filter(|command| *command == "p").count();
    assert!((6..=8).contains(&runs), "every ten minutes: {runs}");
    assert_eq!(world.server.take_puts(), runs - 1, "one write for each");
}

#[tokio::test(start_paused = true)]
async fn probes_are_written_when_they_change() {
    let mut world = World::new().await;
    let mut plan = Plan::default();
    let mut probe = Probe { initial_delay_seconds: 10, ..Probe::default() };
    probe.http_get.url = "http://well".into();
    plan.probes.insert("well".into(), probe);
    world.server.create(&delivery(plan, Some("pending"))).await;
    world.start();
    let status =
        |secret: &plan::PlanSecret| secret.probe_statuses.get().and_then(|all| all.get("well").cloned());
    let secret = world.until("succeeded", succeeded).await;
    assert!(!status(&secret).unwrap().healthy, "nothing is known yet");
    let healthy =
        |wanted: bool| move |secret: &plan::PlanSecret| status(secret).is_some_and(|s| s.healthy == wanted);
    world.until("healthy", healthy(true)).await;
    world.script.health("http://well", false);
    let secret = world.until("ill", healthy(false)).await;
    assert_eq!(status(&secret).unwrap().failure_count, 3);
    world.server.take_puts();
    tokio::time::sleep(HOUR).await;
    assert_eq!(world.server.take_puts(), 0);
    world.script.health("http://well", true);
    world.until("healthy", healthy(true)).await;
}

#[tokio::test(start_paused = true)]
async fn the_installer_goes_first() {
    let mut world = World::new().await;
    std::fs::create_dir_all(world.path("/var/agent/interlock")).unwrap();
    std::fs::write(world.path("/var/agent/interlock/restart-pending"), "").unwrap();
    // Left by an agent that is no more, and without a word about whose it is.
    std::fs::write(world.path("/var/agent/interlock/applyinator-active"), "Thu Jan  1 00:00:00 UTC 2026")
        .unwrap();
    world.server.create(&delivery(commands(&["one"]), Some("pending"))).await;
    world.start();
    tokio::time::sleep(Duration::from_secs(240)).await;
    assert!(world.script.runs().is_empty());
    assert_eq!(world.text("/var/agent/interlock/applyinator-active"), None);
    world.until("succeeded", succeeded).await;
    assert_eq!(tree(&world.path("/var/agent/interlock")).len(), 0);
    // Another agent, which is alive.
    std::fs::write(world.path("/var/agent/interlock/applyinator-active"), "pid=4242\n").unwrap();
    world.server.set(&delivery(commands(&["two"]), Some("pending"))).await;
    tokio::time::sleep(HOUR).await;
    assert_eq!(world.script.runs(), ["one"]);
    std::fs::write(world.path("/var/agent/interlock/applyinator-active"), "pid=4243\n").unwrap();
    world.until("succeeded", |secret| succeeded(secret) && secret.plan_applied()).await;
    assert_eq!(world.script.runs(), ["one", "two"]);
}

/// Text that no packing makes much smaller.
fn noise(length: usize) -> &'static str {
    use base64::Engine as _;
    use clock::Entropy as _;
    let mut bytes = vec![0; length];
    clock::SeededEntropy::new(3).fill(&mut bytes);
    base64::engine::general_purpose::STANDARD.encode(bytes).leak()
}

#[tokio::test(start_paused = true)]
async fn outputs_that_are_too_large_for_a_secret_are_cut() {
    let mut world = World::new().await;
    for command in ["one", "two"] {
        world.script.on(command, Said::Output(noise(600 << 10), 0));
    }
    let mut plan = commands(&["one", "two"]);
    let common =
        plan::document::Instruction { name: "p".into(), command: "one".into(), ..Default::default() };
    plan.periodic_instructions = vec![PeriodicInstruction { common, ..PeriodicInstruction::default() }];
    world.server.create(&delivery(plan, Some("pending"))).await;
    world.start();
    let secret = world.until("run", |secret| secret.known_periodic_output().contains_key("p")).await;
    assert!(succeeded(&secret));
    let cut = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(" bytes left out]");
    assert!(secret.applied_output.get().unwrap().values().all(|output| cut(output)));
    assert!(cut(&secret.known_periodic_output()["p"].stdout));
    let size: usize = world.server.data().await.values().map(Vec::len).sum();
    assert!((400 << 10..1 << 20).contains(&size), "{size}");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_cannot_be_written_now_is_written_later() {
    let mut world = World::new().await;
    std::fs::write(world.path("/etc"), "in the way").unwrap();
    world.server.create(&delivery(with_file(commands(&["one"])), Some("pending"))).await;
    world.start();
    tokio::time::sleep(HOUR).await;
    let secret = plan::PlanSecret::read(&world.server.data().await);
    assert_eq!(
        (secret.state, secret.failure_count.get()),
        (Some(PlanState::InProgress), None),
        "nobody's failure"
    );
    std::fs::remove_file(world.path("/etc")).unwrap();
    world.until("succeeded", succeeded).await;
    assert_eq!(
        (world.script.runs(), world.script.attempts()),
        (vec!["one".to_owned()], vec!["1".to_owned()])
    );
}
