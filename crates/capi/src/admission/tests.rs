use serde_json::{Value, json};

use super::*;

fn deployment(spec: &Value) -> Value {
    let mut object = json!({
        "metadata": {"name": "pool"},
        "spec": {"clusterName": "c", "template": {"spec": {
            "clusterName": "c", "version": "1.34.1",
            "bootstrap": {"dataSecretName": "s"},
            "infrastructureRef": {"apiGroup": "i", "kind": "FooMachineTemplate", "name": "t"}
        }}}
    });
    merge(&mut object["spec"], spec);
    object
}

fn merge(onto: &mut Value, patch: &Value) {
    match patch.as_object() {
        None => onto.clone_from(patch),
        Some(patch) => patch.iter().for_each(|(key, value)| merge(&mut onto[key], value)),
    }
}

fn wrong(kind: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
    problems(kind, object, old)
        .iter()
        .map(|error| error.to_string().split(':').next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn a_deployment_is_filled_in_and_then_good() {
    let mut object = deployment(&json!({}));
    fill_in("MachineDeployment", &mut object, None);
    assert_eq!(object["spec"]["replicas"], 1);
    assert_eq!(object["spec"]["template"]["spec"]["version"], "v1.34.1");
    assert_eq!(
        object["spec"]["rollout"]["strategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
    );
    let labels = json!({"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/deployment-name": "pool"});
    assert_eq!(object["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(object["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"], "c");
    let filled = object.clone();
    fill_in("MachineDeployment", &mut object, Some(&filled));
    assert_eq!(object, filled, "filling in twice changes nothing");
    assert_eq!(wrong("MachineDeployment", &object, Some(&filled)), Vec::<String>::new());
}

#[test]
fn the_autoscaler_bounds_the_replicas() {
    let noted = |replicas: Option<i64>, old: Option<i64>| {
        let mut object = deployment(&json!({"replicas": replicas}));
        object["metadata"]["annotations"] = json!({
            "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "2",
            "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "5"
        });
        let old = old.map(|old| json!({"spec": {"replicas": old}}));
        fill_in("MachineDeployment", &mut object, old.as_ref());
        object["spec"]["replicas"].as_i64().unwrap()
    };
    assert_eq!(
        [noted(None, None), noted(None, Some(9)), noted(None, Some(3)), noted(Some(9), None)],
        [2, 5, 3, 9]
    );
}

#[test]
fn a_bad_deployment_is_refused_with_the_fields_path() {
    let cases = [
        (
            json!({"rollout": {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}}}),
            "spec.rollout.strategy.rollingUpdate.maxUnavailable",
        ),
        (
            json!({"rollout": {"strategy": {"rollingUpdate": {"maxSurge": "many"}}}}),
            "spec.rollout.strategy.rollingUpdate.maxSurge",
        ),
        (json!({"template": {"spec": {"version": "latest"}}}), "spec.template.spec.version"),
        (json!({"template": {"spec": {"clusterName": "other"}}}), "spec.template.spec.clusterName"),
        (json!({"template": {"spec": {"bootstrap": null}}}), "spec.template.spec.bootstrap.data"),
        (json!({"selector": {"matchLabels": {"a": "b"}}}), "spec.template.metadata.labels"),
        (json!({"machineNaming": {"template": "fixed"}}), "spec.machineNaming.template"),
        (json!({"remediation": {"maxInFlight": "x"}}), "spec.remediation.maxInFlight"),
        (
            json!({"template": {"spec": {"taints": [{"key": "node-role.kubernetes.io/control-plane"}]}}}),
            "spec.template.spec.taints[0].key",
        ),
    ];
    for (spec, field) in cases {
        let mut object = deployment(&spec);
        fill_in("MachineDeployment", &mut object, None);
        assert_eq!(wrong("MachineDeployment", &object, None), [field], "{spec}");
    }
    let (mut old, mut new) = (
        deployment(&json!({})),
        deployment(&json!({"clusterName": "d", "template": {"spec": {"clusterName": "d"}}})),
    );
    fill_in("MachineDeployment", &mut old, None);
    fill_in("MachineDeployment", &mut new, Some(&old));
    assert_eq!(wrong("MachineDeployment", &new, Some(&old)), ["spec.clusterName"]);
    new["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(wrong("MachineDeployment", &new, Some(&old)), Vec::<String>::new(), "what goes may go");
}

#[test]
fn clusters_are_judged() {
    let reference = json!({"apiGroup": "i", "kind": "FooCluster", "name": "c"});
    let good = json!({"metadata": {"name": "c"}, "spec": {"infrastructureRef": reference}});
    assert_eq!(wrong("Cluster", &good, None), Vec::<String>::new());
    assert_eq!(
        wrong("Cluster", &json!({"metadata": {"name": "c"}, "spec": {"paused": true}}), None),
        ["spec"]
    );
    let other = json!({"metadata": {"name": "c"}, "spec": {"controlPlaneRef": reference}});
    assert_eq!(wrong("Cluster", &other, Some(&good)), ["spec.infrastructureRef"]);
    let mut blocks = good.clone();
    blocks["spec"]["clusterNetwork"]["pods"]["cidrBlocks"] =
        json!(["10.42.0.0/16", "fd00::/48", "10.0.0.0/33", "x"]);
    assert_eq!(
        wrong("Cluster", &blocks, None),
        ["spec.clusterNetwork.pods.cidrBlocks[2]", "spec.clusterNetwork.pods.cidrBlocks[3]"]
    );
    let mut long = good;
    long["metadata"]["name"] = "a".repeat(64).into();
    assert_eq!(wrong("Cluster", &long, None), ["metadata.name"]);
}

#[test]
fn health_checks_and_drain_rules_are_judged() {
    let check = |spec: Value| {
        let mut object = json!({"metadata": {"name": "h"}, "spec": {"clusterName": "c", "selector": {"matchLabels": {"a": "b"}}}});
        merge(&mut object["spec"], &spec);
        fill_in("MachineHealthCheck", &mut object, None);
        wrong("MachineHealthCheck", &object, None)
    };
    assert_eq!(check(json!({})), Vec::<String>::new());
    assert_eq!(
        check(json!({"checks": {"nodeStartupTimeoutSeconds": 29}})),
        ["spec.checks.nodeStartupTimeoutSeconds"]
    );
    assert_eq!(check(json!({"checks": {"nodeStartupTimeoutSeconds": 0}})), Vec::<String>::new());
    assert_eq!(
        check(json!({"selector": {"matchLabels": {"cluster.x-k8s.io/cluster-name": "d"}}})),
        ["spec.selector"]
    );
    assert_eq!(check(json!({"selector": {"matchLabels": null}})), ["spec.selector"]);
    assert_eq!(
        check(json!({"remediation": {"triggerIf": {"unhealthyInRange": "[5-3]"}}})),
        ["spec.remediation.triggerIf.unhealthyInRange"]
    );
    let rule = json!({"spec": {"drain": {"behavior": "Skip", "order": 3}, "pods": [{"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}]}});
    assert_eq!(wrong("MachineDrainRule", &rule, None), ["spec.drain.order", "spec.pods[0].selector"]);
}

#[test]
fn machines_are_filled_in_and_judged() {
    let mut machine = json!({"metadata": {"name": "m"}, "spec": {"clusterName": "c", "version": "1.34.1", "bootstrap": {"dataSecretName": "s"}}});
    fill_in("Machine", &mut machine, None);
    assert_eq!(machine["spec"]["deletion"]["nodeDeletionTimeoutSeconds"], 10);
    assert_eq!(machine["spec"]["version"], "v1.34.1");
    assert_eq!(wrong("Machine", &machine, None), Vec::<String>::new());
    machine["spec"]["bootstrap"] = json!({});
    assert_eq!(wrong("Machine", &machine, None), ["spec.bootstrap.data"]);
}
