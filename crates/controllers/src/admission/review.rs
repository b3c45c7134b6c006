//! Admission as webhooks are asked for it.

use std::collections::BTreeMap;

use ::provisioning::admission::Operation;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Asker, Door, Write};

/// What an admission webhook is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Fill in.
    Mutate,
    /// Judge.
    Validate,
}

/// What the API server is told to ask about.
#[derive(Clone, Copy, Debug)]
pub struct Hook {
    /// What it is called; a path and a name are made of it.
    pub name: &'static str,
    /// API group.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Resource, and part if there is one.
    pub resource: &'static str,
    /// The kind behind it; empty for any.
    kind: &'static str,
    /// Which writes.
    pub operations: &'static [&'static str],
    /// Whether objects are filled in, beside being judged.
    pub fills_in: bool,
    /// An expression of the objects that are meant; empty for all.
    pub only: &'static str,
    /// Whether a write goes on if we cannot be asked.
    pub optional: bool,
}

const WRITES: &[&str] = &["CREATE", "UPDATE"];
const ALL: &[&str] = &["CREATE", "UPDATE", "DELETE"];

/// Everything that is asked about.
pub const HOOKS: [Hook; 5] = [
    Hook {
        name: "clusters.provisioning.cattle.io",
        group: "provisioning.cattle.io",
        version: "v1",
        resource: "clusters",
        kind: "Cluster",
        operations: ALL,
        fills_in: true,
        only: "",
        optional: false,
    },
    Hook {
        name: "configs.rke-machine-config.cattle.io",
        group: "rke-machine-config.cattle.io",
        version: "v1",
        resource: "*",
        kind: "",
        operations: WRITES,
        fills_in: true,
        only: "",
        optional: false,
    },
    Hook {
        name: "machines.rke-machine.cattle.io",
        group: "rke-machine.cattle.io",
        version: "v1",
        resource: "*",
        kind: "",
        operations: WRITES,
        fills_in: false,
        only: "",
        optional: false,
    },
    Hook {
        name: "nodedrivers.management.cattle.io",
        group: "management.cattle.io",
        version: "v3",
        resource: "nodedrivers",
        kind: "NodeDriver",
        operations: ALL,
        fills_in: false,
        only: "",
        optional: false,
    },
    // A cluster must be able to write its Secrets without us.
    Hook {
        name: "secrets.rke.cattle.io",
        group: "",
        version: "v1",
        resource: "secrets",
        kind: "Secret",
        operations: WRITES,
        fills_in: true,
        only: "object.type in ['rke.cattle.io/machine-plan', 'provisioning.cattle.io/cloud-credential']",
        optional: true,
    },
];

/// The path of a webhook.
pub fn path(asked: Asked, hook: &Hook) -> String {
    let asked = match asked {
        Asked::Mutate => "mutate",
        Asked::Validate => "validate",
    };
    format!("/{asked}/{}", hook.name)
}

/// What is asked for under a path.
pub fn asked(path: &str) -> Option<(Asked, &'static Hook)> {
    let all = [Asked::Mutate, Asked::Validate];
    all.into_iter()
        .find_map(|asked| HOOKS.iter().find(|hook| self::path(asked, hook) == path).map(|one| (asked, one)))
}

