//! Configurations of admission webhooks.

use std::collections::BTreeSet;

use serde_json::Value;

use super::findings::{Findings, items, number, text, texts};
use crate::{FieldError, Path, admission, name};

const MOST_CONDITIONS: usize = 64;

const FORM: &str = "; desired format: https://host[/path]";

/// A configuration; conditions that `old` has as well are good.
pub(super) fn configuration(object: &Value, old: Option<&Value>, found: &mut Findings) {
    let mut names = BTreeSet::new();
    let conditions = |object: &Value| -> Vec<Value> {
        let hooks = object["webhooks"].as_array().into_iter().flatten();
        hooks.map(|hook| hook["matchConditions"].clone()).collect()
    };
    let unchanged = old.is_some_and(|old| conditions(old) == conditions(object));
    for (path, hook) in items(object, "webhooks", &Path::root()) {
        webhook(hook, &path, found);
        if !unchanged {
            match_conditions(hook, false, &path, found);
        }
        versions(hook, &path, found);
        let name = text(hook, "name");
        if !name.is_empty() && !names.insert(name) {
            found.0.push(FieldError::duplicate(&path.child("name"), name));
        }
    }
}

fn webhook(hook: &Value, path: &Path, found: &mut Findings) {
    qualified_name(text(hook, "name"), &path.child("name"), found);
    for (path, one) in items(hook, "rules", path) {
        rule(one, &path, found);
    }
    found.optional_one_of(hook, "failurePolicy", path, &["Fail", "Ignore"]);
    found.optional_one_of(hook, "matchPolicy", path, &["Equivalent", "Exact"]);
    match text(hook, "sideEffects") {
        "" => found.required(&path.child("sideEffects"), "must specify one of None, NoneOnDryRun"),
        value => found.one_of(&path.child("sideEffects"), value, &["None", "NoneOnDryRun"]),
    }
    if let Some(seconds) = number(hook, "timeoutSeconds").filter(|seconds| !(1..=30).contains(seconds)) {
        let why = "the timeout value must be between 1 and 30 seconds";
        found.invalid(&path.child("timeoutSeconds"), seconds, why);
    }
    for field in ["namespaceSelector", "objectSelector"] {
        found.selector(&hook[field], &path.child(field));
    }
    found.optional_one_of(hook, "reinvocationPolicy", path, &["IfNeeded", "Never"]);
    client(&hook["clientConfig"], &path.child("clientConfig"), found);
}

fn qualified_name(name: &str, path: &Path, found: &mut Findings) {
    if name.is_empty() {
        return found.required(path, "");
    }
    let broken = name::dns_subdomain(name);
    if !broken.is_empty() {
        return found.invalid(path, name, broken.join(","));
    }
    if name.split('.').count() < 3 {
        found.invalid(path, name, "should be a domain with at least three segments separated by dots");
    }
}

/// Conditions, which may use `params` if there are any.
pub(super) fn match_conditions(object: &Value, params: bool, path: &Path, found: &mut Findings) {
    let at = path.child("matchConditions");
    let count = object["matchConditions"].as_array().map_or(0, Vec::len);
    if count > MOST_CONDITIONS {
        found.0.push(FieldError::too_many(&at, count, MOST_CONDITIONS));
    }
    let mut names = BTreeSet::new();
    for (path, condition) in items(object, "matchConditions", path) {
        match text(condition, "expression").trim() {
            "" => found.required(&path.child("expression"), ""),
            expression => {
                if let Some(why) = admission::wrong_condition(expression, params) {
                    found.invalid(&path.child("expression"), expression, why);
                }
            }
        }
        let (name, path) = (text(condition, "name"), path.child("name"));
        match name {
            "" => found.required(&path, ""),
            _ => found.each(&path, name, name::qualified(name)),
        }
        if !name.is_empty() && !names.insert(name) {
            found.0.push(FieldError::duplicate(&path, name));
        }
    }
}

pub(super) fn rule(one: &Value, path: &Path, found: &mut Findings) {
    list(one, "operations", "operations", path, found);
    for (path, operation) in items(one, "operations", path) {
        let known = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
        found.one_of(&path, operation.as_str().unwrap_or_default(), &known);
    }
    list(one, "apiGroups", "API groups", path, found);
    list(one, "apiVersions", "API versions", path, found);
    for (path, _) in items(one, "apiVersions", path).filter(|(_, version)| **version == "") {
        found.required(&path, "");
    }
    let at = path.child("resources");
    let resources: Vec<&str> = texts(one, "resources").collect();
    if resources.is_empty() {
        found.required(&at, "");
    }
    if resources.len() > 1 && resources.contains(&"*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        found.invalid(&at, one["resources"].clone(), why);
    }
    let plain = resources.iter().any(|resource| *resource != "*" && !resource.contains('/'));
    if plain && resources.contains(&"*") {
        let why = "if '*' is present, must not specify other resources without subresources";
        found.invalid(&at, one["resources"].clone(), why);
    }
    found.optional_one_of(one, "scope", path, &["*", "Cluster", "Namespaced"]);
}

/// A list that names everything, or some things.
fn list(rule: &Value, field: &str, what: &str, path: &Path, found: &mut Findings) {
    let all: Vec<&str> = texts(rule, field).collect();
    if all.is_empty() {
        found.required(&path.child(field), "");
    }
    if all.len() > 1 && all.contains(&"*") {
        let why = format!("if '*' is present, must not specify other {what}");
        found.invalid(&path.child(field), rule[field].clone(), why);
    }
}

fn client(config: &Value, path: &Path, found: &mut Findings) {
    match (config["url"].as_str(), &config["service"]) {
        (Some(url), Value::Null) => address(url, &path.child("url"), found),
        (None, service) if !service.is_null() => {
            let path = path.child("service");
            for field in ["name", "namespace"] {
                if text(service, field).is_empty() {
                    found.required(&path.child(field), "");
                }
            }
            let port = number(service, "port").unwrap_or(0);
            if !(1..=65_535).contains(&port) {
                let why = "port is not valid: must be between 1 and 65535, inclusive";
                found.invalid(&path.child("port"), port, why);
            }
        }
        _ => found.required(path, "exactly one of url or service is required"),
    }
}

fn address(url: &str, path: &Path, found: &mut Findings) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if scheme != "https" {
        found.invalid(path, scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if host.is_empty() {
        found.invalid(path, "", format!("host must be specified{FORM}"));
    }
    if !user.is_empty() {
        found.invalid(path, user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        found.invalid(path, fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        found.invalid(path, query, "query parameters are not permitted in the URL");
    }
}

fn versions(hook: &Value, path: &Path, found: &mut Findings) {
    let at = path.child("admissionReviewVersions");
    let all: Vec<&str> = texts(hook, "admissionReviewVersions").collect();
    if all.is_empty() {
        return found.required(&at, "must specify one of v1, v1beta1");
    }
    let mut seen = BTreeSet::new();
    for (index, version) in all.iter().enumerate() {
        match seen.insert(*version) {
            false => found.invalid(&at.index(index), *version, "duplicate version"),
            true => found.each(&at.index(index), version, name::dns_1035_label(version)),
        }
    }
    if !all.iter().any(|version| matches!(*version, "v1" | "v1beta1")) {
        let why = "must include at least one of v1, v1beta1";
        found.invalid(&at, hook["admissionReviewVersions"].clone(), why);
    }
}
