//! Decoders that are functions.

use kubeapi::admission::{self, ReviewVersion};
use kubeapi::apply::Managers;
use kubeapi::authn::User;
use kubeapi::authn::impersonation::Impersonation;
use kubeapi::limits::Limits;
use kubeapi::media::{self, Endpoint};
use kubeapi::request::{ListOptions, Query, Target};
use kubeapi::schema::Structural;
use kubeapi::selector::{field, label};
use kubeapi::{GroupVersionKind, jsonpath, patch, proto};
use serde_json::{Value, json};

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// JSON, as it is let in.
fn json_of(bytes: &[u8]) -> Option<Value> {
    Limits::REQUEST.check_json(bytes).ok()?;
    serde_json::from_slice(bytes).ok()
}

pub(crate) fn accept(bytes: &[u8]) {
    let header = text(bytes);
    for endpoint in [Endpoint::Builtin, Endpoint::Custom] {
        let _ = media::accept(&header, endpoint);
        let _ = media::accept_watch(&header, endpoint);
        let _ = media::content_type(&header, endpoint);
        let _ = media::patch_type(&header, endpoint);
    }
}

/// A rule of a schema, compiled and asked about an object.
pub(crate) fn cel(bytes: &[u8]) {
    let schema = json!({
        "type": "object",
        "x-kubernetes-validations": [{"rule": text(bytes)}],
        "properties": {
            "a": {"type": "array", "maxItems": 3, "items": {"type": "integer"}},
            "b": {"type": "string", "maxLength": 3},
            "c": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    });
    if let Ok(schema) = Structural::compile(&schema) {
        schema.validate(&json!({"a": [1, 2], "b": "x", "c": {"d": "e"}}), None);
    }
}

pub(crate) fn crd_schema(bytes: &[u8]) {
    let Some(schema) = json_of(bytes) else { return };
    let Ok(schema) = Structural::compile(&schema) else { return };
    let mut object = json!({"a": ["x", null, {"b": 1}], "metadata": {"name": "a"}, "spec": {}});
    schema.prune(&mut object);
    schema.default(&mut object);
    schema.validate(&object, None);
}

pub(crate) fn field_selector(bytes: &[u8]) {
    if let Ok(selector) = field::Selector::parse(&text(bytes)) {
        selector.matches(&[("metadata.name".to_owned(), "a".to_owned())].into());
    }
}

pub(crate) fn label_selector(bytes: &[u8]) {
    if let Ok(selector) = label::Selector::parse(&text(bytes)) {
        // What is shown is read as the same.
        let shown = selector.to_string();
        assert_eq!(label::Selector::parse(&shown).map(|again| again.to_string()), Ok(shown));
    }
}

/// Headers, one a line.
pub(crate) fn impersonation(bytes: &[u8]) {
    let headers = text(bytes);
    let headers = headers.lines().filter_map(|line| line.split_once(": "));
    if let Ok(Some(asked)) = Impersonation::from_headers(headers) {
        // Nobody becomes somebody without being asked for at least that.
        assert!(!asked.checks(&User::default()).is_empty() && !asked.user().name.is_empty());
    }
}

pub(crate) fn json_path(bytes: &[u8]) {
    if let Ok(path) = jsonpath::JsonPath::parse(&text(bytes)) {
        let _ = path.find(&json!({"a": [{"b": "c", "d": [1, 2, 3]}], "e": {"f": null}}));
    }
}

fn object() -> Value {
    json!({"a": {"b": [1, 2, {"c": null}]}, "b": ["x"], "metadata": {"name": "a"}})
}

/// What a patch makes of an object can be read again.
fn readable(patched: &Value) {
    assert_eq!(Limits::REQUEST.check(patched), Ok(()));
    let again: Value = serde_json::from_str(&patched.to_string()).expect("it is JSON");
    assert_eq!(&again, patched);
}

pub(crate) fn patch_json(bytes: &[u8]) {
    let Some(change) = json_of(bytes) else { return };
    if let Ok(patched) = patch::json::apply(&object(), &change) {
        readable(&patched);
    }
}

pub(crate) fn patch_merge(bytes: &[u8]) {
    let Some(change) = json_of(bytes) else { return };
    if let Ok(patched) = patch::merge::apply(&object(), &change) {
        readable(&patched);
    }
}

pub(crate) fn patch_strategic(bytes: &[u8]) {
    let Some(change) = json_of(bytes) else { return };
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "finalizers": ["x", "y"]},
        "spec": {"containers": [{"name": "a"}, {"name": "b", "ports": [{"containerPort": 1}]}]},
    });
    let kind = GroupVersionKind::of(&pod).expect("it says what it is");
    if let Ok(patched) = patch::strategic::apply(&kind, &pod, &change) {
        readable(&patched);
    }
}

/// What is decoded can be encoded, and means the same.
pub(crate) fn protobuf(bytes: &[u8]) {
    if let Ok(object) = proto::decode(bytes) {
        readable(&object);
        let encoded = proto::encode(&object).expect("what was decoded can be encoded");
        assert_eq!(proto::decode(&encoded), Ok(object));
    }
    if let Ok(Some((frame, _))) = proto::split_watch_frame(bytes, Limits::REQUEST) {
        let _ = proto::decode_watch_event(frame, Limits::REQUEST);
    }
}

pub(crate) fn request_path(bytes: &[u8]) {
    let line = text(bytes);
    let (method, url) = line.split_once(' ').unwrap_or(("GET", &line));
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let query = Query::parse(query);
    let _ = Target::parse(method, path, &query);
    let _ = ListOptions::parse(&query);
    let _ = ListOptions::parse_watch(&query);
}

/// Owners of fields, as anybody may write them.
pub(crate) fn managed_fields(bytes: &[u8]) {
    let Some(entries) = json_of(bytes) else { return };
    if let Ok(managers) = Managers::decode(&entries) {
        // What is written is read as the same.
        let written = managers.encode();
        let again = Managers::decode(&written).map(|again| again.encode());
        assert_eq!(again, Ok(written));
    }
}

/// What a webhook answers.
pub(crate) fn admission_answer(bytes: &[u8]) {
    let Some(answer) = json_of(bytes) else { return };
    for version in [ReviewVersion::V1, ReviewVersion::V1beta1] {
        let Ok(read) = admission::read(&answer, version, "u", true) else { continue };
        if let Some(patch) = read.patch {
            let _ = patch::json::apply(&object(), &patch);
        }
        admission::denied("w", &read.result);
    }
}

/// A plan, as the agent gets it.
pub(crate) fn plan_document(bytes: &[u8]) {
    let Ok(document) = plan::Document::parse(bytes) else { return };
    plan::validate(document.plan());
    // What is written is read as the same.
    let written = plan::Document::encode(document.plan().clone());
    let again = plan::Document::parse(written.bytes()).expect("what we write can be read");
    assert_eq!(again.plan(), document.plan());
}

/// The keys of a plan's Secret that others write: the same bytes in each of them.
pub(crate) fn plan_secret(bytes: &[u8]) {
    let keys =
        ["applied-output", "applied-periodic-output", "probe-statuses", "failure-count", "last-apply-time"];
    let data = keys.iter().map(|key| ((*key).to_owned(), bytes.to_vec())).collect();
    let _ = plan::PlanSecret::read(&data);
}

pub(crate) fn image_reference(bytes: &[u8]) {
    if let Ok(reference) = text(bytes).parse::<image::Reference>() {
        // What is shown is read as the same.
        let shown = reference.to_string();
        assert_eq!(shown.parse::<image::Reference>().expect("what we show can be read"), reference);
    }
}
