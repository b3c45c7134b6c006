use serde_json::json;

use super::*;

fn at(time: &str) -> Timestamp {
    format!("2026-01-01T{time}:00Z").parse().unwrap()
}

fn object(document: Value) -> Object {
    Object::from_document(document).unwrap()
}

/// Judged where everything is as it should be.
fn good(secret: &Object, token: &str, has_system: bool, now: &str) -> Option<Credential> {
    let name = secret.owners().first().map(|owner| owner.name.clone()).unwrap_or_default();
    let registration = registration("c-m-x", &name, "u", "c-m-x");
    let management = management("c-m-x");
    let beside = Beside { has_system, token: Some(&registration), management: Some(&management) };
    judge(secret, &Hash::of(token), &beside, Lifetimes::default(), at(now))
}

fn registration(namespace: &str, name: &str, uid: &str, cluster: &str) -> Object {
    let metadata = json!({"namespace": namespace, "name": name, "uid": uid});
    object(json!({"metadata": metadata, "spec": {"clusterName": cluster}}))
}

fn management(id: &str) -> Object {
    object(json!({"metadata": {"name": id, "uid": "m"}}))
}

#[test]
fn a_clusters_token_is_its_registration_tokens() {
    let secret = clusters("default-token", json!({"token": "t"}));
    let judged = |token: Option<&Object>, management: Option<&Object>| {
        let beside = Beside { has_system: false, token, management };
        judge(&secret, &Hash::of("t"), &beside, Lifetimes::default(), at("10:00")).is_some()
    };
    let (right, half) = (registration("c-m-x", "default-token", "u", "c-m-x"), management("c-m-x"));
    let mut going = half.document().clone();
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T10:00:00Z");
    let table = [
        ("all is well", Some(&right), Some(&half), true),
        ("no registration token", None, Some(&half), false),
        ("no management cluster", Some(&right), None, false),
        (
            "another one of that name",
            Some(&registration("c-m-x", "default-token", "u2", "c-m-x")),
            Some(&half),
            false,
        ),
        (
            "for another cluster",
            Some(&registration("c-m-x", "default-token", "u", "c-m-y")),
            Some(&half),
            false,
        ),
        (
            "in another namespace",
            Some(&registration("team", "default-token", "u", "c-m-x")),
            Some(&half),
            false,
        ),
        ("another management cluster", Some(&right), Some(&management("c-m-y")), false),
        ("one that is deleted", Some(&right), Some(&object(going)), false),
    ];
    for (what, token, management, expected) in table {
        assert_eq!(judged(token, management), expected, "{what}");
    }
}

