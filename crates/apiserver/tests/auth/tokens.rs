//! Tokens of ServiceAccounts, and those that others know.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use apiserver::auth::{Auth, ISSUER, SigningKey, Tokens};
use apiserver::server::Server;
use apiserver::store::{MemoryStore, Options};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use clock::SeededEntropy;
use kubeapi::authn::User;
use serde_json::{Value, json};

use crate::support::{NOW, OTHER_KEY, World, headers, user};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

async fn account(world: &World, name: &str) -> Value {
    world.ok("POST", ACCOUNTS, json!({"metadata": {"name": name}})).await
}

async fn token(world: &World, spec: Value) -> String {
    let answer = world.ok("POST", &format!("{ACCOUNTS}/a/token"), json!({"spec": spec})).await;
    answer["status"]["token"].as_str().unwrap().to_owned()
}

fn claims(token: &str) -> Value {
    let payload = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
}

/// Why a TokenReview does not know a token; empty if it does.
async fn why(world: &World, token: &str) -> String {
    let status = world.review(token, &[]).await;
    let known = status["authenticated"] == true;
    let error = status["error"].as_str().unwrap_or_default();
    assert_eq!(known, error.is_empty(), "{status}");
    assert_eq!(world.with_bearer(token).await.is_ok(), known);
    let inner = error.strip_prefix("[invalid bearer token, ").and_then(|rest| rest.strip_suffix(']'));
    inner.unwrap_or(error).to_owned()
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "serviceAccountName": "a", "nodeName": "n", "containers": [{"name": "c", "image": "i"}],
    }})
}

#[tokio::test]
async fn a_token_is_made_and_believed() {
    let world = World::new().await;
    let uid = account(&world, "a").await["metadata"]["uid"].clone();
    let answer = world.ok("POST", &format!("{ACCOUNTS}/a/token"), json!({"spec": {}})).await;
    assert_eq!((&answer["kind"], &answer["metadata"]["uid"]), (&json!("TokenRequest"), &uid));
    assert_eq!(
        answer["spec"],
        json!({"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": null})
    );
    assert_eq!(answer["status"]["expirationTimestamp"], "2026-01-02T04:04:05Z");
    assert_eq!(answer["metadata"]["creationTimestamp"], NOW);
    let token = answer["status"]["token"].as_str().unwrap();
    let said = claims(token);
    let now = 1_767_323_045;
    assert_eq!(
        said,
        json!({
            "aud": [ISSUER], "exp": now + 3600, "iat": now, "nbf": now, "iss": ISSUER, "jti": said["jti"],
            "sub": "system:serviceaccount:default:a",
            "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "a", "uid": uid}},
        })
    );
    let found = world.with_bearer(token).await.unwrap();
    assert_eq!((found.name.as_str(), json!(found.uid)), ("system:serviceaccount:default:a", uid));
    assert_eq!(
        found.groups,
        ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
    );
    let credential = &found.extra["authentication.kubernetes.io/credential-id"];
    assert_eq!(credential[0], format!("JTI={}", said["jti"].as_str().unwrap()));
    let review = world.review(token, &["x", ISSUER]).await;
    assert_eq!(review["audiences"], json!([ISSUER]));
    assert_eq!(review["user"]["username"], "system:serviceaccount:default:a");
}

#[tokio::test]
async fn times_are_those_of_the_clock() {
    let world = World::new().await;
    account(&world, "a").await;
    let token = token(&world, json!({"expirationSeconds": 600})).await;
    world.clock.advance(Duration::from_secs(660));
    assert_eq!(why(&world, &token).await, "", "a minute is given to clocks that differ");
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(why(&world, &token).await, "service account token has expired");
    world.clock.jump_to("2026-01-02T03:03:04Z".parse().unwrap());
    assert_eq!(why(&world, &token).await, "service account token is not valid yet");
}

