use api::capi::v1beta2::values::drain_behavior;
use api::capi::v1beta2::{MachineDrainRule, MachineSelector, PodSelector};
use api::catalogue::labels;
use k8s_openapi::api::core::v1::Pod;

use super::{Error, Labels, Surroundings, matches, pod_name};

/// The annotation of pods that the kubelet runs by itself.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// How long after its deletion a pod on a lost node counts as gone.
const LOST_AFTER_SECONDS: i64 = 1;

/// What is done with a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Nothing, and nobody waits for it.
    Skip,
    /// It is evicted, those with lower numbers first.
    Evict {
        /// Its turn.
        order: i32,
        /// What is lost with it.
        warning: Option<&'static str>,
    },
    /// Nothing, but the drain waits until it has finished.
    WaitCompleted,
}

/// What is done with all pods of a node.
#[derive(Clone, Debug, Default)]
pub struct Selection<'a> {
    /// To be evicted now.
    pub evict: Vec<&'a Pod>,
    /// On their way out.
    pub terminating: Vec<&'a Pod>,
    /// To be evicted once those are gone.
    pub later: Vec<&'a Pod>,
    /// To be waited for.
    pub waiting: Vec<&'a Pod>,
    /// Left alone: their volumes do not matter either.
    pub skipped: Vec<&'a Pod>,
    /// What is lost with pods that are evicted now.
    pub warnings: Vec<String>,
}

impl Selection<'_> {
    /// Whether nothing is left to do or to wait for.
    pub fn done(&self) -> bool {
        self.evict.is_empty()
            && self.terminating.is_empty()
            && self.later.is_empty()
            && self.waiting.is_empty()
    }
}

/// Sorts the pods of a node by what is done with them. Only those whose turn is the lowest one outstanding go now.
///
/// # Errors
/// If a pod's namespace or a rule cannot be read.
pub fn select<'a>(pods: &'a [Pod], around: &Surroundings<'_>) -> Result<Selection<'a>, Error> {
    let mut sorted: Vec<&Pod> = pods.iter().collect();
    sorted.sort_by_cached_key(|pod| pod_name(pod));
    let mut selection = Selection::default();
    let mut turns: Vec<(i32, &Pod, Option<&'static str>)> = Vec::new();
    for pod in sorted {
        match treat(pod, around)? {
            Treatment::Skip => selection.skipped.push(pod),
            Treatment::WaitCompleted => selection.waiting.push(pod),
            Treatment::Evict { order, warning } => turns.push((order, pod, warning)),
        }
    }
    let lowest = turns.iter().map(|(order, ..)| *order).min();
    for (order, pod, warning) in turns {
        if Some(order) != lowest {
            selection.later.push(pod);
        } else if pod.metadata.deletion_timestamp.is_some() {
            selection.terminating.push(pod);
        } else {
            selection.evict.push(pod);
            selection.warnings.extend(warning.map(|warning| format!("Pod {}: {warning}", pod_name(pod))));
        }
    }
    Ok(selection)
}

/// What is done with a pod.
///
/// # Errors
/// If its namespace or a rule cannot be read.
pub fn treat(pod: &Pod, around: &Surroundings<'_>) -> Result<Treatment, Error> {
    if lost(pod, around) {
        return Ok(Treatment::Skip);
    }
    if let Some(name) = controller(pod, "DaemonSet") {
        let key = (pod.metadata.namespace.clone().unwrap_or_default(), name.to_owned());
        // A DaemonSet would put the pod back at once.
        if !finished(pod) && around.daemon_sets.contains(&key) {
            return Ok(Treatment::Skip);
        }
    }
    if pod.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(MIRROR)) {
        return Ok(Treatment::Skip);
    }
    let labelled = pod.metadata.labels.as_ref().and_then(|all| all.get(labels::CAPI_DRAIN));
    match labelled.map(|value| value.to_ascii_lowercase()).as_deref() {
        Some("skip") => return Ok(Treatment::Skip),
        Some("wait-completed") => return Ok(wait(pod)),
        _ => {}
    }
    let warning = warning(pod);
    let Some(rule) = rule_for(pod, around)? else { return Ok(Treatment::Evict { order: 0, warning }) };
    Ok(match rule.spec.drain.behavior.as_str() {
        drain_behavior::SKIP => Treatment::Skip,
        drain_behavior::WAIT_COMPLETED => wait(pod),
        _ => Treatment::Evict { order: rule.spec.drain.order.unwrap_or_default(), warning },
    })
}

/// A pod that has finished is no longer waited for.
fn wait(pod: &Pod) -> Treatment {
    if finished(pod) { Treatment::Skip } else { Treatment::WaitCompleted }
}

fn lost(pod: &Pod, around: &Surroundings<'_>) -> bool {
    let deleted = pod.metadata.deletion_timestamp.as_ref();
    around.unreachable
        && deleted.is_some_and(|time| around.now.duration_since(time.0).as_secs() > LOST_AFTER_SECONDS)
}

