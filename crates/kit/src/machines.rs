//! Which Machine stands behind an account or a plan Secret.
//!
//! A machine's agent may update its plan Secret as a whole, and a label says what its writer likes. A Machine is therefore found by what only the
//! server writes: from an account to the RKEBootstrap that controls it, from there to the Machine that owns that, and back by the Machine's own
//! reference, each by UID; from a plan Secret by its name, which follows from the RKEBootstrap's.

use std::sync::Arc;

use api::Kind as _;
use api::capi::v1beta2::Machine;
use api::catalogue::labels;
use api::names;
use api::rke::v1::RKEBootstrap;

use crate::{Cache, Key, KindId, Object, index, owners};

/// A Machine with its RKEBootstrap.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The Machine.
    pub machine: Arc<Object>,
    /// The RKEBootstrap that it refers to and owns.
    pub bootstrap: Arc<Object>,
}

impl Planned {
    /// The Machine's cluster.
    pub fn cluster(&self) -> &str {
        cluster(&self.machine)
    }

    /// Whether it runs a server of the distribution.
    pub fn is_server(&self) -> bool {
        is_server(&self.bootstrap)
    }
}

/// The name of a Machine's cluster.
pub fn cluster(machine: &Object) -> &str {
    machine.document()["spec"]["clusterName"].as_str().unwrap_or_default()
}

/// Whether an RKEBootstrap is that of a server.
pub fn is_server(bootstrap: &Object) -> bool {
    is_etcd(bootstrap) || bootstrap.label(labels::CONTROL_PLANE_ROLE) == Some("true")
}

/// Whether an RKEBootstrap is that of an etcd member.
pub fn is_etcd(bootstrap: &Object) -> bool {
    bootstrap.label(labels::ETCD_ROLE) == Some("true")
}

/// The name of the RKEBootstrap that a Machine refers to; none if its bootstrap object is not ours.
pub fn bootstrap_name(machine: &Object) -> Option<&str> {
    let reference = machine.document().pointer("/spec/bootstrap/configRef")?;
    let ours = reference["kind"] == RKEBootstrap::KIND && reference["apiGroup"] == RKEBootstrap::GROUP;
    reference["name"].as_str().filter(|name| ours && !name.is_empty())
}

/// The RKEBootstrap that a Machine refers to and owns.
pub fn bootstrap_of(machine: &Object, find: impl FnOnce(&Key) -> Option<Arc<Object>>) -> Option<Arc<Object>> {
    let found = find(&Key::new(machine.namespace(), bootstrap_name(machine)?))?;
    owners::is(&found, &KindId::of::<Machine>(), machine).then_some(found)
}

/// The Machine that a plan Secret is for.
pub fn of_plan(machines: &Cache, bootstraps: &Cache, plan: &Key) -> Option<Planned> {
    let referring = machines.filed(&index::plan(&plan.namespace, &plan.name));
    referring.into_iter().find_map(|machine| {
        let bootstrap = bootstrap_of(&machine, |key| bootstraps.get(key))?;
        Some(Planned { machine, bootstrap })
    })
}