#[tokio::test]
async fn what_is_not_signed_here_or_not_for_us_is_refused() {
    let world = World::new().await;
    account(&world, "a").await;
    let good = token(&world, json!({})).await;
    let foreign = {
        let store = Arc::new(MemoryStore::new(Options::default(), world.clock.clone()));
        let server = Arc::new(Server::new(store, world.clock.clone(), Box::new(SeededEntropy::new(2))));
        let auth = Auth::new(server.clone()).with_key(SigningKey::from_pem(OTHER_KEY).unwrap());
        let clock = world.clock.clone();
        let other = World { server, auth, clock };
        other.ok("POST", "/api/v1/namespaces", json!({"metadata": {"name": "default"}})).await;
        account(&other, "a").await;
        token(&other, json!({})).await
    };
    let parts = |token: &str| token.split('.').map(str::to_owned).collect::<Vec<_>>();
    let (good_parts, foreign_parts) = (parts(&good), parts(&foreign));
    let forged = format!("{}.{}.{}", good_parts[0], foreign_parts[1], good_parts[2]);
    let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    let unsigned = format!("{none}.{}.", good_parts[1]);
    let elsewhere = token(&world, json!({"audiences": ["vault"]})).await;
    let cases = [
        (foreign, "invalid signature, no keys found".to_owned()),
        (forged, "go-jose/go-jose: error in cryptographic primitive".to_owned()),
        (unsigned, "go-jose/go-jose: error in cryptographic primitive".to_owned()),
        ("abc".to_owned(), "invalid bearer token".to_owned()),
        (
            elsewhere.clone(),
            format!("token audiences [\"vault\"] is invalid for the target audiences [{ISSUER:?}]"),
        ),
        (good, String::new()),
    ];
    for (token, expected) in cases {
        assert_eq!(why(&world, &token).await, expected);
    }
    assert_eq!(world.review(&elsewhere, &["vault"]).await["audiences"], json!(["vault"]));
    let status = world.with_bearer("abc").await.unwrap_err();
    assert_eq!((status.code, status.message.as_str()), (401, "Unauthorized"));
}

#[tokio::test]
async fn a_token_goes_with_its_account() {
    let world = World::new().await;
    let first = account(&world, "a").await;
    let token = token(&world, json!({})).await;
    world.ok("DELETE", &format!("{ACCOUNTS}/a"), Value::Null).await;
    assert_eq!(why(&world, &token).await, "serviceaccounts \"a\" not found");
    let second = account(&world, "a").await;
    let uid = |account: &Value| account["metadata"]["uid"].as_str().unwrap().to_owned();
    let expected = format!("service account UID ({}) does not match claim ({})", uid(&second), uid(&first));
    assert_eq!(why(&world, &token).await, expected);
}

#[tokio::test]
async fn a_token_goes_with_what_it_is_bound_to() {
    let world = World::new().await;
    account(&world, "a").await;
    world.ok("POST", "/api/v1/nodes", json!({"metadata": {"name": "n"}})).await;
    let secret = json!({"metadata": {"name": "s"}});
    let rows = [
        ("Pod", PODS, "p", pod("p")),
        ("Secret", SECRETS, "s", secret),
        ("Node", "/api/v1/nodes", "m", json!({"metadata": {"name": "m"}})),
    ];
    for (kind, url, name, object) in rows {
        world.ok("POST", url, object.clone()).await;
        let bound = json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}});
        let token = token(&world, bound).await;
        assert_eq!(why(&world, &token).await, "");
        let gone = world.ok("DELETE", &format!("{url}/{name}?gracePeriodSeconds=0"), Value::Null).await;
        assert_eq!(why(&world, &token).await, "service account token has been invalidated", "{gone}");
        world.ok("POST", url, object).await;
        let lower = kind.to_lowercase();
        let again = why(&world, &token).await;
        assert!(again.contains(&format!("does not match service account {lower} ref claim")), "{again}");
    }
}

#[tokio::test]
async fn a_token_of_a_pod_says_so() {
    let world = World::new().await;
    account(&world, "a").await;
    world.ok("POST", PODS, pod("p")).await;
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "p"});
    let token = token(&world, json!({"boundObjectRef": bound, "expirationSeconds": 3607})).await;
    let said = claims(&token);
    assert_eq!(said["kubernetes.io"]["node"], json!({"name": "n"}));
    assert_eq!(said["exp"].as_i64().unwrap() - said["iat"].as_i64().unwrap(), 365 * 24 * 3600);
    assert_eq!(said["kubernetes.io"]["warnafter"].as_i64().unwrap() - said["iat"].as_i64().unwrap(), 3607);
    let user = world.with_bearer(&token).await.unwrap();
    assert_eq!(user.extra["authentication.kubernetes.io/pod-name"], ["p"]);
    assert_eq!(user.extra["authentication.kubernetes.io/node-name"], ["n"]);
}

#[tokio::test]
async fn requests_that_make_no_sense_are_refused() {
    let world = World::new().await;
    account(&world, "a").await;
    account(&world, "b").await;
    world.ok("POST", PODS, pod("p")).await;
    let reference = |kind: &str, name: &str, uid: &str| json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid}}});
    let rows = [
        ("absent", json!({"spec": {}}), 404, "serviceaccounts \"absent\" not found"),
        (
            "a",
            json!({"spec": {"expirationSeconds": 599}}),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
        ),
        (
            "a",
            json!({"spec": {"expirationSeconds": (1_i64 << 32) + 1}}),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds",
        ),
        (
            "a",
            json!({"metadata": {"name": "b"}, "spec": {}}),
            422,
            "TokenRequest.authentication.k8s.io \"a\" is invalid: metadata.name: Invalid value: \"b\": must match the service account name if specified",
        ),
        (
            "b",
            reference("Pod", "p", ""),
            400,
            "cannot bind token for serviceaccount \"b\" to pod running with different serviceaccount name.",
        ),
        ("a", reference("Pod", "q", ""), 404, "pods \"q\" not found"),
        ("a", reference("Job", "q", ""), 400, "cannot bind token to object of type /v1, Kind=Job"),
        (
            "a",
            reference("Pod", "p", "x"),
            409,
            "Operation cannot be fulfilled on Pod \"p\": the UID in the bound object reference (x) does not match the UID in record. The object might have been deleted and then recreated",
        ),
    ];
    for (name, body, code, message) in rows {
        let status = world.refused("POST", &format!("{ACCOUNTS}/{name}/token"), body).await;
        assert_eq!((status.code, status.message.as_str()), (code, message));
    }
    let status = world.refused("GET", &format!("{ACCOUNTS}/a/token"), Value::Null).await;
    assert_eq!(status.code, 405);
}

