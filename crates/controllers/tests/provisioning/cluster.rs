//! A cluster's life: made, scaled, changed, replaced, deleted.

use serde_json::{Value, json};

use crate::world::{World, condition, name, story, two_pools};

/// From one object to machines with bootstrap data, and nothing is written once all is well.
#[test]
fn a_cluster_becomes_machines_and_rests() {
    story(|| async {
        let world = World::new(1).await;
        world.cluster("prod", 3, 2).await;
        world.pool_ready("prod-servers", 3).await;
        world.pool_ready("prod-workers", 2).await;
        world.condition("ProvisioningCluster", "prod", "Ready", "True", "").await;
        let cluster = world.get("ProvisioningCluster", "prod").await;
        assert_eq!(condition(&cluster, "RKECluster")["status"], "True", "{cluster}");
        assert_eq!(cluster["status"]["clientSecretName"], "prod-kubeconfig");
        let id = cluster["status"]["clusterName"].as_str().unwrap().to_owned();
        assert!(id.starts_with("c-m-"), "{id}");

        let management = world.get("ManagementCluster", &id).await;
        assert_eq!(management["spec"]["displayName"], "prod");
        assert_eq!(condition(&management, "Updated")["status"], "True", "{management}");
        let token = world.api_in("ClusterRegistrationToken", &id).get("default-token").await.unwrap();
        let command = token.data["status"]["nodeCommand"].as_str().unwrap();
        assert!(command.contains("https://herdsman.example.com/system-agent-install.sh"), "{command}");
        assert!(command.contains("--ca-checksum ") && command.contains("--token {token}"), "{command}");
        let secret = world.api_in("Secret", &id).get("crt-token-default-token").await.unwrap();
        assert!(secret.data["data"]["token"].is_string());

        for machine in world.machines("prod-servers").await {
            let hook = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/rke-bootstrap-cleanup";
            assert!(machine["metadata"]["annotations"][hook].is_string(), "{machine}");
            let bootstrap = machine["spec"]["bootstrap"]["dataSecretName"].as_str().unwrap();
            let script = world.get("Secret", bootstrap).await;
            let script: k8s_openapi::ByteString =
                serde_json::from_value(script["data"]["value"].clone()).unwrap();
            let script = String::from_utf8(script.0).unwrap();
            assert!(script.contains("CATTLE_SERVER='https://herdsman.example.com'"), "{script}");
            assert!(
                script.contains("CATTLE_TOKEN='") && !script.contains("echo install"),
                "it runs: {script}"
            );
        }
        world.sleep(60).await;
        let before = world.revision();
        world.sleep(300).await;
        assert_eq!(world.revision(), before, "five minutes, not one write");
    });
}

/// The names of a pool's machines.
async fn names(world: &World, deployment: &str) -> Vec<String> {
    world.machines(deployment).await.iter().map(name).collect()
}

/// Changes a field of one pool of `prod`.
async fn change_pool(world: &World, pool: usize, field: &str, value: Value) {
    let mut cluster = world.get("ProvisioningCluster", "prod").await;
    cluster["spec"]["rkeConfig"]["machinePools"][pool][field] = value;
    let pools = &cluster["spec"]["rkeConfig"]["machinePools"];
    world.patch("ProvisioningCluster", "prod", json!({"spec": {"rkeConfig": {"machinePools": pools}}})).await;
}

/// Pools grow and shrink; what does not make other servers reaches the machines that are there; what does replaces them.
#[test]
fn changes_reach_the_machines() {
    story(|| async {
        let world = World::new(2).await;
        world.cluster("prod", 1, 1).await;
        world.pool_ready("prod-servers", 1).await;
        world.pool_ready("prod-workers", 1).await;
        change_pool(&world, 1, "quantity", json!(3)).await;
        world.pool_ready("prod-workers", 3).await;
        change_pool(&world, 1, "quantity", json!(2)).await;
        world.pool_ready("prod-workers", 2).await;

        let before = names(&world, "prod-workers").await;
        change_pool(&world, 1, "labels", json!({"zone": "a"})).await;
        world
            .until(60, "the label", async || {
                let machines = world.machines("prod-workers").await;
                let labelled = machines.iter().filter(|one| one["metadata"]["labels"]["zone"] == "a").count();
                if labelled == 2 { Ok(()) } else { Err(format!("{labelled} of 2")) }
            })
            .await;
        // The plan Secret has it too: nodes get their labels from there.
        let plan = format!("{}-machine-plan", before[0]);
        world
            .until(60, "the plan Secret's label", async || {
                let plan = world.get("Secret", &plan).await;
                let told = plan["metadata"]["annotations"]["rke.cattle.io/labels"] == r#"{"zone":"a"}"#;
                if told { Ok(()) } else { Err(plan["metadata"].to_string()) }
            })
            .await;
        assert_eq!(names(&world, "prod-workers").await, before, "a label replaces nobody");

        let templates = world.list("ToyMachineTemplate").await.len();
        world.patch("ToyConfig", "prod-workers", json!({"size": "large"})).await;
        world
            .until(600, "other machines", async || {
                let now = names(&world, "prod-workers").await;
                let new = now.iter().filter(|name| !before.contains(name)).count();
                if new == 2 && now.len() == 2 { Ok(()) } else { Err(format!("{now:?}")) }
            })
            .await;
        world.pool_ready("prod-workers", 2).await;
        for machine in world.machines("prod-workers").await {
            let server = world.get("ToyMachine", &name(&machine)).await;
            assert_eq!(server["spec"]["size"], "large");
        }
        assert!(world.list("ToyMachineTemplate").await.len() <= templates + 1);
        let servers = names(&world, "prod-servers").await;
        assert_eq!(servers.len(), 1, "the other pool stays: {servers:?}");
    });
}

