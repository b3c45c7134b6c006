//! What schemas and operations are called.

use crate::GroupVersionKind;
use crate::builtin::types;

/// What the names of the types of `meta.k8s.io/v1` begin with.
pub(super) const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// The name of a kind's schema: `io.k8s.api.core.v1.Pod`, `com.example.v1.Thing`.
pub(super) fn schema(kind: &GroupVersionKind) -> String {
    match types().by_kind(kind) {
        Some(known) => known.name.clone(),
        None => {
            let reversed: Vec<&str> = kind.group.split('.').rev().collect();
            format!("{}.{}.{}", reversed.join("."), kind.version, kind.kind)
        }
    }
}

/// The id of an operation: group and version go between its verb and the rest.
pub(super) fn operation(group: &str, version: &str, verb: &str, rest: &str) -> String {
    format!("{verb}{}{}{}", camel(short(group), true), camel(version, true), camel(rest, true))
}

/// The tag of a group and version: `apps_v1`.
pub(super) fn tag(group: &str, version: &str) -> String {
    format!("{}_{}", camel(short(group), false), camel(version, false))
}

fn short(group: &str) -> &str {
    match group {
        "" => "core",
        group => group.strip_suffix(".k8s.io").unwrap_or(group),
    }
}

/// Without what ids cannot have; what follows such starts with a capital.
fn camel(text: &str, capital: bool) -> String {
    let mut result = String::new();
    let mut upper = capital;
    for (index, c) in text.char_indices() {
        match c.is_alphabetic() || c == '_' || (index > 0 && c.is_numeric()) {
            true if upper => result.extend(c.to_uppercase()),
            true => result.push(c),
            false => {}
        }
        upper = !(c.is_alphabetic() || c == '_' || (index > 0 && c.is_numeric()));
    }
    result
}
