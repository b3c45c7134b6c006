//! Somebody on the network, without credentials, or with the token of a cluster that is theirs.

use std::sync::Arc;

use api::names::{Registrant, registered_machine};
use serde_json::json;

use super::world::{Answer, Party, World, decoded, secrets_path, text};

/// Everything that gives something out asks who is there.
pub(super) async fn without_a_token_nothing_is_given(world: Arc<World>) {
    let nobody = world.anonymous();
    let id = &world.victim.id;
    let asked = [
        secrets_path(&world.victim.namespace),
        format!("/k8s/clusters/{id}/api/v1/nodes"),
        "/v3/connect/agent".to_owned(),
        "/v3/connect/config-yaml".to_owned(),
        "/v3/connect/cluster-info".to_owned(),
    ];
    for path in asked {
        let answer = nobody.ask("GET", &path, None, &[("x-cattle-id", "0123456789abcdef")]).await;
        assert!([401, 403].contains(&answer.status), "{path}: {answer:?}");
    }
}

/// Whoever has the command for hosts of the attacker's cluster.
async fn host(world: &World) -> Party {
    let path = format!("{}/crt-token-default-token", secrets_path(&world.own.id));
    world.bearer(&decoded(&world.admin.get(&path).await.ok(), "token"))
}

async fn register(host: &Party, id: &str, labels: &str) -> Answer {
    let headers = [("x-cattle-id", id), ("x-cattle-role-worker", "true"), ("x-cattle-labels", labels)];
    host.ask("GET", "/v3/connect/agent", None, &headers).await
}

/// A worker does not become a server, nor a part of another's set, by what it calls itself.
pub(super) async fn a_label_makes_no_server(world: Arc<World>) {
    let host = host(&world).await;
    for label in [
        "rke.cattle.io/etcd-role=true",
        "cluster.x-k8s.io/set-name=dev-servers",
        "objectset.rio.cattle.io/hash=x",
        "node-role.kubernetes.io/control-plane=true",
    ] {
        let answer = register(&host, "00000000000000aa", &format!("cattle.io/os=linux,{label}")).await;
        let name = label.split('=').next().unwrap();
        assert!(answer.status == 400 && text(&answer.body).contains(name), "{label}: {answer:?}");
    }
}

/// The id of a host of another cluster in the same namespace gives out neither its plan nor its config.
pub(super) async fn an_id_of_another_cluster_gives_no_plan(world: Arc<World>) {
    let (host, id) = (host(&world).await, "00000000000000bb");
    let (namespace, name) = (&world.own.namespace, registered_machine(Registrant::Custom, id));
    let machines = format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{namespace}/machines");
    let machine = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": name, "namespace": namespace, "labels": {"rke.cattle.io/machine-id": id}},
        "spec": {
            "clusterName": "other",
            "bootstrap": {"configRef": {"apiGroup": "rke.cattle.io", "kind": "RKEBootstrap", "name": name}},
            "infrastructureRef": {"apiGroup": "rke.cattle.io", "kind": "CustomMachine", "name": name},
        },
    });
    world.admin.post(&machines, &machine).await.ok();
    let answer = register(&host, id, "cattle.io/os=linux").await;
    assert!(answer.status == 403 && text(&answer.body).contains("cattle-id"), "{answer:?}");
    let answer = host.ask("GET", "/v3/connect/config-yaml", None, &[("x-cattle-id", id)]).await;
    assert_eq!(answer.status, 403, "{answer:?}");
    world.admin.delete(&format!("{machines}/{name}")).await.ok();
}
