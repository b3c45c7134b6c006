//! Whom a look is about, for the log: on every line stands which cluster, and which machine.

use api::catalogue::labels;

use crate::object::Object;

/// Kinds whose objects are called as their cluster.
const CALLED_AS_CLUSTER: [&str; 3] = ["Cluster", "RKECluster", "RKEControlPlane"];

/// A cluster, and a machine of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The cluster's name.
    pub cluster: Option<String>,
    /// The Machine's name.
    pub machine: Option<String>,
}

impl Subject {
    /// Whom an object is about.
    pub fn of(object: &Object) -> Self {
        let document = object.document();
        let kind = document["kind"].as_str().unwrap_or_default();
        let labelled = |label: &str| object.label(label);
        let cluster = labelled(labels::CAPI_CLUSTER_NAME)
            .or_else(|| labelled(labels::CLUSTER_NAME))
            .or_else(|| document["spec"]["clusterName"].as_str())
            .or_else(|| CALLED_AS_CLUSTER.contains(&kind).then(|| object.name()));
        let owner = || object.owners().iter().find(|owner| owner.kind == "Machine");
        let machine = match kind {
            "Machine" => Some(object.name()),
            _ => labelled(labels::MACHINE_NAME).or_else(|| owner().map(|owner| owner.name.as_str())),
        };
        let some = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        Subject { cluster: some(cluster), machine: some(machine) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn subject(document: Value) -> (Option<String>, Option<String>) {
        let Subject { cluster, machine } = Subject::of(&Object::from_document(document).unwrap());
        (cluster, machine)
    }

    #[test]
    fn labels_names_and_owners_tell() {
        let labelled = json!({"kind": "Secret", "metadata": {"name": "x", "labels": {
            labels::CAPI_CLUSTER_NAME: "demo", labels::MACHINE_NAME: "m"}}});
        assert_eq!(subject(labelled), (Some("demo".into()), Some("m".into())));
        let machine = json!({"kind": "Machine", "metadata": {"name": "m"}, "spec": {"clusterName": "demo"}});
        assert_eq!(subject(machine), (Some("demo".into()), Some("m".into())));
        let owned = json!({"kind": "RKEBootstrap", "metadata": {"name": "b", "ownerReferences": [
            {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "m", "uid": "u"}]}});
        assert_eq!(subject(owned), (None, Some("m".into())));
        assert_eq!(subject(json!({"kind": "Cluster", "metadata": {"name": "c"}})), (Some("c".into()), None));
        assert_eq!(subject(json!({"kind": "Setting", "metadata": {"name": "s"}})), (None, None));
    }
}
