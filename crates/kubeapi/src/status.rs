//! `metav1.Status`: how an API server says that something went wrong, in upstream's words.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{FieldError, GroupKind, GroupResource};

/// The answer to a request that failed (or, with status `Success`, to a deletion).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Always `Status`.
    pub kind: String,
    /// Always `v1`.
    pub api_version: String,
    /// List metadata, empty.
    #[serde(default)]
    pub metadata: serde_json::Map<String, serde_json::Value>,
    /// `Success` or `Failure`.
    pub status: String,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// For programs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
    /// The HTTP status code.
    #[serde(default)]
    pub code: u16,
}

/// What a [`Status`] is about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Details {
    /// Name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// API group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Kind, or (for most reasons) resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// UID of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Each single thing that is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// When to try again.
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

/// One thing that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cause {
    /// For programs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Path of the field.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Status {
    fn failure(code: u16, reason: &str, message: impl Into<String>, details: Option<Details>) -> Self {
        Status {
            kind: "Status".into(),
            api_version: "v1".into(),
            metadata: serde_json::Map::new(),
            status: "Failure".into(),
            message: message.into(),
            reason: reason.into(),
            details,
            code,
        }
    }

    /// What a finished deletion answers.
    pub fn success(details: Details) -> Self {
        let failure = Status::failure(200, "", "", Some(details));
        Status { status: "Success".into(), ..failure }
    }

    /// There is no such object.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Status::failure(404, "NotFound", format!("{resource} {name:?} not found"), about(resource, name))
    }

    /// There is no such path or kind of thing at all.
    pub fn no_such_resource() -> Self {
        let details = Details::default();
        Status::failure(404, "NotFound", "the server could not find the requested resource", Some(details))
    }

    /// An object of that name is there.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {name:?} already exists");
        Status::failure(409, "AlreadyExists", message, about(resource, name))
    }

    /// `generateName` ran into an object that is there.
    pub fn generated_name_taken(resource: &GroupResource, name: &str) -> Self {
        let message = format!(
            "{resource} {name:?} already exists, the server was not able to generate a unique name for the object"
        );
        let mut details = about(resource, name).unwrap_or_default();
        details.retry_after_seconds = 1;
        Status::failure(409, "AlreadyExists", message, Some(details))
    }

    /// The object is not as the request takes it to be.
    pub fn conflict(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Status::failure(409, "Conflict", message, about(resource, name))
    }

    /// Somebody else has changed the object since it was read.
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Status::conflict(resource, name, why)
    }

    /// The object breaks rules.
    pub fn invalid(kind: &GroupKind, name: &str, errors: &[FieldError]) -> Self {
        let causes = errors
            .iter()
            .map(|error| Cause {
                reason: error.problem.reason().into(),
                message: error.body(),
                field: error.path.to_string(),
            })
            .collect();
        let details = Details {
            name: name.into(),
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            causes,
            ..Details::default()
        };
        let message = match distinct(errors).as_slice() {
            [] => format!("{kind} {name:?} is invalid"),
            [one] => format!("{kind} {name:?} is invalid: {one}"),
            many => format!("{kind} {name:?} is invalid: [{}]", many.join(", ")),
        };
        Status::failure(422, "Invalid", message, Some(details))
    }

    /// Who asks may not.
    pub fn forbidden(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = match (resource.resource.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (_, true) => format!("{resource} is forbidden: {why}"),
            _ => format!("{resource} {name:?} is forbidden: {why}"),
        };
        Status::failure(403, "Forbidden", message, about(resource, name))
    }

    /// It is not known who asks.
    pub fn unauthorized() -> Self {
        Status::failure(401, "Unauthorized", "Unauthorized", None)
    }

    /// The request makes no sense.
    pub fn bad_request(why: impl Into<String>) -> Self {
        Status::failure(400, "BadRequest", why, None)
    }

    /// The resource has no such verb.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Status::failure(405, "MethodNotAllowed", message, Some(Details::default()))
    }

    /// The answer cannot be given in any of the formats asked for.
    pub fn not_acceptable(formats: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", formats.join(", "));
        Status::failure(406, "NotAcceptable", message, None)
    }

    /// The body is in a format that is not read here.
    pub fn unsupported_media_type(formats: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            formats.join(", ")
        );
        Status::failure(415, "UnsupportedMediaType", message, None)
    }

    /// History before the asked-for revision has been forgotten.
    pub fn expired(why: impl Into<String>) -> Self {
        Status::failure(410, "Expired", why, None)
    }

    /// The body is too large.
    pub fn too_large(why: impl Into<String>) -> Self {
        Status::failure(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: {}", why.into()),
            None,
        )
    }

    /// Too much is asked at once.
    pub fn too_many_requests(why: impl Into<String>, retry_after_seconds: u32) -> Self {
        let details = Details { retry_after_seconds, ..Details::default() };
        Status::failure(429, "TooManyRequests", why, Some(details))
    }

    /// The server is at fault.
    pub fn internal(why: impl fmt::Display) -> Self {
        let message = format!("Internal error occurred: {why}");
        let cause = Cause { message: why.to_string(), ..Cause::default() };
        Status::failure(
            500,
            "InternalError",
            message,
            Some(Details { causes: vec![cause], ..Details::default() }),
        )
    }

    /// The server cannot do it now.
    pub fn unavailable(why: impl Into<String>) -> Self {
        Status::failure(503, "ServiceUnavailable", why, None)
    }

    /// It took too long.
    pub fn timeout(why: impl Into<String>, retry_after_seconds: u32) -> Self {
        let details = Details { retry_after_seconds, ..Details::default() };
        Status::failure(504, "Timeout", format!("Timeout: {}", why.into()), Some(details))
    }
}

