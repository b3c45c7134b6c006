//! Which Machine a plan Secret is for, and what that Machine is.
//!
//! A machine's agent may update its plan Secret as a whole. Its labels, annotations and owners are therefore nobody's word: the Machine is
//! found from the Secret's name, and the RKEBootstrap that tells its roles is the one that it refers to and owns, by UID.

use std::sync::Arc;

use api::capi::v1beta2::Machine;
use api::rke::v1::RKEBootstrap;
use api::{Kind as _, catalogue::labels};
use kit::{Cache, Key, KindId, Object, index, owners};

/// A Machine with its RKEBootstrap.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) machine: Arc<Object>,
    pub(crate) bootstrap: Arc<Object>,
}

impl Planned {
    /// The Machine's cluster.
    pub(crate) fn cluster(&self) -> &str {
        self.machine.document()["spec"]["clusterName"].as_str().unwrap_or_default()
    }

    /// Whether it runs a server of the distribution.
    pub(crate) fn is_server(&self) -> bool {
        is_server(&self.bootstrap)
    }
}

/// Whether an RKEBootstrap is that of a server.
pub(crate) fn is_server(bootstrap: &Object) -> bool {
    is_etcd(bootstrap) || bootstrap.label(labels::CONTROL_PLANE_ROLE) == Some("true")
}

/// Whether an RKEBootstrap is that of an etcd member.
pub(crate) fn is_etcd(bootstrap: &Object) -> bool {
    bootstrap.label(labels::ETCD_ROLE) == Some("true")
}

/// The name of the RKEBootstrap that a Machine refers to; none if its bootstrap object is not ours.
pub(crate) fn bootstrap_name(machine: &Object) -> Option<&str> {
    let reference = machine.document().pointer("/spec/bootstrap/configRef")?;
    let ours = reference["kind"] == RKEBootstrap::KIND && reference["apiGroup"] == RKEBootstrap::GROUP;
    reference["name"].as_str().filter(|name| ours && !name.is_empty())
}

/// The RKEBootstrap that a Machine refers to and owns.
pub(crate) fn bootstrap_of(
    machine: &Object,
    find: impl FnOnce(&Key) -> Option<Arc<Object>>,
) -> Option<Arc<Object>> {
    let found = find(&Key::new(machine.namespace(), bootstrap_name(machine)?))?;
    owners::is(&found, &KindId::of::<Machine>(), machine).then_some(found)
}

/// The Machine that a plan Secret is for.
pub(crate) fn of_plan(machines: &Cache, bootstraps: &Cache, plan: &Key) -> Option<Planned> {
    let referring = machines.filed(&index::plan(&plan.namespace, &plan.name));
    referring.into_iter().find_map(|machine| {
        let bootstrap = bootstrap_of(&machine, |key| bootstraps.get(key))?;
        Some(Planned { machine, bootstrap })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(document: Value) -> Arc<Object> {
        Arc::new(Object::from_document(document).unwrap())
    }

    #[test]
    fn a_machine_has_the_bootstrap_object_that_it_owns() {
        let machine = |group: &str, kind: &str| {
            let reference = json!({"apiGroup": group, "kind": kind, "name": "b"});
            object(
                json!({"metadata": {"namespace": "n", "name": "m", "uid": "u"}, "spec": {"bootstrap": {"configRef": reference}}}),
            )
        };
        let bootstrap = |owner: Value| {
            object(json!({"metadata": {"namespace": "n", "name": "b", "ownerReferences": [owner]}}))
        };
        let owner = |version: &str, name: &str, uid: &str| json!({"apiVersion": version, "kind": "Machine", "name": name, "uid": uid});
        let ours = machine("rke.cattle.io", "RKEBootstrap");
        let good = bootstrap(owner("cluster.x-k8s.io/v1beta2", "m", "u"));
        assert!(bootstrap_of(&ours, |_| Some(good.clone())).is_some());
        assert!(bootstrap_of(&ours, |_| None).is_none());
        for (what, machine, bootstrap) in [
            (
                "a Machine that was made anew",
                &ours,
                bootstrap(owner("cluster.x-k8s.io/v1beta2", "m", "other")),
            ),
            ("another Machine's", &ours, bootstrap(owner("cluster.x-k8s.io/v1beta2", "other", "u"))),
            ("a kind of that name", &ours, bootstrap(owner("evil.io/v1", "m", "u"))),
            ("another provider's", &machine("other.io", "RKEBootstrap"), good.clone()),
            ("another kind", &machine("rke.cattle.io", "KubeadmConfig"), good),
        ] {
            assert!(bootstrap_of(machine, |_| Some(bootstrap)).is_none(), "{what}");
        }
    }
}
