//! Objects without what opens a door, so that others may look at them.
//!
//! What is kept is a choice, what is taken out is the rule: Secrets and ConfigMaps lose all their values, and wherever
//! else users may have written a secret, values go and only their shape stays.

use serde_json::Value;

/// What stands where something was.
const REMOVED: &str = "<removed>";
/// Parts of names of fields that hold secrets.
const SECRET_WORDS: [&str; 19] = [
    "password",
    "passwd",
    "token",
    "secretkey",
    "accesskey",
    "privatekey",
    "apikey",
    "credential",
    "userdata",
    "kubeconfig",
    "certificate",
    "passphrase",
    "sshkey",
    "keycontents",
    "customdata",
    "cloudconfig",
    "cloudinit",
    "encodedjson",
    // What hosts are told to run has their tokens and proxies in it.
    "command",
];
/// Fields in which users write whatever they like: every text in them goes.
const USERS_OWN: [&str; 10] = [
    "chartValues",
    "additionalManifest",
    "machineSelectorFiles",
    "registries",
    "agentEnvVars",
    "env",
    "args",
    "machineGlobalConfig",
    "machineSelectorConfig",
    "nodeConfig",
];
/// Fields whose names sound like secrets and whose values name objects.
const REFERENCES: [&str; 4] =
    ["cloudCredentialSecretName", "tokenSecretName", "dataSecretName", "authConfigSecretName"];
/// Annotations in which a whole object is repeated.
const COPIES: [&str; 4] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "objectset.rio.cattle.io/applied",
    "rke.cattle.io/cluster-spec",
    "rke.cattle.io/joined-to",
];

/// Takes out of an object what opens a door.
pub(crate) fn redact(object: &mut Value) {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            let opens =
                |name: &str, value: &Value| COPIES.contains(&name) || is_secret(name) || is_key(value);
            annotations
                .iter_mut()
                .filter(|(name, value)| opens(name, value))
                .for_each(|(_, value)| *value = REMOVED.into());
        }
    }
    if matches!(kind.as_str(), "Secret" | "ConfigMap") {
        for field in ["data", "stringData", "binaryData"] {
            if let Some(values) = object.get_mut(field).and_then(Value::as_object_mut) {
                values.values_mut().for_each(|value| *value = size(value));
            }
        }
        return;
    }
    if let Some(fields) = object.as_object_mut() {
        fields
            .iter_mut()
            .filter(|(name, _)| *name != "metadata")
            .for_each(|(name, value)| scrub(name, value));
    }
}

/// How long a value is.
fn size(value: &Value) -> Value {
    format!("<{} characters removed>", value.as_str().map_or(0, str::len)).into()
}

fn is_secret(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let plain = plain.to_lowercase();
    SECRET_WORDS.iter().any(|word| plain.contains(word))
}

/// Whether it is a key or a certificate, wherever it stands.
fn is_key(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.contains("-----BEGIN"))
}

fn scrub(name: &str, value: &mut Value) {
    if USERS_OWN.contains(&name) || (is_secret(name) && !REFERENCES.contains(&name)) || is_key(value) {
        return blank(value);
    }
    match value {
        Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| scrub(name, value)),
        Value::Array(items) => items.iter_mut().for_each(|item| scrub("", item)),
        Value::String(text) if text.contains("://") => *text = without_users(text),
        _ => {}
    }
}

/// A text whose URLs say nothing of users and their passwords.
fn without_users(text: &str) -> String {
    let mut parts = text.split("://");
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end =
            part.find(|c: char| c == '/' || c.is_whitespace() || c == '"' || c == '\'').unwrap_or(part.len());
        let (authority, rest) = part.split_at(end);
        let host =
            authority.rsplit_once('@').map_or(authority.to_owned(), |(_, host)| format!("{REMOVED}@{host}"));
        clean += &format!("://{host}{rest}");
    }
    clean
}

/// Leaves the shape and takes every text, but for names of environment variables and the like.
fn blank(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.iter_mut().filter(|(name, _)| *name != "name").for_each(|(_, value)| blank(value));
        }
        Value::Array(items) => items.iter_mut().for_each(blank),
        Value::String(text) if !text.is_empty() => *value = REMOVED.into(),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_that_opens_a_door_stays() {
        const CANARY: &str = "canary-7d1f";
        let mut objects = [
            json!({"kind": "Secret", "data": {"value": CANARY}, "stringData": {"x": CANARY}}),
            json!({"kind": "ConfigMap", "data": {"values.yaml": CANARY}}),
            json!({"kind": "Cluster", "metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": CANARY}},
                "spec": {"agentEnvVars": [{"name": "HTTPS_PROXY", "value": CANARY}],
                    "rkeConfig": {"chartValues": {"a": {"b": [CANARY]}}, "additionalManifest": CANARY,
                        "machineGlobalConfig": {"kube-apiserver-arg": [CANARY], "token": CANARY},
                        "registries": {"configs": {"r": {"authConfigSecretName": "s", "password": CANARY}}},
                        "etcd": {"s3": {"cloudCredentialName": CANARY}}}}}),
            json!({"kind": "Amazonec2Config", "secretKey": CANARY, "sshPassword": CANARY, "region": "eu"}),
            json!({"kind": "VmwarevsphereConfig", "sshKeyContents": CANARY, "cloudConfig": CANARY, "cloudinit": CANARY}),
            json!({"kind": "SshMachine", "metadata": {"annotations": {"note": format!("-----BEGIN KEY-----{CANARY}")}},
                "spec": {"sshKey": CANARY, "other": format!("-----BEGIN KEY-----{CANARY}"), "customData": CANARY}}),
            json!({"kind": "RKEBootstrap", "spec": {"userdata": {"inlineUserdata": CANARY}}}),
            json!({"kind": "Job", "spec": {"template": {"spec": {"containers": [{"env": [{"name": "K", "value": CANARY}], "args": [CANARY]}]}}}}),
            json!({"kind": "ClusterRegistrationToken", "status": {"token": CANARY, "nodeCommand": CANARY}}),
            json!({"kind": "Event", "message": format!("cannot reach http://me:{CANARY}@proxy:3128/x")}),
        ];
        objects.iter_mut().for_each(redact);
        let text = json!(objects).to_string();
        assert!(!text.contains(CANARY), "{text}");
        assert!(
            text.contains("HTTPS_PROXY")
                && text.contains("@proxy:3128/x")
                && text.contains("\"region\":\"eu\""),
            "what says something stays: {text}"
        );
    }

    #[test]
    fn references_stay() {
        let mut cluster = json!({"kind": "Cluster", "spec": {"cloudCredentialSecretName": "ns:cc", "kubernetesVersion": "v1"}});
        let before = cluster.clone();
        redact(&mut cluster);
        assert_eq!(cluster, before);
    }
}
