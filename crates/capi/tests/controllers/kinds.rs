//! The kinds of a provider, in either contract.

use serde_json::{Value, json};

/// Which contract a provider keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    V1Beta1,
    V1Beta2,
    /// v1beta2, by a provider whose kinds are not there at first.
    Late,
}

impl Speaks {
    pub(crate) const ALL: [Speaks; 3] = [Speaks::V1Beta1, Speaks::V1Beta2, Speaks::Late];

    pub(crate) fn group(self) -> &'static str {
        match self {
            Speaks::V1Beta1 => "old.example.com",
            Speaks::V1Beta2 => "new.example.com",
            Speaks::Late => "late.example.com",
        }
    }

    pub(crate) fn is_there_from_the_start(self) -> bool {
        self != Speaks::Late
    }

    fn label(self) -> &'static str {
        match self {
            Speaks::V1Beta1 => "cluster.x-k8s.io/v1beta1",
            Speaks::V1Beta2 | Speaks::Late => "cluster.x-k8s.io/v1beta2",
        }
    }

    /// A status that says that something is done.
    pub(crate) fn status(self, old: &str, new: &str) -> Value {
        match self {
            Speaks::V1Beta1 => json!({old: true}),
            Speaks::V1Beta2 | Speaks::Late => json!({"initialization": {new: true}}),
        }
    }
}

pub(crate) const KINDS: [(&str, &str); 8] = [
    ("TestCluster", "testclusters"),
    ("TestMachine", "testmachines"),
    ("TestMachineTemplate", "testmachinetemplates"),
    ("TestConfig", "testconfigs"),
    ("TestConfigTemplate", "testconfigtemplates"),
    ("TestControlPlane", "testcontrolplanes"),
    ("TestRemediation", "testremediations"),
    ("TestRemediationTemplate", "testremediationtemplates"),
];

pub(crate) fn plural(kind: &str) -> &'static str {
    KINDS.iter().find(|(name, _)| *name == kind).unwrap().1
}

/// The CRDs of the provider. The API version has nothing to do with the contract.
pub(crate) fn definitions(speaks: Speaks) -> Vec<Value> {
    let definition = |(kind, plural): (&str, &str)| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{}", speaks.group()), "labels": {speaks.label(): "v1alpha1_v1", "clusterctl.cluster.x-k8s.io": ""}},
            "spec": {
                "group": speaks.group(), "scope": "Namespaced",
                "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
                    }}}
                }]
            }
        })
    };
    KINDS.map(definition).to_vec()
}
