//! `herdsman plan` and `herdsman explain`, as they see the server: what they foretell is what happens.

use api::provisioning::v1::Cluster;
use controllers::admission::{Asker, Door, Write};
use controllers::controlplane::explain::{Explained, Question, explain};
use controllers::controlplane::gather::Ground;
use controllers::controlplane::known::Lists;
use controllers::controlplane::preview::{Change, Weight, preview};
use controllers::controlplane::{Settings, server_info};
use kit::Key;
use provisioning::admission::Operation;
use provisioning::graph::{Facts, render};
use serde_json::{Value, json};

use crate::world::{ID, NAMESPACE, World, create, merge, resource, story};

const VERSION: &str = "v1.33.5+k3s1";

fn cluster(config: Value) -> Value {
    json!({
        "apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
        "metadata": {"name": "c", "namespace": NAMESPACE},
        "spec": {"kubernetesVersion": VERSION, "rkeConfig": config}
    })
}

/// The Cluster object and what is behind it, as the provisioning controller would have it.
async fn provisioned(world: &World, config: Value) {
    let kind = resource("provisioning.cattle.io", "v1", "Cluster", "clusters");
    let api = kube::Api::namespaced_with(world.client.clone(), NAMESPACE, &kind);
    let mut document = cluster(config);
    merge(&mut document, &json!({"metadata": {"finalizers": ["test/hold"]}}));
    create(&api, &kind, "c", document.clone()).await;
    merge(&mut document, &json!({"status": {"clusterName": ID}}));
    let whole: Cluster = serde_json::from_value(document).unwrap();
    let (configs, credentials) = Default::default();
    let facts =
        Facts { cluster: &whole, id: ID, configs: &configs, credentials: &credentials, encoded_spec: None };
    let graph = render(&facts).unwrap();
    let control_plane = graph.objects.iter().find(|one| one.kind() == "RKEControlPlane").unwrap().document();
    let annotations = json!({"metadata": {"annotations": control_plane["metadata"]["annotations"]}});
    world.cluster("c", VERSION, annotations).await;
    let status = json!({"status": {"clusterName": ID}});
    api.patch_status("c", &Default::default(), &kube::api::Patch::Merge(status)).await.unwrap();
}

async fn plan(world: &World, proposed: Value) -> Change {
    let lists = Lists::read(&world.client, NAMESPACE).await.unwrap();
    let (settings, server) = (Settings::default(), server_info(&lists));
    let ground = Ground { known: &lists, settings: &settings, server: &server, now: world.clock.now() };
    let proposed: Cluster = serde_json::from_value(proposed).unwrap();
    preview(&ground, &proposed, &[]).unwrap()
}

async fn waits(world: &World, question: Question) -> Vec<Explained> {
    let lists = Lists::read(&world.client, NAMESPACE).await.unwrap();
    let (settings, server) = (Settings::default(), server_info(&lists));
    let ground = Ground { known: &lists, settings: &settings, server: &server, now: world.clock.now() };
    explain(&ground, &question).unwrap()
}

fn codes(waits: &[Explained]) -> Vec<&str> {
    waits.iter().map(|wait| wait.code.as_str()).collect()
}

