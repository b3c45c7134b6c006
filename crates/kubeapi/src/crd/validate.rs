//! Whether a CRD is one that a server can serve, in the words and with the paths of kube-apiserver.

use std::collections::BTreeSet;

use serde_json::Value;

use super::definition::{list, text};
use super::names::Names;
use super::version;
use crate::name as name_rules;
use crate::{FieldError, Path};

const APPROVAL: &str = "api-approved.kubernetes.io";

/// Checks a new CRD that has its defaults ([`super::default`]) and its status ([`super::prepare_create`]).
///
/// `metadata` is checked as far as it is about CRDs only: the name.
pub fn validate(crd: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    name(crd, &mut errors);
    validate_both(crd, None, &mut errors);
    errors
}

/// Checks a CRD that is to replace `old`.
///
/// Upstream forgives what an old CRD did wrong before its rules were there; here no CRD is that old.
pub fn validate_update(crd: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_both(crd, Some(old), &mut errors);
    let spec = Path::new("spec");
    let mut immutable = |pointer: &str, path: Path| {
        let value = |crd: &Value| crd.pointer(pointer).cloned().unwrap_or_else(|| "".into());
        if value(crd) != value(old) {
            errors.push(FieldError::invalid(&path, value(crd), "field is immutable"));
        }
    };
    let was_established = list(&old["status"], "conditions")
        .iter()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
    if was_established {
        immutable("/spec/scope", spec.child("scope"));
        immutable("/spec/names/kind", spec.child("names").child("kind"));
    }
    immutable("/spec/group", spec.child("group"));
    immutable("/spec/names/plural", spec.child("names").child("plural"));
    errors
}

fn validate_both(crd: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    validate_spec(&crd["spec"], errors);
    let accepted = Names::read(&crd["status"]["acceptedNames"]);
    names(&accepted, &Path::new("status").child("acceptedNames"), errors);
    stored_versions(crd, errors);
    approval(crd, old, errors);
    let preserved_before = old.is_some_and(|old| old["spec"]["preserveUnknownFields"] == true);
    if crd["spec"]["preserveUnknownFields"] == true && !preserved_before {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid(&Path::new("spec").child("preserveUnknownFields"), true, why));
    }
}

fn name(crd: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("metadata").child("name");
    let name = text(&crd["metadata"], "name");
    if name.is_empty() {
        return errors.push(FieldError::required(&path, "name or generateName is required"));
    }
    for problem in name_rules::dns_subdomain(&name) {
        errors.push(FieldError::invalid(&path, name.as_str(), problem));
    }
    let spec = &crd["spec"];
    if name != format!("{}.{}", text(&spec["names"], "plural"), text(spec, "group")) {
        errors.push(FieldError::invalid(&path, name, r#"must be spec.names.plural+"."+spec.group"#));
    }
}

fn validate_spec(spec: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("spec");
    let (group, group_path) = (text(spec, "group"), path.child("group"));
    let wrong = name_rules::dns_subdomain(&group);
    if group.is_empty() {
        errors.push(FieldError::required(&group_path, ""));
    } else if !wrong.is_empty() {
        errors.push(FieldError::invalid(&group_path, group, wrong.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(&group_path, group, "should be a domain with at least one dot"));
    }
    one_of(&text(spec, "scope"), &["Cluster", "Namespaced"], &path.child("scope"), errors);
    let versions = list(spec, "versions");
    for (index, version) in versions.iter().enumerate() {
        if version["schema"]["openAPIV3Schema"].is_null() {
            let path = path.child("versions").index(index).child("schema").child("openAPIV3Schema");
            errors.push(FieldError::required(&path, ""));
        }
    }
    for (index, version) in versions.iter().enumerate() {
        let name = text(version, "name");
        let wrong = name_rules::dns_1035_label(&name);
        if !wrong.is_empty() {
            let path = path.child("versions").index(index).child("name");
            errors.push(FieldError::invalid(&path, name, wrong.join(",")));
        }
    }
    version_flags(versions, spec, &path.child("versions"), errors);
    required_names(&spec["names"], &path.child("names"), errors);
    names(&Names::read(&spec["names"]), &path.child("names"), errors);
    version::validate(spec, &path, errors);
    conversion(&spec["conversion"], &path.child("conversion"), errors);
}

fn one_of(value: &str, choices: &[&str], path: &Path, errors: &mut Vec<FieldError>) {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !choices.contains(&value) {
        errors.push(FieldError::not_supported(path, value, choices.iter().copied()));
    }
}

fn version_flags(versions: &[Value], spec: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let names: BTreeSet<String> = versions.iter().map(|version| text(version, "name")).collect();
    if names.len() != versions.len() {
        errors.push(FieldError::invalid(path, spec["versions"].clone(), "must contain unique version names"));
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid(path, spec["versions"].clone(), why));
    }
}

fn required_names(names: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(names, name).is_empty() {
            errors.push(FieldError::required(&path.child(name), ""));
        }
    }
}

fn names(names: &Names, path: &Path, errors: &mut Vec<FieldError>) {
    let mut label = |path: Path, name: &str| {
        let wrong = name_rules::dns_1035_label(name);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(&path, name, wrong.join(",")));
        }
    };
    for (field, name) in [("plural", &names.plural), ("singular", &names.singular)] {
        if !name.is_empty() {
            label(path.child(field), name);
        }
    }
    for (index, name) in names.short_names.iter().enumerate() {
        label(path.child("shortNames").index(index), name);
    }
    for (index, name) in names.categories.iter().enumerate() {
        label(path.child("categories").index(index), name);
    }
    for (field, name) in [("kind", &names.kind), ("listKind", &names.list_kind)] {
        let wrong = name_rules::dns_1035_label(&name.to_lowercase());
        if !name.is_empty() && !wrong.is_empty() {
            let why = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
            errors.push(FieldError::invalid(&path.child(field), name.as_str(), why));
        }
    }
    if !names.kind.is_empty() && names.kind == names.list_kind {
        let why = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(&path.child("listKind"), names.list_kind.as_str(), why));
    }
}

