//! The reviews that are about who asks and what they may: answered, and nowhere stored.

mod selectors;

use kubeapi::authn::User;
use kubeapi::rbac::{self, Attributes, ResourceTarget, Target};
use kubeapi::request::WriteOptions;
use kubeapi::{FieldError, GroupKind, Path, Status, meta};
use serde_json::{Value, json};

use super::{Answer, Call, Server, body};
use crate::auth::user_info;

/// Whether this is a kind that is answered here.
pub(super) fn is_review(call: Call<'_>) -> bool {
    let group = call.resource.group.as_str();
    group == "authorization.k8s.io"
        || (group, &*call.resource.kind) == ("authentication.k8s.io", "SelfSubjectReview")
}

impl Server {
    pub(super) fn review(&self, call: Call<'_>) -> Result<Answer, Status> {
        if !call.name().is_empty() {
            return Err(Status::method_not_allowed());
        }
        let options = WriteOptions::create(&call.request.query)?;
        let mut review = call.body()?;
        let warnings = body::read(call.resource, &mut review, options.field_validation)?;
        meta::ensure_namespace(&mut review, call.namespace())?;
        wipe(&mut review);
        let user = &call.request.user;
        match call.resource.kind.as_str() {
            "SelfSubjectReview" => {
                let metadata = json!({"creationTimestamp": super::object::time(self.clock.now())});
                let status = json!({"userInfo": user_info(user)});
                fill(&mut review, [("metadata", metadata), ("status", status)]);
            }
            "SelfSubjectRulesReview" => {
                let namespace = text(&review["spec"], "namespace");
                if namespace.is_empty() {
                    return Err(Status::bad_request("no namespace on request"));
                }
                let rules = rbac::review_rules(user, namespace, &self.policy());
                let status = serde_json::to_value(rules).map_err(Status::internal)?;
                // As upstream: the answer does not repeat the question.
                fill(&mut review, [("metadata", json!({})), ("spec", json!({})), ("status", status)]);
            }
            _ => self.review_access(call, &mut review)?,
        }
        Ok(call.answer(201, review, warnings))
    }

    /// Whether somebody, or (in a review of oneself) who asks, may do something.
    fn review_access(&self, call: Call<'_>, review: &mut Value) -> Result<(), Status> {
        let errors = wrong(&call.resource.kind, review);
        if !errors.is_empty() {
            // Upstream does not say the kind here.
            return Err(Status::invalid(&GroupKind::new(&*call.resource.group, ""), "", &errors));
        }
        let spec = &review["spec"];
        let user = match call.resource.kind.as_str() {
            "SelfSubjectAccessReview" => call.request.user.clone(),
            _ => subject(spec),
        };
        let (verb, target) = asked(spec);
        let decision = rbac::authorize(&Attributes { user: &user, verb, target }, &self.policy());
        let mut status = json!({"allowed": decision.allowed});
        if !decision.reason.is_empty() {
            status["reason"] = json!(decision.reason);
        }
        let ignored = selectors::ignored(&spec["resourceAttributes"]);
        if !ignored.is_empty() {
            status["evaluationError"] = json!(ignored.join("; "));
        }
        fill(review, [("status", status)]);
        Ok(())
    }
}

fn fill<const N: usize>(review: &mut Value, fields: [(&str, Value); N]) {
    for (field, value) in fields {
        review[field] = value;
    }
    if review["metadata"].is_null() {
        review["metadata"] = json!({});
    }
}

/// What only the server sets is not looked at.
fn wipe(review: &mut Value) {
    if let Some(metadata) = review["metadata"].as_object_mut() {
        for field in
            ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"]
        {
            metadata.remove(field);
        }
    }
}

/// What a review asks about.
fn asked(spec: &Value) -> (&str, Target<'_>) {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    if resource.is_null() {
        return (text(path, "verb"), Target::Path(text(path, "path")));
    }
    let target = ResourceTarget {
        group: text(resource, "group"),
        resource: text(resource, "resource"),
        subresource: text(resource, "subresource"),
        namespace: text(resource, "namespace"),
        name: text(resource, "name"),
    };
    (text(resource, "verb"), Target::Resource(target))
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// The user that a review asks for.
fn subject(spec: &Value) -> User {
    let texts = |list: &Value| -> Vec<String> {
        let list = list.as_array().into_iter().flatten();
        list.filter_map(|one| one.as_str().map(str::to_owned)).collect()
    };
    let extra = spec["extra"].as_object().into_iter().flatten();
    User {
        name: text(spec, "user").into(),
        uid: text(spec, "uid").into(),
        groups: texts(&spec["groups"]),
        extra: extra.map(|(key, values)| (key.clone(), texts(values))).collect(),
    }
}

fn wrong(kind: &str, review: &Value) -> Vec<FieldError> {
    let path = Path::new("spec");
    let spec = &review["spec"];
    let (resource, plain) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let mut errors = Vec::new();
    if !resource.is_null() && !plain.is_null() {
        let why = "cannot be specified in combination with resourceAttributes";
        errors.push(FieldError::invalid(&path.child("nonResourceAttributes"), in_go(plain), why));
    }
    if resource.is_null() && plain.is_null() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.push(FieldError::invalid(&path.child("resourceAttributes"), Value::Null, why));
    }
    let nobody = text(spec, "user").is_empty() && spec["groups"].as_array().is_none_or(Vec::is_empty);
    if kind != "SelfSubjectAccessReview" && nobody {
        let why = "at least one of user or group must be specified";
        errors.push(FieldError::invalid(&path.child("user"), "", why));
    }
    errors.extend(selectors::wrong(resource, &path.child("resourceAttributes")));
    let local = kind == "LocalSubjectAccessReview";
    errors.extend(wrong_metadata(&review["metadata"], local));
    if local {
        errors.extend(wrong_place(review));
    }
    errors
}

fn wrong_metadata(metadata: &Value, local: bool) -> Option<FieldError> {
    let allowed = |field: &str| field == "managedFields" || local && field == "namespace";
    let empty = |value: &Value| match value {
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        other => other.is_null(),
    };
    let mut fields = metadata.as_object().into_iter().flatten();
    let given = fields.any(|(field, value)| !allowed(field) && !empty(value));
    let why = if local { "must be empty except for namespace" } else { "must be empty" };
    given.then(|| FieldError::invalid(&Path::new("metadata"), metadata.clone(), why))
}

/// As upstream's messages show it: with the names of its Go fields.
fn in_go(attributes: &Value) -> Value {
    json!({"Path": text(attributes, "path"), "Verb": text(attributes, "verb")})
}

/// A review in a namespace is about that namespace.
fn wrong_place(review: &Value) -> Vec<FieldError> {
    let (resource, plain) = (&review["spec"]["resourceAttributes"], &review["spec"]["nonResourceAttributes"]);
    let mut errors = Vec::new();
    let namespace = text(resource, "namespace");
    if !resource.is_null() && namespace != meta::text(review, "namespace") {
        let path = Path::new("spec").child("resourceAttributes").child("namespace");
        errors.push(FieldError::invalid(&path, namespace, "must match metadata.namespace"));
    }
    if !plain.is_null() {
        let path = Path::new("spec").child("nonResourceAttributes");
        errors.push(FieldError::invalid(&path, in_go(plain), "disallowed on this kind of request"));
    }
    errors
}