/// What the API server says of whoever writes.
#[derive(Default, Deserialize)]
#[serde(default)]
struct UserInfo {
    username: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

/// Answers an AdmissionReview.
pub async fn admit(door: &Door, (asked, hook): (Asked, &Hook), review: &Value) -> Value {
    let request = &review["request"];
    let user = UserInfo::deserialize(&request["userInfo"]).unwrap_or_default();
    let asker = Asker { name: user.username, uid: user.uid, groups: user.groups, extra: user.extra };
    let text = |field: &str| request[field].as_str().unwrap_or_default();
    let there = |field: &str| Some(&request[field]).filter(|value| !value.is_null());
    let write = Write {
        operation: match text("operation") {
            "CREATE" => Operation::Create,
            "DELETE" => Operation::Delete,
            _ => Operation::Update,
        },
        group: hook.group,
        kind: match hook.kind {
            "" => request["kind"]["kind"].as_str().unwrap_or_default(),
            kind => kind,
        },
        subresource: text("subResource"),
        namespace: text("namespace"),
        name: text("name"),
        asker: &asker,
        old: there("oldObject"),
        dry_run: request["dryRun"] == true,
    };
    let mut response = json!({"uid": request["uid"], "allowed": true});
    let answer = match asked {
        Asked::Validate => door.judge(write, there("object")).await,
        Asked::Mutate if write.operation == Operation::Delete => Ok(Vec::new()),
        Asked::Mutate => fill_in(door, write, &request["object"], &mut response).await,
    };
    match answer {
        Ok(warnings) if warnings.is_empty() => {}
        Ok(warnings) => response["warnings"] = json!(warnings),
        Err(status) => {
            response["allowed"] = false.into();
            response["status"] = json!(status);
        }
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

async fn fill_in(door: &Door, write: Write<'_>, object: &Value, response: &mut Value) -> Answer {
    let mut after = object.clone();
    let warnings = door.fill_in(write, &mut after).await?;
    let patch = patch(object, &after);
    if !patch.is_empty() {
        let text = serde_json::to_vec(&patch).unwrap_or_default();
        response["patchType"] = "JSONPatch".into();
        response["patch"] = json!(k8s_openapi::ByteString(text));
    }
    Ok(warnings)
}

/// The JSON patch between two states of an object: its parts are replaced as wholes.
fn patch(before: &Value, after: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    for place in ["/spec", "/metadata/annotations", "/metadata/labels"] {
        let (was, is) = (before.pointer(place), after.pointer(place));
        if was != is {
            operations.push(match is {
                Some(is) => json!({"op": "add", "path": place, "value": is}),
                None => json!({"op": "remove", "path": place}),
            });
        }
    }
    operations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hook_has_paths_of_its_own() {
        let mut paths: Vec<String> = HOOKS.iter().map(|hook| path(Asked::Validate, hook)).collect();
        paths.extend(HOOKS.iter().map(|hook| path(Asked::Mutate, hook)));
        for one in &paths {
            assert!(asked(one).is_some(), "{one}");
        }
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), 2 * HOOKS.len());
        assert!(asked("/validate-cluster-x-k8s-io-v1beta2-machine").is_none());
    }

    #[test]
    fn patches_replace_parts() {
        let before = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}});
        let after = json!({"metadata": {"annotations": {"c": "d"}}, "spec": {"x": 1}});
        assert_eq!(
            patch(&before, &after),
            [
                json!({"op": "add", "path": "/metadata/annotations", "value": {"c": "d"}}),
                json!({"op": "remove", "path": "/metadata/labels"})
            ]
        );
        assert_eq!(patch(&before, &before), Vec::<Value>::new());
    }

    /// What needs nothing looked up is answered by a door without a client, and what does is put off.
    #[tokio::test]
    async fn reviews_are_answered() {
        let door = Door::default();
        let secrets = asked("/validate/secrets.rke.cattle.io").unwrap();
        let plan = |plan: &str| {
            let object = json!({"metadata": {"name": "p"}, "type": "rke.cattle.io/machine-plan", "data": {"plan": k8s_openapi::ByteString(plan.into())}});
            json!({"request": {"uid": "u", "operation": "UPDATE", "namespace": "n", "name": "p", "object": object}})
        };
        let good = admit(&door, secrets, &plan("{}")).await;
        assert_eq!((&good["response"]["uid"], &good["response"]["allowed"]), (&json!("u"), &json!(true)));
        let bad = admit(&door, secrets, &plan("not a plan")).await;
        assert_eq!(bad["response"]["allowed"], false);
        let message = bad["response"]["status"]["message"].as_str().unwrap();
        assert!(message.contains("data[plan]"), "{message}");

        let configs = asked("/mutate/configs.rke-machine-config.cattle.io").unwrap();
        let review = json!({"request": {"uid": "u", "operation": "CREATE", "userInfo": {"username": "bob"},
            "kind": {"kind": "ToyConfig"}, "object": {"metadata": {"name": "c"}}}});
        let made = admit(&door, configs, &review).await;
        let patch: k8s_openapi::ByteString =
            serde_json::from_value(made["response"]["patch"].clone()).unwrap();
        let patch: Value = serde_json::from_slice(&patch.0).unwrap();
        assert_eq!(patch[0]["value"], json!({"field.cattle.io/creatorId": "bob"}));

        // A machine that names a credential of all is put off until its writer can be asked about; what is the operator's is refused.
        let machines = asked("/validate/machines.rke-machine.cattle.io").unwrap();
        let machine = |kind: &str, spec: Value| {
            json!({"request": {"uid": "u", "operation": "CREATE", "namespace": "n", "name": "m", "kind": {"kind": kind},
                "userInfo": {"username": "bob"}, "object": {"metadata": {"name": "m"}, "spec": spec}}})
        };
        for (kind, spec, code) in [
            ("ToyMachine", json!({"common": {"cloudCredentialSecretName": "own"}}), Value::Null),
            (
                "ToyMachine",
                json!({"common": {"cloudCredentialSecretName": "cattle-global-data:cc"}}),
                json!(503),
            ),
            ("DockerMachine", json!({"privileged": true}), json!(403)),
        ] {
            let answer = admit(&door, machines, &machine(kind, spec)).await;
            assert_eq!(answer["response"]["status"]["code"], code, "{answer}");
        }
        let drivers = asked("/validate/nodedrivers.management.cattle.io").unwrap();
        let spec = json!({"active": true, "url": "https://evil/driver", "checksum": ""});
        let answer = admit(&door, drivers, &machine("NodeDriver", spec)).await;
        assert_eq!(answer["response"]["status"]["code"], 422, "{answer}");

        let clusters = asked("/validate/clusters.provisioning.cattle.io").unwrap();
        let object = json!({"apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
            "metadata": {"name": "prod", "namespace": "n"}, "spec": {"cloudCredentialSecretName": "cc"}});
        let review = json!({"request": {"uid": "u", "operation": "CREATE", "namespace": "n", "name": "prod", "object": object}});
        let early = admit(&door, clusters, &review).await;
        assert_eq!(early["response"]["status"]["code"], 503, "{early}");
    }
}