/// The Machine that an account was made for: `named` says what such an account of an RKEBootstrap is called.
pub fn of_account(
    machines: &Cache,
    bootstraps: &Cache,
    account: &Object,
    named: fn(names::Bootstrap<'_>) -> String,
) -> Option<Planned> {
    let find = |key: &Key| bootstraps.get(key);
    planned(account, find, |key| machines.get(key), named)
}

fn planned(
    account: &Object,
    bootstraps: impl Fn(&Key) -> Option<Arc<Object>>,
    machines: impl Fn(&Key) -> Option<Arc<Object>>,
    named: fn(names::Bootstrap<'_>) -> String,
) -> Option<Planned> {
    let owner = owners::controller(account.owners())?;
    let bootstrap = bootstraps(&Key::new(account.namespace(), &owner.name))?;
    let made_for = !account.deleting()
        && owners::is(account, &KindId::of::<RKEBootstrap>(), &bootstrap)
        && owner.uid == bootstrap.uid()
        && account.name() == named(names::Bootstrap(bootstrap.name()));
    let owner = owners::of_kind(bootstrap.owners(), &KindId::of::<Machine>()).filter(|_| made_for)?;
    let machine = machines(&Key::new(bootstrap.namespace(), &owner.name))?;
    // The Machine has to mean this RKEBootstrap, and to be the one that owns it.
    let bootstrap = bootstrap_of(&machine, |key| (*key == bootstrap.key()).then_some(bootstrap))?;
    Some(Planned { machine, bootstrap })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(document: Value) -> Arc<Object> {
        Arc::new(Object::from_document(document).unwrap())
    }

    fn owner(version: &str, kind: &str, name: &str, uid: &str) -> Value {
        json!({"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": true})
    }

    fn machine(name: &str, uid: &str, group: &str, kind: &str) -> Arc<Object> {
        let reference = json!({"apiGroup": group, "kind": kind, "name": "b"});
        object(
            json!({"metadata": {"namespace": "n", "name": name, "uid": uid}, "spec": {"bootstrap": {"configRef": reference}}}),
        )
    }

    fn bootstrap(owner: Value) -> Arc<Object> {
        object(json!({"metadata": {"namespace": "n", "name": "b", "uid": "ub", "ownerReferences": [owner]}}))
    }

    #[test]
    fn a_machine_has_the_bootstrap_object_that_it_owns() {
        let ours = machine("m", "u", "rke.cattle.io", "RKEBootstrap");
        let capi = "cluster.x-k8s.io/v1beta2";
        let good = bootstrap(owner(capi, "Machine", "m", "u"));
        assert!(bootstrap_of(&ours, |_| Some(good.clone())).is_some());
        assert!(bootstrap_of(&ours, |_| None).is_none());
        for (what, machine, bootstrap) in [
            ("a Machine that was made anew", ours.clone(), bootstrap(owner(capi, "Machine", "m", "other"))),
            ("another Machine's", ours.clone(), bootstrap(owner(capi, "Machine", "other", "u"))),
            ("a kind of that name", ours, bootstrap(owner("evil.io/v1", "Machine", "m", "u"))),
            ("another provider's", machine("m", "u", "other.io", "RKEBootstrap"), good.clone()),
            ("another kind", machine("m", "u", "rke.cattle.io", "KubeadmConfig"), good),
        ] {
            assert!(bootstrap_of(&machine, |_| Some(bootstrap)).is_none(), "{what}");
        }
    }

    #[test]
    fn an_account_is_that_of_one_machine() {
        let account = |name: &str, owner: Value, gone: bool| {
            let mut metadata = json!({"namespace": "n", "name": name, "ownerReferences": [owner]});
            if gone {
                metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
            // What labels say is nobody's word.
            metadata["labels"] = json!({labels::MACHINE_NAME: "other", labels::SERVICE_ACCOUNT_ROLE: "plan"});
            object(json!({"metadata": metadata}))
        };
        let of = |account: &Object, bootstrap: &Arc<Object>, machine: &Arc<Object>| {
            let find = |one: &Arc<Object>, key: &Key| (one.key() == *key).then(|| one.clone());
            let found =
                planned(account, |key| find(bootstrap, key), |key| find(machine, key), names::plan_secret);
            found.map(|found| found.machine.name().to_owned())
        };
        let rke = "rke.cattle.io/v1";
        let by = |uid: &str| owner(rke, "RKEBootstrap", "b", uid);
        let owned = bootstrap(owner("cluster.x-k8s.io/v1beta2", "Machine", "m", "u"));
        let ours = machine("m", "u", "rke.cattle.io", "RKEBootstrap");
        assert_eq!(of(&account("b-machine-plan", by("ub"), false), &owned, &ours).as_deref(), Some("m"));
        let cases = [
            ("it goes", account("b-machine-plan", by("ub"), true), &ours),
            ("another name", account("b2-machine-plan", by("ub"), false), &ours),
            ("the machine's other account", account("b-machine-bootstrap", by("ub"), false), &ours),
            ("an RKEBootstrap that was made anew", account("b-machine-plan", by("old"), false), &ours),
            (
                "another kind",
                account("b-machine-plan", owner("evil.io/v1", "RKEBootstrap", "b", "ub"), false),
                &ours,
            ),
        ];
        for (what, account, machine) in cases {
            assert_eq!(of(&account, &owned, machine), None, "{what}");
        }
        let account = account("b-machine-plan", by("ub"), false);
        assert_eq!(of(&account, &owned, &machine("m", "new", "rke.cattle.io", "RKEBootstrap")), None);
        let elsewhere = json!({"apiGroup": "rke.cattle.io", "kind": "RKEBootstrap", "name": "c"});
        let elsewhere = object(
            json!({"metadata": {"namespace": "n", "name": "m", "uid": "u"}, "spec": {"bootstrap": {"configRef": elsewhere}}}),
        );
        assert_eq!(of(&account, &owned, &elsewhere), None, "the Machine means another RKEBootstrap");
    }
}
