//! The way of a cluster on a real Kubernetes, in real time: what a simulation cannot show is that a real API server
//! takes what the controllers write, issues tokens, and collects what has no owner.

use serde_json::json;

use crate::world::{World, name};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "peers: kubernetes, etcd"]
async fn a_cluster_lives_on_a_real_kubernetes() {
    let kubernetes = tokio::task::spawn_blocking(|| peers::Kubernetes::start().unwrap()).await.unwrap();
    let world = World::on_kubernetes(kubernetes).await;
    let before = world.everything().await;
    world.cluster("prod", 1, 2).await;
    world.pool_ready("prod-servers", 1).await;
    world.pool_ready("prod-workers", 2).await;
    world.condition("ProvisioningCluster", "prod", "Ready", "True", "").await;

    let mut cluster = world.get("ProvisioningCluster", "prod").await;
    cluster["spec"]["rkeConfig"]["machinePools"][1]["quantity"] = json!(1);
    cluster["spec"]["rkeConfig"]["machinePools"][1]["labels"] = json!({"zone": "a"});
    world.patch("ProvisioningCluster", "prod", json!({"spec": cluster["spec"]})).await;
    world.pool_ready("prod-workers", 1).await;
    let worker = name(&world.machines("prod-workers").await[0]);

    // At rest nothing is written.
    world.sleep(5).await;
    let revisions = async || -> Vec<String> {
        let mut all = Vec::new();
        for kind in
            ["ProvisioningCluster", "Cluster", "Machine", "MachineDeployment", "RKEBootstrap", "Secret"]
        {
            let found = world.list(kind).await;
            all.extend(found.iter().map(|one| one["metadata"]["resourceVersion"].to_string()));
        }
        all
    };
    let resting = revisions().await;
    world.sleep(15).await;
    assert_eq!(revisions().await, resting);

    world.patch("ToyConfig", "prod-workers", json!({"size": "large"})).await;
    world
        .until(300, "another machine", async || {
            let now: Vec<String> = world.machines("prod-workers").await.iter().map(name).collect();
            if now.len() == 1 && now[0] != worker { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .await;
    world.delete("ProvisioningCluster", "prod").await;
    world.gone("ProvisioningCluster", "prod").await;
    world
        .until(120, "nothing left", async || {
            let mut left = world.everything().await;
            left.retain(|one| !before.contains(one));
            if left.is_empty() { Ok(()) } else { Err(format!("{left:#?}")) }
        })
        .await;
}
