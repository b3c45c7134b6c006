//! Random objects that fit a structural schema, for property tests.
//!
//! A type's CRD already says what values are possible, so a test needs no hand-written generator per type: it asks
//! for [`values`] of the schema and parses them. CEL rules are not looked at: a rule ties fields together, and the
//! properties tested with this crate hold for objects that break one, too.

mod text;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Map, Value, json};

/// Values for strings whose meaning the schema does not tell, such as durations: given the field's name, a strategy
/// or nothing.
pub type Special = fn(field: &str) -> Option<BoxedStrategy<Value>>;

/// Lists and maps stay this short unless the schema asks for more: long ones show nothing new and cost time.
const MOST_ITEMS: usize = 3;

/// Values that fit `schema`. Every optional field is there half of the time.
pub fn values(schema: &Value, special: Special) -> BoxedStrategy<Value> {
    if let Some(choices) = schema["enum"].as_array() {
        return proptest::sample::select(choices.clone()).boxed();
    }
    if schema["x-kubernetes-int-or-string"] == json!(true) {
        let number = (0..=100_i32).prop_map(Value::from);
        if schema["pattern"].is_string() {
            return prop_oneof![number, text::strings(schema)].boxed();
        }
        return prop_oneof![number, (0..=100_i32).prop_map(|n| json!(format!("{n}%")))].boxed();
    }
    match schema["type"].as_str() {
        Some("object") => objects(schema, special),
        Some("array") => lists(schema, special),
        Some("string") => text::strings(schema),
        Some("integer") => integers(schema),
        Some("number") => (-1000..1000_i32).prop_map(|n| json!(f64::from(n) / 8.0)).boxed(),
        Some("boolean") => any::<bool>().prop_map(Value::from).boxed(),
        _ => anything(),
    }
}

/// Runs a property on so many cases, the same ones every time. Another `HERDSMAN_SEED` gives others.
pub fn runner(cases: u32) -> TestRunner {
    let seed: u64 = std::env::var("HERDSMAN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("seed {seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// Whole objects of a CustomResourceDefinition's version: named `sample` in `fleet-default`, some with labels and
/// annotations. `None` if it has no such version.
pub fn custom_objects(crd: &Value, version: &str, special: Special) -> Option<BoxedStrategy<Value>> {
    let versions = crd["spec"]["versions"].as_array()?;
    let found = versions.iter().find(|candidate| candidate["name"] == version)?;
    let api_version = format!("{}/{version}", crd["spec"]["group"].as_str()?);
    let kind = crd["spec"]["names"]["kind"].clone();
    let map = json!({"type": "object", "minProperties": 1, "additionalProperties": {"type": "string"}});
    let metadata = json!({"type": "object", "properties": {"labels": map, "annotations": map}});
    let parts = (values(&found["schema"]["openAPIV3Schema"], special), values(&metadata, special));
    let whole = parts.prop_map(move |(mut object, mut metadata)| {
        metadata["name"] = "sample".into();
        metadata["namespace"] = "fleet-default".into();
        object["apiVersion"] = api_version.clone().into();
        object["kind"] = kind.clone();
        object["metadata"] = metadata;
        object
    });
    Some(whole.boxed())
}

/// Fields of Cluster API's kinds whose meaning their schema does not tell: durations and versions are just strings
/// there.
pub fn cluster_api_fields(field: &str) -> Option<BoxedStrategy<Value>> {
    let choices: &[&str] = match field {
        "nodeDrainTimeout"
        | "nodeVolumeDetachTimeout"
        | "nodeDeletionTimeout"
        | "nodeStartupTimeout"
        | "timeout" => &["0s", "10s", "10m", "1h30m0s", "1.5s", "-5s", "2500000h"],
        "apiVersion" => &["infrastructure.cluster.x-k8s.io/v1beta1", "example.com/v2", "v1"],
        _ => return None,
    };
    Some(proptest::sample::select(choices).prop_map(Value::from).boxed())
}

fn objects(schema: &Value, special: Special) -> BoxedStrategy<Value> {
    if let Some(properties) = schema["properties"].as_object() {
        return structs(schema, properties, special);
    }
    let (least, most) = bounds(schema, "Properties");
    match &schema["additionalProperties"] {
        values_schema @ Value::Object(_) => {
            btree_map("[a-z]{1,8}", values(values_schema, special), least..=most)
                .prop_map(|map| Value::Object(map.into_iter().collect()))
                .boxed()
        }
        // Nothing is known of its fields: an API server keeps none, unless told to.
        _ if schema["x-kubernetes-preserve-unknown-fields"] != json!(true) => Just(json!({})).boxed(),
        _ => btree_map("[a-z]{1,8}", anything(), least..=most)
            .prop_map(|map| Value::Object(map.into_iter().collect()))
            .boxed(),
    }
}

fn structs(schema: &Value, properties: &Map<String, Value>, special: Special) -> BoxedStrategy<Value> {
    let required =
        |name: &str| schema["required"].as_array().is_some_and(|names| names.iter().any(|n| n == name));
    let fields: Vec<_> = properties
        .iter()
        .map(|(name, property)| {
            let meant = special(name).filter(|_| property["type"] == "string");
            let value = meant.unwrap_or_else(|| values(property, special));
            let value = match property["nullable"] == json!(true) {
                true => prop_oneof![1 => Just(Value::Null), 9 => value].boxed(),
                false => value,
            };
            let maybe = match required(name) {
                true => value.prop_map(Some).boxed(),
                false => proptest::option::of(value).boxed(),
            };
            (Just(name.clone()), maybe)
        })
        .collect();
    let least = bounds(schema, "Properties").0;
    fields
        .prop_map(|fields| {
            fields
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)))
                .collect::<Map<String, Value>>()
        })
        .prop_filter("too few properties", move |object| object.len() >= least)
        .prop_map(Value::Object)
        .boxed()
}

