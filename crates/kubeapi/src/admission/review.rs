//! AdmissionReviews: what a webhook is asked, and what it answers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::status::Details;
use crate::{GroupVersionKind, Status};

/// A version of AdmissionReview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// The current one.
    V1,
    /// Its predecessor, which promises less.
    V1beta1,
}

impl ReviewVersion {
    /// The first known one of those that a webhook understands.
    pub fn choose(understood: &[String]) -> Option<Self> {
        understood.iter().find_map(|version| match version.as_str() {
            "v1" => Some(ReviewVersion::V1),
            "v1beta1" => Some(ReviewVersion::V1beta1),
            _ => None,
        })
    }

    fn group_version(self) -> &'static str {
        match self {
            ReviewVersion::V1 => "admission.k8s.io/v1",
            ReviewVersion::V1beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// What is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Of the objects as they are shown.
    pub kind: &'a GroupVersionKind,
    /// Group, version and plural as they are shown.
    pub resource: (&'a str, &'a str, &'a str),
    /// Of the objects as the client has them.
    pub request_kind: &'a GroupVersionKind,
    /// Group, version and plural as the client has them.
    pub request_resource: (&'a str, &'a str, &'a str),
    /// Empty for the whole object.
    pub subresource: &'a str,
    /// Empty if it is yet to be made up.
    pub name: &'a str,
    /// Empty for kinds without.
    pub namespace: &'a str,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: &'a str,
    /// Who asks, as a UserInfo.
    pub user: &'a Value,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// `CreateOptions`, `UpdateOptions` or `DeleteOptions`.
    pub options: &'a Value,
}

impl Question<'_> {
    /// The request without its objects: what expressions see.
    pub fn request(&self) -> Value {
        let kind = |kind: &GroupVersionKind| json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        let resource = |(group, version, resource): (&str, &str, &str)| json!({"group": group, "version": version, "resource": resource});
        let mut request = json!({
            "kind": kind(self.kind), "resource": resource(self.resource),
            "requestKind": kind(self.request_kind), "requestResource": resource(self.request_resource),
            "operation": self.operation, "userInfo": self.user, "dryRun": self.dry_run,
            "options": self.options,
        });
        for (field, value) in [
            ("subResource", self.subresource),
            ("requestSubResource", self.subresource),
            ("name", self.name),
            ("namespace", self.namespace),
        ] {
            if !value.is_empty() {
                request[field] = value.into();
            }
        }
        request
    }

    /// The whole question.
    pub fn review(
        &self,
        version: ReviewVersion,
        uid: &str,
        object: Option<&Value>,
        old_object: Option<&Value>,
    ) -> Value {
        let mut request = self.request();
        request["uid"] = uid.into();
        request["object"] = object.cloned().unwrap_or_default();
        request["oldObject"] = old_object.cloned().unwrap_or_default();
        json!({"kind": "AdmissionReview", "apiVersion": version.group_version(), "request": request})
    }
}

/// What a webhook says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Whether it agrees.
    pub allowed: bool,
    /// A JSON patch of the object, if it changes it.
    pub patch: Option<Value>,
    /// Why it does not agree: a Status.
    pub result: Value,
    /// For the client.
    pub warnings: Vec<String>,
    /// For the audit log, by key.
    pub audit_annotations: Vec<(String, String)>,
}

/// Reads an answer; only webhooks that change objects may give patches.
///
/// # Errors
/// A sentence in upstream's words.
pub fn read(answer: &Value, version: ReviewVersion, uid: &str, mutating: bool) -> Result<Answer, String> {
    let invalid = |why: String| format!("received invalid webhook response: {why}");
    let response = &answer["response"];
    if response.is_null() {
        return Err(invalid("webhook response was absent".into()));
    }
    if version == ReviewVersion::V1 {
        promises(answer, uid).map_err(invalid)?;
        patch_suits(response, mutating).map_err(invalid)?;
    }
    let patch = if mutating { patch(response)? } else { None };
    let warnings = response["warnings"].as_array().into_iter().flatten();
    let annotations = response["auditAnnotations"].as_object().into_iter().flatten();
    Ok(Answer {
        allowed: response["allowed"] == true,
        patch,
        result: response["status"].clone(),
        warnings: warnings.filter_map(|one| one.as_str().map(str::to_owned)).collect(),
        audit_annotations: annotations
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect(),
    })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn promises(answer: &Value, uid: &str) -> Result<(), String> {
    let found = text(&answer["response"]["uid"]);
    if found != uid {
        return Err(format!("expected response.uid={uid:?}, got {found:?}"));
    }
    let (version, kind) = (text(&answer["apiVersion"]), text(&answer["kind"]));
    if (version, kind) != ("admission.k8s.io/v1", "AdmissionReview") {
        // Go's empty group and version are a stroke.
        let version = if version.is_empty() { "/" } else { version };
        return Err(format!(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {version}, Kind={kind}"
        ));
    }
    Ok(())
}

fn patch_suits(response: &Value, mutating: bool) -> Result<(), String> {
    let (patch, kind) = (!text(&response["patch"]).is_empty(), response["patchType"].as_str());
    Err(match (mutating, patch, kind) {
        (true, true, None) => "webhook returned response.patch but not response.patchType".into(),
        (true, false, Some(_)) => "webhook returned response.patchType but not response.patch".into(),
        (true, true, Some("")) => "webhook returned invalid response.patchType of \"\"".into(),
        (false, true, _) => "validating webhook may not return response.patch".into(),
        (false, false, Some(_)) => "validating webhook may not return response.patchType".into(),
        _ => return Ok(()),
    })
}

/// The operations of a patch; none if there is nothing to do.
fn patch(response: &Value) -> Result<Option<Value>, String> {
    let undecodable = |why: String| format!("received undecodable patch in webhook response: {why}");
    let encoded = text(&response["patch"]);
    if encoded.is_empty() {
        return Ok(None);
    }
    if let Some(other) = response["patchType"].as_str().filter(|kind| *kind != "JSONPatch") {
        return Err(format!("unsupported patch type {other:?}"));
    }
    let bytes = STANDARD.decode(encoded).map_err(|error| undecodable(error.to_string()))?;
    let patch: Value = serde_json::from_slice(&bytes).map_err(|error| undecodable(error.to_string()))?;
    Ok(patch.as_array().is_none_or(|operations| !operations.is_empty()).then_some(patch))
}

/// What a client is told whose write a webhook does not agree with; `result` is what the webhook says.
pub fn denied(webhook: &str, result: &Value) -> Status {
    let by = format!("admission webhook {webhook:?} denied the request");
    let message = match (text(&result["message"]), text(&result["reason"])) {
        ("", "") => format!("{by} without explanation"),
        ("", reason) => format!("{by}: {reason}"),
        (message, _) => format!("{by}: {message}"),
    };
    let status = match text(&result["status"]) {
        "" | "Success" => "Failure",
        other => other,
    };
    let code = result["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(0);
    Status {
        status: status.to_owned(),
        reason: text(&result["reason"]).to_owned(),
        details: Details::deserialize(&result["details"]).ok(),
        // A refusal has to look like one.
        code: code.clamp(400, 599),
        ..Status::bad_request(message)
    }
}

/// The same for somebody in process who would be this webhook elsewhere, and refuses with a Status.
pub fn denied_with(webhook: &str, why: &Status) -> Status {
    denied(webhook, &serde_json::to_value(why).unwrap_or_default())
}

#[cfg(test)]
mod tests;
