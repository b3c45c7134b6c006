//! Node drivers and the kinds that they bring.

use serde_json::{Value, json};

use crate::world::{World, condition, story};

#[test]
fn a_driver_that_is_off_says_how_to_enable_it() {
    story(async || {
        let world = World::new().await;
        // As an older data directory has it.
        let spec = json!({"active": true, "displayName": "docker", "url": "local://", "builtin": true});
        world.create("NodeDriver", "docker", json!({"spec": spec})).await;
        world.condition("NodeDriver", "docker", "Active", "False").await;
        let driver = world.get("NodeDriver", "docker").await;
        let words = condition(&driver, "Installed")["message"].as_str().unwrap().to_owned();
        assert_eq!(words, "driver docker is off: start the server with --enable-driver docker");
        assert_eq!(world.find("DynamicSchema", "dockerconfig").await, None);
    });
}

#[test]
fn a_driver_brings_its_kinds() {
    story(async || {
        let world = World::new().await;
        let driver = world.get("NodeDriver", "scripted").await;
        assert_eq!((&driver["spec"]["builtin"], &driver["spec"]["url"]), (&json!(true), &json!("local://")));
        for type_ in ["Downloaded", "Installed", "Active"] {
            assert_eq!(condition(&driver, type_)["status"], "True", "{type_}");
        }
        let schema = world.get("DynamicSchema", "scriptedconfig").await;
        let fields = &schema["spec"]["resourceFields"];
        assert_eq!(
            (&fields["size"]["type"], &fields["size"]["default"]["stringValue"]),
            (&json!("string"), &json!("small"))
        );
        assert_eq!(fields["sshKey"]["type"], "password", "users write the key, the driver gets a file");
        assert_eq!(fields.get("keyFile"), None);
        let credential = world.get("DynamicSchema", "scriptedcredentialconfig").await;
        assert_eq!(credential["spec"]["resourceFields"]["token"]["type"], "password");

        world.create("ScriptedConfig", "c", json!({"fast": true})).await;
        let config = world.get("ScriptedConfig", "c").await;
        assert_eq!(
            (&config["size"], &config["cpus"]),
            (&json!("small"), &json!("2")),
            "defaults are filled in"
        );
        let template = json!({"spec": {"template": {"spec": {"size": "large", "unknown": 1}}}});
        world.create("ScriptedMachineTemplate", "t", template).await;
        let template = world.get("ScriptedMachineTemplate", "t").await;
        assert_eq!(template["spec"]["template"]["spec"], json!({"size": "large"}));
    });
}

#[test]
fn a_driver_that_changes_changes_its_kinds_and_users_changes_stay() {
    story(async || {
        let mut world = World::new().await;
        world
            .patch(
                "NodeDriver",
                "scripted",
                json!({"metadata": {"annotations": {"privateCredentialFields": null}}}),
            )
            .await;
        world
            .until(60, "token is a plain field", async || {
                let schema = world.get("DynamicSchema", "scriptedconfig").await;
                let type_ = schema["spec"]["resourceFields"]["token"]["type"].clone();
                if type_ == "string" { Ok(()) } else { Err(type_.to_string()) }
            })
            .await;
        world.stop().await;
        world.patch("NodeDriver", "scripted", json!({"spec": {"active": false}})).await;
        world.start();
        world.condition("NodeDriver", "scripted", "Inactive", "True").await;
        let driver = world.get("NodeDriver", "scripted").await;
        assert_eq!(driver["spec"]["active"], false, "what users chose stays");
        let kinds = async |world: &World| -> Vec<Value> {
            let all = world.list("CustomResourceDefinition").await;
            all.into_iter()
                .filter(|one| one["spec"]["names"]["kind"].as_str().unwrap().starts_with("Scripted"))
                .collect()
        };
        assert_eq!(kinds(&world).await.len(), 3, "the kinds stay: machines may be there");
        let resting = world.revision();
        world.stop().await;
        world.start();
        world.sleep(60).await;
        assert_eq!(world.revision(), resting, "a restart writes nothing");
    });
}

#[test]
fn a_driver_without_a_program_says_so() {
    story(async || {
        let world = World::new().await;
        world
            .create(
                "NodeDriver",
                "amazonec2",
                json!({"spec": {"active": true, "url": "local://", "displayName": "amazonec2"}}),
            )
            .await;
        world.condition("NodeDriver", "amazonec2", "Active", "False").await;
        let driver = world.get("NodeDriver", "amazonec2").await;
        let words = condition(&driver, "Installed")["message"].as_str().unwrap().to_owned();
        assert!(words.contains("--machine-binary"), "{words}");
    });
}
