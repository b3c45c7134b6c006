//! Deployments: lists with keys in lists with keys, atomic lists and maps, amounts, and defaults everywhere.

use serde_json::{Map, Value, json};

use super::maybe;
use crate::apply::draw::Draw;

/// A random Deployment that does nothing.
pub(super) fn content(draw: &mut Draw) -> Value {
    let mut spec = Map::new();
    maybe(&mut spec, draw, "replicas", |draw| json!(draw.below(3)));
    // A zero would be left out by a real server and kept by ours.
    maybe(&mut spec, draw, "minReadySeconds", |draw| json!(1 + draw.below(2)));
    maybe(&mut spec, draw, "strategy", |draw| match draw.below(3) {
        0 => json!({"type": "Recreate"}),
        1 => json!({"type": "RollingUpdate"}),
        _ => json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": draw.of(&["10%", "25%"])}}),
    });
    spec.insert("paused".into(), json!(true));
    spec.insert("selector".into(), json!({"matchLabels": {"app": "web"}}));
    spec.insert("template".into(), json!({"metadata": {"labels": {"app": "web"}}, "spec": pod(draw)}));
    json!({"spec": spec})
}

fn pod(draw: &mut Draw) -> Value {
    let mut spec = Map::new();
    let names = draw.some(&["one", "two", "three"]);
    let mut containers: Vec<Value> = names.into_iter().map(|name| container(draw, name)).collect();
    if containers.is_empty() {
        containers.push(container(draw, "one"));
    }
    spec.insert("containers".into(), containers.into());
    maybe(&mut spec, draw, "nodeSelector", |draw| draw.words(&["disk", "zone"], 2));
    maybe(&mut spec, draw, "volumes", |draw| {
        let names = draw.some(&["v1", "v2"]);
        names.into_iter().map(|name| json!({"name": name, "emptyDir": {}})).collect()
    });
    maybe(&mut spec, draw, "tolerations", |draw| {
        let keys = draw.some(&["a", "b"]);
        keys.into_iter().map(|key| json!({"key": key, "operator": "Exists"})).collect()
    });
    maybe(&mut spec, draw, "imagePullSecrets", |draw| {
        draw.some(&["s1", "s2"]).into_iter().map(|name| json!({"name": name})).collect()
    });
    maybe(&mut spec, draw, "securityContext", |draw| json!({"runAsUser": draw.below(3)}));
    Value::Object(spec)
}

fn container(draw: &mut Draw, name: &str) -> Value {
    let mut one = Map::new();
    one.insert("name".into(), json!(name));
    if !draw.one_in(6) {
        one.insert("image".into(), json!(draw.of(&["img", "img:1", "img:2"])));
    }
    maybe(&mut one, draw, "args", |draw| json!(draw.some(&["-a", "-b", "-c"])));
    maybe(&mut one, draw, "env", |draw| {
        let names = draw.some(&["A", "B", "C"]);
        names.into_iter().map(|name| json!({"name": name, "value": draw.word()})).collect()
    });
    maybe(&mut one, draw, "ports", |draw| {
        let ports = draw.some(&[(80, "TCP"), (80, "UDP"), (443, "TCP")]);
        let all = ports.into_iter().map(|(port, protocol)| match draw.one_in(2) && protocol == "TCP" {
            true => json!({"containerPort": port}),
            false => json!({"containerPort": port, "protocol": protocol}),
        });
        all.collect()
    });
    maybe(
        &mut one,
        draw,
        "resources",
        |draw| json!({"limits": {"cpu": draw.of(&["1", "1000m", "500m", "0.5"])}, "requests": {"memory": draw.of(&["1Gi", "1024Mi"])}}),
    );
    maybe(
        &mut one,
        draw,
        "securityContext",
        |draw| json!({"capabilities": {"add": draw.some(&["X", "Y"])}, "privileged": draw.one_in(2)}),
    );
    Value::Object(one)
}
