//! Auditing: which requests are told to the log, at which stages, and how much of them. `audit.k8s.io/v1`.

mod annotations;
mod check;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::authn::User;
use crate::request::Target;

pub use annotations::Annotations;
pub use check::Malformed;

/// How much is told of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Level {
    /// Nothing.
    #[default]
    None,
    /// Who asked for what and when, and how it ended.
    Metadata,
    /// The object that was sent, too.
    Request,
    /// The object that was answered, too.
    RequestResponse,
}

/// A moment of a request that is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// It has come in; nothing has been done yet.
    RequestReceived,
    /// A watch has been answered, and goes on.
    ResponseStarted,
    /// It is over.
    ResponseComplete,
    /// The server failed in the middle of it.
    Panic,
}

/// A policy: the first rule that matches a request says what is told of it, and nothing is told if none does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    #[serde(default)]
    rules: Vec<Rule>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    #[serde(default)]
    omit_managed_fields: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Rule {
    level: Level,
    users: Vec<String>,
    user_groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<GroupResources>,
    namespaces: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    omit_stages: Vec<Stage>,
    omit_managed_fields: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct GroupResources {
    group: String,
    resources: Vec<String>,
    resource_names: Vec<String>,
}

/// What is told of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Auditing {
    /// How much.
    pub level: Level,
    /// At which stages nothing.
    pub omit_stages: Vec<Stage>,
    /// Whether objects are told without their managed fields.
    pub omit_managed_fields: bool,
}

impl Auditing {
    /// Whether something is told at a stage.
    pub fn tells(&self, stage: Stage) -> bool {
        self.level > Level::None && !self.omit_stages.contains(&stage)
    }
}

impl Policy {
    /// One level for everything, told when it is over (and when a watch begins).
    pub fn everything(level: Level) -> Self {
        let rule = Rule { level, ..Rule::default() };
        Policy { rules: vec![rule], omit_stages: vec![Stage::RequestReceived], omit_managed_fields: false }
    }

    /// Reads a `Policy` object.
    ///
    /// # Errors
    /// What is wrong with it, in upstream's words.
    pub fn parse(object: &Value) -> Result<Self, Malformed> {
        check::check(object)?;
        Ok(serde_json::from_value(object.clone())?)
    }

    /// What is told of a request. Nobody is known yet where authentication failed.
    pub fn decide(&self, user: Option<&User>, target: &Target) -> Auditing {
        let Some(rule) = self.rules.iter().find(|rule| rule.matches(user, target)) else {
            return Auditing {
                level: Level::None,
                omit_stages: self.omit_stages.clone(),
                omit_managed_fields: self.omit_managed_fields,
            };
        };
        Auditing {
            level: rule.level,
            omit_stages: [&*self.omit_stages, &*rule.omit_stages].concat(),
            omit_managed_fields: rule.omit_managed_fields.unwrap_or(self.omit_managed_fields),
        }
    }
}

/// An empty list matches everything.
fn any_or(list: &[String], holds: impl FnOnce() -> bool) -> bool {
    list.is_empty() || holds()
}

fn has(list: &[String], text: &str) -> bool {
    list.iter().any(|one| one == text)
}

impl Rule {
    fn matches(&self, user: Option<&User>, target: &Target) -> bool {
        let verb = match target {
            Target::Path { verb, .. } => verb.as_str(),
            Target::Resource(request) => request.verb.as_str(),
        };
        let in_group = |user: &User| user.groups.iter().any(|group| has(&self.user_groups, group));
        any_or(&self.users, || user.is_some_and(|user| has(&self.users, &user.name)))
            && any_or(&self.user_groups, || user.is_some_and(in_group))
            && any_or(&self.verbs, || has(&self.verbs, verb))
            && self.matches_target(target)
    }

