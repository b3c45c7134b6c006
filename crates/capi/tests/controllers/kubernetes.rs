//! All scenarios on a real Kubernetes, in real time: what a simulation cannot show is that a real API server takes what
//! the controllers write.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::LocalSet;

use crate::site::Site;
use crate::world::World;
use crate::{Scenario, clusters, deployments, health, removal, rest};

/// How many scenarios run at a time: they wait more than they work.
const AT_A_TIME: usize = 12;

/// One Kubernetes, one set of controllers, a namespace for each scenario.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "peers: kubernetes, etcd"]
async fn all_scenarios_on_a_real_kubernetes() {
    if peers::skip("capi-scenarios") {
        return;
    }
    let site = Site::real().await;
    let chosen = std::env::var("SCENARIO").unwrap_or_default();
    let all = [clusters::ALL, deployments::ALL, removal::ALL, health::ALL, rest::ALL];
    let all = all.concat().into_iter().filter(|scenario| scenario.name.contains(&chosen));
    let slots = Arc::new(Semaphore::new(AT_A_TIME));
    let local = LocalSet::new();
    let mut running = Vec::new();
    for (number, scenario) in all.enumerate() {
        let (site, slots) = (site.clone(), slots.clone());
        let told = format!("{} ({:?})", scenario.name, scenario.speaks);
        let task = local.spawn_local(async move {
            let _slot = slots.acquire().await.unwrap();
            let Scenario { speaks, run, .. } = scenario;
            run(World::within(&site, speaks, &format!("scenario-{number}")).await).await;
        });
        running.push((told, task));
    }
    let mut failed = Vec::new();
    local
        .run_until(async {
            for (told, task) in running {
                match task.await {
                    Ok(()) => println!("ok {told}"),
                    Err(error) => failed.push(format!("{told}: {error}")),
                }
            }
        })
        .await;
    assert!(failed.is_empty(), "{failed:#?}");
    // With all that is left over from them, another process takes over.
    rest::another_process_takes_over(
        World::within(&site, crate::provider::Speaks::V1Beta2, "succession").await,
    )
    .await;
}
