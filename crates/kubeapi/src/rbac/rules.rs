//! What a rule allows, and whether rules allow all that others do.

use super::model::PolicyRule;
use super::{ResourceTarget, Target};

impl PolicyRule {
    /// Whether this rule alone allows it.
    pub fn allows(&self, verb: &str, target: &Target<'_>) -> bool {
        if !has_or_all(&self.verbs, verb) {
            return false;
        }
        match target {
            Target::Path(path) => self.non_resource_urls.iter().any(|allowed| url_covers(allowed, path)),
            Target::Resource(target) => {
                has_or_all(&self.api_groups, target.group)
                    && self.resources.iter().any(|allowed| resource_matches(allowed, target))
                    && (self.resource_names.is_empty() || has(&self.resource_names, target.name))
            }
        }
    }

    /// The same as rules of one verb, one resource and one name each, or one path each.
    fn broken_down(&self) -> Vec<PolicyRule> {
        let mut single = Vec::new();
        let one = |text: &String| vec![text.clone()];
        let names: Vec<Vec<String>> = match self.resource_names.is_empty() {
            true => vec![Vec::new()],
            false => self.resource_names.iter().map(one).collect(),
        };
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    single.extend(names.iter().map(|name| PolicyRule {
                        verbs: one(verb),
                        api_groups: one(group),
                        resources: one(resource),
                        resource_names: name.clone(),
                        non_resource_urls: Vec::new(),
                    }));
                }
            }
        }
        for url in &self.non_resource_urls {
            let rule =
                |verb| PolicyRule { verbs: one(verb), non_resource_urls: one(url), ..PolicyRule::default() };
            single.extend(self.verbs.iter().map(rule));
        }
        single
    }

    /// Whether this rule covers another that is broken down.
    fn covers(&self, single: &PolicyRule) -> bool {
        let names = &self.resource_names;
        let name_covered = match single.resource_names.is_empty() {
            true => names.is_empty(),
            false => names.is_empty() || single.resource_names.iter().all(|name| has(names, name)),
        };
        name_covered
            && single.verbs.iter().all(|verb| has_or_all(&self.verbs, verb))
            && single.api_groups.iter().all(|group| has_or_all(&self.api_groups, group))
            && single.resources.iter().all(|resource| resource_covered(&self.resources, resource))
            && single
                .non_resource_urls
                .iter()
                .all(|url| self.non_resource_urls.iter().any(|owned| url_covers(owned, url)))
    }
}

/// What `wanted` allows beyond `owned`, with the verbs for one object together.
pub(super) fn missing(owned: &[&PolicyRule], wanted: &[PolicyRule]) -> Vec<PolicyRule> {
    let mut missing: Vec<PolicyRule> = Vec::new();
    let singles = wanted.iter().flat_map(PolicyRule::broken_down);
    for single in singles.filter(|single| !owned.iter().any(|rule| rule.covers(single))) {
        let same = |found: &&mut PolicyRule| {
            single.non_resource_urls.is_empty()
                && found.non_resource_urls.is_empty()
                && (&found.api_groups, &found.resources, &found.resource_names)
                    == (&single.api_groups, &single.resources, &single.resource_names)
        };
        match missing.iter_mut().find(same) {
            Some(found) => found.verbs.extend(single.verbs),
            None => missing.push(single),
        }
    }
    missing
}

fn has(set: &[String], value: &str) -> bool {
    set.iter().any(|found| found == value)
}

fn has_or_all(set: &[String], value: &str) -> bool {
    set.iter().any(|found| found == "*" || found == value)
}

fn resource_matches(allowed: &str, target: &ResourceTarget<'_>) -> bool {
    match (allowed.split_once('/'), target.subresource) {
        _ if allowed == "*" => true,
        (None, "") => allowed == target.resource,
        (Some((resource, subresource)), wanted) if !wanted.is_empty() => {
            subresource == wanted && (resource == "*" || resource == target.resource)
        }
        _ => false,
    }
}

fn resource_covered(owned: &[String], resource: &str) -> bool {
    let any_of_subresource =
        || resource.split_once('/').is_some_and(|(_, sub)| has(owned, &format!("*/{sub}")));
    has_or_all(owned, resource) || any_of_subresource()
}

fn url_covers(allowed: &str, url: &str) -> bool {
    allowed == url || allowed.ends_with('*') && url.starts_with(allowed.trim_end_matches('*'))
}