#[tokio::test]
async fn a_token_in_a_secret_is_good_while_it_is_there() {
    let world = World::new().await;
    let uid = account(&world, "a").await["metadata"]["uid"].as_str().unwrap().to_owned();
    let token = world.auth.legacy_token("default", "s", "a", &uid).unwrap().unwrap();
    assert_eq!(why(&world, &token).await, "Token has been invalidated");
    let secret = |token: &str| json!({"metadata": {"name": "s"}, "data": {"token": STANDARD.encode(token)}});
    world.ok("POST", SECRETS, secret("other")).await;
    assert_eq!(why(&world, &token).await, "Token does not match server's copy");
    world.ok("merge", &format!("{SECRETS}/s"), secret(&token)).await;
    assert_eq!(why(&world, &token).await, "");
    let user = world.with_bearer(&token).await.unwrap();
    assert_eq!((user.name.as_str(), user.extra.len()), ("system:serviceaccount:default:a", 0));
    let label = json!({"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}}});
    world.ok("merge", &format!("{SECRETS}/s"), label).await;
    assert!(why(&world, &token).await.contains("has been marked invalid"));
    world.ok("DELETE", &format!("{SECRETS}/s"), Value::Null).await;
    assert_eq!(why(&world, &token).await, "Token has been invalidated");
    world.ok("POST", SECRETS, secret(&token)).await;
    world.ok("DELETE", &format!("{ACCOUNTS}/a"), Value::Null).await;
    assert_eq!(why(&world, &token).await, "serviceaccounts \"a\" not found");
}

struct Gateway;

impl Tokens for Gateway {
    fn holder<'a>(
        &'a self,
        token: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<User>, String>> + Send + 'a>> {
        let known = match token {
            "ann's" => Ok(Some(User { name: "ann".into(), ..User::default() })),
            "late" => Err("the session is over".into()),
            _ => Ok(None),
        };
        Box::pin(std::future::ready(known))
    }
}

#[tokio::test]
async fn other_tokens_are_asked_for_elsewhere() {
    let world = World::with(|auth| auth.with_tokens(Arc::new(Gateway))).await;
    account(&world, "a").await;
    let own = token(&world, json!({})).await;
    assert_eq!(why(&world, &own).await, "");
    assert_eq!(world.with_bearer("ann's").await.unwrap(), user("ann", &[]));
    assert_eq!(why(&world, "late").await, "the session is over");
    assert_eq!(why(&world, "unknown").await, "invalid bearer token");
    for value in ["Basic abc", "Bearer", "bearer  x"] {
        let nobody = world.auth.authenticate(&headers(&[("authorization", value)]), &[]).await;
        assert_eq!(nobody.unwrap(), User::anonymous(), "{value}");
    }
}

#[tokio::test]
async fn others_can_check_tokens() {
    let world = World::with(|auth| auth.with_issuer("https://example.com/")).await;
    account(&world, "a").await;
    let token = token(&world, json!({})).await;
    let document =
        |path: &str| -> Value { serde_json::from_slice(&world.auth.answer(path).unwrap().body).unwrap() };
    let configuration = document("/.well-known/openid-configuration");
    assert_eq!(configuration["issuer"], claims(&token)["iss"]);
    assert_eq!(configuration["jwks_uri"], "https://example.com/openid/v1/jwks");
    let keys: jsonwebtoken::jwk::JwkSet = serde_json::from_value(document("/openid/v1/jwks")).unwrap();
    let header = jsonwebtoken::decode_header(&token).unwrap();
    let key = keys.find(&header.kid.unwrap()).unwrap();
    let mut validation = jsonwebtoken::Validation::new(header.alg);
    validation.set_audience(&["https://example.com/"]);
    validation.validate_exp = false;
    let key = jsonwebtoken::DecodingKey::from_jwk(key).unwrap();
    jsonwebtoken::decode::<Value>(&token, &key, &validation).unwrap();
    assert!(world.auth.answer("/openid").is_none());
}
