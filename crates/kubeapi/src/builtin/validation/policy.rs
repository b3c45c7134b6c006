//! ValidatingAdmissionPolicies and their bindings.

use std::collections::BTreeSet;

use serde_json::Value;

use super::findings::{Findings, items, text};
use super::webhook::{match_conditions, rule};
use crate::admission::{self, Names, Part};
use crate::{FieldError, Path, name};

const MOST_ANNOTATIONS: usize = 20;
const LONGEST_ANNOTATION: usize = 5 * 1024;
const NOTHING: &str = "validations or auditAnnotations must contain at least one item";

/// A policy; conditions that `old` has as well are good.
pub(super) fn policy(object: &Value, old: Option<&Value>, found: &mut Findings) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    found.required_one_of(&path.child("failurePolicy"), text(spec, "failurePolicy"), &["Fail", "Ignore"]);
    let params = &spec["paramKind"];
    if !params.is_null() {
        param_kind(params, &path.child("paramKind"), found);
    }
    let constraints = path.child("matchConstraints");
    match spec["matchConstraints"].is_null() {
        true => found.required(&constraints, ""),
        false => {
            match_resources(&spec["matchConstraints"], &constraints, found);
            if items(&spec["matchConstraints"], "resourceRules", &constraints).next().is_none() {
                found.required(&constraints.child("resourceRules"), "");
            }
        }
    }
    let same = |field: &str| old.is_some_and(|old| old["spec"][field] == spec[field]);
    if !(same("paramKind") && same("matchConditions")) {
        match_conditions(spec, !params.is_null(), &path, found);
    }
    expressions(object, &path, found);
}

/// All that is said in expressions, in the order in which variables become known.
fn expressions(object: &Value, path: &Path, found: &mut Findings) {
    let spec = &object["spec"];
    let mut names = admission::names(spec);
    for (path, variable) in items(spec, "variables", path) {
        let name = text(variable, "name");
        match name.trim() {
            "" => found.required(&path.child("name"), "name is not specified"),
            _ if !admission::is_identifier(name) => {
                found.invalid(&path.child("name"), name, "must be a valid CEL identifier");
            }
            _ => {}
        }
        match text(variable, "expression") {
            source if source.trim().is_empty() => {
                found.required(&path.child("expression"), "expression is not specified");
            }
            source => {
                if let Some(why) = names.declare(name, source) {
                    found.invalid(&path.child("expression"), source, why);
                }
            }
        }
    }
    let count = |field: &str| spec[field].as_array().map_or(0, Vec::len);
    if count("validations") + count("auditAnnotations") == 0 {
        found.required(&path.child("validations"), NOTHING);
        return found.required(&path.child("auditAnnotations"), NOTHING);
    }
    for (path, validation) in items(spec, "validations", path) {
        self::validation(validation, &names, &path, found);
    }
    annotations(object, &names, path, found);
}

fn expression(part: Part, source: &str, names: &Names, path: &Path, found: &mut Findings) {
    if let Some(why) = admission::wrong_part(part, source, names) {
        found.invalid(path, source, why);
    }
}

fn validation(one: &Value, names: &Names, path: &Path, found: &mut Findings) {
    let (source, at) = (text(one, "expression"), path.child("expression"));
    match source.trim() {
        "" => found.required(&at, "expression is not specified"),
        _ => expression(Part::Validation, source, names, &at, found),
    }
    let (source, at) = (text(one, "messageExpression"), path.child("messageExpression"));
    match source.trim() {
        "" if source.is_empty() => {}
        "" => found.invalid(&at, source, "must be non-empty if specified"),
        _ => expression(Part::Message, source, names, &at, found),
    }
    message(one, path, found);
}

fn annotations(object: &Value, names: &Names, path: &Path, found: &mut Findings) {
    let all = &object["spec"]["auditAnnotations"];
    if all.as_array().is_some_and(|all| all.len() > MOST_ANNOTATIONS) {
        let why = format!("must not have more than {MOST_ANNOTATIONS} auditAnnotations");
        found.invalid(&path.child("auditAnnotations"), all.clone(), why);
    }
    let mut keys = BTreeSet::new();
    for (path, annotation) in items(&object["spec"], "auditAnnotations", path) {
        let (key, source) = (text(annotation, "key"), text(annotation, "valueExpression"));
        let whole = format!("{}/{key}", text(&object["metadata"], "name"));
        found.each(&path.child("key"), &whole, name::qualified(&whole));
        let at = path.child("valueExpression");
        match source.trim() {
            "" => found.required(&at, "valueExpression is not specified"),
            long if long.len() > LONGEST_ANNOTATION => {
                found.required(&at, &format!("must not exceed {LONGEST_ANNOTATION} bytes in length"));
            }
            _ => expression(Part::Annotation, source, names, &at, found),
        }
        if !keys.insert(key) {
            found.0.push(FieldError::duplicate(&path.child("key"), key));
        }
    }
}

