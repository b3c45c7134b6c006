//! What a tenant tries who may write Jobs, machines and Secrets in a namespace of their own.

use std::net::TcpListener;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::process::{Stage, in_real_time};
use crate::world::{World, condition, story};

/// A Job like that of another machine, by everything that labels and annotations can say, with a template of the tenant's own.
fn forged(real: &Value, machine: &str, name: &str, args: &[String]) -> Value {
    let text = json!({"labels": real["metadata"]["labels"], "annotations": real["metadata"]["annotations"]});
    let mut metadata: Value = serde_json::from_str(&text.to_string().replace(machine, name)).unwrap();
    for prefix in ["", "batch.kubernetes.io/"] {
        for label in ["job-name", "controller-uid"] {
            metadata["labels"].as_object_mut().unwrap().remove(&format!("{prefix}{label}"));
        }
    }
    let container = json!({
        "name": "machine", "image": "evil", "args": args, "envFrom": [{"secretRef": {"name": "evil"}}],
        "volumeMounts": [{"name": "evil", "mountPath": "/run/secrets/machine"}],
    });
    let spec = json!({
        "restartPolicy": "Never", "nodeName": "control-plane", "containers": [container],
        "volumes": [{"name": "evil", "secret": {"secretName": "evil"}}],
    });
    let template = json!({"metadata": {"labels": metadata["labels"]}, "spec": spec});
    json!({"metadata": metadata, "spec": {"backoffLimit": 0, "template": template}})
}

async fn evil_secret(world: &World) {
    world.create("Secret", "evil", json!({"stringData": {"value": "evil", "EVIL": "evil"}})).await;
}

/// A port that nobody is to connect to.
struct Trap(TcpListener);

impl Trap {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Trap(listener)
    }

    fn url(&self) -> String {
        format!("http://{}/docker-machine-driver-scripted", self.0.local_addr().unwrap())
    }

    fn assert_unused(&self) {
        assert!(self.0.accept().is_err(), "somebody connected");
    }
}

