use serde_json::{Value, json};

use super::support::{DEFINITIONS, World, owner, things};

const MAPS: &str = "/api/v1/namespaces/n/configmaps";

/// An owner `o`, and dependents: `b` which blocks, `f` which does not, `both` which also has the owner `other`.
async fn family(world: &World) {
    let o = world.map("n", "o", json!([])).await;
    let other = world.map("n", "other", json!([])).await;
    world.map("n", "b", json!([owner("o", &o, true)])).await;
    world.map("n", "f", json!([owner("o", &o, false)])).await;
    world.map("n", "both", json!([owner("o", &o, true), owner("other", &other, false)])).await;
    let b = world.get(&format!("{MAPS}/b")).await;
    world.map("n", "grandchild", json!([owner("b", b["metadata"]["uid"].as_str().unwrap(), true)])).await;
    world.settle().await;
    assert_eq!(world.maps("n").await, ["b", "both", "f", "grandchild", "o", "other"]);
}

#[tokio::test(start_paused = true)]
async fn dependents_follow_as_the_policy_says() {
    for (policy, left) in [
        ("Background", &["both", "other"][..]),
        ("Foreground", &["both", "other"]),
        ("Orphan", &["b", "both", "f", "grandchild", "other"]),
    ] {
        let world = World::new().await;
        family(&world).await;
        world.ok("DELETE", &format!("{MAPS}/o?propagationPolicy={policy}"), Value::Null).await;
        world.settle().await;
        assert_eq!(world.maps("n").await, left, "{policy}");
        let both = world.get(&format!("{MAPS}/both")).await;
        let owners = both["metadata"]["ownerReferences"].as_array().unwrap();
        assert_eq!(owners.len(), 1, "{policy}");
        assert_eq!(owners[0]["name"], "other", "{policy}");
        if policy == "Orphan" {
            let b = world.get(&format!("{MAPS}/b")).await;
            assert_eq!(b["metadata"].get("ownerReferences"), None);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_the_foreground_waits_for_those_that_block() {
    for (blocks, waits) in [(true, true), (false, false)] {
        let world = World::new().await;
        let o = world.map("n", "o", json!([])).await;
        world.map("n", "d", json!([owner("o", &o, blocks)])).await;
        let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
        world.ok("PATCH", &format!("{MAPS}/d"), hold).await;
        world.ok("DELETE", &format!("{MAPS}/o?propagationPolicy=Foreground"), Value::Null).await;
        world.settle().await;
        assert_eq!(world.is_there(&format!("{MAPS}/o")).await, waits, "{blocks}");
        let d = world.get(&format!("{MAPS}/d")).await;
        assert!(d["metadata"]["deletionTimestamp"].is_string(), "{blocks}");
        world.ok("PATCH", &format!("{MAPS}/d"), json!({"metadata": {"finalizers": null}})).await;
        world.settle().await;
        assert_eq!(world.maps("n").await, [""; 0], "{blocks}");
    }
}

#[tokio::test(start_paused = true)]
async fn circles_come_apart() {
    let world = World::new().await;
    let a = world.map("n", "a", json!([])).await;
    let b = world.map("n", "b", json!([owner("a", &a, true)])).await;
    let c = world.map("n", "c", json!([owner("b", &b, true)])).await;
    let closed = json!({"metadata": {"ownerReferences": [owner("c", &c, true)]}});
    world.ok("PATCH", &format!("{MAPS}/a"), closed).await;
    world.settle().await;
    assert_eq!(world.maps("n").await, ["a", "b", "c"]);
    world.ok("DELETE", &format!("{MAPS}/a?propagationPolicy=Foreground"), Value::Null).await;
    world.settle().await;
    assert_eq!(world.maps("n").await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn owners_are_who_they_say_and_where() {
    let world = World::new().await;
    let o = world.map("n", "o", json!([])).await;
    let elsewhere = world.map("default", "elsewhere", json!([])).await;
    let with = |field: &str, value: &str| {
        let mut reference = owner("o", &o, false);
        reference[field] = value.into();
        reference
    };
    let cases = [
        ("right", owner("o", &o, false), true),
        ("nobody", owner("nobody", "no-such-uid", false), false),
        ("other-uid", with("uid", "other"), false),
        ("other-name", with("name", "other"), false),
        ("other-kind", with("kind", "Secret"), false),
        ("elsewhere", owner("elsewhere", &elsewhere, false), false),
        ("unknown-kind", with("kind", "Nothing"), true),
        ("unknown-version", with("apiVersion", "v9"), true),
        ("unknown-group", with("apiVersion", "no.such.group/v1"), true),
    ];
    for (name, reference, _) in &cases {
        world.map("n", name, json!([reference])).await;
    }
    world.settle().await;
    let mut left: Vec<&str> = cases.iter().filter(|case| case.2).map(|case| case.0).collect();
    left.extend(["o"]);
    left.sort_unstable();
    assert_eq!(world.maps("n").await, left);
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_a_namespace_is_out_of_reach_of_objects_in_none() {
    let world = World::new().await;
    let o = world.map("n", "o", json!([])).await;
    let role = json!({"metadata": {"name": "r", "ownerReferences": [owner("o", &o, false)]}, "rules": []});
    world.ok("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", role).await;
    world.settle().await;
    assert!(world.is_there("/apis/rbac.authorization.k8s.io/v1/clusterroles/r").await);
    let events = world.get("/api/v1/namespaces/default/events").await;
    assert_eq!(events["items"][0]["reason"], "OwnerRefInvalidNamespace");
    assert_eq!(events["items"].as_array().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_no_namespace_has_dependents_in_all() {
    let world = World::new().await;
    let owned = |uid: &Value| json!([{"apiVersion": "v1", "kind": "Node", "name": "w", "uid": uid}]);
    let node = world.ok("POST", "/api/v1/nodes", json!({"metadata": {"name": "w"}})).await;
    world.map("n", "a", owned(&node["metadata"]["uid"])).await;
    world.map("default", "b", owned(&node["metadata"]["uid"])).await;
    world.settle().await;
    assert_eq!((world.maps("n").await.len(), world.maps("default").await.len()), (1, 1));
    world.ok("DELETE", "/api/v1/nodes/w", Value::Null).await;
    world.settle().await;
    assert_eq!((world.maps("n").await.len(), world.maps("default").await.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn kinds_come_and_go() {
    let world = World::new().await;
    let reference = json!([{"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": "gone"}]);
    world.map("n", "waits", reference).await;
    world.settle().await;
    assert_eq!(world.maps("n").await, ["waits"], "nothing is known of its owner");
    world.ok("POST", DEFINITIONS, things()).await;
    world.settle().await;
    assert_eq!(world.maps("n").await, [""; 0], "now the owner is known not to be there");
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}});
    let thing = world.ok("POST", "/apis/example.com/v1/namespaces/n/things", thing).await;
    let uid = &thing["metadata"]["uid"];
    world
        .map("n", "d", json!([{"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": uid}]))
        .await;
    world.settle().await;
    assert_eq!(world.maps("n").await, ["d"]);
    world.ok("DELETE", &format!("{DEFINITIONS}/things.example.com"), Value::Null).await;
    world.settle().await;
    // Without the kind there is no telling whether the owner is gone: as upstream, it waits until there is.
    assert_eq!(world.maps("n").await, ["d"]);
    world.ok("POST", DEFINITIONS, things()).await;
    world.settle().await;
    assert_eq!(world.maps("n").await, [""; 0]);
}
