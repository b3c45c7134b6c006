//! The manifest that makes a cluster dial back: for clusters that somebody else made. Those that Herdsman makes get it with their plan.

use api::catalogue::namespaces::CATTLE_SYSTEM;
use api::names;
use serde_json::{Value, json};

use crate::assets::ca_checksum;
use crate::gateway::Public;

/// What the cluster is given, as JSON documents with `---` between them, which is YAML.
pub fn manifest(public: &Public, image: &str, token: &str) -> String {
    let hash = names::plan_hash(format!("{}\n{token}", public.url).as_bytes());
    // Another token is another Secret, so that pods restart.
    let credentials = format!("cattle-credentials-{}", &hash[..7]);
    let rbac = "rbac.authorization.k8s.io";
    let documents = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CATTLE_SYSTEM}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "cattle", "namespace": CATTLE_SYSTEM}}),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": "cattle-admin"},
            "rules": [
                {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
                {"nonResourceURLs": ["*"], "verbs": ["*"]},
            ],
        }),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "cattle-admin-binding"},
            "subjects": [{"kind": "ServiceAccount", "name": "cattle", "namespace": CATTLE_SYSTEM}],
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "cattle-admin"},
        }),
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": credentials, "namespace": CATTLE_SYSTEM},
            "stringData": {"url": public.url, "token": token, "namespace": ""},
        }),
        deployment(public, image, &credentials),
    ];
    documents.map(|document| format!("{document}\n")).join("---\n")
}

fn deployment(public: &Public, image: &str, credentials: &str) -> Value {
    let labels = json!({"app": names::CLUSTER_AGENT});
    let checksum = ca_checksum(&public.ca_certificates);
    let environment: Vec<Value> = [
        ("CATTLE_SERVER", public.url.as_str()),
        ("CATTLE_CA_CHECKSUM", &checksum),
        ("CATTLE_CLUSTER", "true"),
        ("CATTLE_K8S_MANAGED", "true"),
        ("CATTLE_CREDENTIAL_NAME", credentials),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .map(|(name, value)| json!({"name": name, "value": value}))
    .collect();
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": names::CLUSTER_AGENT, "namespace": CATTLE_SYSTEM},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": "cattle",
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{
                        "name": "cluster-register", "image": image, "imagePullPolicy": "IfNotPresent", "env": environment,
                        "volumeMounts": [{"name": "cattle-credentials", "mountPath": "/cattle-credentials", "readOnly": true}],
                    }],
                    "volumes": [{"name": "cattle-credentials", "secret": {"secretName": credentials, "defaultMode": 320}}],
                },
            },
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_is_told_where_to_dial_and_with_what() {
        let public = Public { url: "https://herd.example.com".into(), ca_certificates: "PEM\n".into() };
        let text = manifest(&public, "rancher/agent:v1", "t");
        let documents: Vec<Value> =
            text.split("---\n").map(|one| serde_json::from_str(one).unwrap()).collect();
        let kinds: Vec<&str> = documents.iter().map(|one| one["kind"].as_str().unwrap()).collect();
        assert_eq!(
            kinds,
            ["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Secret", "Deployment"]
        );
        assert_eq!(
            (&documents[4]["stringData"]["token"], &documents[4]["stringData"]["url"]),
            (&json!("t"), &json!(public.url))
        );
        let pod = &documents[5]["spec"]["template"]["spec"];
        assert_eq!(pod["containers"][0]["image"], "rancher/agent:v1");
        assert_eq!(pod["volumes"][0]["secret"]["secretName"], documents[4]["metadata"]["name"]);
        let another = manifest(&public, "rancher/agent:v1", "other");
        assert!(!another.contains(documents[4]["metadata"]["name"].as_str().unwrap()));
    }
}
