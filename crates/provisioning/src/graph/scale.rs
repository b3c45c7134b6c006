//! MachineDeployments that somebody scaled.

use api::catalogue::labels;
use api::provisioning::v1::Cluster;
use serde_json::Value;

use super::applied::{self, Belonging, Owner};
use crate::Object;

/// The pool of a MachineDeployment that somebody else scaled, by its place, and the size that it takes over: `kubectl scale` stays, instead
/// of being undone.
///
/// A pool whose own quantity was changed since it was last applied keeps that: who writes the cluster comes first.
pub fn adopted(owner: &Owner, cluster: &Cluster, deployment: &Object) -> Option<(usize, i32)> {
    let template = &deployment.document()["spec"]["template"]["metadata"]["labels"];
    let label = |key: &str| deployment.label(key).or_else(|| template.get(key)?.as_str());
    let pool = label(labels::MACHINE_POOL_NAME)?;
    let pools = &cluster.spec.rke_config.as_ref()?.machine_pools;
    let index = pools.iter().position(|one| one.name == pool)?;
    let (wanted, live) = (pools[index].quantity?, replicas(deployment.document())?);
    if live == wanted || owner.belonging(deployment) != Belonging::Ours {
        return None;
    }
    let last = replicas(&applied::last(deployment)?)?;
    (last == wanted).then_some((index, live))
}

fn replicas(deployment: &Value) -> Option<i32> {
    deployment["spec"]["replicas"].as_i64()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::graph::applied::CLUSTER_SET;
    use crate::object::Id;

    fn owner(name: &str) -> Owner {
        let (api_version, kind) = ("provisioning.cattle.io/v1".into(), "Cluster".into());
        Owner {
            set: CLUSTER_SET,
            object: Id { api_version, kind, namespace: "fleet-default".into(), name: name.into() },
        }
    }

    fn cluster(quantity: Option<i32>) -> Cluster {
        let pools = json!([{"name": "servers", "quantity": 1}, {"name": "workers", "quantity": quantity}]);
        serde_json::from_value(
            json!({"metadata": {"name": "prod"}, "spec": {"rkeConfig": {"machinePools": pools}}}),
        )
        .unwrap()
    }

    fn deployment(pool: &str, last: Option<i32>, live: Option<i32>) -> Object {
        let of = |replicas: Option<i32>| {
            let labels = json!({"rke.cattle.io/rke-machine-pool-name": pool});
            json!({"kind": "MachineDeployment", "metadata": {"name": "prod-workers", "labels": labels}, "spec": {"replicas": replicas}})
        };
        let mut document = owner("prod").stamp(&Object::from_document(of(last)), None).document().clone();
        document["spec"]["replicas"] = json!(live);
        Object::from_document(document)
    }

    #[test]
    fn a_size_that_somebody_set_is_taken_over() {
        let take = |quantity, last, live| {
            adopted(&owner("prod"), &cluster(quantity), &deployment("workers", last, live))
        };
        assert_eq!(take(Some(2), Some(2), Some(5)), Some((1, 5)));
        assert_eq!(take(Some(2), Some(2), Some(0)), Some((1, 0)));
        assert_eq!(take(Some(2), Some(2), Some(2)), None, "as it should be");
        assert_eq!(take(Some(3), Some(2), Some(2)), None, "the cluster was changed");
        assert_eq!(take(Some(3), Some(2), Some(5)), None, "both were: the cluster counts");
        assert_eq!(take(None, Some(2), Some(5)), None, "nobody says how many: it stays as it is");
        assert_eq!(take(Some(2), None, Some(5)), None, "it never had a size of ours");
        let other = deployment("other", Some(2), Some(5));
        assert_eq!(adopted(&owner("prod"), &cluster(Some(2)), &other), None, "no pool of that name");
        let workers = deployment("workers", Some(2), Some(5));
        assert_eq!(adopted(&owner("other"), &cluster(Some(2)), &workers), None, "made from another cluster");
    }
}
