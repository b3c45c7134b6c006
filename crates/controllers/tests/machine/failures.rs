//! What goes wrong, and what becomes of it.

use serde_json::json;

use crate::scripted::Outcome::{HalfWay, Never, Refused, Well};
use crate::world::{World, condition, story};

#[test]
fn what_is_left_of_a_failed_try_goes_before_the_next() {
    story(async || {
        let world = World::new().await;
        world.then(&[HalfWay]);
        world.machine("m", json!({})).await;
        world.condition("ScriptedMachine", "m", "CreateJob", "False").await;
        let machine = world.get("ScriptedMachine", "m").await;
        assert_eq!(machine["status"]["failureReason"], "CreateError");
        assert!(machine["status"]["failureMessage"].as_str().unwrap().ends_with("the cloud is out of disks"));
        let words = condition(&machine, "Ready")["message"].as_str().unwrap().to_owned();
        assert!(words.starts_with("failed creating server [default/m] of kind (ScriptedMachine) for machine m in infrastructure provider: CreateError: "), "{words}");
        assert!(
            machine["metadata"]["annotations"]["herdsman.io/create-failures"]
                .as_str()
                .unwrap()
                .starts_with("1 ")
        );
        assert!(world.find("Job", "m-machine-provision").await.is_some(), "it stays to be looked at");

        world.condition("ScriptedMachine", "m", "Ready", "True").await;
        assert_eq!(
            world.servers(|servers| (servers.there.len(), servers.creates, servers.removes)),
            (1, 2, 1)
        );
        let machine = world.get("ScriptedMachine", "m").await;
        assert_eq!(machine["metadata"]["annotations"].get("herdsman.io/create-failures"), None);
        assert_eq!(machine["status"].get("failureReason"), None);
    });
}

#[test]
fn a_refusal_leaves_nothing_to_clean_up_and_ends_after_ten() {
    story(async || {
        let world = World::new().await;
        world.then(&[const { Refused }; 10]);
        world.machine("m", json!({})).await;
        world
            .until(20_000, "given up", async || {
                let events = world.list("Event").await;
                let given_up = events.iter().any(|event| event["reason"] == "CreateGivenUp");
                if given_up { Ok(()) } else { Err(format!("{} events", events.len())) }
            })
            .await;
        assert_eq!(
            world.servers(|servers| (servers.there.len(), servers.creates, servers.removes)),
            (0, 0, 0)
        );
        let events = world.list("Event").await;
        let failed = events.iter().find(|event| event["reason"] == "CreateFailed").unwrap();
        assert!(failed["message"].as_str().unwrap().contains("no quota left"), "{failed}");
        world.delete("ScriptedMachine", "m").await;
        world.gone("ScriptedMachine", "m").await;
        assert_eq!(world.leftovers("m").await, Vec::<String>::new());
    });
}

#[test]
fn a_setting_has_the_machine_deleted_instead() {
    story(async || {
        let world = World::new().await;
        world
            .create(
                "Setting",
                "delete-machine-on-failure-after",
                json!({"value": "60s", "default": "0s", "customized": true, "source": "db"}),
            )
            .await;
        world.then(&[Refused]);
        world.machine("m", json!({})).await;
        world.condition("ScriptedMachine", "m", "CreateJob", "False").await;
        world.sleep(20).await;
        assert!(world.find("Machine", "m").await.is_some());
        world.gone("Machine", "m").await;
    });
}

