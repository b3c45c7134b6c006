//! Which labels a host may give itself.
//!
//! A host's labels are copied to its Machine and its RKEBootstrap, where labels say which role a machine has, which set or cluster it belongs
//! to and what an apply owns. Those are the server's to write; so are the names that Kubernetes keeps for itself, but for the ones that a
//! kubelet may set on its own Node.

use std::collections::BTreeMap;

/// Domains whose labels, and those of the domains below, are the server's.
const OURS: [&str; 2] = ["cattle.io", "x-k8s.io"];
/// What every command of Rancher's sends.
const ALWAYS: &str = "cattle.io/os";
/// What the bookkeeping of Rancher's apply begins with.
const APPLY: &str = "objectset";
/// Domains that Kubernetes keeps for itself.
const KUBERNETES: [&str; 2] = ["kubernetes.io", "k8s.io"];
/// Domains in which a kubelet may set any label of its own Node.
const OF_KUBELETS: [&str; 2] = ["node.kubernetes.io", "kubelet.kubernetes.io"];
/// The other labels that it may set.
const KUBELETS: [&str; 10] = [
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];

/// Whether a domain is another one, or below it.
fn is_within(domain: &str, other: &str) -> bool {
    domain.strip_suffix(other).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn is_refused(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let within = |all: &[&str]| all.iter().any(|other| is_within(domain, other));
    if key == ALWAYS {
        return false;
    }
    key.starts_with(APPLY)
        || within(&OURS)
        || within(&KUBERNETES) && !within(&OF_KUBELETS) && !KUBELETS.contains(&key.as_str())
}

/// Labels that a host may not give itself, by name.
pub fn refused_labels(labels: &BTreeMap<String, String>) -> Vec<&str> {
    labels.keys().map(String::as_str).filter(|key| is_refused(key)).collect()
}

/// What is wrong with the labels of a host, for its log.
pub fn label_problem(labels: &BTreeMap<String, String>) -> Option<String> {
    let refused = refused_labels(labels);
    if !refused.is_empty() {
        let names = refused.join(", ");
        return Some(format!("{names}: Forbidden: the server sets these; leave them out of --label"));
    }
    labels.iter().find_map(|(key, value)| {
        let key_errors = kubeapi::name::qualified(key).into_iter();
        let wrong = key_errors.chain(kubeapi::name::label_value(value)).next()?;
        Some(format!("{key}={value}: Invalid value: {wrong}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_server_and_of_kubernetes_are_refused() {
        let refused = [
            "rke.cattle.io/etcd-role",
            "rke.cattle.io/control-plane-role",
            "rke.cattle.io/machine-id",
            "RKE.cattle.io/etcd-role",
            "cattle.io/anything",
            "cluster.x-k8s.io/cluster-name",
            "cluster.x-k8s.io/set-name",
            "x-k8s.io/a",
            "objectset.rio.cattle.io/hash",
            "objectset",
            "kubernetes.io/cluster-service",
            "node-role.kubernetes.io/control-plane",
            "node-restriction.kubernetes.io/a",
            "k8s.io/a",
            "foo.k8s.io/a",
        ];
        let allowed = [
            "cattle.io/os",
            "rack",
            "example.com/rack",
            "notcattle.io/a",
            "cattle.io.example.com/a",
            "kubernetes.io/hostname",
            "kubernetes.io/os",
            "topology.kubernetes.io/zone",
            "beta.kubernetes.io/instance-type",
            "failure-domain.beta.kubernetes.io/region",
            "node.kubernetes.io/instance-type",
            "kubelet.kubernetes.io/a",
            "herdsman.example.com/a",
        ];
        let all = refused.iter().chain(&allowed).map(|key| ((*key).to_owned(), String::new())).collect();
        let mut expected = refused.to_vec();
        expected.sort_unstable();
        assert_eq!(refused_labels(&all), expected);
        let told = label_problem(&all).unwrap();
        assert!(told.contains("rke.cattle.io/etcd-role") && told.contains("--label"), "{told}");
    }

    #[test]
    fn what_is_no_label_is_said_to_be_none() {
        let problem = |key: &str, value: &str| label_problem(&[(key.to_owned(), value.to_owned())].into());
        assert_eq!(problem("cattle.io/os", "linux"), None);
        assert_eq!(problem("rack", ""), None);
        assert!(problem("rack", "a b").unwrap().contains("rack=a b: Invalid value"));
        assert!(problem("a/b/c", "x").unwrap().contains("Invalid value"));
        assert!(problem("rack", &"x".repeat(64)).is_some());
    }
}
