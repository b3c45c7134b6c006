//! Reading a body: is it the right kind, does it have unknown fields, what are its defaults.

use kubeapi::builtin::{self, Node};
use kubeapi::media::PatchType;
use kubeapi::request::FieldValidation;
use kubeapi::schema::unknown_field;
use kubeapi::{FieldError, GroupKind, GroupVersion, Path, Status, meta};
use serde_json::{Value, json};

use super::{fits, kinds};
use crate::registry::Resource;

/// How much of a body is shown to who sent something else.
const SHOWN: usize = 30;

/// Makes a body an object of the resource: its kind checked, unknown fields dropped, defaults filled in. Gives the
/// warnings.
///
/// # Errors
/// 400 if it is another version or has the wrong structure, or has unknown fields and may not.
pub(crate) fn read(
    resource: &Resource,
    body: &mut Value,
    validation: FieldValidation,
) -> Result<Vec<String>, Status> {
    typed(resource, body)?;
    structured(resource, body, validation).map_err(|why| {
        let (kind, version) = (&resource.kind, &resource.version);
        Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
    })
}

/// Makes what a patch has made of an object an object of the resource again, as [`read`] does with a body.
///
/// # Errors
/// 422 if it is not one any more, or has unknown fields and may not.
pub(super) fn read_patched(
    resource: &Resource,
    patched: &mut Value,
    kind: PatchType,
    change: &Value,
    validation: FieldValidation,
) -> Result<Vec<String>, Status> {
    // Upstream shows the patch if it is strategic, else the object.
    let shown = if kind == PatchType::Strategic { go_text(change) } else { patched.to_string() };
    let invalid = |why: String| {
        let error = FieldError::invalid(&Path::new("patch"), shown.as_str(), why);
        Status::invalid(&GroupKind::default(), "", &[error])
    };
    let (version, expected) = (patched["apiVersion"].clone(), resource.group_version().to_string());
    if kind == PatchType::Strategic {
        patched["apiVersion"] = json!(expected);
        patched["kind"] = json!(resource.kind);
    } else if resource.as_custom().is_none() {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&version), text(&patched["kind"]));
        if version != expected || kind != resource.kind {
            return Err(invalid(foreign(resource, &version, &kind)));
        }
    } else if version != expected.as_str() {
        let why = format!("must be {expected}");
        let error = FieldError::invalid(&Path::new("apiVersion"), version, why);
        return Err(Status::invalid(&resource.group_kind(), meta::text(patched, "name"), &[error]));
    }
    structured(resource, patched, validation).map_err(invalid)
}

/// Makes an object that was changed on its way to the store an object of the resource again.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read_changed(resource: &Resource, object: &mut Value) -> Result<(), String> {
    structured(resource, object, FieldValidation::Ignore).map(drop)
}

/// Drops unknown fields and fills in defaults. Gives the warnings.
///
/// # Errors
/// What Go's decoder would say.
fn structured(
    resource: &Resource,
    body: &mut Value,
    validation: FieldValidation,
) -> Result<Vec<String>, String> {
    let unknown = match resource.as_custom() {
        Some(custom) => {
            let mut unknown = fit_metadata(body)?;
            if let Some(schema) = &custom.schema {
                // Defaults come first: a default may be there for what is then pruned.
                schema.default(body);
                unknown.extend(schema.prune(body));
            }
            unknown
        }
        None => {
            let node = Node::of_kind(builtin::types(), &resource.gvk());
            let unknown = fits::fit(node, body, &resource.kind)?;
            kinds::complete(resource, node, body)?;
            unknown
        }
    };
    let messages: Vec<String> = unknown.iter().map(|path| unknown_field(path)).collect();
    match validation {
        FieldValidation::Strict if !messages.is_empty() => {
            Err(format!("strict decoding error: {}", messages.join(", ")))
        }
        FieldValidation::Warn => Ok(messages),
        FieldValidation::Strict | FieldValidation::Ignore => Ok(Vec::new()),
    }
}

/// The metadata of a custom object is of the same type as that of all others.
fn fit_metadata(body: &mut Value) -> Result<Vec<String>, String> {
    let Some(metadata) = body.get_mut("metadata") else { return Ok(Vec::new()) };
    let any_kind = GroupVersion::new("", "v1").kind("ConfigMap");
    let node = Node::of_kind(builtin::types(), &any_kind).child("metadata");
    let unknown = fits::fit(node, metadata, "v1.ObjectMeta")?;
    Ok(unknown.into_iter().map(|path| format!("metadata.{path}")).collect())
}

/// A value as Go prints it.
fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(key, value)| format!("{key}:{}", go_text(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
        other => other.to_string(),
    }
}

/// Checks `apiVersion` and `kind`; a built-in kind need not say them.
fn typed(resource: &Resource, body: &mut Value) -> Result<(), Status> {
    let unrecognized = |why: &str, body: &Value| {
        // What does not even look like an object is shown in hexadecimal.
        let text = match body.to_string() {
            text if body.is_object() => text,
            text => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
        };
        let shown: String = text.chars().take(SHOWN).collect();
        let rest = if text.chars().count() > SHOWN { " ..." } else { "" };
        let kind = &resource.kind;
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({shown}{rest})"
        ))
    };
    if !body.is_object() {
        let found = match body {
            Value::Array(_) => "array",
            Value::String(_) => "string",
            Value::Bool(_) => "bool",
            _ => "number",
        };
        let wanted = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
        let why = format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type {wanted}"
        );
        return Err(unrecognized(&why, body));
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