/// A deleted cluster leaves nothing behind.
#[test]
fn nothing_is_left_of_a_cluster() {
    story(|| async {
        let world = World::new(3).await;
        let before = world.everything().await;
        world.cluster("prod", 3, 1).await;
        world.pool_ready("prod-servers", 3).await;
        world.pool_ready("prod-workers", 1).await;
        assert!(world.everything().await.len() > before.len() + 20);
        world.delete("ProvisioningCluster", "prod").await;
        world.gone("ProvisioningCluster", "prod").await;
        world
            .until(120, "nothing left", async || {
                let mut left = world.everything().await;
                left.retain(|one| !before.contains(one));
                if left.is_empty() { Ok(()) } else { Err(format!("{left:#?}")) }
            })
            .await;
    });
}

/// What stands behind a cluster follows from it: deleted by hand, it comes back under its own name.
#[test]
fn a_management_cluster_comes_back_under_its_own_name() {
    story(|| async {
        let world = World::new(11).await;
        world.cluster("prod", 1, 0).await;
        world.pool_ready("prod-servers", 1).await;
        let id = world.get("ProvisioningCluster", "prod").await["status"]["clusterName"]
            .as_str()
            .unwrap()
            .to_owned();
        let first = world.get("ManagementCluster", &id).await;
        world.delete("ManagementCluster", &id).await;
        world
            .until(60, "it is there again", async || match world.find("ManagementCluster", &id).await {
                Some(now) if now["metadata"]["uid"] != first["metadata"]["uid"] => Ok(()),
                other => Err(format!("{other:?}")),
            })
            .await;
        let cluster = world.get("ProvisioningCluster", "prod").await;
        assert_eq!(cluster["status"]["clusterName"], id.as_str());
        assert_eq!(world.list("ManagementCluster").await.len(), 1);
        world.condition("ProvisioningCluster", "prod", "Ready", "True", "").await;
    });
}

/// A process that ends at any time is followed by one that goes on.
#[test]
fn a_restart_in_the_middle_changes_nothing() {
    for moment in [0, 150, 600, 2500] {
        story(|| async move {
            let mut world = World::new(4).await;
            world.cluster("prod", 1, 1).await;
            tokio::time::sleep(std::time::Duration::from_millis(moment)).await;
            world.stop().await;
            world.sleep(5).await;
            world.start();
            world.pool_ready("prod-servers", 1).await;
            world.pool_ready("prod-workers", 1).await;
            let clusters = world.list("ManagementCluster").await;
            assert_eq!(clusters.len(), 1, "{clusters:#?}");
            assert_eq!(world.list("Machine").await.len(), 2);
            world.delete("ProvisioningCluster", "prod").await;
            tokio::time::sleep(std::time::Duration::from_millis(moment)).await;
            world.stop().await;
            world.start();
            world.gone("ProvisioningCluster", "prod").await;
            assert_eq!(world.list("ManagementCluster").await.len(), 0);
        });
    }
}

/// What a pool lacks is said in the cluster's condition, by a code that stays.
#[test]
fn what_is_missing_is_said() {
    story(|| async {
        let world = World::new(5).await;
        world.create("ProvisioningCluster", "prod", two_pools("prod", 1, 0)).await;
        world.condition("ProvisioningCluster", "prod", "RKECluster", "Unknown", "MachineConfigMissing").await;
        world.config("prod-servers", "small").await;
        world.config("prod-workers", "small").await;
        world.pool_ready("prod-servers", 1).await;
        let pools = json!({"spec": {"cloudCredentialSecretName": "cc-none"}});
        world.patch("ProvisioningCluster", "prod", pools).await;
        world.condition("ProvisioningCluster", "prod", "RKECluster", "Unknown", "CredentialMissing").await;
        world.create("Secret", "cc-none", json!({"type": "provisioning.cattle.io/cloud-credential"})).await;
        world.condition("ProvisioningCluster", "prod", "RKECluster", "True", "").await;
        let events = world.list("Event").await;
        let told = |reason: &str| events.iter().filter(|event| event["reason"] == reason).count();
        assert_eq!((told("MachineConfigMissing"), told("CredentialMissing")), (1, 1));
    });
}
