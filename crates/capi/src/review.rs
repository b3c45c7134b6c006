//! Admission and conversion as webhooks are asked for them. No IO.

use api::conversion::{self, ApiVersions};
use kubeapi::{GroupKind, Status};
use serde_json::{Value, json};

use crate::admission;

/// What an admission webhook is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Fill in.
    Mutate,
    /// Judge.
    Validate,
}

/// The kinds that are filled in; all of [`admission::KINDS`] are judged.
pub const FILLED_IN: [&str; 4] = ["Machine", "MachineDeployment", "MachineHealthCheck", "MachineSet"];

/// The path of a webhook, as upstream spells it.
pub fn path(asked: Asked, kind: &str) -> String {
    let asked = match asked {
        Asked::Mutate => "mutate",
        Asked::Validate => "validate",
    };
    format!("/{asked}-cluster-x-k8s-io-v1beta2-{}", kind.to_lowercase())
}

/// What is asked for under a path.
pub fn asked(path: &str) -> Option<Asked> {
    [Asked::Mutate, Asked::Validate]
        .into_iter()
        .find(|asked| admission::KINDS.iter().any(|kind| self::path(*asked, kind) == path))
}

/// Answers an AdmissionReview.
pub fn admit(asked: Asked, review: &Value) -> Value {
    let request = &review["request"];
    let kind = request["kind"]["kind"].as_str().unwrap_or_default();
    let old = Some(&request["oldObject"]).filter(|old| !old.is_null());
    let mut response = json!({"uid": request["uid"], "allowed": true});
    match asked {
        Asked::Mutate => {
            let mut object = request["object"].clone();
            admission::fill_in(kind, &mut object, old);
            let patch = patch(&request["object"], &object);
            if !patch.is_empty() {
                let text = serde_json::to_vec(&patch).unwrap_or_default();
                response["patchType"] = "JSONPatch".into();
                response["patch"] = json!(k8s_openapi::ByteString(text));
            }
        }
        Asked::Validate => {
            let problems = admission::problems(kind, &request["object"], old);
            if !problems.is_empty() {
                let kind = GroupKind { group: admission::GROUP.into(), kind: kind.into() };
                let name = request["name"].as_str().unwrap_or_default();
                response["allowed"] = false.into();
                response["status"] = json!(Status::invalid(&kind, name, &problems));
            }
        }
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

/// The JSON patch between two states of an object: its parts are replaced as wholes.
fn patch(before: &Value, after: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    if before["spec"] != after["spec"] {
        operations.push(json!({"op": "add", "path": "/spec", "value": after["spec"]}));
    }
    if before["metadata"]["labels"] != after["metadata"]["labels"] {
        operations
            .push(json!({"op": "add", "path": "/metadata/labels", "value": after["metadata"]["labels"]}));
    }
    operations
}

/// Answers a ConversionReview.
pub fn convert(review: &Value, versions: &dyn ApiVersions) -> Value {
    let request = &review["request"];
    let to = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let objects = request["objects"].as_array().cloned().unwrap_or_default();
    let converted: Result<Vec<Value>, _> =
        objects.into_iter().map(|object| conversion::convert(object, to, versions)).collect();
    let response = match converted {
        Ok(objects) => {
            json!({"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}})
        }
        Err(error) => {
            let result = json!({"status": "Failure", "message": error.to_string()});
            json!({"uid": request["uid"], "convertedObjects": [], "result": result})
        }
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_upstreams() {
        assert_eq!(path(Asked::Mutate, "MachineSet"), "/mutate-cluster-x-k8s-io-v1beta2-machineset");
        assert_eq!(asked("/validate-cluster-x-k8s-io-v1beta2-cluster"), Some(Asked::Validate));
        assert_eq!(asked("/validate-something"), None);
    }

    #[test]
    fn a_review_is_answered() {
        let object = json!({"metadata": {"name": "m"}, "spec": {"clusterName": "c", "version": "1.34.1", "bootstrap": {}}});
        let review =
            json!({"request": {"uid": "u", "kind": {"kind": "Machine"}, "name": "m", "object": object}});
        let answer = admit(Asked::Mutate, &review);
        assert_eq!((&answer["response"]["uid"], &answer["response"]["allowed"]), (&json!("u"), &json!(true)));
        let patch: k8s_openapi::ByteString =
            serde_json::from_value(answer["response"]["patch"].clone()).unwrap();
        let patch: Value = serde_json::from_slice(&patch.0).unwrap();
        assert_eq!(patch[0]["value"]["version"], "v1.34.1");
        assert_eq!(
            patch[1],
            json!({"op": "add", "path": "/metadata/labels", "value": {"cluster.x-k8s.io/cluster-name": "c"}})
        );
        let answer = admit(Asked::Validate, &review);
        assert_eq!(answer["response"]["allowed"], false);
        let message = answer["response"]["status"]["message"].as_str().unwrap();
        assert!(message.contains("spec.bootstrap.data"), "{message}");
    }

    struct Fixed;

    impl ApiVersions for Fixed {
        fn api_version(&self, group: &str, _: &str) -> Result<String, String> {
            Ok(format!("{group}/v1"))
        }
    }

    #[test]
    fn a_conversion_is_answered() {
        let machine = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": "m", "namespace": "n"},
            "spec": {"clusterName": "c", "bootstrap": {"dataSecretName": "s"}, "infrastructureRef": {"apiGroup": "i", "kind": "F", "name": "x"}}});
        let review = |objects: Value| json!({"request": {"uid": "u", "desiredAPIVersion": "cluster.x-k8s.io/v1beta1", "objects": objects}});
        let answer = convert(&review(json!([machine])), &Fixed);
        assert_eq!(
            answer["response"]["convertedObjects"][0]["spec"]["infrastructureRef"]["apiVersion"],
            "i/v1"
        );
        let answer = convert(&review(json!([{"apiVersion": "other/v1", "kind": "X"}])), &Fixed);
        assert_eq!(answer["response"]["result"]["status"], "Failure");
    }
}
