use serde_json::{Value, json};

use super::support::{DEFINITIONS, World, things};

const THINGS: &str = "/apis/example.com/v1/namespaces/n/things";

#[tokio::test(start_paused = true)]
async fn a_namespace_goes_with_all_that_is_in_it() {
    let world = World::new().await;
    world.ok("POST", DEFINITIONS, things()).await;
    for index in 0..3 {
        world.ok("POST", THINGS, thing(&format!("t{index}"), json!([]))).await;
        world.map("n", &format!("m{index}"), json!([])).await;
        world.map("default", &format!("m{index}"), json!([])).await;
    }
    world.ok("DELETE", "/api/v1/namespaces/n", Value::Null).await;
    world.settle().await;
    assert!(!world.is_there("/api/v1/namespaces/n").await);
    assert_eq!(world.maps("default").await.len(), 3);
    let left = world.server.store().view().scan(&apiserver::store::Scope::prefix("/registry/")).fold(
        Vec::new(),
        |mut left, stored| {
            left.extend(stored.key.split('/').any(|part| part == "n").then(|| stored.key.to_string()));
            left
        },
    );
    assert_eq!(left, [""; 0]);
}

fn thing(name: &str, finalizers: Value) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name, "finalizers": finalizers},
    })
}

fn condition<'a>(namespace: &'a Value, kind: &str) -> (&'a str, &'a str, &'a str) {
    let conditions = namespace["status"]["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|one| one["type"] == kind).unwrap();
    let text = |field: &str| found[field].as_str().unwrap();
    (text("status"), text("reason"), text("message"))
}

#[tokio::test(start_paused = true)]
async fn a_namespace_waits_for_finalizers_and_says_so() {
    let world = World::new().await;
    world.ok("POST", DEFINITIONS, things()).await;
    world.ok("POST", THINGS, thing("a", json!(["example.com/x"]))).await;
    world.ok("POST", THINGS, thing("b", json!(["example.com/x", "example.com/y"]))).await;
    world.map("n", "m", json!([])).await;
    world.ok("DELETE", "/api/v1/namespaces/n", Value::Null).await;
    world.settle().await;
    let namespace = world.get("/api/v1/namespaces/n").await;
    assert_eq!(namespace["status"]["phase"], "Terminating");
    assert_eq!(world.maps("n").await, [""; 0]);
    let kinds = |namespace: &Value| {
        let conditions = namespace["status"]["conditions"].as_array().unwrap();
        conditions.iter().map(|one| one["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        kinds(&namespace),
        [
            "NamespaceDeletionDiscoveryFailure",
            "NamespaceDeletionGroupVersionParsingFailure",
            "NamespaceDeletionContentFailure",
            "NamespaceContentRemaining",
            "NamespaceFinalizersRemaining",
        ]
    );
    assert_eq!(
        condition(&namespace, "NamespaceContentRemaining"),
        (
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: things.example.com has 2 resource instances"
        )
    );
    assert_eq!(
        condition(&namespace, "NamespaceFinalizersRemaining"),
        (
            "True",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: example.com/x in 2 resource instances, example.com/y in 1 resource instances"
        )
    );
    world.ok("PATCH", &format!("{THINGS}/b"), json!({"metadata": {"finalizers": null}})).await;
    world.settle().await;
    let namespace = world.get("/api/v1/namespaces/n").await;
    assert_eq!(
        condition(&namespace, "NamespaceContentRemaining").2,
        "Some resources are remaining: things.example.com has 1 resource instances"
    );
    world.ok("PATCH", &format!("{THINGS}/a"), json!({"metadata": {"finalizers": null}})).await;
    world.settle().await;
    assert!(!world.is_there("/api/v1/namespaces/n").await);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_with_finalizers_of_its_own_stays_empty() {
    let world = World::new().await;
    let hold = json!({"metadata": {"finalizers": ["example.com/x"]}});
    world.ok("PATCH", "/api/v1/namespaces/n", hold).await;
    world.ok("DELETE", "/api/v1/namespaces/n", Value::Null).await;
    world.settle().await;
    let namespace = world.get("/api/v1/namespaces/n").await;
    assert_eq!(namespace["spec"], json!({}));
    assert_eq!(condition(&namespace, "NamespaceContentRemaining").0, "False");
    assert!(!world.is_there("/api/v1/namespaces/n/serviceaccounts/default").await);
    world.ok("PATCH", "/api/v1/namespaces/n", json!({"metadata": {"finalizers": null}})).await;
    assert!(!world.is_there("/api/v1/namespaces/n").await);
}

#[tokio::test(start_paused = true)]
async fn pods_go_first() {
    let world = World::new().await;
    let pod = json!({
        "metadata": {"name": "p", "finalizers": ["example.com/x"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    world.ok("POST", "/api/v1/namespaces/n/pods", pod).await;
    world.map("n", "m", json!([])).await;
    world.ok("DELETE", "/api/v1/namespaces/n", Value::Null).await;
    world.settle().await;
    assert_eq!(world.maps("n").await, ["m"]);
    world.ok("PATCH", "/api/v1/namespaces/n/pods/p", json!({"metadata": {"finalizers": null}})).await;
    world.settle().await;
    assert!(!world.is_there("/api/v1/namespaces/n").await);
}
