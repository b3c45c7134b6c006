//! Scenario 20: whoever speaks v1beta1 loses nothing of what v1beta2 says. On a real Kubernetes the same conversion is a
//! webhook: `crates/herdsman/tests/server.rs`.

use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::provider::Speaks;
use crate::world::{World, name, resource, story};

fn old(kind: &str) -> ApiResource {
    resource("cluster.x-k8s.io", "v1beta1", kind, &format!("{}s", kind.to_lowercase()))
}

fn api(world: &World, kind: &str) -> Api<DynamicObject> {
    Api::namespaced_with(world.client.clone(), &world.namespace, &old(kind))
}

async fn get(world: &World, kind: &str, name: &str) -> Value {
    serde_json::to_value(api(world, kind).get(name).await.unwrap()).unwrap()
}

#[test]
fn whoever_speaks_v1beta1_loses_nothing() {
    story(|| async {
        let world = World::simulated(Speaks::V1Beta2, 71).await;
        world.cluster("c").await;
        let taint = json!({"key": "example.com/new", "effect": "NoSchedule", "propagation": "Always"});
        let spec = json!({"deletion": {"nodeDrainTimeoutSeconds": 7}, "taints": [taint]});
        world.pool("c", "p", 1, json!({"spec": {"template": {"spec": spec}}})).await;
        world.pool_ready("p", 1).await;
        world.condition("Cluster", "c", "Available", "True", "Available").await;
        world.sleep(30).await;

        // Providers of the old contract go by these.
        let cluster = get(&world, "Cluster", "c").await;
        assert_eq!(
            (&cluster["status"]["infrastructureReady"], &cluster["status"]["controlPlaneReady"]),
            (&json!(true), &json!(true))
        );
        let conditions = cluster["status"]["conditions"].as_array().unwrap();
        assert!(
            conditions.iter().any(|one| one["type"] == "ControlPlaneInitialized" && one["status"] == "True"),
            "{conditions:?}"
        );
        let pool = get(&world, "MachineDeployment", "p").await;
        assert_eq!(pool["spec"]["template"]["spec"]["nodeDrainTimeout"], "7s");
        assert_eq!(pool["spec"]["template"]["spec"]["infrastructureRef"]["apiVersion"], "new.example.com/v1");
        assert_eq!(pool["status"]["updatedReplicas"], 1);

        // Read and written back whole: nothing changes, and nothing is left over.
        let objects = [("Cluster", "c".to_owned()), ("MachineDeployment", "p".to_owned())];
        let machine = ("Machine", name(&world.machines("p").await[0]));
        for (kind, name) in objects.into_iter().chain([machine]) {
            let before = world.get(kind, &name).await;
            let object = api(&world, kind).get(&name).await.unwrap();
            api(&world, kind).replace(&name, &PostParams::default(), &object).await.unwrap();
            let after = world.get(kind, &name).await;
            assert_eq!(after["spec"], before["spec"], "{kind}");
            assert_eq!(after["status"], before["status"], "{kind}");
            let notes = &after["metadata"]["annotations"]["cluster.x-k8s.io/conversion-data"];
            assert!(notes.is_null(), "{kind}: {notes}");
        }

        // A change is one change.
        let mut wanted = world.get("MachineDeployment", "p").await["spec"].clone();
        wanted["template"]["spec"]["deletion"]["nodeDrainTimeoutSeconds"] = json!(9);
        let patch = Patch::Merge(json!({"spec": {"template": {"spec": {"nodeDrainTimeout": "9s"}}}}));
        api(&world, "MachineDeployment").patch("p", &PatchParams::default(), &patch).await.unwrap();
        assert_eq!(world.get("MachineDeployment", "p").await["spec"], wanted);
        let machine = name(&world.machines("p").await[0]);
        world.field("Machine", &machine, "/spec/deletion/nodeDrainTimeoutSeconds", 9.into()).await;
        assert_eq!(world.list("MachineSet").await.len(), 1, "no rollout");
    });
}
