//! A running cluster moves to another server and back, and does not notice.

use std::path::Path;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, PostParams};

use super::product::Up;

fn carry<'a>(from: &'a Up, to: &'a Up) -> Vec<&'a str> {
    let path = |path: &'a Path| path.to_str().unwrap();
    vec!["move", "--from-kubeconfig", path(&from.kubeconfig), "--to-kubeconfig", path(&to.kubeconfig)]
}

#[tokio::test]
async fn a_running_cluster_moves_there_and_back() {
    let directory = tempfile::tempdir().unwrap();
    let (here, there) =
        (Up::start(&directory.path().join("here")), Up::start(&directory.path().join("there")));
    assert!(here.refuses(&carry(&here, &here)).contains("are the same server"));

    here.says(&["create", "cluster", "pets"]);
    let _hosts = here.hosts("pets", 3).await;
    here.wait_for_nodes("pets", 3).await;
    let (nodes, machines) = (here.nodes("pets").await, here.says(&["get", "machines", "-o", "name"]));
    let plans = here.plans().await;
    // Somebody who is in the way is named, and nothing happens.
    there.says(&["create", "cluster", "pets"]);
    assert!(here.refuses(&carry(&here, &there)).contains("Cluster fleet-default/pets"));
    delete(&there, "pets").await;
    let id = here.says(&["get", "cluster", "pets", "-o", "yaml"]);
    let id = id.lines().find_map(|line| line.trim().strip_prefix("clusterName: ")).unwrap().to_owned();
    let namespaces: Api<Namespace> = Api::all(there.client().await);
    let foreign = serde_json::from_value(serde_json::json!({"metadata": {"name": id}})).unwrap();
    namespaces.create(&PostParams::default(), &foreign).await.unwrap();
    assert!(here.refuses(&carry(&here, &there)).contains(&format!("Namespace {id}")));
    namespaces.delete(&id, &DeleteParams::default()).await.unwrap();
    while namespaces.get_opt(&id).await.unwrap().is_some() {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    let told = here.says(&[&carry(&here, &there)[..], &["--dry-run"]].concat());
    assert!(told.contains("3 Machine\n"), "{told}");

    here.says(&carry(&here, &there));
    there.wait_for_nodes("pets", 3).await;
    assert_eq!(there.nodes("pets").await, nodes);
    assert_eq!(there.says(&["get", "machines", "-o", "name"]), machines);
    assert_eq!(here.says(&["get", "clusters", "-o", "name"]), "");
    assert_eq!(here.says(&["get", "machines", "-o", "name"]), "");
    let file = directory.path().join("pets.yaml");
    std::fs::write(&file, there.says(&["get", "cluster", "pets", "-o", "yaml"])).unwrap();
    assert_eq!(there.run(&["plan", "-f", file.to_str().unwrap()]).status.code(), Some(0));

    // Back, and the server in between may go.
    there.says(&carry(&there, &here));
    assert_eq!(there.stop(), Some(0));
    here.wait_for_nodes("pets", 3).await;
    assert_eq!(here.nodes("pets").await, nodes);
    assert_eq!(here.plans().await, plans);
    // Whose it is has come along, both ways.
    let cluster = here.says(&["get", "cluster", "pets", "-o", "yaml"]);
    let uid = cluster.lines().find_map(|line| line.trim().strip_prefix("uid: ")).unwrap();
    let namespace = Api::<Namespace>::all(here.client().await).get(&id).await.unwrap();
    let owner = namespace.metadata.annotations.unwrap_or_default().remove("herdsman.io/owner");
    assert_eq!(owner, Some(format!("fleet-default/pets/{uid}")));
}

/// Deletes a cluster, until it is gone.
async fn delete(up: &Up, name: &str) {
    let kind = ApiResource {
        group: "provisioning.cattle.io".into(),
        version: "v1".into(),
        api_version: "provisioning.cattle.io/v1".into(),
        kind: "Cluster".into(),
        plural: "clusters".into(),
    };
    let clusters: Api<DynamicObject> = Api::namespaced_with(up.client().await, "fleet-default", &kind);
    clusters.delete(name, &DeleteParams::default()).await.unwrap();
    while clusters.get_opt(name).await.unwrap().is_some() {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}