/// The fields have the names that upstream has inside, and shows.
fn conversion(conversion: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    if conversion.is_null() {
        return;
    }
    let strategy = text(conversion, "strategy");
    one_of(&strategy, &["None", "Webhook"], &path.child("strategy"), errors);
    let (config_path, reviews_path) =
        (path.child("webhookClientConfig"), path.child("conversionReviewVersions"));
    let config = &conversion["webhook"]["clientConfig"];
    let reviews = list(&conversion["webhook"], "conversionReviewVersions");
    if strategy != "Webhook" {
        let why = "should not be set when strategy is not set to Webhook";
        if !config.is_null() {
            errors.push(FieldError::forbidden(&config_path, why));
        }
        if !reviews.is_empty() {
            errors.push(FieldError::forbidden(&reviews_path, why));
        }
        return;
    }
    match (config.is_null(), config["url"].as_str(), config["service"].is_object()) {
        (true, ..) => {
            errors.push(FieldError::required(&config_path, "required when strategy is set to Webhook"));
        }
        (_, Some(url), false) => webhook_url(url, &config_path.child("url"), errors),
        (_, None, true) => webhook_service(&config["service"], &config_path.child("service"), errors),
        _ => errors.push(FieldError::required(&config_path, "exactly one of url or service is required")),
    }
    review_versions(reviews, &reviews_path, errors);
}

fn review_versions(versions: &[Value], path: &Path, errors: &mut Vec<FieldError>) {
    if versions.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    for (index, version) in versions.iter().enumerate() {
        let name = version.as_str().unwrap_or_default();
        if versions[..index].contains(version) {
            errors.push(FieldError::invalid(&path.index(index), name, "duplicate version"));
            continue;
        }
        for problem in name_rules::dns_1035_label(name) {
            errors.push(FieldError::invalid(&path.index(index), name, problem));
        }
    }
    if !versions.iter().any(|version| version == "v1" || version == "v1beta1") {
        errors.push(FieldError::invalid(path, versions.to_vec(), "must include at least one of v1, v1beta1"));
    }
}

