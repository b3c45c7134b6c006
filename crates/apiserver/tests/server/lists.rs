//! Lists: selectors, pages, revisions.

use apiserver::store::Revision;
use serde_json::{Value, json};

use crate::support::{names, ok, refused, server};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn five() -> apiserver::server::Server {
    let server = server().await;
    for (index, name) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        let labels = json!({"odd": (index % 2 == 1).to_string()});
        ok(&server, "POST", MAPS, json!({"metadata": {"name": name, "labels": labels}})).await;
    }
    server
}

#[tokio::test]
async fn selectors_choose() {
    let server = five().await;
    for (query, wanted) in [
        ("", vec!["a", "b", "c", "d", "e"]),
        ("?labelSelector=odd%3Dtrue", vec!["b", "d"]),
        ("?labelSelector=odd%20in%20(false)", vec!["a", "c", "e"]),
        ("?labelSelector=!odd", vec![]),
        ("?fieldSelector=metadata.name%3Dc", vec!["c"]),
        ("?fieldSelector=metadata.name!=c,metadata.namespace=default", vec!["a", "b", "d", "e"]),
        ("?labelSelector=odd%3Dtrue&limit=1", vec!["b"]),
        ("?limit=2", vec!["a", "b"]),
        ("?resourceVersion=3&resourceVersionMatch=Exact", vec!["a", "b"]),
        ("?resourceVersion=3&limit=9", vec!["a", "b"]),
        ("?resourceVersion=3", vec!["a", "b", "c", "d", "e"]),
    ] {
        let list = ok(&server, "GET", &format!("{MAPS}{query}"), Value::Null).await;
        assert_eq!(names(&list), wanted, "{query}");
        assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
    }
    let everywhere = ok(&server, "GET", "/api/v1/configmaps", Value::Null).await;
    assert_eq!(names(&everywhere).len(), 5);
    assert_eq!(names(&ok(&server, "GET", "/api/v1/namespaces/no/configmaps", Value::Null).await).len(), 0);
}

#[tokio::test]
async fn pages_are_of_one_revision() {
    let server = five().await;
    let first = ok(&server, "GET", &format!("{MAPS}?limit=2"), Value::Null).await;
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    ok(&server, "DELETE", &format!("{MAPS}/d"), Value::Null).await;
    let mut seen = names(&first).iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let mut token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    while !token.is_empty() {
        let page = ok(&server, "GET", &format!("{MAPS}?limit=2&continue={token}"), Value::Null).await;
        assert_eq!(page["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
        seen.extend(names(&page).iter().map(|name| (*name).to_owned()));
        page["metadata"]["continue"].as_str().unwrap_or_default().clone_into(&mut token);
    }
    assert_eq!(seen, ["a", "b", "c", "d", "e"]);
}

#[tokio::test]
async fn old_tokens_expire_and_offer_another() {
    let server = five().await;
    let first = ok(&server, "GET", &format!("{MAPS}?limit=2"), Value::Null).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    ok(&server, "DELETE", &format!("{MAPS}/d"), Value::Null).await;
    server.store().compact(Revision(7)).await.unwrap();
    let status = refused(&server, "GET", &format!("{MAPS}?limit=2&continue={token}"), Value::Null).await;
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    let offered = status.metadata["continue"].as_str().unwrap();
    let rest = ok(&server, "GET", &format!("{MAPS}?continue={offered}"), Value::Null).await;
    assert_eq!(names(&rest), ["c", "e"]);
    for (query, message) in [
        (
            "?resourceVersion=3&resourceVersionMatch=Exact".to_owned(),
            "The resourceVersion for the provided list is too old.",
        ),
        (
            format!("?continue={token}&resourceVersion=3"),
            "specifying resource version is not allowed when using continue",
        ),
    ] {
        assert_eq!(refused(&server, "GET", &format!("{MAPS}{query}"), Value::Null).await.message, message);
    }
    let status = refused(&server, "GET", &format!("{MAPS}?continue=!"), Value::Null).await;
    assert_eq!(
        status.message,
        "invalid continue token: continue key is not valid: illegal base64 data at input byte 0"
    );
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector() {
    let server = five().await;
    let gone = ok(&server, "DELETE", &format!("{MAPS}?labelSelector=odd%3Dtrue"), Value::Null).await;
    assert_eq!(names(&gone), ["b", "d"]);
    assert_eq!(names(&ok(&server, "GET", MAPS, Value::Null).await), ["a", "c", "e"]);
}
