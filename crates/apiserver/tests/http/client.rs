//! The `kube` crate in process: no socket, the same server.

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, ListParams, PostParams, WatchEvent, WatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::support::{admin, api, widgets};

async fn client() -> Client {
    Client::new(api().await.as_user(admin()), "default")
}

fn secret(name: &str) -> Secret {
    let secret = json!({"metadata": {"name": name}, "stringData": {"key": "value"}});
    serde_json::from_value(secret).unwrap()
}

#[tokio::test]
async fn secrets_are_created_listed_and_watched() {
    let secrets: Api<Secret> = Api::default_namespaced(client().await);
    let made = secrets.create(&PostParams::default(), &secret("a")).await.unwrap();
    assert_eq!(made.data.unwrap()["key"].0, b"value");
    let list = secrets.list(&ListParams::default()).await.unwrap();
    assert_eq!(list.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["a"]);

    let revision = list.metadata.resource_version.unwrap();
    let mut changes = secrets.watch(&WatchParams::default(), &revision).await.unwrap().boxed();
    secrets.create(&PostParams::default(), &secret("b")).await.unwrap();
    secrets.delete("a", &Default::default()).await.unwrap();
    let first = changes.try_next().await.unwrap().unwrap();
    assert!(matches!(first, WatchEvent::Added(secret) if secret.name_any() == "b"));
    let second = changes.try_next().await.unwrap().unwrap();
    assert!(matches!(second, WatchEvent::Deleted(secret) if secret.name_any() == "a"));

    let error = secrets.get("a").await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.code == 404));
}

#[tokio::test]
async fn objects_of_a_definition_are_watched_by_the_runtime() {
    let client = client().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = serde_json::from_value(widgets()).unwrap();
    definitions.create(&PostParams::default(), &definition).await.unwrap();

    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    let objects: Api<DynamicObject> = Api::default_namespaced_with(client, &kind);
    let widget = |name: &str| DynamicObject::new(name, &kind).data(json!({"spec": {"size": 3}}));
    objects.create(&PostParams::default(), &widget("a")).await.unwrap();

    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let mut seen = watcher(objects.clone(), config).applied_objects().boxed();
        assert_eq!(seen.try_next().await.unwrap().unwrap().name_any(), "a");
        objects.create(&PostParams::default(), &widget("b")).await.unwrap();
        let second = seen.try_next().await.unwrap().unwrap();
        assert_eq!((second.name_any().as_str(), &second.data["spec"]["size"]), ("b", &json!(3)));
        objects.delete("b", &Default::default()).await.unwrap();
    }
}
