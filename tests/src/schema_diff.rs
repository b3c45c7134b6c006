//! Whether two CustomResourceDefinitions have the same structure.
//!
//! Everything that decides which objects are valid and how they are read, merged and shown is compared. Words are
//! not: descriptions, and the messages of validation rules. How a definition is installed (labels, conversion) is
//! not either.

mod columns;
mod keywords;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Every difference in structure between two definitions of a kind, as sorted lines such as
/// `clusters v1beta2 .spec.paused: type ours="string" upstream="boolean"`.
pub fn differences(ours: &Value, upstream: &Value) -> Vec<String> {
    let kind = text(&upstream["spec"]["names"]["plural"]).to_owned();
    let mut report = Report { place: kind, lines: Vec::new() };
    compare_names(&mut report, &ours["spec"], &upstream["spec"]);
    for name in union(versions(ours), versions(upstream)) {
        report.at(&format!(" {name}"), |report| match (version(ours, &name), version(upstream, &name)) {
            (Some(ours), Some(upstream)) => compare_versions(report, ours, upstream),
            (ours, upstream) => report.add("version", &is_served(ours), &is_served(upstream)),
        });
    }
    report.lines.sort();
    report.lines
}

/// Where the comparison is, and what it has found.
struct Report {
    place: String,
    lines: Vec<String>,
}

impl Report {
    /// Goes on in a place inside this one.
    fn at(&mut self, inside: &str, compare: impl FnOnce(&mut Report)) {
        let length = self.place.len();
        self.place.push_str(inside);
        compare(self);
        self.place.truncate(length);
    }

    /// Reports `what` if its two values differ; null is "not there".
    fn add(&mut self, what: &str, ours: &Value, upstream: &Value) {
        if ours != upstream {
            let (place, ours, upstream) = (&self.place, shown(ours), shown(upstream));
            self.lines.push(format!("{place}: {what} ours={ours} upstream={upstream}"));
        }
    }
}

fn shown(value: &Value) -> String {
    if value.is_null() { "absent".into() } else { value.to_string() }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn union(left: BTreeSet<String>, right: BTreeSet<String>) -> BTreeSet<String> {
    left.into_iter().chain(right).collect()
}

fn compare_names(report: &mut Report, ours: &Value, upstream: &Value) {
    for field in ["group", "scope"] {
        report.add(field, &ours[field], &upstream[field]);
    }
    for field in ["plural", "singular", "kind", "listKind"] {
        report.add(field, &ours["names"][field], &upstream["names"][field]);
    }
    for field in ["shortNames", "categories"] {
        let sorted = |spec: &Value| keywords::sorted(&spec["names"][field]);
        report.add(field, &sorted(ours), &sorted(upstream));
    }
}

fn versions(definition: &Value) -> BTreeSet<String> {
    let versions = definition["spec"]["versions"].as_array();
    versions.into_iter().flatten().map(|version| text(&version["name"]).to_owned()).collect()
}

fn version<'a>(definition: &'a Value, name: &str) -> Option<&'a Value> {
    definition["spec"]["versions"].as_array()?.iter().find(|version| version["name"] == name)
}

fn is_served(version: Option<&Value>) -> Value {
    match version {
        None => Value::Null,
        Some(version) if version["served"] == true => json!("served"),
        Some(_) => json!("not served"),
    }
}

fn compare_versions(report: &mut Report, ours: &Value, upstream: &Value) {
    for field in ["served", "storage", "deprecated"] {
        let set = |version: &Value| json!(version[field] == true);
        report.add(field, &set(ours), &set(upstream));
    }
    for subresource in ["status", "scale"] {
        let of = |version: &Value| version["subresources"][subresource].clone();
        report.add(&format!("{subresource} subresource"), &of(ours), &of(upstream));
    }
    columns::compare(report, &ours["additionalPrinterColumns"], &upstream["additionalPrinterColumns"]);
    let schema = |version: &Value| version["schema"]["openAPIV3Schema"].clone();
    report.at(" ", |report| compare_schemas(report, &schema(ours), &schema(upstream)));
}

fn compare_schemas(report: &mut Report, ours: &Value, upstream: &Value) {
    keywords::compare(report, ours, upstream);
    compare_properties(report, &ours["properties"], &upstream["properties"]);
    compare_inner(report, "[]", &ours["items"], &upstream["items"]);
    compare_inner(report, "{}", &ours["additionalProperties"], &upstream["additionalProperties"]);
}

fn compare_properties(report: &mut Report, ours: &Value, upstream: &Value) {
    let none = Map::new();
    let (ours, upstream) = (ours.as_object().unwrap_or(&none), upstream.as_object().unwrap_or(&none));
    let names = |properties: &Map<String, Value>| properties.keys().cloned().collect::<BTreeSet<_>>();
    for name in union(names(ours), names(upstream)) {
        report.at(&format!(".{name}"), |report| match (ours.get(&name), upstream.get(&name)) {
            (Some(ours), Some(upstream)) => compare_schemas(report, ours, upstream),
            (ours, upstream) => report.add("field", &shape(ours), &shape(upstream)),
        });
    }
}

/// Items of a list or values of a map.
fn compare_inner(report: &mut Report, inside: &str, ours: &Value, upstream: &Value) {
    report.at(inside, |report| {
        if ours.is_object() && upstream.is_object() {
            compare_schemas(report, ours, upstream);
        } else {
            report.add("values", &inner_shape(ours), &inner_shape(upstream));
        }
    });
}

fn inner_shape(schema: &Value) -> Value {
    if schema.is_object() { shape(Some(schema)) } else { schema.clone() }
}

/// What a field is, in one word.
fn shape(schema: Option<&Value>) -> Value {
    match schema {
        None => Value::Null,
        Some(schema) if schema["type"].is_string() => schema["type"].clone(),
        Some(_) => json!("anything"),
    }
}

#[cfg(test)]
mod tests;
