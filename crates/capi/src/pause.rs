//! Objects to which nothing is done.

use api::capi::v1beta2::Cluster;
use api::catalogue::{annotations, conditions as types, reasons};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::conditions::Finding;

/// Whether an object is paused, as its condition says it. The object's own cluster may be gone.
pub fn paused(kind: &str, meta: &ObjectMeta, cluster: Option<&Cluster>) -> Finding {
    let mut why = Vec::new();
    if cluster.is_some_and(|cluster| cluster.spec.paused == Some(true)) {
        why.push("Cluster spec.paused is set to true".to_owned());
    }
    if meta.annotations.as_ref().is_some_and(|all| all.contains_key(annotations::PAUSED)) {
        why.push(format!("{kind} has the {} annotation", annotations::PAUSED));
    }
    match why.is_empty() {
        true => Finding::no(types::PAUSED, reasons::NOT_PAUSED),
        false => Finding::yes(types::PAUSED, reasons::PAUSED).saying(why.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_cluster_or_the_object_pauses() {
        let cluster: Cluster = serde_json::from_value(json!({"spec": {"paused": true}})).unwrap();
        let marked: ObjectMeta =
            serde_json::from_value(json!({"annotations": {annotations::PAUSED: ""}})).unwrap();
        let plain = ObjectMeta::default();
        assert!(!paused("Machine", &plain, Some(&Cluster::default())).is_true());
        assert!(!paused("Machine", &plain, None).is_true());
        let both = paused("Machine", &marked, Some(&cluster));
        assert_eq!(
            both.message,
            "Cluster spec.paused is set to true, Machine has the cluster.x-k8s.io/paused annotation"
        );
        assert!(both.is_true() && paused("Machine", &marked, None).is_true());
    }
}