    fn matches_target(&self, target: &Target) -> bool {
        match target {
            _ if !self.namespaces.is_empty() || !self.resources.is_empty() => self.matches_resource(target),
            _ if self.non_resource_urls.is_empty() => true,
            Target::Resource(_) => false,
            Target::Path { path, .. } => self.non_resource_urls.iter().any(|spec| path_matches(path, spec)),
        }
    }

    fn matches_resource(&self, target: &Target) -> bool {
        let Target::Resource(request) = target else { return false };
        let (resource, sub, name) = (&*request.resource, &*request.subresource, &*request.name);
        any_or(&self.namespaces, || has(&self.namespaces, &request.namespace))
            && (self.resources.is_empty()
                || self
                    .resources
                    .iter()
                    .any(|one| one.group == request.group_version.group && one.matches(resource, sub, name)))
    }
}

impl GroupResources {
    fn matches(&self, resource: &str, subresource: &str, name: &str) -> bool {
        let is_named = any_or(&self.resource_names, || has(&self.resource_names, name));
        any_or(&self.resources, || {
            is_named && self.resources.iter().any(|spec| resource_matches(spec, resource, subresource))
        })
    }
}

/// Whether `pods`, `pods/log`, `pods/*`, `*/log` or `*` means a resource.
fn resource_matches(spec: &str, resource: &str, subresource: &str) -> bool {
    match spec.split_once('/') {
        _ if spec == "*" => true,
        None => subresource.is_empty() && spec == resource,
        // As upstream: this also means the resource itself.
        Some((of, "*")) => of == resource,
        Some(("*", sub)) => !subresource.is_empty() && sub == subresource,
        Some((of, sub)) => of == resource && sub == subresource,
    }
}

/// Whether `/path`, `/path*` or `*` means a path.
fn path_matches(path: &str, spec: &str) -> bool {
    let within = || spec.ends_with('*') && path.starts_with(spec.trim_end_matches('*'));
    spec == "*" || spec == path || within()
}