#[test]
fn a_deletion_is_tried_until_it_works() {
    story(async || {
        let world = World::new().await;
        world.machine("m", json!({})).await;
        world.condition("ScriptedMachine", "m", "Ready", "True").await;
        world.then(&[const { HalfWay }; 6]);
        world.delete("ScriptedMachine", "m").await;
        world.condition("ScriptedMachine", "m", "DeleteJob", "False").await;
        assert_eq!(world.servers(|servers| servers.removes), 4, "the Job itself tries four times");
        let machine = world.get("ScriptedMachine", "m").await;
        assert_eq!(machine["status"]["failureReason"], "DeleteError");
        assert!(machine["status"]["failureMessage"].as_str().unwrap().ends_with("the cloud says no"));
        world.gone("ScriptedMachine", "m").await;
        assert_eq!(world.servers(|servers| (servers.there.len(), servers.removes)), (0, 7));
        assert_eq!(world.leftovers("m").await, Vec::<String>::new());
    });
}

#[test]
fn a_server_that_is_gone_for_good_can_be_forgotten() {
    story(async || {
        let world = World::new().await;
        world.machine("m", json!({})).await;
        world.condition("ScriptedMachine", "m", "Ready", "True").await;
        world.then(&[const { HalfWay }; 100]);
        world.delete("ScriptedMachine", "m").await;
        world.condition("ScriptedMachine", "m", "DeleteJob", "False").await;
        world
            .patch(
                "ScriptedMachine",
                "m",
                json!({"metadata": {"annotations": {"provisioning.cattle.io/force-machine-remove": "true"}}}),
            )
            .await;
        world.gone("ScriptedMachine", "m").await;
        assert_eq!(world.leftovers("m").await, Vec::<String>::new());
    });
}

#[test]
fn a_server_that_is_being_made_is_not_deleted_before_it_is_there() {
    story(async || {
        let world = World::new().await;
        world.machine("m", json!({})).await;
        world
            .until(60, "it runs", async || {
                if world.servers(|servers| servers.creates) == 1 { Ok(()) } else { Err(String::new()) }
            })
            .await;
        world.delete("ScriptedMachine", "m").await;
        world.gone("ScriptedMachine", "m").await;
        assert_eq!(
            world.servers(|servers| (servers.there.len(), servers.creates, servers.removes)),
            (0, 1, 1)
        );
        assert_eq!(world.leftovers("m").await, Vec::<String>::new());
    });
}

#[test]
fn a_job_that_is_deleted_is_ended_and_what_it_made_is_found() {
    story(async || {
        let world = World::new().await;
        world.then(&[Never, Well]);
        world.machine("m", json!({})).await;
        world
            .until(60, "a server", async || {
                if world.servers(|servers| servers.there.len()) == 1 { Ok(()) } else { Err(String::new()) }
            })
            .await;
        let options = kube::api::DeleteParams::background();
        world.api("Job").delete("m-machine-provision", &options).await.unwrap();
        // The next try finds that there is one already, and has it cleaned up.
        world.condition("ScriptedMachine", "m", "Ready", "True").await;
        assert_eq!(world.servers(|servers| servers.there.len()), 1);
        assert!(world.log("m").contains("ended: the Job was deleted"));
    });
}

#[test]
fn other_jobs_are_nobodys_business() {
    story(async || {
        let world = World::new().await;
        world.machine("m", json!({})).await;
        world.condition("ScriptedMachine", "m", "Ready", "True").await;
        let creates = world.servers(|servers| servers.creates);
        let mut job = world.get("Job", "m-machine-provision").await;
        job["metadata"] = json!({"name": "m-other", "labels": job["metadata"]["labels"], "annotations": job["metadata"]["annotations"]});
        job["spec"].as_object_mut().unwrap().remove("selector");
        job["spec"]["template"]["metadata"]["labels"] = json!({});
        job.as_object_mut().unwrap().remove("status");
        world.create("Job", "m-other", job).await;
        world.create("Job", "plain", json!({"spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "args": ["rm", "-y", "m"]}]
        }}}}))
        .await;
        world.sleep(60).await;
        for name in ["m-other", "plain"] {
            assert_eq!(world.get("Job", name).await["status"], json!({}), "{name} is not run");
        }
        assert_eq!(world.servers(|servers| (servers.creates, servers.removes)), (creates, 0));
    });
}
