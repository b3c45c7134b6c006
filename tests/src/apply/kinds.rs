//! Kinds whose objects are written at random.

mod deployment;

use serde_json::{Map, Value, json};

use super::draw::Draw;

/// A kind.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name.
    pub kind: &'static str,
    /// As in paths.
    pub plural: &'static str,
    /// Groups and versions; one more often than another if it is there more often.
    pub versions: &'static [&'static str],
    /// Whether its status is a subresource.
    pub has_status: bool,
    /// Whether it can be scaled.
    pub has_scale: bool,
    /// Whether nobody else writes its objects.
    pub is_quiet: bool,
    /// A random object, without its name.
    pub content: fn(&mut Draw) -> Value,
    /// A random status.
    pub status: fn(&mut Draw) -> Value,
}

impl Kind {
    /// Whether it is not a custom resource.
    pub fn is_builtin(&self) -> bool {
        self.kind != "Widget"
    }

    /// The path of all objects in the namespace `default`.
    pub fn path(&self, version: &str) -> String {
        let root = if version.contains('/') { "apis" } else { "api" };
        format!("/{root}/{version}/namespaces/default/{}", self.plural)
    }
}

/// All of them.
pub const ALL: [Kind; 4] = [
    Kind {
        kind: "ConfigMap",
        plural: "configmaps",
        versions: &["v1"],
        has_status: false,
        has_scale: false,
        is_quiet: true,
        content: |draw| json!({"data": draw.words(&["a", "b", "c", "d"], 2)}),
        status: |_| Value::Null,
    },
    Kind {
        kind: "Service",
        plural: "services",
        versions: &["v1"],
        has_status: false,
        has_scale: false,
        is_quiet: true,
        content: service,
        status: |_| Value::Null,
    },
    Kind {
        kind: "Widget",
        plural: "widgets",
        versions: &["example.com/v1", "example.com/v1", "example.com/v1beta1"],
        has_status: true,
        has_scale: true,
        is_quiet: true,
        content: |draw| json!({"spec": widget(draw)}),
        status: widget_status,
    },
    Kind {
        kind: "Deployment",
        plural: "deployments",
        versions: &["apps/v1"],
        has_status: false,
        has_scale: true,
        is_quiet: false,
        content: deployment::content,
        status: |_| Value::Null,
    },
];

fn service(draw: &mut Draw) -> Value {
    let mut ports = Vec::new();
    let mut chosen = draw.some(&[(80, "TCP"), (80, "UDP"), (443, "TCP")]);
    if chosen.is_empty() {
        chosen.push((8443, "TCP"));
    }
    for (port, protocol) in chosen {
        let mut one = json!({"port": port, "name": format!("{}-{port}", protocol.to_lowercase())});
        if protocol != "TCP" || draw.one_in(2) {
            one["protocol"] = json!(protocol);
        }
        if draw.one_in(2) {
            one["targetPort"] = json!(draw.of(&[8080, 9090]));
        }
        ports.push(one);
    }
    // Neither has it addresses of its own, nor is it a matter of families of addresses: it selects.
    let mut spec = json!({"clusterIP": "None", "ports": ports, "selector": {"app": draw.word()}});
    if draw.one_in(3) {
        spec["selector"]["tier"] = draw.word();
    }
    if draw.one_in(3) {
        spec["publishNotReadyAddresses"] = json!(true);
    }
    json!({"spec": spec})
}

/// A field that is there once in three times.
fn maybe(object: &mut Map<String, Value>, draw: &mut Draw, name: &str, value: impl Fn(&mut Draw) -> Value) {
    if draw.one_in(3) {
        let value = value(draw);
        object.insert(name.to_owned(), value);
    }
}

