//! ConfigMaps and Secrets.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::findings::{Findings, text};
use crate::{FieldError, Path, name};

/// Most bytes of a ConfigMap's or Secret's values.
const MOST_BYTES: usize = 1 << 20;

const IMMUTABLE: &str = "field is immutable when `immutable` is set";
const ACCOUNT: &str = "kubernetes.io/service-account.name";

pub(super) fn secret(object: &Value, found: &mut Findings) {
    data(object, &["data"], found);
    let (values, path) = (&object["data"], Path::new("data"));
    let mut require = |keys: &[&str]| {
        for key in keys.iter().filter(|key| values[**key].is_null()) {
            found.required(&path.key(key), "");
        }
    };
    match text(object, "type") {
        "kubernetes.io/service-account-token"
            if text(&object["metadata"]["annotations"], ACCOUNT).is_empty() =>
        {
            found.required(&Path::new("metadata").child("annotations").key(ACCOUNT), "");
        }
        "kubernetes.io/dockercfg" => registry(values, ".dockercfg", found),
        "kubernetes.io/dockerconfigjson" => registry(values, ".dockerconfigjson", found),
        "kubernetes.io/basic-auth" if values["username"].is_null() && values["password"].is_null() => {
            require(&["username", "password"]);
        }
        "kubernetes.io/ssh-auth" if text(values, "ssh-privatekey").is_empty() => {
            found.required(&path.key("ssh-privatekey"), "");
        }
        "kubernetes.io/tls" => require(&["tls.crt", "tls.key"]),
        _ => {}
    }
}

/// How to log in to registries is JSON.
fn registry(values: &Value, key: &str, found: &mut Findings) {
    let path = Path::new("data").key(key);
    let Some(encoded) = values[key].as_str() else { return found.required(&path, "") };
    let decoded = STANDARD.decode(encoded).unwrap_or_default();
    if serde_json::from_slice::<serde_json::Map<String, Value>>(&decoded).is_err() {
        let first = String::from_utf8_lossy(&decoded).trim_start().chars().next();
        let why = match first {
            None => "unexpected end of JSON input".to_owned(),
            Some(first) => format!("invalid character '{first}' looking for beginning of value"),
        };
        found.invalid(&path, "<secret contents redacted>", why);
    }
}

pub(super) fn secret_update(new: &Value, old: &Value, found: &mut Findings) {
    found.unchanged(&new["type"], &old["type"], &Path::new("type"));
    sealed(new, old, &["data"], found);
}

/// What an update changes in an object that was declared immutable.
pub(super) fn sealed(new: &Value, old: &Value, fields: &[&str], found: &mut Findings) {
    if old["immutable"] != true {
        return;
    }
    if new["immutable"] != true {
        found.forbidden(&Path::new("immutable"), IMMUTABLE);
    }
    let entries = |object: &Value, field: &str| object[field].as_object().cloned().unwrap_or_default();
    for field in fields.iter().filter(|field| entries(new, field) != entries(old, field)) {
        found.forbidden(&Path::new(field), IMMUTABLE);
    }
}

/// The rules of keys and values.
pub(super) fn data(object: &Value, fields: &[&str], found: &mut Findings) {
    let mut bytes = 0;
    for field in fields {
        for (key, value) in object[*field].as_object().into_iter().flatten() {
            let path = Path::new(field).key(key);
            found.each(&path, key, name::config_key(key));
            if *field == "data" && !object["binaryData"][key].is_null() {
                found.invalid(&path, key.as_str(), "duplicate of key present in binaryData");
            }
            bytes += value.as_str().map_or(0, str::len);
        }
    }
    if bytes > MOST_BYTES {
        found.0.push(FieldError::too_long(&Path::new(fields[0]), MOST_BYTES));
    }
}