fn about(resource: &GroupResource, name: &str) -> Option<Details> {
    let (group, kind) = (resource.group.clone(), resource.resource.clone());
    Some(Details { name: name.into(), group, kind, ..Details::default() })
}

/// The same sentence is said once.
fn distinct(errors: &[FieldError]) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    for sentence in errors.iter().map(FieldError::to_string) {
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    }
    sentences
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Path;

    #[test]
    fn messages_read_as_upstreams() {
        let pods = GroupResource::new("", "pods");
        let deployments = GroupResource::new("apps", "deployments");
        let name = Path::new("metadata").child("name");
        let required = FieldError::required(&name, "");
        let cases = [
            (Status::not_found(&pods, "a"), 404, r#"pods "a" not found"#),
            (Status::already_exists(&deployments, "a"), 409, r#"deployments.apps "a" already exists"#),
            (
                Status::modified(&pods, "a"),
                409,
                r#"Operation cannot be fulfilled on pods "a": the object has been modified; please apply your changes to the latest version and try again"#,
            ),
            (
                Status::invalid(&GroupKind::new("", "Pod"), "a", &[required.clone(), required.clone()]),
                422,
                r#"Pod "a" is invalid: metadata.name: Required value"#,
            ),
            (
                Status::invalid(
                    &GroupKind::new("apps", "Deployment"),
                    "a",
                    &[required, FieldError::invalid(&name, "X", "no")],
                ),
                422,
                r#"Deployment.apps "a" is invalid: [metadata.name: Required value, metadata.name: Invalid value: "X": no]"#,
            ),
            (Status::forbidden(&pods, "", "no"), 403, "pods is forbidden: no"),
        ];
        for (status, code, message) in cases {
            assert_eq!((status.code, status.message.as_str()), (code, message));
        }
    }

    #[test]
    fn every_error_of_a_field_is_a_cause() {
        let name = Path::new("metadata").child("name");
        let status = Status::invalid(&GroupKind::new("", "Pod"), "a", &[FieldError::required(&name, "")]);
        let json = serde_json::to_value(&status).unwrap();
        assert_eq!(json["details"]["causes"][0]["reason"], "FieldValueRequired");
        assert_eq!(json["details"]["causes"][0]["message"], "Required value");
        assert_eq!(json["details"]["causes"][0]["field"], "metadata.name");
        assert_eq!(json["details"]["kind"], "Pod");
    }
}
