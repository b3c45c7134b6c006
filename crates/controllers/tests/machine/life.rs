//! A server comes, lives and goes.

use serde_json::json;

use crate::world::{World, condition, story};

#[test]
fn a_server_comes_lives_and_goes() {
    story(async || {
        let world = World::new().await;
        world
            .create("Secret", "cc", json!({"stringData": {"scriptedcredentialConfig-token": "t0ken"}}))
            .await;
        let spec = json!({
            "size": "large", "cpus": "4", "fast": true, "tag": ["a", "b"], "sshKey": "-- a key --",
            "common": {"cloudCredentialSecretName": "cc"},
        });
        world.machine("m", spec).await;
        world.condition("ScriptedMachine", "m", "Ready", "True").await;

        let machine = world.get("ScriptedMachine", "m").await;
        assert_eq!(machine["metadata"]["labels"]["rke.cattle.io/capi-machine-name"], "m");
        assert_eq!(machine["metadata"]["finalizers"], json!(["wrangler.cattle.io/machine-provision-remove"]));
        assert_eq!(condition(&machine, "CreateJob")["status"], "True");
        assert_eq!(machine["status"]["initialization"]["provisioned"], false, "its node has not joined");
        assert_eq!(machine["status"]["cloudCredentialSecretName"], "cc");
        let order = world.servers(|servers| servers.last.clone());
        assert_eq!((order.name.as_str(), order.bootstrap.as_str()), ("m", world.bootstrap.as_str()));
        assert_eq!((order.arguments.text("size"), order.arguments.text("cpus")), (Some("large"), Some("4")));
        assert!(order.arguments.switch("fast") && order.arguments.list("tag") == ["a", "b"]);
        assert!(order.arguments.text("key-file").unwrap().ends_with("/id_rsa"), "{:?}", order.arguments);
        assert_eq!(order.environment["SCRIPTED_TOKEN"], "t0ken");

        let job = world.get("Job", "m-machine-provision").await;
        assert_eq!(condition(&job, "Complete")["status"], "True");
        assert_eq!((&job["status"]["succeeded"], job["status"].get("active")), (&json!(1), None));
        let pod = &world.list("Pod").await[0];
        assert_eq!(
            (&pod["status"]["phase"], &pod["metadata"]["labels"]["job-name"]),
            (&json!("Succeeded"), &json!("m-machine-provision"))
        );
        let end = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
        assert_eq!(end["exitCode"], 0);
        assert!(end["message"].as_str().unwrap().contains("asking the cloud"));
        assert!(world.log("m").contains("asking the cloud"));

        world.joins("m").await;
        world
            .until(60, "only the state is left", async || {
                let left = world.leftovers("m").await;
                if left == ["Secret m-machine-state"] { Ok(()) } else { Err(format!("{left:?}")) }
            })
            .await;
        world
            .until(60, "provisioned", async || {
                let machine = world.get("ScriptedMachine", "m").await;
                let said = &machine["status"];
                let so = said["initialization"]["provisioned"] == true && said["ready"] == true;
                if so && said["addresses"][0]["address"] == "10.0.0.1" {
                    Ok(())
                } else {
                    Err(said.to_string())
                }
            })
            .await;

        let resting = world.revision();
        world.sleep(300).await;
        assert_eq!(world.revision(), resting, "five minutes at rest: not one write");

        world.delete("ScriptedMachine", "m").await;
        world.gone("ScriptedMachine", "m").await;
        assert_eq!(
            world.servers(|servers| (servers.there.len(), servers.creates, servers.removes)),
            (0, 1, 1)
        );
        let order = world.servers(|servers| servers.last.clone());
        assert_eq!(order.arguments.text("size"), Some("large"), "what it was made with");
        assert_eq!(order.environment["SCRIPTED_TOKEN"], "t0ken", "the credential is read again");
        assert_eq!(world.leftovers("m").await, Vec::<String>::new());
        assert_eq!(world.log("m"), "", "its log goes with it");
        let jobs = std::fs::read_dir(world.directory.path().join("jobs")).unwrap();
        let left: Vec<_> =
            jobs.map(|entry| entry.unwrap().file_name()).filter(|name| name != "logs").collect();
        assert!(left.is_empty(), "files are left: {left:?}");
    });
}

