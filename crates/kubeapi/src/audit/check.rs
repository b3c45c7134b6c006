//! Whether an object is a policy.

use serde_json::Value;

use crate::{FieldError, Path, name};

const LEVELS: [&str; 4] = ["None", "Metadata", "Request", "RequestResponse"];
const STAGES: [&str; 4] = ["RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"];

/// Why an object is no policy.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    /// It is of another kind or version.
    #[error("unknown group version field {0} in policy")]
    Kind(String),
    /// It has no rules.
    #[error("loaded illegal policy with 0 rules")]
    NoRules,
    /// Fields make no sense.
    #[error("{}", shown(.0))]
    Fields(Vec<FieldError>),
    /// Fields are of a wrong type.
    #[error("failed decoding: {0}")]
    Type(#[from] serde_json::Error),
}

fn shown(errors: &[FieldError]) -> String {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// Checks all that upstream checks.
pub(super) fn check(policy: &Value) -> Result<(), Malformed> {
    let text = |field: &str| policy[field].as_str().unwrap_or_default();
    if (text("apiVersion"), text("kind")) != ("audit.k8s.io/v1", "Policy") {
        return Err(Malformed::Kind(format!("{}, Kind={}", text("apiVersion"), text("kind"))));
    }
    let mut errors = stages(&policy["omitStages"], &Path::new("omitStages"));
    let rules = list(&policy["rules"]);
    for (index, one) in rules.iter().enumerate() {
        errors.extend(rule(one, &Path::new("rules").index(index)));
    }
    match (errors.is_empty(), rules.is_empty()) {
        (false, _) => Err(Malformed::Fields(errors)),
        (true, true) => Err(Malformed::NoRules),
        (true, false) => Ok(()),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn rule(rule: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let level = path.child("level");
    match rule["level"].as_str().unwrap_or_default() {
        "" => errors.push(FieldError::required(&level, "")),
        known if LEVELS.contains(&known) => {}
        other => errors.push(FieldError::not_supported(&level, other, LEVELS)),
    }
    let urls = list(&rule["nonResourceURLs"]);
    let urls_path = path.child("nonResourceURLs");
    for (index, url) in urls.iter().enumerate() {
        errors.extend(self::url(url.as_str().unwrap_or_default(), &urls_path.index(index)));
    }
    for resources in list(&rule["resources"]) {
        errors.extend(group_resources(resources, &path.child("resources")));
    }
    errors.extend(stages(&rule["omitStages"], &path.child("omitStages")));
    let is_of_resources = !list(&rule["resources"]).is_empty() || !list(&rule["namespaces"]).is_empty();
    if !urls.is_empty() && is_of_resources {
        let why = "rules cannot apply to both regular resources and non-resource URLs";
        errors.push(FieldError::invalid(&urls_path, urls.to_vec(), why));
    }
    errors
}

fn url(url: &str, path: &Path) -> Vec<FieldError> {
    if url == "*" {
        return Vec::new();
    }
    let mut errors = Vec::new();
    if !url.starts_with('/') {
        let why = "non-resource URL rules must begin with a '/' character";
        errors.push(FieldError::invalid(path, url, why));
    }
    if url.find('*').is_some_and(|place| place + 1 < url.len()) {
        let why = "non-resource URL wildcards '*' must be the final character of the rule";
        errors.push(FieldError::invalid(path, url, why));
    }
    errors
}

fn group_resources(resources: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let group = resources["group"].as_str().unwrap_or_default();
    let wrong = if group.is_empty() { Vec::new() } else { name::dns_subdomain(group) };
    if !wrong.is_empty() {
        errors.push(FieldError::invalid(&path.child("group"), group, wrong.join(",")));
    }
    let names = list(&resources["resourceNames"]);
    if !names.is_empty() && list(&resources["resources"]).is_empty() {
        let why = "using resourceNames requires at least one resource";
        errors.push(FieldError::invalid(&path.child("resourceNames"), names.to_vec(), why));
    }
    errors
}

fn stages(stages: &Value, path: &Path) -> Vec<FieldError> {
    let known = |stage: &Value| stage.as_str().is_some_and(|stage| STAGES.contains(&stage));
    let unknown = list(stages).iter().enumerate().filter(|(_, stage)| !known(stage));
    let why = format!("allowed stages are {}", STAGES.join(","));
    unknown.map(|(index, stage)| FieldError::invalid(&path.index(index), stage.clone(), &*why)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(mut policy: Value) -> String {
        policy["apiVersion"] = json!("audit.k8s.io/v1");
        policy["kind"] = json!("Policy");
        check(&policy).unwrap_err().to_string()
    }

    #[test]
    fn policies_are_refused_in_upstreams_words() {
        let rule = |rule: Value| refused(json!({"rules": [rule]}));
        for (said, expected) in [
            (refused(json!({})), "loaded illegal policy with 0 rules"),
            (rule(json!({})), "rules[0].level: Required value"),
            (
                rule(json!({"level": "All"})),
                r#"rules[0].level: Unsupported value: "All": supported values: "None", "Metadata", "Request", "RequestResponse""#,
            ),
            (
                rule(json!({"level": "None", "nonResourceURLs": ["logs", "/a*b"]})),
                r#"[rules[0].nonResourceURLs[0]: Invalid value: "logs": non-resource URL rules must begin with a '/' character, rules[0].nonResourceURLs[1]: Invalid value: "/a*b": non-resource URL wildcards '*' must be the final character of the rule]"#,
            ),
            (
                rule(json!({"level": "None", "omitStages": ["Never"]})),
                r#"rules[0].omitStages[0]: Invalid value: "Never": allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic"#,
            ),
            (
                rule(json!({"level": "None", "resources": [{"resourceNames": ["x"]}]})),
                r#"rules[0].resources.resourceNames: Invalid value: ["x"]: using resourceNames requires at least one resource"#,
            ),
            (
                rule(json!({"level": "None", "namespaces": ["a"], "nonResourceURLs": ["/x"]})),
                r#"rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs"#,
            ),
        ] {
            assert_eq!(said, expected);
        }
        let other = json!({"apiVersion": "audit.k8s.io/v1beta1", "kind": "Policy"});
        let said = check(&other).unwrap_err().to_string();
        assert_eq!(said, "unknown group version field audit.k8s.io/v1beta1, Kind=Policy in policy");
    }
}
