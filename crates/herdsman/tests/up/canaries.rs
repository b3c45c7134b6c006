//! What a support bundle must not have: secrets are planted everywhere where users and clusters have them, and looked for.

use std::process::Command;

use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use serde_json::{Value, json};

use super::product::Up;

/// No word of any other text.
const CANARY: &str = "canary8f3b1c";

/// A canary of its own for each place, so that the test can say which one got out.
fn canary(place: &str) -> String {
    format!("{CANARY}-{place}")
}

async fn plant(up: &Up, plural: &str, object: Value) {
    let api_version = object["apiVersion"].as_str().unwrap().to_owned();
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", &api_version));
    let resource = ApiResource {
        group: group.into(),
        version: version.into(),
        api_version: api_version.clone(),
        kind: object["kind"].as_str().unwrap().into(),
        plural: plural.into(),
    };
    let api: Api<DynamicObject> = Api::namespaced_with(up.client().await, "fleet-default", &resource);
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_support_bundle_opens_no_door() {
    let directory = tempfile::tempdir().unwrap();
    let up = Up::start(&directory.path().join("data"));
    let base64 = |text: String| {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(text)
    };
    let encoded = base64(canary("encoded"));
    plant(
        &up,
        "secrets",
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cloud", "annotations": {
        "kubectl.kubernetes.io/last-applied-configuration": canary("applied")}},
        "data": {"x": encoded}, "stringData": {"amazonec2credentialConfig-secretKey": canary("secret")}}),
    )
    .await;
    plant(
        &up,
        "configmaps",
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "values"},
        "data": {"values.yaml": canary("configmap")}}),
    )
    .await;
    let registry = json!({"configs": {"r": {"authConfigSecretName": "cloud", "caBundle": "QQ=="}}});
    plant(&up, "clusters", json!({"apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
        "metadata": {"name": "demo", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": canary("copy")}},
        "spec": {"kubernetesVersion": "v1.34.2+k3s1",
            "agentEnvVars": [{"name": "HTTPS_PROXY", "value": format!("http://me:{}@proxy:3128", canary("proxy"))}],
            "rkeConfig": {
                "machineGlobalConfig": {"token": canary("token"), "kube-apiserver-arg": [canary("argument")]},
                "machineSelectorConfig": [{"config": {"node-label": [canary("selector")]}}],
                "chartValues": {"chart": {"password": canary("chart")}},
                "additionalManifest": format!("kind: Secret\nstringData: {{a: {}}}\n", canary("manifest")),
                "registries": registry}}}))
    .await;
    // Its own secrets: tokens, keys, kubeconfigs.
    let mut made = false;
    for _ in 0..100 {
        made = up.run(&["node-command", "demo"]).status.success();
        if made {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    assert!(made, "there is no registration token");
    let command = up.says(&["node-command", "demo"]);
    let token = command.split_whitespace().skip_while(|word| *word != "--token").nth(1).unwrap();

    let bundle = directory.path().join("bundle.tar.gz");
    up.says(&["support-bundle", "--to", bundle.to_str().unwrap()]);
    let files = Command::new("tar").arg("xzOf").arg(&bundle).output().unwrap().stdout;
    let files = String::from_utf8_lossy(&files).into_owned();
    for line in files.lines() {
        assert!(!line.contains(CANARY), "this got out: {line}");
    }
    for door in [&encoded, token] {
        assert!(!files.contains(door), "{door} got out");
    }
    // What is left still helps.
    for word in ["v1.34.2+k3s1", "HTTPS_PROXY", "additionalManifest", "name: cloud"] {
        assert!(files.contains(word), "{word}");
    }
}
