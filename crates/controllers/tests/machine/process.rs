//! rancher-machine as a process, by a stand-in that fails at each step and with each exit code: what it is given, what is kept of what
//! it leaves, and what is tried next.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::world::{World, condition};

/// A world whose driver `scripted` is in a program.
pub(crate) struct Stage {
    pub(crate) world: World,
    notes: tempfile::TempDir,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let notes = tempfile::tempdir().unwrap();
        let program = notes.path().join("rancher-machine");
        let text = include_str!("stand-in.sh").replace("@NOTES@", notes.path().to_str().unwrap());
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut world = World::empty().await;
        world.stand_in = Some(program);
        world.start();
        world.kinds_served().await;
        world.cluster().await;
        world
            .create("Secret", "cc", json!({"stringData": {"scriptedcredentialConfig-token": "t0ken"}}))
            .await;
        Stage { world, notes }
    }

    pub(crate) async fn machine(&self, name: &str) {
        let spec = json!({
            "size": "large size", "fast": true, "tag": ["a", "b"], "sshKey": "-- a key --",
            "common": {"cloudCredentialSecretName": "cc"},
        });
        self.world.machine(name, spec).await;
    }

    pub(crate) fn note(&self, file: &str) -> String {
        std::fs::read_to_string(self.notes.path().join(file)).unwrap_or_default()
    }

    /// How often it was to make and to remove a server.
    pub(crate) fn tries(&self, name: &str) -> (u32, u32) {
        let count = |verb: &str| self.note(&format!("{name}.{verb}")).trim().parse().unwrap_or(0);
        (count("create"), count("rm"))
    }

    /// What the Secret keeps of a server's record.
    async fn record(&self, name: &str) -> Option<Value> {
        let secret = self.world.get("Secret", &format!("{name}-machine-state")).await;
        let packed: ByteString = serde_json::from_value(secret["data"]["extractedConfig"].clone()).ok()?;
        let record = machine::archive::find(&packed.0, "config.json")?;
        Some(serde_json::from_slice(&record).unwrap())
    }
}

/// In real time, because programs take some; pauses between tries are skipped.
pub(crate) fn in_real_time<F: Future<Output = ()>>(story: impl FnOnce() -> F) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap().block_on(story());
}

#[test]
fn each_failure_is_kept_cleaned_up_and_tried_again() {
    // Which step fails, with which exit code, which words come back, and whether there is something to remove first.
    let table = [
        ("check", 3, "no quota left", false),
        ("early", 1, "no such region", false),
        ("create", 1, "out of disks", true),
        ("wait", 1, "Maximum number of retries", true),
        ("script", 1, "ssh command error: exit status 7", true),
        ("killed", 137, "Creating machine...", true),
        ("odd", 42, "panic: runtime error", true),
    ];
    in_real_time(async || {
        let stage = Stage::new().await;
        for (name, ..) in table {
            stage.machine(name).await;
        }
        for (name, code, words, made) in table {
            stage.world.condition("ScriptedMachine", name, "CreateJob", "False").await;
            let machine = stage.world.get("ScriptedMachine", name).await;
            assert_eq!(machine["status"]["failureReason"], "CreateError", "{name}");
            let message = condition(&machine, "Ready")["message"].as_str().unwrap().to_owned();
            let begins = format!("failed creating server [default/{name}] of kind (ScriptedMachine)");
            assert!(message.starts_with(&begins) && message.contains(words), "{name}: {message}");
            let pods = stage.world.list("Pod").await;
            let job = format!("{name}-machine-provision");
            let pod = pods.iter().find(|pod| pod["metadata"]["labels"]["job-name"] == job.as_str()).unwrap();
            let end = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
            assert_eq!(end["exitCode"], code, "{name}");
            assert!(stage.world.log(name).contains(words), "{name}: its log stays");
            assert_eq!(stage.record(name).await.is_some(), made, "{name}: what is known of the server");
            assert_eq!(stage.tries(name), (1, 0), "{name}: nothing happens before the pause is over");
        }
        stage.world.skip(31).await;
        for (name, _, words, made) in table {
            stage.world.condition("ScriptedMachine", name, "Ready", "True").await;
            assert_eq!(stage.tries(name), (2, u32::from(made)), "{name}");
            assert!(stage.world.log(name).contains(words), "{name}: the log of the first try is still there");
            let driver = stage.record(name).await.unwrap()["Driver"].clone();
            // A path as it is in rancher-machine's image, wherever this ran.
            let key = format!("/home/machine/.docker/machine/machines/{name}/id_rsa");
            assert_eq!(driver["SSHKeyPath"], key.as_str());
        }
        for (name, ..) in table {
            stage.world.delete("ScriptedMachine", name).await;
        }
        for (name, _, _, made) in table {
            stage.world.gone("ScriptedMachine", name).await;
            assert_eq!(stage.tries(name), (2, u32::from(made) + 1), "{name}");
            assert_eq!(stage.world.leftovers(name).await, Vec::<String>::new());
        }
    });
}