#[test]
fn a_plan_says_what_then_happens() {
    story(|| async {
        let mut world = World::new(11).await;
        let new = plan(&world, cluster(json!({}))).await;
        assert!(new.new && new.weight() == Weight::Harmless);

        provisioned(&world, json!({})).await;
        world.machine("c", "s1", &["etcd", "control-plane"]).await;
        world.machine("c", "w1", &["worker"]).await;
        world.reconciled("c").await;
        let same = plan(&world, cluster(json!({}))).await;
        assert_eq!(same.weight(), Weight::Nothing, "{}", same.document());

        let pace = plan(&world, cluster(json!({"upgradeStrategy": {"workerConcurrency": "10%"}}))).await;
        assert_eq!(pace.weight(), Weight::Harmless, "{}", pace.document());
        let manifest = plan(&world, cluster(json!({"additionalManifest": "kind: x"}))).await;
        assert_eq!(manifest.weight(), Weight::Harmless, "{}", manifest.document());
        assert_eq!(manifest.document()["nodes"][0]["impact"], "files");
        assert!(manifest.warnings().is_empty());

        let selector = json!({"machineSelectorConfig": [{
            "machineLabelSelector": {"matchLabels": {"rke.cattle.io/worker-role": "true"}},
            "config": {"debug": true}
        }]});
        let change = plan(&world, cluster(selector.clone())).await;
        assert_eq!(change.weight(), Weight::Disturbing);
        let document = change.document();
        let impacts: Vec<_> = document["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|node| (node["machine"].clone(), node["impact"].clone()))
            .collect();
        // A snapshot keeps the spec that it was made with: servers are told of every change.
        assert_eq!(impacts, [(json!("s1"), json!("files")), (json!("w1"), json!("restart"))], "{document}");
        assert_eq!(change.warnings(), ["node w1: restart (worker, 1 at a time)"]);

        let door = Door::opened(world.client.clone(), Default::default());
        let (old, new) = (cluster(json!({})), cluster(selector.clone()));
        let asker = Asker { name: "user".into(), ..Asker::default() };
        let write = Write {
            operation: Operation::Update,
            group: "provisioning.cattle.io",
            kind: "Cluster",
            subresource: "",
            namespace: NAMESPACE,
            name: "c",
            asker: &asker,
            old: Some(&old),
            dry_run: true,
        };
        let warnings = door.judge(write, Some(&new)).await.unwrap();
        assert!(warnings.contains(&"node w1: restart (worker, 1 at a time)".to_owned()), "{warnings:?}");
        let warnings = door.judge(Write { dry_run: false, ..write }, Some(&new)).await.unwrap();
        assert!(!warnings.iter().any(|line| line.starts_with("node ")), "only a dry run asks: {warnings:?}");

        world.patch("RKEControlPlane", "c", json!({"spec": selector})).await;
        world.reconciled("c").await;
        let truth = world.truth.lock().unwrap();
        assert_eq!((truth.machines["w1"].restarts, truth.machines["s1"].restarts), (1, 0));
    });
}

#[test]
fn an_explanation_goes_from_the_cluster_to_the_agent() {
    story(|| async {
        let mut world = World::new(12).await;
        provisioned(&world, json!({})).await;
        let key = || Key::new(NAMESPACE, "c");
        world.sleep(5).await;
        let found = waits(&world, Question::Cluster(key())).await;
        assert_eq!(codes(&found), ["roles-missing"], "{found:?}");
        assert_eq!(found[0].subject, "RKEControlPlane fleet-default/c");
        assert!(found[0].since.is_some() && !found[0].remedy.is_empty());

        // Its server is off: no agent takes the plan.
        world.truth.lock().unwrap().dead.insert("m1".into());
        world.machine("c", "m1", &["etcd", "control-plane", "worker"]).await;
        world.sleep(60).await;
        let found = waits(&world, Question::Cluster(key())).await;
        assert_eq!(codes(&found), ["tier-configuring", "agent-not-checked-in"], "{found:?}");
        let machine = waits(&world, Question::Machine(Key::new(NAMESPACE, "m1"))).await;
        assert_eq!(codes(&machine), ["agent-not-checked-in"], "{machine:?}");
        assert!(
            machine[0].evidence.as_deref().unwrap().contains("agent has not run a plan yet"),
            "{machine:?}"
        );
        let text = serde_json::to_value(&machine[0]).unwrap();
        let keys: Vec<&String> = text.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["awaits", "code", "evidence", "remedy", "since", "subject"]);
        assert_eq!(world.waits.counts().get("agent-not-checked-in"), Some(&1), "the metric says the same");

        world.truth.lock().unwrap().dead.clear();
        world.reconciled("c").await;
        assert_eq!(waits(&world, Question::ControlPlane(key())).await, []);
    });
}