fn widget(draw: &mut Draw) -> Value {
    let mut spec = Map::new();
    maybe(&mut spec, draw, "text", Draw::word);
    maybe(&mut spec, draw, "mode", |draw| json!(draw.of(&["auto", "manual"])));
    maybe(&mut spec, draw, "number", |draw| json!(draw.below(4)));
    maybe(&mut spec, draw, "map", |draw| draw.words(&["a", "b", "c"], 2));
    maybe(&mut spec, draw, "atomicMap", |draw| draw.words(&["a", "b"], 2));
    maybe(&mut spec, draw, "object", |draw| {
        let mut object = draw.words(&["a", "b"], 2);
        if draw.one_in(2) {
            object["deep"] = draw.words(&["c", "d"], 2);
        }
        object
    });
    maybe(&mut spec, draw, "set", |draw| json!(draw.some(&["p", "q", "r", "s"])));
    maybe(&mut spec, draw, "keyed", |draw| {
        let names = draw.some(&["k1", "k2", "k3", "k4"]);
        names.into_iter().map(|name| keyed(draw, name)).collect()
    });
    maybe(&mut spec, draw, "ports", |draw| {
        let ports = draw.some(&[(80, "TCP"), (80, "UDP"), (443, "TCP")]);
        let all = ports.into_iter().map(|(port, protocol)| match protocol {
            "TCP" => json!({"port": port, "title": draw.word()}),
            _ => json!({"port": port, "protocol": protocol}),
        });
        all.collect()
    });
    maybe(&mut spec, draw, "list", |draw| json!(draw.some(&["l1", "l2", "l3"])));
    maybe(&mut spec, draw, "free", |draw| {
        let mut free = draw.words(&["a", "b"], 2);
        free["n"] = json!(draw.below(3));
        free
    });
    maybe(&mut spec, draw, "nullable", |draw| draw.of(&[json!("v"), Value::Null].each_ref()).clone());
    Value::Object(spec)
}

fn keyed(draw: &mut Draw, name: &str) -> Value {
    let mut item = json!({"name": name});
    if draw.one_in(2) {
        item["value"] = draw.word();
    }
    if draw.one_in(3) {
        item["inner"] = draw.words(&["x", "y"], 2);
    }
    item
}

fn widget_status(draw: &mut Draw) -> Value {
    let mut status = Map::new();
    if draw.one_in(2) {
        status.insert("phase".into(), draw.word());
    }
    let conditions = draw.some(&["A", "B", "C"]);
    let conditions: Vec<Value> =
        conditions.into_iter().map(|kind| json!({"type": kind, "status": draw.word()})).collect();
    status.insert("conditions".into(), conditions.into());
    Value::Object(status)
}

/// The definition of Widgets: every kind of list and map, in two versions.
pub fn definition() -> Value {
    let text = json!({"type": "string"});
    let texts = |more: Value| {
        let mut map = json!({"type": "object", "additionalProperties": {"type": "string"}});
        if let (Some(map), Value::Object(more)) = (map.as_object_mut(), more) {
            map.extend(more);
        }
        map
    };
    let list = |kind: &str, keys: Value, items: Value| {
        let mut list = json!({"type": "array", "x-kubernetes-list-type": kind, "items": items});
        if !keys.is_null() {
            list["x-kubernetes-list-map-keys"] = keys;
        }
        list
    };
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let inner = object(json!({"x": text, "y": text}));
    let mut keyed = object(json!({"name": text, "value": text, "inner": inner}));
    keyed["required"] = json!(["name"]);
    let protocol = json!({"type": "string", "default": "TCP"});
    let mut port = object(json!({"port": {"type": "integer"}, "protocol": protocol, "title": text}));
    port["required"] = json!(["port"]);
    let mut condition = object(json!({"type": text, "status": text}));
    condition["required"] = json!(["type"]);
    let spec = object(json!({
        "text": text, "mode": {"type": "string", "default": "auto"}, "number": {"type": "integer"}, "map": texts(json!({})),
        "atomicMap": texts(json!({"x-kubernetes-map-type": "atomic"})),
        "object": object(json!({"a": text, "b": text, "deep": object(json!({"c": text, "d": text}))})),
        "set": list("set", Value::Null, text.clone()), "keyed": list("map", json!(["name"]), keyed),
        "ports": list("map", json!(["port", "protocol"]), port), "list": {"type": "array", "items": text},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "nullable": {"type": "string", "nullable": true},
    }));
    let status = object(json!({"phase": text, "conditions": list("map", json!(["type"]), condition)}));
    let schema = object(json!({"spec": spec, "status": status}));
    let scale = json!({"specReplicasPath": ".spec.number", "statusReplicasPath": ".status.number"});
    let subresources = json!({"status": {}, "scale": scale});
    let versions: Vec<Value> = [("v1", true), ("v1beta1", false)]
        .map(|(name, storage)| {
            json!({
                "name": name, "served": true, "storage": storage, "subresources": subresources,
                "schema": {"openAPIV3Schema": schema},
            })
        })
        .into();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": versions,
        },
    })
}
