//! Reading a body: is it the right kind, does it have unknown fields, what are its defaults.

use kubeapi::builtin::{self, Node};
use kubeapi::request::FieldValidation;
use kubeapi::schema::unknown_field;
use kubeapi::{GroupVersion, Status};
use serde_json::{Value, json};

use super::fits;
use crate::registry::Resource;

/// How much of a body is shown to who sent something else.
const SHOWN: usize = 30;

/// Makes a body an object of the resource: its kind checked, unknown fields dropped, defaults filled in. Gives the
/// warnings.
///
/// # Errors
/// 400 if it is another version or has the wrong structure, or has unknown fields and may not.
pub(super) fn read(
    resource: &Resource,
    body: &mut Value,
    validation: FieldValidation,
) -> Result<Vec<String>, Status> {
    typed(resource, body)?;
    let wrong = |why: String| {
        let (kind, version) = (&resource.kind, &resource.version);
        Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
    };
    let unknown = match resource.as_custom() {
        Some(custom) => custom.schema.as_ref().map_or_else(Vec::new, |schema| {
            // Defaults come first: a default may be there for what is then pruned.
            schema.default(body);
            schema.prune(body)
        }),
        None => {
            let node = Node::of_kind(builtin::types(), &resource.gvk());
            fits::fit(node, body, &resource.kind).map_err(wrong)?
        }
    };
    let messages: Vec<String> = unknown.iter().map(|path| unknown_field(path)).collect();
    match validation {
        FieldValidation::Strict if !messages.is_empty() => {
            Err(wrong(format!("strict decoding error: {}", messages.join(", "))))
        }
        FieldValidation::Warn => Ok(messages),
        FieldValidation::Strict | FieldValidation::Ignore => Ok(Vec::new()),
    }
}

/// Checks `apiVersion` and `kind`; a built-in kind need not say them.
fn typed(resource: &Resource, body: &mut Value) -> Result<(), Status> {
    let unrecognized = |why: &str, body: &Value| {
        let text = body.to_string();
        let shown: String = text.chars().take(SHOWN).collect();
        let rest = if text.chars().count() > SHOWN { " ..." } else { "" };
        let kind = &resource.kind;
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({shown}{rest})"
        ))
    };
    if !body.is_object() {
        return Err(unrecognized("couldn't get version/kind; json parse error", body));
    }
    let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
    let (mut version, mut kind) = (text("apiVersion"), text("kind"));
    let expected = resource.group_version();
    if kind.is_empty() && resource.as_custom().is_some() {
        return Err(unrecognized(&format!("Object 'Kind' is missing in '{body}'"), body));
    }
    if resource.as_custom().is_none() {
        if version.is_empty() {
            version = expected.to_string();
            body["apiVersion"] = json!(version);
        }
        if kind.is_empty() {
            kind.clone_from(&resource.kind);
            body["kind"] = json!(kind);
        }
        if kind != resource.kind || version != expected.to_string() {
            let why = foreign(resource, &version, &kind);
            let found = GroupVersion::parse(&version).unwrap_or_default().version;
            let resource = &resource.kind;
            return Err(Status::bad_request(format!(
                "{kind} in version {found:?} cannot be handled as a {resource}: {why}"
            )));
        }
    }
    if version != expected.to_string() {
        return Err(Status::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        )));
    }
    Ok(())
}

/// Why an object of another kind is not taken for a built-in one, as Go's scheme says it.
fn foreign(resource: &Resource, version: &str, kind: &str) -> String {
    let found = GroupVersion::parse(version).unwrap_or_default().kind(kind);
    if builtin::types().by_kind(&found).is_none() {
        return format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:110\""
        );
    }
    let package = match resource.group.split('.').next() {
        None | Some("") => "core",
        Some(group) => group,
    };
    format!("converting ({}.{kind}) to ({package}.{}): unknown conversion", found.version, resource.kind)
}