fn webhook_url(url: &str, path: &Path, errors: &mut Vec<FieldError>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (before_fragment, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (before_query, query) = before_fragment.split_once('?').unwrap_or((before_fragment, ""));
    let (scheme, rest) = before_query.split_once("://").unwrap_or(("", before_query));
    let authority = if scheme.is_empty() { "" } else { rest.split('/').next().unwrap_or_default() };
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let mut refuse = |value: &str, why: String| errors.push(FieldError::invalid(path, value, why));
    if scheme != "https" {
        refuse(scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if host.is_empty() {
        refuse(host, format!("host must be specified{FORM}"));
    }
    if !user.is_empty() {
        refuse(user, "user information is not permitted in the URL".into());
    }
    if !fragment.is_empty() {
        refuse(fragment, "fragments are not permitted in the URL".into());
    }
    if !query.is_empty() {
        refuse(query, "query parameters are not permitted in the URL".into());
    }
}

fn webhook_service(service: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    for name in ["name", "namespace"] {
        if text(service, name).is_empty() {
            errors.push(FieldError::required(&path.child(name), ""));
        }
    }
    let port = service["port"].as_i64().unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(&path.child("port"), port, why));
    }
    let url_path = text(service, "path");
    let path = path.child("path");
    let mut refuse = |why: String| errors.push(FieldError::invalid(&path, url_path.as_str(), why));
    match url_path.as_str() {
        "" | "/" => return,
        "//" => return refuse("segment[0] may not be empty".into()),
        _ => {}
    }
    if !url_path.starts_with('/') {
        refuse("must start with a '/'".into());
    }
    let mut inside = url_path.chars();
    inside.next();
    let inside = inside.as_str();
    for (index, step) in inside.strip_suffix('/').unwrap_or(inside).split('/').enumerate() {
        if step.is_empty() {
            refuse(format!("segment[{index}] may not be empty"));
            continue;
        }
        for problem in name_rules::dns_subdomain(step) {
            refuse(format!("segment[{index}]: {problem}"));
        }
    }
}

fn stored_versions(crd: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("status").child("storedVersions");
    let stored = list(&crd["status"], "storedVersions");
    if stored.is_empty() {
        let why = "must have at least one stored version";
        return errors.push(FieldError::invalid(&path, Value::Array(Vec::new()), why));
    }
    let versions = list(&crd["spec"], "versions");
    for version in versions.iter().filter(|version| version["storage"] == true) {
        if !stored.contains(&version["name"]) {
            let why = format!("must have the storage version {}", text(version, "name"));
            errors.push(FieldError::invalid(&path, stored.to_vec(), why));
        }
    }
    for (index, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| version["name"] == *name) {
            let text = name.as_str().unwrap_or_default();
            let why = format!(
                "missing from spec.versions; {text} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {text} and removes {text} from status.storedVersions"
            );
            errors.push(FieldError::invalid(&path.index(index), name.clone(), why));
        }
    }
}

/// Groups of Kubernetes itself need an approval.
fn approval(crd: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let group = text(&crd["spec"], "group");
    let protected = ["k8s.io", "kubernetes.io"]
        .into_iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
    if !protected {
        return;
    }
    let state = |crd: &Value| match crd["metadata"]["annotations"][APPROVAL].as_str().unwrap_or_default() {
        "" => Approval::Missing,
        text if text.starts_with("unapproved") => Approval::Bypassed,
        text if text
            .split_once("://")
            .is_some_and(|(scheme, host)| !scheme.is_empty() && !host.is_empty()) =>
        {
            Approval::Approved
        }
        _ => Approval::Invalid,
    };
    let new = state(crd);
    if old.is_some_and(|old| state(old) == new) {
        return;
    }
    let path = Path::new("metadata").child("annotations").key(APPROVAL);
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    let must = format!("protected groups must have approval annotation {APPROVAL:?}");
    match new {
        Approval::Missing => errors.push(FieldError::required(&path, format!("{must}, {see}"))),
        Approval::Invalid => {
            let value = crd["metadata"]["annotations"][APPROVAL].clone();
            let why = format!("{must} with either a URL or a reason starting with \"unapproved\", {see}");
            errors.push(FieldError::invalid(&path, value, why));
        }
        Approval::Approved | Approval::Bypassed => {}
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Approval {
    Missing,
    Invalid,
    Bypassed,
    Approved,
}

#[cfg(test)]
mod tests;
