//! A full disk: clients are told, and go on when there is room.

use std::sync::Arc;

use apiserver::store::{Options, SqliteStore, Store};
use serde_json::json;
use tempfile::TempDir;

use crate::support::{api_on, ask, clock, ok};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

#[tokio::test]
async fn a_full_disk_is_a_status_and_writes_go_on_when_there_is_room() {
    let directory = TempDir::new().unwrap();
    let options = Options { quota_bytes: Some(1 << 20), ..Options::default() };
    let store = Arc::new(SqliteStore::open(directory.path(), options, clock()).unwrap());
    let api = api_on(store.clone(), None).await;
    let secret = |number: usize| {
        json!({"metadata": {"name": format!("s{number}")}, "stringData": {"a": "x".repeat(10_000)}})
            .to_string()
    };
    let mut made = 0;
    let refused = loop {
        let answer = ask(&api, "POST", SECRETS, &[], secret(made)).await;
        if answer.code != 201 {
            break answer;
        }
        made += 1;
        assert!(made < 1000);
    };
    assert!(made > 10, "{made}");
    let said = "Internal error occurred: no space left for the store: free some, or raise its quota";
    let status = refused.json();
    assert_eq!((refused.code, status["message"].as_str()), (500, Some(said)), "{status}");
    assert_eq!(
        (status["reason"].as_str(), &status["details"]["retryAfterSeconds"]),
        (Some("InternalError"), &json!(1))
    );
    assert_eq!(refused.header("retry-after"), "1");

    // What is there can be read, and nothing of the refused one is.
    let listed = ok(&api, "GET", SECRETS, &json!(null)).await;
    assert_eq!(listed["items"].as_array().unwrap().len(), made);
    assert_eq!(ask(&api, "GET", &format!("{SECRETS}/s{made}"), &[], "").await.code, 404);

    // Room is made: by a larger disk, or as here by history that goes.
    ok(&api, "DELETE", &format!("{SECRETS}/s0"), &json!(null)).await;
    ok(&api, "DELETE", &format!("{SECRETS}/s1"), &json!(null)).await;
    store.compact(store.view().head()).await.unwrap();
    assert_eq!(ask(&api, "POST", SECRETS, &[], secret(made)).await.code, 201);
    store.check().await.unwrap();
}
