//! What clusterctl installs Herdsman's Cluster API controllers from: `deploy/clusterctl/`.
//!
//! clusterctl asks for a file of components with one Namespace and a Deployment whose container is called `manager`, and
//! for a `metadata.yaml` that says which releases keep which contract.

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::crds::HEADER;

/// The namespace that clusterctl's users know the core from.
const NAMESPACE: &str = "capi-system";
/// Of everything that we put there.
const NAME: &str = "herdsman-capi";
/// Where providers of other groups add to what the controllers may do; Cluster API's contract names it.
const AGGREGATE: &str = "cluster.x-k8s.io/aggregate-to-manager";
/// Where webhooks are served, in the pod and behind the Service.
const WEBHOOKS: u16 = 9443;
const SERVICE_PORT: u16 = 443;
/// Cluster API's own groups: clusterctl installs their definitions with the core.
const GROUPS: [&str; 2] = ["cluster.x-k8s.io", "ipam.cluster.x-k8s.io"];

/// File names and contents.
pub(crate) fn rendered() -> anyhow::Result<Vec<(&'static str, String)>> {
    let documents = components();
    let documents: Result<Vec<String>, _> = documents.iter().map(serde_saphyr::to_string).collect();
    let documents = documents.context("cannot write the components as YAML")?.join("---\n");
    let metadata = serde_saphyr::to_string(&metadata()).context("cannot write the metadata as YAML")?;
    Ok(vec![
        ("core-components.yaml", format!("{HEADER}{documents}")),
        ("metadata.yaml", format!("{HEADER}{metadata}")),
    ])
}

/// Our own version, as clusterctl writes versions.
fn version() -> (u32, u32, String) {
    let number = |text: &str| text.parse().unwrap_or_default();
    let (major, minor) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
    (number(major), number(minor), format!("v{}", env!("CARGO_PKG_VERSION")))
}

fn metadata() -> Value {
    let (major, minor, _) = version();
    json!({
        "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Metadata",
        "releaseSeries": [{"major": major, "minor": minor, "contract": "v1beta2"}]
    })
}

/// The definitions, converted by whoever stands behind our Service.
fn definitions() -> Vec<Value> {
    let all = api::crd::all().into_iter().filter(|crd| GROUPS.contains(&crd.spec.group.as_str()));
    let converted = |crd| {
        let mut crd = json!(crd);
        if let Some(service) = crd.pointer_mut("/spec/conversion/webhook/clientConfig/service") {
            *service =
                json!({"name": NAME, "namespace": NAMESPACE, "path": "/convert", "port": SERVICE_PORT});
        }
        crd
    };
    all.map(converted).collect()
}

fn components() -> Vec<Value> {
    let mut all = vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})];
    all.extend(definitions());
    all.extend(permissions());
    all.push(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {"selector": {"app": NAME}, "ports": [{"name": "webhooks", "port": SERVICE_PORT, "targetPort": "webhooks"}]}
    }));
    all.push(deployment());
    all
}

fn deployment() -> Value {
    let (.., version) = version();
    // clusterctl may put everything into another namespace: the pod is told which.
    let here = "$(POD_NAMESPACE)";
    let probe = |path: &str, failures: u8| {
        json!({
            "httpGet": {"path": path, "port": "webhooks", "scheme": "HTTPS"}, "periodSeconds": 10, "failureThreshold": failures
        })
    };
    let container = json!({
        "name": "manager", "image": format!("${{HERDSMAN_IMAGE:=localhost/herdsman:{version}}}"),
        "args": [
            "server", "--controllers=capi", "--capi=own", format!("--leader-elect-namespace={here}"),
            format!("--webhook-listen=0.0.0.0:{WEBHOOKS}"),
            format!("--webhook-url=https://{NAME}.{here}.svc:{SERVICE_PORT}")
        ],
        "env": [{"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}],
        "ports": [{"name": "webhooks", "containerPort": WEBHOOKS}],
        "livenessProbe": probe("/livez", 6), "readinessProbe": probe("/readyz", 3),
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true,
            "runAsUser": 65532, "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}
        }
    });
    let servers = json!({"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": NAME}}, "template": {
            "metadata": {"labels": {"app": NAME}},
            "spec": {
                "serviceAccountName": NAME, "terminationGracePeriodSeconds": 20, "tolerations": [servers],
                "containers": [container]
            }
        }}
    })
}

