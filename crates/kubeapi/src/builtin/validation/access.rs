//! Roles and their bindings.

use serde_json::{Value, json};

use super::findings::{Findings, items, text};
use crate::{FieldError, Path, name};

const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn role(object: &Value, namespaced: bool, found: &mut Findings) {
    for (path, rule) in items(object, "rules", &Path::root()) {
        let any = |field: &str| rule[field].as_array().is_some_and(|list| !list.is_empty());
        if !any("verbs") {
            found.required(&path.child("verbs"), "verbs must contain at least one value");
        }
        if any("nonResourceURLs") {
            let (at, urls) = (path.child("nonResourceURLs"), &rule["nonResourceURLs"]);
            if namespaced {
                found.invalid(&at, urls.clone(), "namespaced rules cannot apply to non-resource URLs");
            }
            if any("apiGroups") || any("resources") || any("resourceNames") {
                let why = "rules cannot apply to both regular resources and non-resource URLs";
                found.invalid(&at, urls.clone(), why);
            }
            continue;
        }
        if !any("apiGroups") {
            found.required(&path.child("apiGroups"), "resource rules must supply at least one api group");
        }
        if !any("resources") {
            found.required(&path.child("resources"), "resource rules must supply at least one resource");
        }
    }
    aggregation(&object["aggregationRule"], found);
}

fn aggregation(rule: &Value, found: &mut Findings) {
    if rule.is_null() {
        return;
    }
    let path = Path::new("aggregationRule");
    if rule["clusterRoleSelectors"].as_array().is_none_or(Vec::is_empty) {
        let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        found.required(&path.child("clusterRoleSelectors"), why);
    }
    for (path, selector) in items(rule, "clusterRoleSelectors", &path) {
        found.selector(selector, &path);
    }
}

pub(super) fn binding(object: &Value, namespaced: bool, found: &mut Findings) {
    let (role, path) = (&object["roleRef"], Path::new("roleRef"));
    found.one_of(&path.child("apiGroup"), text(role, "apiGroup"), &[RBAC]);
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    found.one_of(&path.child("kind"), text(role, "kind"), kinds);
    match text(role, "name") {
        "" => found.required(&path.child("name"), ""),
        name => found.each(&path.child("name"), name, name::path_segment(name)),
    }
    for (path, one) in items(object, "subjects", &Path::root()) {
        subject(one, namespaced, &path, found);
    }
}

fn subject(one: &Value, namespaced: bool, path: &Path, found: &mut Findings) {
    let (name, group) = (text(one, "name"), text(one, "apiGroup"));
    if name.is_empty() {
        found.required(&path.child("name"), "");
    }
    match text(one, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                found.each(&path.child("name"), name, name::dns_subdomain(name));
            }
            if !group.is_empty() {
                found.0.push(FieldError::not_supported(&path.child("apiGroup"), group, [""]));
            }
            if !namespaced && text(one, "namespace").is_empty() {
                found.required(&path.child("namespace"), "");
            }
        }
        "User" | "Group" => found.one_of(&path.child("apiGroup"), group, &[RBAC]),
        kind => found.one_of(&path.child("kind"), kind, &["ServiceAccount", "User", "Group"]),
    }
}

pub(super) fn binding_update(new: &Value, old: &Value, namespaced: bool, found: &mut Findings) {
    binding(new, namespaced, found);
    if new["roleRef"] != old["roleRef"] {
        let role = &new["roleRef"];
        let shown = json!({"APIGroup": role["apiGroup"], "Kind": role["kind"], "Name": role["name"]});
        found.invalid(&Path::new("roleRef"), shown, "cannot change roleRef");
    }
}