fn agents(used: bool) -> Object {
    let annotations =
        if used { json!({"herdsman.io/token-used": "2026-01-01T10:00:00Z"}) } else { json!({}) };
    object(json!({
        "type": "herdsman.io/agent-token",
        "metadata": {"namespace": "ns", "name": "p-token-x", "annotations": annotations,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": "p", "uid": "u"}]},
        "data": {"hash": STANDARD.encode(Hash::of("hat_x").hex()), "serviceAccount": STANDARD.encode("p")},
    }))
}

#[test]
fn an_agents_token_reaches_its_plan() {
    let Some(Credential::Agent(token)) = good(&agents(false), "hat_x", false, "10:00") else { panic!() };
    assert_eq!(
        (token.plan, token.plan_uid.as_str(), token.account.as_str()),
        (Key::new("ns", "p"), "u", "p")
    );
    assert!(!token.used);
    assert!(
        matches!(good(&agents(true), "hat_x", false, "10:00"), Some(Credential::Agent(token)) if token.used)
    );
    assert_eq!(good(&agents(false), "hat_y", false, "10:00"), None);
}

fn bootstraps(extra: Value) -> Object {
    let mut annotations = json!({
        "rke.cattle.io/bootstrap-token": "true",
        "kubernetes.io/service-account.name": "m-bootstrap",
        "kubernetes.io/service-account.uid": "u",
    });
    for (key, value) in extra.as_object().unwrap() {
        annotations[key] = value.clone();
    }
    object(json!({
        "type": "kubernetes.io/service-account-token",
        "metadata": {"namespace": "ns", "name": "s", "creationTimestamp": "2026-01-01T10:00:00Z", "annotations": annotations},
        "data": {"token": STANDARD.encode("jwt")},
    }))
}

#[test]
fn a_machines_token_is_good_for_a_while() {
    let token = token::introduction(b"jwt");
    let plain = bootstraps(json!({}));
    let Some(Credential::Bootstrap { account, uid, .. }) = good(&plain, &token, false, "10:10") else {
        panic!()
    };
    assert_eq!((account, uid.as_str()), (Key::new("ns", "m-bootstrap"), "u"));
    assert_eq!(
        good(&plain, "jwt", false, "10:10"),
        None,
        "the account's own token is not what it introduces itself with"
    );
    assert_eq!(good(&plain, &token, false, "10:30"), None, "half an hour old");
    let used = bootstraps(json!({"rke.cattle.io/last-access-timestamp": "2026-01-01T10:05:00Z"}));
    assert!(good(&used, &token, false, "10:05").is_some());
    assert_eq!(good(&used, &token, false, "10:06"), None, "used before");
    let ended = bootstraps(json!({"rke.cattle.io/bootstrap-token-invalidated": "true"}));
    assert_eq!(good(&ended, &token, false, "10:00"), None);
    let other = bootstraps(json!({"rke.cattle.io/bootstrap-token": "false"}));
    assert_eq!(hashes(&other), []);
}

fn clusters(name: &str, data: Value) -> Object {
    let encoded: serde_json::Map<_, _> = data
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, value)| (key.clone(), STANDARD.encode(value.as_str().unwrap()).into()))
        .collect();
    object(json!({
        "type": "Opaque",
        "metadata": {"namespace": "c-m-x", "name": format!("crt-token-{name}"), "ownerReferences": [
            {"apiVersion": "management.cattle.io/v3", "kind": "ClusterRegistrationToken", "name": name, "uid": "u"}]},
        "data": encoded,
    }))
}

#[test]
fn a_tunnels_token_registers_no_node_and_a_nodes_opens_no_tunnel() {
    let registration =
        |nodes, tunnels| Some(Credential::Registration { cluster: "c-m-x".into(), nodes, tunnels });
    let token = json!({"token": "t"});
    assert_eq!(
        good(&clusters("default-token", token.clone()), "t", true, "10:00"),
        registration(true, false)
    );
    assert_eq!(good(&clusters("system", token.clone()), "t", true, "10:00"), registration(false, true));
    // A cluster that has but one token, as imported ones do.
    assert_eq!(good(&clusters("default-token", token), "t", false, "10:00"), registration(true, true));
}

#[test]
fn the_token_before_is_good_for_its_grace_period() {
    let data =
        json!({"token": "new", "previousToken": "old", "gracePeriodExpiresAt": "2026-01-01T11:00:00Z"});
    let secret = clusters("default-token", data);
    for (token, now, is_good) in [
        ("new", "12:00", true),
        ("old", "10:59", true),
        ("old", "11:00", false),
        ("2026-01-01T11:00:00Z", "10:00", false),
    ] {
        assert_eq!(good(&secret, token, false, now).is_some(), is_good, "{token} {now}");
    }
}

#[test]
fn a_secret_that_only_looks_like_one_counts_for_nothing() {
    let mut document = clusters("default-token", json!({"token": "t"})).document().clone();
    document["metadata"]["ownerReferences"] = json!([]);
    assert_eq!(hashes(&object(document.clone())), []);
    document["metadata"]["ownerReferences"] = json!([{"apiVersion": "management.cattle.io/v3", "kind": "ClusterRegistrationToken", "name": "other", "uid": "u"}]);
    assert_eq!(hashes(&object(document.clone())), []);
    // A kind of that name in another group.
    document["metadata"]["ownerReferences"] = json!([{"apiVersion": "example.com/v1", "kind": "ClusterRegistrationToken", "name": "default-token", "uid": "u"}]);
    assert_eq!(hashes(&object(document)), []);
    assert_eq!(Hash::from_hex(&"zz".repeat(32)), None);
    assert_eq!(Hash::from_hex("ab"), None);
    assert_eq!(Hash::from_hex(&Hash::of("x").hex()), Some(Hash::of("x")));
}