#[test]
fn what_is_waited_for_is_said() {
    story(async || {
        let world = World::new().await;
        world.create("ScriptedMachine", "m", json!({"spec": {}})).await;
        let waits = async |reason: &str| {
            world
                .until(60, reason, async || {
                    let ready = condition(&world.get("ScriptedMachine", "m").await, "Ready");
                    if ready["reason"] == reason { Ok(()) } else { Err(ready.to_string()) }
                })
                .await;
            let events = world.list("Event").await;
            assert!(events.iter().any(|event| event["reason"] == reason), "no event {reason}");
        };
        waits("WaitingForMachine").await;
        world.create("Machine", "m", json!({"spec": {
            "clusterName": "late", "bootstrap": {"dataSecretName": ""},
            "infrastructureRef": {"apiGroup": "rke-machine.cattle.io", "kind": "ScriptedMachine", "name": "m"}
        }}))
        .await;
        let uid = world.get("Machine", "m").await["metadata"]["uid"].clone();
        let owner =
            json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "m", "uid": uid}]);
        world.patch("ScriptedMachine", "m", json!({"metadata": {"ownerReferences": owner}})).await;
        waits("WaitingForCluster").await;
        world
            .create(
                "Cluster",
                "late",
                json!({"spec": {"paused": true, "controlPlaneEndpoint": {"host": "x", "port": 1}}}),
            )
            .await;
        waits("Paused").await;
        world.patch("Cluster", "late", json!({"spec": {"paused": false}})).await;
        waits("WaitingForInfrastructure").await;
        world
            .patch_status("Cluster", "late", json!({"initialization": {"infrastructureProvisioned": true}}))
            .await;
        waits("WaitingForBootstrapData").await;
        world.patch("NodeDriver", "scripted", json!({"spec": {"active": false}})).await;
        world.create("Secret", "b", json!({"stringData": {"value": "x"}})).await;
        world.patch("Machine", "m", json!({"spec": {"bootstrap": {"dataSecretName": "b"}}})).await;
        waits("NodeDriverMissing").await;
        world
            .patch(
                "ScriptedMachine",
                "m",
                json!({"spec": {"common": {"cloudCredentialSecretName": "cattle-global-data:cc"}}}),
            )
            .await;
        world.patch("NodeDriver", "scripted", json!({"spec": {"active": true}})).await;
        waits("CredentialMissing").await;
        assert_eq!(world.servers(|servers| servers.creates), 0);
        let names_it = json!({"cloudCredentialSecretName": "cattle-global-data:cc"});
        world.provisioning_cluster("late", names_it).await;
        world.sleep(1).await;
        world.create_in("cattle-global-data", "Secret", "cc", json!({"stringData": {"x-token": "t"}})).await;
        world.condition("ScriptedMachine", "m", "Ready", "True").await;

        world.delete("ScriptedMachine", "m").await;
        world.gone("ScriptedMachine", "m").await;
    });
}

#[test]
fn a_machine_that_was_never_begun_goes_at_once() {
    story(async || {
        let world = World::new().await;
        world.create("ScriptedMachine", "m", json!({"spec": {}})).await;
        world.sleep(5).await;
        world.delete("ScriptedMachine", "m").await;
        world.gone("ScriptedMachine", "m").await;
        assert_eq!(world.servers(|servers| servers.removes), 0);
    });
}

#[test]
fn many_servers_come_and_go() {
    story(async || {
        let world = World::new().await;
        for number in 0..30 {
            world.machine(&format!("m{number}"), json!({})).await;
        }
        for number in 0..30 {
            world.condition("ScriptedMachine", &format!("m{number}"), "Ready", "True").await;
        }
        for number in 0..30 {
            world.delete("ScriptedMachine", &format!("m{number}")).await;
        }
        for number in 0..30 {
            world.gone("ScriptedMachine", &format!("m{number}")).await;
        }
        assert_eq!(
            world.servers(|servers| (servers.there.len(), servers.creates, servers.removes)),
            (0, 30, 30)
        );
        let left: Vec<String> = world.leftovers("m").await;
        let left: Vec<&String> = left.iter().filter(|name| !name.ends_with("-bootstrap")).collect();
        assert!(left.is_empty(), "{left:?}");
    });
}