fn lists(schema: &Value, special: Special) -> BoxedStrategy<Value> {
    let (least, most) = bounds(schema, "Items");
    let identity = identity_keys(schema);
    vec(values(&schema["items"], special), least..=most)
        .prop_map(move |items| without_doubles(items, identity.as_deref()))
        .prop_filter("too few items", move |items| items.len() >= least)
        .prop_map(Value::Array)
        .boxed()
}

/// What makes two items of a list the same one: some keys, the whole item (`Some` of none), or nothing.
fn identity_keys(schema: &Value) -> Option<Vec<String>> {
    match schema["x-kubernetes-list-type"].as_str() {
        Some("map") => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array().cloned().unwrap_or_default();
            Some(keys.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        }
        Some("set") => Some(Vec::new()),
        _ => None,
    }
}

fn without_doubles(items: Vec<Value>, identity: Option<&[String]>) -> Vec<Value> {
    let Some(keys) = identity else { return items };
    let id = |item: &Value| match keys {
        [] => item.clone(),
        keys => keys.iter().map(|key| item[key].clone()).collect(),
    };
    let mut kept: Vec<Value> = Vec::new();
    for item in items {
        if !kept.iter().any(|other| id(other) == id(&item)) {
            kept.push(item);
        }
    }
    kept
}

fn integers(schema: &Value) -> BoxedStrategy<Value> {
    let (lowest, highest) = match schema["format"].as_str() {
        Some("int64") => (i64::MIN, i64::MAX),
        _ => (i64::from(i32::MIN), i64::from(i32::MAX)),
    };
    let least = schema["minimum"].as_f64().map_or(lowest, |minimum| minimum as i64);
    let most = schema["maximum"].as_f64().map_or(highest, |maximum| maximum as i64);
    let small = (least.max(-1))..=(most.min(10));
    match small.is_empty() {
        true => (least..=most).prop_map(Value::from).boxed(),
        false => prop_oneof![small.prop_map(Value::from), (least..=most).prop_map(Value::from)].boxed(),
    }
}

/// Any JSON but null, not deep.
fn anything() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[ -~]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..=2).prop_map(Value::Array),
            btree_map("[a-z]{1,5}", inner, 0..=2).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
    .boxed()
}

/// How many items or properties: from the schema, and short where it leaves room.
fn bounds(schema: &Value, what: &str) -> (usize, usize) {
    let number = |key: String| schema[key].as_u64().and_then(|number| usize::try_from(number).ok());
    let least = number(format!("min{what}")).unwrap_or(0);
    let most = number(format!("max{what}")).unwrap_or(usize::MAX);
    (least, most.min(least.max(MOST_ITEMS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing_special(_: &str) -> Option<BoxedStrategy<Value>> {
        None
    }

    proptest! {
        #[test]
        fn required_fields_and_limits_hold(
            value in values(&json!({
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string", "minLength": 2, "maxLength": 5},
                    "port": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535},
                    "mode": {"type": "string", "enum": ["a", "b"]},
                    "tags": {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": "^[a-z]+-[0-9]{2}$"}},
                    "pools": {
                        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
                        "items": {"type": "object", "required": ["id"],
                                  "properties": {"id": {"type": "string", "enum": ["x", "y"]}}},
                    },
                },
            }), nothing_special)
        ) {
            let name = value["name"].as_str().unwrap();
            prop_assert!((2..=5).contains(&name.len()));
            if let Some(port) = value["port"].as_i64() {
                prop_assert!((1..=65535).contains(&port));
            }
            for tag in value["tags"].as_array().into_iter().flatten() {
                let (word, number) = tag.as_str().unwrap().split_once('-').unwrap();
                prop_assert!(!word.is_empty() && number.len() == 2);
            }
            let pools = value["pools"].as_array().cloned().unwrap_or_default();
            prop_assert!(pools.len() < 2 || pools[0]["id"] != pools[1]["id"]);
        }

        #[test]
        fn special_fields_win(
            value in values(&json!({"type": "object", "required": ["timeout"], "properties": {"timeout": {"type": "string"}}}),
                |field| (field == "timeout").then(|| Just(json!("10s")).boxed()))
        ) {
            prop_assert_eq!(value, json!({"timeout": "10s"}));
        }
    }
}