/// What the controllers may do, and no more.
fn permissions() -> Vec<Value> {
    let role = |kind: &str| format!("rbac.authorization.k8s.io/{kind}");
    let subjects = json!([{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}]);
    let bind = |kind: &str, metadata: Value, role: Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata,
            "roleRef": role, "subjects": subjects.clone()
        })
    };
    let group = "rbac.authorization.k8s.io";
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME, "namespace": NAMESPACE}}),
        json!({
            "apiVersion": role("v1"), "kind": "ClusterRole", "metadata": {"name": NAME},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {AGGREGATE: "true"}}]}, "rules": []
        }),
        json!({
            "apiVersion": role("v1"), "kind": "ClusterRole",
            "metadata": {"name": format!("{NAME}-own"), "labels": {AGGREGATE: "true"}}, "rules": cluster_rules()
        }),
        bind(
            "ClusterRoleBinding",
            json!({"name": NAME}),
            json!({"apiGroup": group, "kind": "ClusterRole", "name": NAME}),
        ),
        json!({
            "apiVersion": role("v1"), "kind": "Role", "metadata": {"name": NAME, "namespace": NAMESPACE},
            "rules": [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get", "update"]}]
        }),
        bind(
            "RoleBinding",
            json!({"name": NAME, "namespace": NAMESPACE}),
            json!({"apiGroup": group, "kind": "Role", "name": NAME}),
        ),
    ]
}

fn cluster_rules() -> Value {
    let rule = |groups: &[&str], resources: &[&str], verbs: &[&str]| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
    let look = ["get", "list", "watch"];
    let own = ["create", "delete", "get", "list", "patch", "update", "watch"];
    let core = "cluster.x-k8s.io";
    let kinds = ["clusters", "machinedeployments", "machinehealthchecks", "machines", "machinesets"];
    let parts = kinds.iter().flat_map(|kind| [format!("{kind}/finalizers"), format!("{kind}/status")]);
    let parts: Vec<String> = parts.collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let definitions = definitions();
    let converted: Vec<&Value> = definitions
        .iter()
        .filter(|crd| crd["spec"]["conversion"].is_object())
        .map(|crd| &crd["metadata"]["name"])
        .collect();
    let mut convert = rule(&["apiextensions.k8s.io"], &["customresourcedefinitions"], &["patch", "update"]);
    convert["resourceNames"] = json!(converted);
    let webhooks = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
    let mut asked = rule(&["admissionregistration.k8s.io"], &webhooks, &["get", "patch", "update"]);
    asked["resourceNames"] = json!([NAME]);
    json!([
        rule(&[core], &kinds, &own),
        rule(&[core], &parts, &["get", "patch", "update"]),
        rule(&[core], &["machinedrainrules"], &look),
        rule(
            &[
                "bootstrap.cluster.x-k8s.io",
                "controlplane.cluster.x-k8s.io",
                "infrastructure.cluster.x-k8s.io"
            ],
            &["*"],
            &own
        ),
        rule(&["apiextensions.k8s.io"], &["customresourcedefinitions"], &look),
        convert,
        rule(&["admissionregistration.k8s.io"], &webhooks, &["create"]),
        asked,
        // Authorities and kubeconfigs of clusters: one that is missing is made, one that changes is read again. And what our
        // webhooks' certificates come from.
        rule(&[""], &["secrets"], &["create", "get", "list", "watch"]),
        rule(&["", "events.k8s.io"], &["events"], &["create", "patch"]),
        // Where the lease is.
        rule(&[""], &["namespaces"], &["create"]),
        // Whether somebody else does the same work.
        rule(&["apps"], &["deployments"], &["list"]),
        rule(&["coordination.k8s.io"], &["leases"], &["list"]),
        rule(&["clusterctl.cluster.x-k8s.io"], &["providers"], &["create", "list", "patch"])
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusterctl_finds_what_it_asks_for() {
        let all = components();
        let of = |kind: &str| all.iter().filter(|one| one["kind"] == kind).count();
        assert_eq!((of("Namespace"), of("Deployment"), of("Service")), (1, 1, 1));
        assert!(of("CustomResourceDefinition") >= 8);
        let deployment = all.iter().find(|one| one["kind"] == "Deployment").unwrap();
        assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["name"], "manager");
        for crd in all.iter().filter(|one| one["spec"]["conversion"].is_object()) {
            let asked = &crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"];
            assert_eq!((&asked["name"], &asked["namespace"]), (&json!(NAME), &json!(NAMESPACE)), "{asked}");
        }
        assert_eq!(metadata()["releaseSeries"][0]["contract"], "v1beta2");
    }

    #[test]
    fn nothing_is_allowed_for_convenience() {
        for rule in cluster_rules().as_array().unwrap() {
            assert!(!rule["verbs"].as_array().unwrap().contains(&json!("*")), "{rule}");
            assert!(!rule["apiGroups"].as_array().unwrap().contains(&json!("*")), "{rule}");
        }
    }
}