/// The fixed words and the reason of a validation.
fn message(validation: &Value, path: &Path, found: &mut Findings) {
    let (message, at) = (text(validation, "message"), path.child("message"));
    match message.trim() {
        "" if message.is_empty() => {}
        "" => found.invalid(&at, message, "must be non-empty if specified"),
        trimmed if trimmed.contains(['\n', '\r']) => {
            found.invalid(&at, message, "must not contain line breaks");
        }
        _ => {}
    }
    found.optional_one_of(validation, "reason", path, &["Forbidden", "Invalid", "RequestEntityTooLarge"]);
}

fn param_kind(kind: &Value, path: &Path, found: &mut Findings) {
    let (version, at) = (text(kind, "apiVersion"), path.child("apiVersion"));
    match version.split('/').collect::<Vec<_>>()[..] {
        [""] => found.required(&at, ""),
        [version] => versioned(version, &at, found),
        [group, version] => {
            let broken = name::dns_subdomain(group);
            if !group.is_empty() && !broken.is_empty() {
                found.invalid(&at, group, broken.join(","));
            }
            versioned(version, &at, found);
        }
        _ => found.invalid(&at, version, format!("unexpected GroupVersion string: {version}")),
    }
    let (kind, at) = (text(kind, "kind"), path.child("kind"));
    let broken = name::dns_1035_label(&kind.to_lowercase());
    if kind.is_empty() {
        found.required(&at, "");
    } else if !broken.is_empty() {
        let why = format!("may have mixed case, but should otherwise match: {}", broken.join(","));
        found.invalid(&at, kind, why);
    }
}

fn versioned(version: &str, path: &Path, found: &mut Findings) {
    let broken = name::dns_1035_label(version);
    if version.is_empty() {
        found.invalid(path, version, "version must be specified");
    } else if !broken.is_empty() {
        found.invalid(path, version, broken.join(","));
    }
}

fn match_resources(resources: &Value, path: &Path, found: &mut Findings) {
    let at = path.child("matchPolicy");
    found.required_one_of(&at, text(resources, "matchPolicy"), &["Equivalent", "Exact"]);
    for field in ["namespaceSelector", "objectSelector"] {
        found.selector(&resources[field], &path.child(field));
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        for (path, one) in items(resources, field, path) {
            let mut names = BTreeSet::new();
            for (path, name) in items(one, "resourceNames", &path) {
                let name = name.as_str().unwrap_or_default();
                found.each(&path, name, name::path_segment(name));
                if !names.insert(name) {
                    found.0.push(FieldError::duplicate(&path, name));
                }
            }
            rule(one, &path, found);
        }
    }
}

/// A binding of a policy.
pub(super) fn binding(object: &Value, found: &mut Findings) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    let (policy, at) = (text(spec, "policyName"), path.child("policyName"));
    match policy {
        "" => found.required(&at, ""),
        _ => found.each(&at, policy, name::dns_subdomain(policy)),
    }
    if !spec["paramRef"].is_null() {
        param_ref(&spec["paramRef"], &path.child("paramRef"), found);
    }
    if !spec["matchResources"].is_null() {
        match_resources(&spec["matchResources"], &path.child("matchResources"), found);
    }
    actions(spec, &path, found);
}

fn param_ref(reference: &Value, path: &Path, found: &mut Findings) {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    let (name, selector) = (text(reference, "name"), &reference["selector"]);
    if !name.is_empty() {
        found.each(&path.child("name"), name, name::path_segment(name));
        if !selector.is_null() {
            found.forbidden(&path.child("name"), EXCLUSIVE);
        }
    }
    if !selector.is_null() {
        found.selector(selector, &path.child("selector"));
        if !name.is_empty() {
            found.forbidden(&path.child("selector"), EXCLUSIVE);
        }
    }
    if name.is_empty() && selector.is_null() {
        found.required(path, "one of name or selector must be specified");
    }
    let at = path.child("parameterNotFoundAction");
    found.required_one_of(&at, text(reference, "parameterNotFoundAction"), &["Deny", "Allow"]);
}

fn actions(spec: &Value, path: &Path, found: &mut Findings) {
    let at = path.child("validationActions");
    let mut seen = BTreeSet::new();
    for (path, action) in items(spec, "validationActions", path) {
        let action = action.as_str().unwrap_or_default();
        found.one_of(&path, action, &["Audit", "Deny", "Warn"]);
        if !seen.insert(action) {
            found.0.push(FieldError::duplicate(&path, action));
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        found.invalid(&at, spec["validationActions"].clone(), why);
    }
    if seen.is_empty() {
        found.required(&at, "at least one validation action is required");
    }
}