#[test]
fn a_job_of_somebodys_own_runs_what_we_render() {
    in_real_time(async || {
        let (mut stage, trap) = (Stage::new().await, Trap::new());
        stage.machine("fine").await;
        stage.world.condition("ScriptedMachine", "fine", "Ready", "True").await;
        let (words, environment) = (stage.note("fine.create.words"), stage.note("fine.create.env"));
        let real = stage.world.get("Job", "fine-machine-provision").await;
        stage.world.stop().await;
        stage.world.delete("Job", "fine-machine-provision").await;
        stage.world.gone("Job", "fine-machine-provision").await;
        evil_secret(&stage.world).await;
        let digest: String = Sha256::digest(b"evil").iter().map(|byte| format!("{byte:02x}")).collect();
        let args = [
            format!("--driver-download-url={}", trap.url()),
            format!("--driver-hash={digest}"),
            "--secret-name=evil".to_owned(),
            "create".to_owned(),
            "--driver=scripted".to_owned(),
            "--scripted-size=evil".to_owned(),
            "fine".to_owned(),
        ];
        stage.world.create("Job", "fine-machine-provision", forged(&real, "fine", "fine", &args)).await;
        stage.world.start();
        stage
            .world
            .until(60, "the Job is run", async || match stage.tries("fine") {
                (2, 0) => Ok(()),
                other => Err(format!("{other:?}: {}", stage.world.log("fine"))),
            })
            .await;
        // All but the paths, which are of another attempt.
        let plain = |words: &str| {
            words.lines().filter(|word| !word.starts_with('/')).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(plain(&stage.note("fine.create.words")), plain(&words));
        assert_eq!(stage.note("fine.script"), stage.world.bootstrap);
        let environment_now = stage.note("fine.create.env");
        assert!(
            environment.contains("SCRIPTED_TOKEN=t0ken\n")
                && environment_now.contains("SCRIPTED_TOKEN=t0ken\n")
        );
        assert!(!environment_now.contains("EVIL"), "{environment_now}");
        let pods = stage.world.list("Pod").await;
        assert!(pods.iter().all(|pod| !pod["spec"].to_string().contains("evil")), "{pods:?}");
        assert!(pods.iter().all(|pod| pod["spec"]["nodeName"].is_null()), "{pods:?}");
        trap.assert_unused();
    });
}

#[test]
fn a_job_gives_a_machine_no_other_script_and_no_other_arguments() {
    story(async || {
        let mut world = World::new().await;
        world.machine("alpha", json!({"size": "large"})).await;
        world.condition("ScriptedMachine", "alpha", "Ready", "True").await;
        let real = world.get("Job", "alpha-machine-provision").await;
        world.stop().await;
        let canary = world.directory.path().join("encryption.key");
        std::fs::write(&canary, "canary").unwrap();
        evil_secret(&world).await;
        // Everything is there that a Job needs: the state of the tenant's other machine.
        world.machine("beta", json!({"size": "large"})).await;
        for script in [canary.display().to_string(), "/run/secrets/machine/value".to_owned()] {
            let args = [
                "--secret-name=alpha-machine-state".to_owned(),
                "create".to_owned(),
                "--driver=scripted".to_owned(),
                format!("--custom-install-script={script}"),
                "--scripted-size=evil".to_owned(),
                "beta".to_owned(),
            ];
            world.create("Job", "beta-machine-provision", forged(&real, "alpha", "beta", &args)).await;
            world.start();
            world.condition("ScriptedMachine", "beta", "Ready", "True").await;
            world.stop().await;
            assert_eq!(world.servers(|servers| servers.there["beta"].clone()), world.bootstrap);
            assert_eq!(
                world.servers(|servers| servers.last.arguments.text("size").map(str::to_owned)),
                Some("large".into())
            );
            assert!(!world.log("beta").contains("canary"));
            world.delete("Job", "beta-machine-provision").await;
            world.gone("Job", "beta-machine-provision").await;
        }
    });
}

#[test]
fn a_bare_machine_and_an_inactive_driver_make_nothing() {
    story(async || {
        let mut world = World::new().await;
        world.machine("alpha", json!({})).await;
        world.condition("ScriptedMachine", "alpha", "Ready", "True").await;
        let real = world.get("Job", "alpha-machine-provision").await;
        let args = ["create", "--driver=scripted", "bare"].map(str::to_owned);
        world.create("ScriptedMachine", "bare", json!({})).await;
        world.create("Job", "bare-machine-provision", forged(&real, "alpha", "bare", &args)).await;
        world.condition("Job", "bare-machine-provision", "Failed", "True").await;
        assert!(
            world.log("bare").contains("no Machine with bootstrap data owns it"),
            "{}",
            world.log("bare")
        );
        world.patch("NodeDriver", "scripted", json!({"spec": {"active": false}})).await;
        world.sleep(2).await;
        world.machine("beta", json!({})).await;
        world.create("Job", "beta-machine-provision", forged(&real, "alpha", "beta", &args)).await;
        world.condition("Job", "beta-machine-provision", "Failed", "True").await;
        assert!(world.log("beta").contains("driver scripted is not active"), "{}", world.log("beta"));
        world.stop().await;
        assert_eq!(world.servers(|servers| servers.there.keys().cloned().collect::<Vec<_>>()), ["alpha"]);
    });
}

#[test]
fn a_program_that_only_the_machine_remembers_is_not_fetched() {
    in_real_time(async || {
        let (stage, trap) = (Stage::new().await, Trap::new());
        stage.machine("fine").await;
        stage.world.condition("ScriptedMachine", "fine", "Ready", "True").await;
        let driver = stage.world.get("NodeDriver", "scripted").await;
        stage.world.delete("NodeDriver", "scripted").await;
        stage.world.gone("NodeDriver", "scripted").await;
        let digest: String = Sha256::digest(b"evil").iter().map(|byte| format!("{byte:02x}")).collect();
        let status = json!({"driverUrl": trap.url(), "driverHash": digest});
        stage.world.patch_status("ScriptedMachine", "fine", status).await;
        stage.world.delete("ScriptedMachine", "fine").await;
        stage
            .world
            .until(60, "the removal says why not", async || match stage.world.log("fine") {
                log if log.contains("is not kept here: create NodeDriver scripted again") => Ok(()),
                log => Err(log),
            })
            .await;
        assert_eq!(stage.tries("fine").1, 0);
        trap.assert_unused();
        // With the driver back, the server goes.
        let spec =
            json!({"metadata": {"annotations": driver["metadata"]["annotations"]}, "spec": driver["spec"]});
        stage.world.create("NodeDriver", "scripted", spec).await;
        stage.world.sleep(1).await;
        stage.world.skip(3600).await;
        stage.world.gone("ScriptedMachine", "fine").await;
        assert_eq!(stage.tries("fine").1, 1);
    });
}

#[test]
fn a_state_that_names_another_driver_is_not_followed() {
    in_real_time(async || {
        let stage = Stage::new().await;
        stage.machine("fine").await;
        stage.world.condition("ScriptedMachine", "fine", "Ready", "True").await;
        let storage = tempfile::tempdir().unwrap();
        let directory = machine::record::directory(storage.path(), "fine");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("config.json"), r#"{"DriverName": "docker", "Driver": {}}"#).unwrap();
        let packed = STANDARD.encode(machine::archive::pack(storage.path()).unwrap());
        stage.world.patch("Secret", "fine-machine-state", json!({"data": {"extractedConfig": packed}})).await;
        stage.world.delete("ScriptedMachine", "fine").await;
        stage
            .world
            .until(60, "the removal says why not", async || match stage.world.log("fine") {
                log if log.contains("a scripted machine names the driver \"docker\"") => Ok(()),
                log => Err(log),
            })
            .await;
        assert_eq!(stage.tries("fine").1, 0);
    });
}

#[test]
fn a_key_in_a_secret_reaches_the_driver_and_no_other_object() {
    story(async || {
        let world = World::new().await;
        world
            .create("Secret", "keys", json!({"stringData": {"ssh-privatekey": "KEY", "other": "OTHER"}}))
            .await;
        world
            .create_in("victim", "Secret", "keys", json!({"stringData": {"ssh-privatekey": "VICTIM"}}))
            .await;
        world.sleep(1).await;
        for (name, reference, content) in
            [("usual", "secret://keys", "KEY\n"), ("named", "secret://keys/other", "OTHER\n")]
        {
            world.machine(name, json!({"sshKey": reference})).await;
            world.condition("ScriptedMachine", name, "Ready", "True").await;
            let machine = world.get("ScriptedMachine", name).await;
            assert_eq!(machine["spec"]["sshKey"], reference, "the content is in Secrets alone");
            let files = world.get("Secret", &format!("{name}-machine-provision")).await;
            assert_eq!(files["data"]["id_rsa"], STANDARD.encode(content));
        }
        for (name, reference) in [("victim", "secret://victim:keys"), ("path", "secret://../victim/keys")] {
            world.machine(name, json!({"sshKey": reference})).await;
            world.condition("ScriptedMachine", name, "Ready", "False").await;
            let machine = world.get("ScriptedMachine", name).await;
            assert_eq!(condition(&machine, "Ready")["reason"], "CredentialMissing", "{machine}");
        }
        // A path is content like any other.
        world.machine("plain", json!({"sshKey": "/etc/hostname"})).await;
        world.condition("ScriptedMachine", "plain", "Ready", "True").await;
        let files = world.get("Secret", "plain-machine-provision").await;
        assert_eq!(files["data"]["id_rsa"], STANDARD.encode("/etc/hostname\n"));
    });
}

#[test]
fn a_machine_uses_no_credential_of_somebody_else_s() {
    story(async || {
        let world = World::new().await;
        let secret = json!({"stringData": {"x-token": "canary"}});
        world.create_in("victim", "Secret", "cc", secret.clone()).await;
        world.create_in("cattle-global-data", "Secret", "cc", secret.clone()).await;
        world.create_in("cattle-global-data", "Secret", "granted", secret).await;
        world
            .provisioning_cluster("c", json!({"cloudCredentialSecretName": "cattle-global-data:granted"}))
            .await;
        world.sleep(2).await;
        for (name, credential, code) in [
            ("other-namespace", "victim:cc", "CredentialMissing"),
            ("not-granted", "cattle-global-data:cc", "CredentialMissing"),
        ] {
            world.machine(name, json!({"common": {"cloudCredentialSecretName": credential}})).await;
            world.condition("ScriptedMachine", name, "Ready", "False").await;
            let machine = world.get("ScriptedMachine", name).await;
            assert_eq!(condition(&machine, "Ready")["reason"], code, "{machine}");
            // Nor by a status of the tenant's own.
            let status = json!({"cloudCredentialSecretName": credential});
            world.patch_status("ScriptedMachine", name, status).await;
            world
                .patch(
                    "ScriptedMachine",
                    name,
                    json!({"spec": {"common": {"cloudCredentialSecretName": ""}}}),
                )
                .await;
            world.sleep(60).await;
        }
        assert_eq!(world.servers(|servers| servers.creates), 0);
        for secret in world.list("Secret").await {
            let text = secret["data"].to_string();
            assert!(!text.contains(&STANDARD.encode("canary")), "{secret}");
        }
        let granted = json!({"common": {"cloudCredentialSecretName": "cattle-global-data:granted"}});
        world.machine("granted", granted).await;
        world.condition("ScriptedMachine", "granted", "Ready", "True").await;
    });
}