fn finished(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn controller<'a>(pod: &'a Pod, kind: &str) -> Option<&'a str> {
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    owners
        .iter()
        .find(|owner| owner.controller == Some(true) && owner.kind == kind)
        .map(|owner| owner.name.as_str())
}

fn warning(pod: &Pod) -> Option<&'static str> {
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    if !owners.iter().any(|owner| owner.controller == Some(true)) {
        return Some("nothing brings it back");
    }
    volumes.iter().any(|volume| volume.empty_dir.is_some()).then_some("its emptyDir volumes are lost")
}

/// The first rule by name that fits.
fn rule_for<'a>(pod: &Pod, around: &Surroundings<'a>) -> Result<Option<&'a MachineDrainRule>, Error> {
    let mut rules = around.rules.clone();
    rules.sort_by_key(|rule| rule.metadata.name.clone());
    for rule in rules {
        if fits_machine(rule, around)? && fits_pod(rule, pod, around)? {
            return Ok(Some(rule));
        }
    }
    Ok(None)
}

fn fits_machine(rule: &MachineDrainRule, around: &Surroundings<'_>) -> Result<bool, Error> {
    for (index, MachineSelector { selector, cluster_selector }) in rule.spec.machines.iter().enumerate() {
        let at = |field: &str| format!("spec.machines[{index}].{field}");
        if fits(rule, &at("selector"), selector.as_ref(), around.machine)?
            && fits(rule, &at("clusterSelector"), cluster_selector.as_ref(), around.cluster)?
        {
            return Ok(true);
        }
    }
    Ok(rule.spec.machines.is_empty())
}

