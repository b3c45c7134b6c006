//! Brings a role or binding that may have been changed up to what it should at least be.

use serde::Deserialize;
use serde_json::{Value, json};

use super::model::{ClusterRole, PolicyRule, RoleRef, Subject};
use super::rules;

/// With the value `false` an object wants to be left alone.
const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// What is to be done with a binding.
#[derive(Clone, Debug, PartialEq)]
pub enum Binding {
    /// Nothing.
    Good,
    /// It is to become this.
    Update(Value),
    /// It grants another role, which cannot be changed: it is to be deleted and made anew.
    Replace,
}

/// What a role should become; `None` if it may stay as it is. It gets the rules, selectors, labels and annotations
/// that it lacks; what it has beyond that stays. One that should not gather others stops gathering.
pub fn role(found: &Value, wanted: &Value) -> Option<Value> {
    if is_protected(found) {
        return None;
    }
    let mut mended = found.clone();
    merge_metadata(&mut mended, wanted);
    let [own, all] = [found, wanted].map(|role| ClusterRole::from_object(role).unwrap_or_default());
    // Nearly always all of them are there as they are: comparing what they allow is dear.
    let absent: Vec<PolicyRule> = all.rules.into_iter().filter(|rule| !own.rules.contains(rule)).collect();
    let missing = rules::missing(&own.rules.iter().collect::<Vec<_>>(), &absent);
    if !missing.is_empty() {
        mended["rules"] = json!([own.rules, missing].concat());
    }
    match (all.selectors, own.selectors) {
        (None, Some(_)) => {
            mended.as_object_mut().map(|fields| fields.remove("aggregationRule"));
        }
        (Some(wanted), own) => {
            let mut selectors = own.unwrap_or_default();
            let before = selectors.len();
            selectors.extend(wanted.into_iter().filter(|one| !contains(found, one)));
            if selectors.len() > before {
                mended["aggregationRule"]["clusterRoleSelectors"] = selectors.into();
            }
        }
        (None, None) => {}
    }
    (mended != *found).then_some(mended)
}

fn contains(role: &Value, selector: &Value) -> bool {
    role["aggregationRule"]["clusterRoleSelectors"].as_array().is_some_and(|list| list.contains(selector))
}

/// What is to be done with a binding so that it has at least the wanted subjects, labels and annotations.
pub fn binding(found: &Value, wanted: &Value) -> Binding {
    if is_protected(found) {
        return Binding::Good;
    }
    let [own, all] = [found, wanted].map(|binding| RoleRef::deserialize(&binding["roleRef"]).ok());
    if own != all {
        return Binding::Replace;
    }
    let mut mended = found.clone();
    merge_metadata(&mut mended, wanted);
    let subjects = |binding: &Value| binding["subjects"].as_array().cloned().unwrap_or_default();
    let known: Vec<Subject> =
        subjects(found).iter().filter_map(|subject| Subject::deserialize(subject).ok()).collect();
    let is_new =
        |subject: &Value| Subject::deserialize(subject).is_ok_and(|subject| !known.contains(&subject));
    let missing: Vec<Value> = subjects(wanted).into_iter().filter(is_new).collect();
    if !missing.is_empty() {
        mended["subjects"] = [subjects(found), missing].concat().into();
    }
    if mended == *found { Binding::Good } else { Binding::Update(mended) }
}

fn is_protected(found: &Value) -> bool {
    found["metadata"]["annotations"][AUTOUPDATE] == "false"
}

/// Adds the labels and annotations that are not there.
fn merge_metadata(mended: &mut Value, wanted: &Value) {
    for field in ["labels", "annotations"] {
        for (key, value) in wanted["metadata"][field].as_object().into_iter().flatten() {
            let own = &mut mended["metadata"][field];
            if own[key].is_null() {
                own[key] = value.clone();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(object: &Value, pointer: &str, value: Value) -> Value {
        let mut object = object.clone();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[field] = value;
        object
    }

    #[test]
    fn roles_get_what_they_lack() {
        let get = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
        let list = json!({"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]});
        let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
        let selector = json!({"matchLabels": {"a": "b"}});
        let wanted = json!({"metadata": {"labels": {"l": "1"}, "annotations": {AUTOUPDATE: "true"}}, "rules": [get, list]});
        let gathers = with(
            &with(&wanted, "/rules", json!([])),
            "/aggregationRule",
            json!({"clusterRoleSelectors": [selector]}),
        );
        let cases = [
            ("the same", wanted.clone(), &wanted, None),
            ("more than enough", with(&wanted, "/rules", json!([all])), &wanted, None),
            ("too little", with(&wanted, "/rules", json!([get])), &wanted, Some(wanted.clone())),
            ("no labels", with(&wanted, "/metadata/labels", Value::Null), &wanted, Some(wanted.clone())),
            ("other labels", with(&wanted, "/metadata/labels", json!({"l": "2"})), &wanted, None),
            (
                "left alone",
                json!({"metadata": {"annotations": {AUTOUPDATE: "false"}}, "rules": []}),
                &wanted,
                None,
            ),
            (
                "gathers what it should not",
                with(&wanted, "/aggregationRule", json!({})),
                &wanted,
                Some(wanted.clone()),
            ),
            ("has gathered", with(&gathers, "/rules", json!([get])), &gathers, None),
            (
                "does not gather",
                with(&gathers, "/aggregationRule", Value::Null),
                &gathers,
                Some(gathers.clone()),
            ),
        ];
        for (case, found, wanted, mended) in cases {
            assert_eq!(role(&found, wanted), mended, "{case}");
        }
    }

    #[test]
    fn bindings_get_what_they_lack() {
        let subject =
            |name: &str| json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": name});
        let wanted = json!({
            "metadata": {"annotations": {AUTOUPDATE: "true"}},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "a"},
            "subjects": [subject("x")],
        });
        let both = |one, other| with(&wanted, "/subjects", json!([subject(one), subject(other)]));
        let off = with(&wanted, "/metadata/annotations", json!({AUTOUPDATE: "false"}));
        for (case, found, todo) in [
            ("the same", wanted.clone(), Binding::Good),
            ("one more", both("y", "x"), Binding::Good),
            ("another", with(&wanted, "/subjects", json!([subject("y")])), Binding::Update(both("y", "x"))),
            ("none", with(&wanted, "/subjects", Value::Null), Binding::Update(wanted.clone())),
            ("another role", with(&wanted, "/roleRef/name", "b".into()), Binding::Replace),
            ("left alone", with(&off, "/roleRef/name", "b".into()), Binding::Good),
        ] {
            assert_eq!(binding(&found, &wanted), todo, "{case}");
        }
    }
}
