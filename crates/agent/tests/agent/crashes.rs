//! Killed at any point.

use std::time::Duration;

use plan::secret::PlanState;

use crate::support::{Said, World, commands, delivery};

#[tokio::test(start_paused = true)]
async fn in_the_middle_of_an_instruction_it_begins_again() {
    let mut world = World::new().await;
    world.script.on("two", Said::Hangs);
    world.server.create(&delivery(commands(&["one", "two"]), Some("pending"))).await;
    world.start();
    world.until_runs(2).await;
    assert!(world.path("/var/agent/interlock/applyinator-active").exists());
    world.kill().await;
    world.script.on("two", Said::Output("", 0));
    world.start();
    let secret = world.until("succeeded", |secret| secret.state == Some(PlanState::Succeeded)).await;
    assert_eq!(world.script.runs(), ["one", "two", "one", "two"]);
    assert_eq!(world.script.attempts(), ["1"; 4], "it is the same attempt");
    assert_eq!(secret.revision.get(), Some(&1), "and the same delivery");
}

#[tokio::test(start_paused = true)]
async fn a_result_survives_a_crash_while_the_server_is_away() {
    for plan_state in [Some("pending"), None] {
        let mut world = World::new().await;
        world.script.on("one", Said::Output("no\n", 1));
        world.server.create(&delivery(commands(&["slow", "one"]), plan_state)).await;
        world.script.on("slow", Said::Hangs);
        world.start();
        world.until_runs(1).await;
        // The server goes while the plan is run.
        world.kill().await;
        world.script.on("slow", Said::Output("", 0));
        world.start();
        let away = loop {
            if world.script.runs().len() > 1 {
                break world.server.go_away();
            }
            tokio::task::yield_now().await;
        };
        world.until_runs(3).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let runs = world.script.runs().len();
        world.restart().await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        world.server.come_back(away);
        let secret = world.until("failed", |secret| secret.plan_failed()).await;
        assert_eq!(secret.failures(), 1);
        assert_eq!(secret.failed_output.get().unwrap()["one"], b"no\n");
        if plan_state.is_some() {
            tokio::time::sleep(Duration::from_secs(600)).await;
            assert_eq!(world.script.runs().len(), runs, "its result is known: it is not run again");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn at_every_moment() {
    // Wherever the agent is killed, in the end the plan is applied and what it reports is what happened.
    for polls in (0..300).step_by(11) {
        let mut world = World::new().await;
        world.server.create(&delivery(commands(&["one", "two"]), Some("pending"))).await;
        world.start();
        for _ in 0..polls {
            tokio::task::yield_now().await;
        }
        world.restart().await;
        let secret = world.until("succeeded", |secret| secret.state == Some(PlanState::Succeeded)).await;
        assert!(secret.plan_applied(), "{polls}");
        assert_eq!(secret.applied_output.get().unwrap().len(), 2, "{polls}");
        assert_eq!(secret.revision.get(), Some(&1), "{polls}");
        let runs = world.script.runs().len();
        world.restart().await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(world.script.runs().len(), runs, "{polls}: not again once it is done");
    }
}