/// Takes the managed fields out of an object, of the items of a list, and of the objects in a Table.
pub fn without_managed_fields(object: &mut Value) {
    let drop_from = |object: &mut Value| {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    };
    drop_from(object);
    if let Some(items) = object.get_mut("items").and_then(Value::as_array_mut) {
        items.iter_mut().for_each(drop_from);
    }
    if let Some(rows) = object.get_mut("rows").and_then(Value::as_array_mut) {
        rows.iter_mut().filter_map(|row| row.get_mut("object")).for_each(drop_from);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::request::Query;

    fn user(name: &str, groups: &[&str]) -> User {
        let groups = groups.iter().map(|&group| group.into()).collect();
        User { name: name.into(), groups, ..User::default() }
    }

    fn target(method: &str, path: &str) -> Target {
        Target::parse(method, path, &Query::parse("")).unwrap()
    }

    fn policy(rules: Value) -> Policy {
        let object = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules});
        Policy::parse(&object).unwrap()
    }

    const PODS: &str = "/api/v1/namespaces/a/pods";

    #[test]
    fn rules_match_as_upstreams_do() {
        let core = |resources: &[&str]| json!({"resources": [{"resources": resources}]});
        let named = |name| json!({"resources": [{"resources": ["pods"], "resourceNames": [name]}]});
        let pod = &format!("{PODS}/x");
        let log = &format!("{PODS}/x/log");
        for (rule, method, path, matches) in [
            (json!({}), "GET", PODS, true),
            (json!({}), "GET", "/healthz", true),
            (json!({"users": ["eve"]}), "GET", PODS, true),
            (json!({"users": ["adam"]}), "GET", PODS, false),
            (json!({"userGroups": ["b", "a"]}), "GET", PODS, true),
            (json!({"userGroups": ["b"]}), "GET", PODS, false),
            (json!({"verbs": ["list"]}), "GET", PODS, true),
            (json!({"verbs": ["get"]}), "GET", PODS, false),
            (json!({"verbs": ["get"]}), "GET", "/healthz", true),
            (json!({"namespaces": ["a"]}), "GET", PODS, true),
            (json!({"namespaces": ["b"]}), "GET", PODS, false),
            (json!({"namespaces": [""]}), "GET", "/api/v1/nodes", true),
            (json!({"namespaces": [""]}), "GET", "/healthz", false),
            (json!({"resources": [{}]}), "GET", log, true),
            (json!({"resources": [{"group": "apps"}]}), "GET", PODS, false),
            (json!({"resources": [{"group": "apps"}]}), "GET", "/apis/apps/v1/deployments", true),
            (core(&["pods"]), "GET", pod, true),
            (core(&["pods"]), "GET", log, false),
            (core(&["pods"]), "GET", "/healthz", false),
            (core(&["pods/log"]), "GET", log, true),
            (core(&["pods/log"]), "GET", pod, false),
            (core(&["pods/*"]), "GET", log, true),
            (core(&["pods/*"]), "GET", pod, true),
            (core(&["*/log"]), "GET", log, true),
            (core(&["*/log"]), "GET", pod, false),
            (core(&["*"]), "GET", log, true),
            (core(&["secrets", "pods"]), "GET", pod, true),
            (named("x"), "GET", pod, true),
            (named("y"), "GET", pod, false),
            (named("x"), "GET", PODS, false),
            (json!({"nonResourceURLs": ["/healthz"]}), "GET", "/healthz", true),
            (json!({"nonResourceURLs": ["/healthz"]}), "GET", "/healthz/ping", false),
            (json!({"nonResourceURLs": ["/healthz*"]}), "GET", "/healthz/ping", true),
            (json!({"nonResourceURLs": ["*"]}), "GET", "/version", true),
            (json!({"nonResourceURLs": ["*"]}), "GET", PODS, false),
        ] {
            let mut told = rule.clone();
            told["level"] = json!("Metadata");
            let decided = policy(json!([told])).decide(Some(&user("eve", &["a"])), &target(method, path));
            assert_eq!(decided.level == Level::Metadata, matches, "{rule} {method} {path}");
        }
    }

    #[test]
    fn nobody_matches_no_rule_for_somebody() {
        let rules = json!([{"level": "Request", "users": [""]}, {"level": "Request", "userGroups": [""]}]);
        assert_eq!(policy(rules).decide(None, &target("GET", PODS)).level, Level::None);
    }

    #[test]
    fn the_first_rule_counts_and_stages_add_up() {
        let object = json!({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy",
            "omitStages": ["RequestReceived"], "omitManagedFields": true,
            "rules": [
                {"level": "None", "verbs": ["watch"]},
                {"level": "Request", "verbs": ["list"], "omitStages": ["Panic"], "omitManagedFields": false},
                {"level": "RequestResponse"},
            ],
        });
        let policy = Policy::parse(&object).unwrap();
        let decided = |path| policy.decide(None, &target("GET", path));
        let list = decided(PODS);
        assert_eq!((list.level, list.omit_managed_fields), (Level::Request, false));
        assert!(!list.tells(Stage::RequestReceived) && !list.tells(Stage::Panic));
        assert!(list.tells(Stage::ResponseComplete));
        let rest = decided("/version");
        assert_eq!((rest.level, rest.omit_managed_fields), (Level::RequestResponse, true));
        assert!(rest.tells(Stage::Panic));
    }

    #[test]
    fn managed_fields_go_wherever_they_are() {
        let with = json!({"metadata": {"name": "x", "managedFields": [1]}});
        let without = json!({"metadata": {"name": "x"}});
        for (mut object, expected) in [
            (with.clone(), without.clone()),
            (json!({"items": [with]}), json!({"items": [without]})),
            (json!({"rows": [{"object": with}]}), json!({"rows": [{"object": without}]})),
            (json!("text"), json!("text")),
        ] {
            without_managed_fields(&mut object);
            assert_eq!(object, expected);
        }
    }
}