#[test]
fn it_is_given_what_it_needs_and_nothing_else() {
    in_real_time(async || {
        let stage = Stage::new().await;
        stage.machine("fine").await;
        stage.world.condition("ScriptedMachine", "fine", "Ready", "True").await;
        let words: Vec<String> = stage.note("fine.create.words").lines().map(str::to_owned).collect();
        let after = |flag: &str| words.iter().skip_while(|word| *word != flag).nth(1).cloned().unwrap();
        assert_eq!((after("--driver"), after("--scripted-size")), ("scripted".into(), "large size".into()));
        let tags = words.iter().filter(|word| *word == "--scripted-tag").count();
        assert!(tags == 2 && words.contains(&"--scripted-fast".into()), "{words:?}");
        assert_eq!(words.last().unwrap(), "fine");
        assert!(!words.iter().any(|word| word.contains("secret-name") || word.contains("driver-hash")));
        assert_eq!(stage.note("fine.script"), stage.world.bootstrap);
        let files = [after("--custom-install-script"), after("--scripted-key-file")].map(PathBuf::from);
        assert!(
            files.iter().all(|file| !file.exists()),
            "secrets stay no longer than the program: {files:?}"
        );
        let environment = stage.note("fine.create.env");
        assert!(environment.contains("SCRIPTED_TOKEN=t0ken\n"), "{environment}");
        // Not what this process has in its own.
        assert!(!environment.contains("CARGO"), "{environment}");

        // Credentials are read again for the removal.
        let rotated = json!({"stringData": {"scriptedcredentialConfig-token": "another"}});
        stage.world.patch("Secret", "cc", rotated).await;
        stage.world.delete("ScriptedMachine", "fine").await;
        stage.world.gone("ScriptedMachine", "fine").await;
        assert_eq!(stage.note("fine.rm.words"), "-y\n--update-config\nfine\n");
        assert!(stage.note("fine.rm.env").contains("SCRIPTED_TOKEN=another\n"));
    });
}

#[test]
fn a_removal_that_fails_is_tried_by_its_job() {
    in_real_time(async || {
        let stage = Stage::new().await;
        stage.machine("stays").await;
        stage.world.condition("ScriptedMachine", "stays", "Ready", "True").await;
        stage.world.delete("ScriptedMachine", "stays").await;
        for tries in 1..=2 {
            stage
                .world
                .until(60, "a try fails", async || match stage.tries("stays") {
                    (1, found) if found >= tries => Ok(()),
                    other => Err(format!("{other:?}")),
                })
                .await;
            assert!(stage.world.find("ScriptedMachine", "stays").await.is_some());
            // The Job's own pause: 10 s, then 20 s.
            stage.world.sleep(1).await;
            stage.world.skip(21).await;
        }
        stage.world.gone("ScriptedMachine", "stays").await;
        assert_eq!(stage.tries("stays"), (1, 3));
        assert_eq!(stage.world.leftovers("stays").await, Vec::<String>::new());
    });
}

#[test]
fn a_program_that_is_not_there_is_told() {
    in_real_time(async || {
        let mut stage = Stage::new().await;
        stage.world.stop().await;
        stage.world.stand_in = Some("/nowhere/rancher-machine".into());
        stage.world.start();
        stage.machine("fine").await;
        stage.world.condition("ScriptedMachine", "fine", "CreateJob", "False").await;
        let machine = stage.world.get("ScriptedMachine", "fine").await;
        let words = condition(&machine, "CreateJob")["message"].as_str().unwrap().to_owned();
        assert!(words.contains("cannot start /nowhere/rancher-machine"), "{words}");
    });
}
