//! A machine's agent and its plan Secret: what shows there is what its RKEBootstrap says.

use api::catalogue::{annotations, labels};
use kube::api::{Api, DynamicObject, PostParams};
use serde_json::{Value, json};

use crate::world::{Management, NAMESPACE, World, name, resource, story};

/// A cluster of one server and one worker whose control plane keeps its marks on RKEBootstraps; its worker.
async fn with_worker(seed: u64) -> (World, String) {
    let world = World::new(seed).await;
    world.cluster("prod", 1, 1).await;
    world.pool_ready("prod-servers", 1).await;
    world.pool_ready("prod-workers", 1).await;
    let worker = name(&world.machines("prod-workers").await[0]);
    (world, worker)
}

async fn kept_on_bootstraps(world: &World) {
    let marked = json!({"metadata": {"annotations": {annotations::HERDSMAN_MARKS: "bootstrap"}}});
    world.patch("RKEControlPlane", "prod", marked).await;
}

/// The metadata of a plan Secret without what says when it was written.
fn shown(secret: &Value) -> Value {
    json!([
        secret["metadata"]["labels"],
        secret["metadata"]["annotations"],
        secret["metadata"]["ownerReferences"]
    ])
}

#[test]
fn a_role_that_a_machine_gave_itself_does_not_stay_on_show() {
    story(|| async {
        let (world, worker) = with_worker(51).await;
        let plan = format!("{worker}-machine-plan");
        let before = shown(&world.get("Secret", &plan).await);
        let forged = json!({"metadata": {
            "labels": {
                labels::ETCD_ROLE: "true", labels::INIT_NODE: "true", labels::WORKER_ROLE: "false",
                labels::MACHINE_NAME: "another", labels::CAPI_SET_NAME: "another",
            },
            "annotations": {annotations::JOIN_URL: "https://evil:9345"},
            "ownerReferences": [],
        }});
        world.patch("Secret", &plan, forged.clone()).await;
        world.sleep(60).await;
        let found = world.get("Secret", &plan).await;
        let marks = &found["metadata"]["labels"];
        assert_eq!(marks[labels::WORKER_ROLE], "true", "{found}");
        assert_eq!(
            marks[labels::INIT_NODE],
            "true",
            "what an older version wrote is not taken off yet: {found}"
        );

        kept_on_bootstraps(&world).await;
        world
            .until(60, "it shows what it is", async || {
                let found = shown(&world.get("Secret", &plan).await);
                if found == before { Ok(()) } else { Err(found.to_string()) }
            })
            .await;
        world.patch("Secret", &plan, forged).await;
        world
            .until(60, "it shows what it is again", async || {
                let found = shown(&world.get("Secret", &plan).await);
                if found == before { Ok(()) } else { Err(found.to_string()) }
            })
            .await;
    });
}

#[test]
fn a_plan_secret_mirrors_the_marks_of_its_bootstrap_object() {
    story(|| async {
        let (world, _) = with_worker(52).await;
        kept_on_bootstraps(&world).await;
        let server = name(&world.machines("prod-servers").await[0]);
        let plan = format!("{server}-machine-plan");
        let shows = async |init: Value, url: Value| {
            world
                .until(60, "the Secret shows the marks", async || {
                    let found = world.get("Secret", &plan).await;
                    let notes = &found["metadata"]["annotations"];
                    let so = found["metadata"]["labels"][labels::INIT_NODE] == init
                        && notes[annotations::JOIN_URL] == url;
                    if so { Ok(()) } else { Err(found["metadata"].to_string()) }
                })
                .await;
        };
        let marks = json!({"metadata": {
            "labels": {labels::INIT_NODE: "true"}, "annotations": {annotations::JOIN_URL: "https://10.0.0.1:9345"},
        }});
        world.patch("RKEBootstrap", &server, marks).await;
        shows(json!("true"), json!("https://10.0.0.1:9345")).await;
        let off = json!({"metadata": {
            "labels": {labels::INIT_NODE: null}, "annotations": {annotations::JOIN_URL: null},
        }});
        world.patch("RKEBootstrap", &server, off).await;
        shows(Value::Null, Value::Null).await;
    });
}

/// A change to a Secret.
type Change = fn(&mut Value);

/// What a refused write is told: code and message.
fn refusal(answer: Result<DynamicObject, kube::Error>) -> (u16, String) {
    match answer {
        Err(kube::Error::Api(status)) => (status.code, status.message.clone()),
        other => panic!("it was not refused: {other:?}"),
    }
}

#[test]
fn an_agent_changes_its_report_and_nothing_else() {
    story(|| async {
        let (world, worker) = with_worker(53).await;
        let plan = format!("{worker}-machine-plan");
        let Management::Embedded(server) = &world.management else { unreachable!() };
        let account = format!("system:serviceaccount:{NAMESPACE}:{plan}");
        let own: Api<DynamicObject> =
            Api::namespaced_with(server.client_of(&account), NAMESPACE, &resource("Secret"));
        let found = || async { own.get(&plan).await.unwrap() };
        let put = async |change: Change| {
            let mut document = serde_json::to_value(found().await).unwrap();
            change(&mut document);
            own.replace(&plan, &PostParams::default(), &serde_json::from_value(document).unwrap()).await
        };
        let cases: [(&str, Change); 6] = [
            ("metadata.labels[rke.cattle.io/etcd-role]", |one| {
                one["metadata"]["labels"][labels::ETCD_ROLE] = "true".into()
            }),
            ("metadata.annotations[rke.cattle.io/join-url]", |one| {
                one["metadata"]["annotations"][annotations::JOIN_URL] = "https://evil:9345".into();
            }),
            ("metadata.ownerReferences", |one| one["metadata"]["ownerReferences"] = json!([])),
            ("metadata.finalizers", |one| one["metadata"]["finalizers"] = json!(["evil.io/stay"])),
            ("data[plan]", |one| one["data"]["plan"] = "e30=".into()),
            ("immutable", |one| one["immutable"] = true.into()),
        ];
        for (path, change) in cases {
            let (code, message) = refusal(put(change).await);
            assert_eq!(code, 403, "{path}: {message}");
            assert!(message.contains(path) && message.contains("applied-checksum"), "{path}: {message}");
        }
        // A report is taken, and an old copy of the Secret is told that it is old, as ever.
        let old = serde_json::to_value(found().await).unwrap();
        put(|one| one["data"]["applied-output"] = "YQ==".into()).await.unwrap();
        let mut late = old;
        late["data"]["applied-output"] = "Yg==".into();
        let late = serde_json::from_value(late).unwrap();
        assert_eq!(refusal(own.replace(&plan, &PostParams::default(), &late).await).0, 409);
        // Whoever the server or an administrator is writes as before.
        world.patch("Secret", &plan, json!({"metadata": {"labels": {"tier": "gold"}}})).await;
    });
}