fn fits_pod(rule: &MachineDrainRule, pod: &Pod, around: &Surroundings<'_>) -> Result<bool, Error> {
    if rule.spec.pods.is_empty() {
        return Ok(true);
    }
    let none = Labels::new();
    let own = pod.metadata.labels.as_ref().unwrap_or(&none);
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    for (index, PodSelector { selector, namespace_selector }) in rule.spec.pods.iter().enumerate() {
        let at = |field: &str| format!("spec.pods[{index}].{field}");
        if !fits(rule, &at("selector"), selector.as_ref(), own)? {
            continue;
        }
        if namespace_selector.is_none() {
            return Ok(true);
        }
        let labels = around
            .namespaces
            .get(namespace)
            .ok_or_else(|| Error::NoNamespace { pod: pod_name(pod), namespace: namespace.into() })?;
        if fits(rule, &at("namespaceSelector"), namespace_selector.as_ref(), labels)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn fits(
    rule: &MachineDrainRule,
    path: &str,
    selector: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector>,
    labels: &Labels,
) -> Result<bool, Error> {
    matches(selector, labels).map_err(|problem| Error::Selector {
        rule: rule.metadata.name.clone().unwrap_or_default(),
        path: path.into(),
        problem,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, change: &Value) -> Pod {
        let mut document = json!({
            "metadata": {"name": name, "namespace": "apps", "labels": {"app": name},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true}]},
            "status": {"phase": "Running"}
        });
        for (key, value) in change.as_object().unwrap() {
            match key.split_once('.') {
                Some((parent, field)) => document[parent][field] = value.clone(),
                None => document[key] = value.clone(),
            }
        }
        serde_json::from_value(document).unwrap()
    }

    fn rule(name: &str, spec: Value) -> MachineDrainRule {
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
    }

    struct World {
        rules: Vec<MachineDrainRule>,
        machine: Labels,
        namespaces: BTreeMap<String, Labels>,
        daemon_sets: BTreeSet<(String, String)>,
        unreachable: bool,
    }

    impl World {
        fn new(rules: Vec<MachineDrainRule>) -> Self {
            World {
                rules,
                machine: Labels::from([("pool".into(), "gpu".into())]),
                namespaces: BTreeMap::from([("apps".into(), Labels::from([("team".into(), "a".into())]))]),
                daemon_sets: BTreeSet::from([("apps".into(), "d".into())]),
                unreachable: false,
            }
        }

        fn around(&self) -> Surroundings<'_> {
            Surroundings {
                rules: self.rules.iter().collect(),
                machine: &self.machine,
                cluster: &self.machine,
                namespaces: &self.namespaces,
                daemon_sets: &self.daemon_sets,
                unreachable: self.unreachable,
                now: "2026-01-01T01:00:00Z".parse().unwrap(),
            }
        }
    }

    fn daemon(name: &str) -> Value {
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": "u", "controller": true}])
    }

    #[test]
    fn pods_are_treated_by_what_they_are() {
        let world = World::new(vec![]);
        let evict = |warning| Treatment::Evict { order: 0, warning };
        let cases = [
            ("ordinary", json!({}), evict(None)),
            ("daemon", json!({"metadata.ownerReferences": daemon("d")}), Treatment::Skip),
            (
                "finished daemon",
                json!({"metadata.ownerReferences": daemon("d"), "status.phase": "Failed"}),
                evict(None),
            ),
            ("daemon of no set", json!({"metadata.ownerReferences": daemon("gone")}), evict(None)),
            ("mirror", json!({"metadata.annotations": {MIRROR: "x"}}), Treatment::Skip),
            ("alone", json!({"metadata.ownerReferences": []}), evict(Some("nothing brings it back"))),
            (
                "scratch",
                json!({"spec": {"containers": [], "volumes": [{"name": "v", "emptyDir": {}}]}}),
                evict(Some("its emptyDir volumes are lost")),
            ),
            ("labelled", json!({"metadata.labels": {labels::CAPI_DRAIN: "Skip"}}), Treatment::Skip),
            (
                "job",
                json!({"metadata.labels": {labels::CAPI_DRAIN: "wait-completed"}}),
                Treatment::WaitCompleted,
            ),
            (
                "finished job",
                json!({"metadata.labels": {labels::CAPI_DRAIN: "wait-completed"}, "status.phase": "Succeeded"}),
                Treatment::Skip,
            ),
        ];
        for (name, change, expected) in cases {
            assert_eq!(treat(&pod("p", &change), &world.around()), Ok(expected), "{name}");
        }
    }

    #[test]
    fn the_first_rule_by_name_counts() {
        let drain = |order: i32| json!({"behavior": "Drain", "order": order});
        let world = World::new(vec![
            rule("b", json!({"drain": drain(5)})),
            rule(
                "a",
                json!({"drain": {"behavior": "Skip"}, "pods": [{"selector": {"matchLabels": {"app": "kept"}}}]}),
            ),
            rule(
                "0",
                json!({"drain": drain(1), "machines": [{"selector": {"matchLabels": {"pool": "cpu"}}}]}),
            ),
            rule(
                "1",
                json!({"drain": drain(2), "pods": [
                    {"selector": {"matchLabels": {"app": "x"}}, "namespaceSelector": {"matchLabels": {"team": "b"}}},
                    {"selector": {"matchLabels": {"app": "y"}}, "namespaceSelector": {"matchLabels": {"team": "a"}}}
                ]}),
            ),
        ]);
        let order = |order| Ok(Treatment::Evict { order, warning: None });
        assert_eq!(treat(&pod("kept", &json!({})), &world.around()), Ok(Treatment::Skip));
        assert_eq!(treat(&pod("x", &json!({})), &world.around()), order(5));
        assert_eq!(treat(&pod("y", &json!({})), &world.around()), order(2));
        let elsewhere = pod("y", &json!({"metadata.namespace": "unknown"}));
        assert!(matches!(treat(&elsewhere, &world.around()), Err(Error::NoNamespace { .. })));
        let wrong = rule(
            "!",
            json!({"drain": drain(1), "pods": [{"selector": {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}}]}),
        );
        let error = treat(&pod("y", &json!({})), &World::new(vec![wrong]).around()).unwrap_err();
        assert!(error.to_string().starts_with("MachineDrainRule !: spec.pods[0].selector: "), "{error}");
    }

    #[test]
    fn only_the_lowest_turn_goes() {
        let world = World::new(vec![rule(
            "first",
            json!({"drain": {"behavior": "Drain", "order": -1}, "pods": [{"selector": {"matchLabels": {"app": "front"}}}]}),
        )]);
        let deleted = json!({"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"});
        let pods = [pod("b", &json!({})), pod("front", &deleted), pod("a", &json!({}))];
        let names = |pods: &[&Pod]| pods.iter().map(|pod| pod_name(pod)).collect::<Vec<_>>();
        let found = select(&pods, &world.around()).unwrap();
        assert_eq!(names(&found.terminating), ["apps/front"]);
        assert_eq!(names(&found.later), ["apps/a", "apps/b"]);
        assert!(found.evict.is_empty() && !found.done());
        let found = select(&pods[..1], &world.around()).unwrap();
        assert_eq!(names(&found.evict), ["apps/b"]);
        assert!(select(&[], &world.around()).unwrap().done());
    }

    #[test]
    fn pods_of_a_lost_node_are_not_waited_for() {
        let mut world = World::new(vec![]);
        let deleted = |time: &str| pod("p", &json!({"metadata.deletionTimestamp": time}));
        world.unreachable = true;
        assert_eq!(treat(&deleted("2026-01-01T00:59:00Z"), &world.around()), Ok(Treatment::Skip));
        assert_ne!(treat(&deleted("2026-01-01T00:59:59Z"), &world.around()), Ok(Treatment::Skip));
        world.unreachable = false;
        assert_ne!(treat(&deleted("2026-01-01T00:59:00Z"), &world.around()), Ok(Treatment::Skip));
    }
}
