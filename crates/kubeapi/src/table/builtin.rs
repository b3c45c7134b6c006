//! The rows of the built-in kinds, but for those that run something.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::age;
use super::columns::{self, Short};
use super::{Print, Row, pod, workload};
use crate::GroupKind;
use crate::selector::label;

/// Columns and rows of a kind.
pub(super) fn printer(kind: &GroupKind) -> (&'static [Short], Print) {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => (columns::POD, pod::pod),
        ("policy", "PodDisruptionBudget") => (columns::BUDGET, workload::budget),
        ("batch", "Job") => (columns::JOB, workload::job),
        ("apps", "DaemonSet") => (columns::DAEMON_SET, workload::daemon_set),
        ("apps", "Deployment") => (columns::DEPLOYMENT, workload::deployment),
        ("", "Service") => (columns::SERVICE, workload::service),
        ("", "Endpoints") => (columns::ENDPOINTS, workload::endpoints),
        ("discovery.k8s.io", "EndpointSlice") => (columns::ENDPOINT_SLICE, workload::endpoint_slice),
        ("", "Node") => (columns::NODE, node),
        ("" | "events.k8s.io", "Event") => (columns::EVENT, event),
        ("", "Namespace") => (columns::NAMESPACE, namespace),
        ("", "Secret") => (columns::SECRET, secret),
        ("", "ServiceAccount") => (columns::SERVICE_ACCOUNT, service_account),
        ("", "PersistentVolume") => (columns::VOLUME, volume),
        ("", "PersistentVolumeClaim") => (columns::CLAIM, claim),
        ("", "ConfigMap") => (columns::CONFIG_MAP, config_map),
        ("coordination.k8s.io", "Lease") => (columns::LEASE, lease),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => (columns::BINDING, binding),
        ("storage.k8s.io", "VolumeAttachment") => (columns::ATTACHMENT, attachment),
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => (columns::WEBHOOKS, webhooks),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => (columns::POLICY, policy),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            (columns::POLICY_BINDING, policy_binding)
        }
        _ => (columns::DEFAULT, default),
    }
}

pub(super) fn name(object: &Value) -> Value {
    object["metadata"]["name"].clone()
}

pub(super) fn created(object: &Value, now: Timestamp) -> Value {
    age(&object["metadata"]["creationTimestamp"], now).into()
}

/// A text at a pointer; empty if it is not there.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn text_or<'a>(object: &'a Value, pointer: &str, fallback: &'a str) -> &'a str {
    Some(text(object, pointer)).filter(|text| !text.is_empty()).unwrap_or(fallback)
}

pub(super) fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

pub(super) fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Whether a condition of this type is true.
pub(super) fn has_condition(object: &Value, type_: &str) -> bool {
    let conditions = items(object, "/status/conditions");
    conditions.iter().any(|condition| condition["type"] == type_ && condition["status"] == "True")
}

pub(super) fn is_going(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn count(value: &Value) -> usize {
    value.as_object().map(|map| map.len()).or_else(|| value.as_array().map(Vec::len)).unwrap_or(0)
}

fn default(object: &Value, _now: Timestamp) -> Row {
    vec![name(object), text(object, "/metadata/creationTimestamp").into()].into()
}

fn namespace(object: &Value, now: Timestamp) -> Row {
    vec![name(object), text(object, "/status/phase").into(), created(object, now)].into()
}

fn secret(object: &Value, now: Timestamp) -> Row {
    vec![
        name(object),
        text_or(object, "/type", "Opaque").into(),
        count(&object["data"]).into(),
        created(object, now),
    ]
    .into()
}

fn service_account(object: &Value, now: Timestamp) -> Row {
    vec![name(object), count(&object["secrets"]).into(), created(object, now)].into()
}

fn config_map(object: &Value, now: Timestamp) -> Row {
    let count = count(&object["data"]) + count(&object["binaryData"]);
    vec![name(object), count.into(), created(object, now)].into()
}

fn lease(object: &Value, now: Timestamp) -> Row {
    vec![name(object), text(object, "/spec/holderIdentity").into(), created(object, now)].into()
}

fn webhooks(object: &Value, now: Timestamp) -> Row {
    vec![name(object), count(&object["webhooks"]).into(), created(object, now)].into()
}

fn policy(object: &Value, now: Timestamp) -> Row {
    let kind = &object["spec"]["paramKind"];
    let shown = match kind.is_null() {
        true => "<unset>".to_owned(),
        false => format!("{}/{}", text(kind, "/apiVersion"), text(kind, "/kind")),
    };
    vec![name(object), count(&object["spec"]["validations"]).into(), shown.into(), created(object, now)]
        .into()
}

fn policy_binding(object: &Value, now: Timestamp) -> Row {
    let reference = &object["spec"]["paramRef"];
    let shown = match text(reference, "/name") {
        "" if reference["selector"].is_object() => {
            label::from_object(reference.get("selector")).map(|one| one.to_string()).unwrap_or_default()
        }
        "" => "<unset>".to_owned(),
        name => format!("{}/{name}", text_or(reference, "/namespace", "*")),
    };
    vec![name(object), text(object, "/spec/policyName").into(), shown.into(), created(object, now)].into()
}

fn attachment(object: &Value, now: Timestamp) -> Row {
    let attached = object.pointer("/status/attached").and_then(Value::as_bool).unwrap_or(false);
    let texts = ["/spec/attacher", "/spec/source/persistentVolumeName", "/spec/nodeName"];
    let mut cells = vec![name(object)];
    cells.extend(texts.map(|pointer| text(object, pointer).into()));
    cells.extend([attached.into(), created(object, now)]);
    cells.into()
}

fn binding(object: &Value, now: Timestamp) -> Row {
    let subjects = |kind: &str| {
        let of_kind = items(object, "/subjects").iter().filter(|subject| subject["kind"] == kind);
        let names = of_kind.map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", text(subject, "/namespace"), text(subject, "/name")),
            _ => text(subject, "/name").to_owned(),
        });
        names.collect::<Vec<_>>().join(", ")
    };
    let role = format!("{}/{}", text(object, "/roleRef/kind"), text(object, "/roleRef/name"));
    let [users, groups, accounts] = ["User", "Group", "ServiceAccount"].map(subjects);
    vec![name(object), role.into(), created(object, now), users.into(), groups.into(), accounts.into()].into()
}

fn node(object: &Value, now: Timestamp) -> Row {
    let ready = items(object, "/status/conditions").iter().rfind(|condition| condition["type"] == "Ready");
    let mut status = match ready.map(|condition| condition["status"] == "True") {
        Some(true) => "Ready".to_owned(),
        Some(false) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if object["spec"]["unschedulable"] == true {
        status += ",SchedulingDisabled";
    }
    let address = |kind: &str| {
        let addresses = items(object, "/status/addresses");
        let found = addresses.iter().find(|address| address["type"] == kind);
        found.map_or("<none>", |address| text(address, "/address"))
    };
    let info = |field: &str| text_or(object, &format!("/status/nodeInfo/{field}"), "<unknown>");
    vec![
        name(object),
        status.into(),
        roles(object).into(),
        created(object, now),
        text(object, "/status/nodeInfo/kubeletVersion").into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        info("osImage").into(),
        info("kernelVersion").into(),
        info("containerRuntimeVersion").into(),
    ]
    .into()
}

fn roles(node: &Value) -> String {
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let roles: BTreeSet<&str> = labels
        .filter_map(|(key, value)| match key.as_str() {
            "kubernetes.io/role" => value.as_str(),
            other => other.strip_prefix("node-role.kubernetes.io/"),
        })
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() { "<none>".into() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

/// Both groups' Events: `events.k8s.io` calls some fields by other names.
fn event(object: &Value, now: Timestamp) -> Row {
    let either = |core: &str, other: &str| match object.pointer(core) {
        Some(value) if !value.is_null() => value.clone(),
        _ => object.pointer(other).cloned().unwrap_or_default(),
    };
    let known = |time: &Value| time.as_str().is_some_and(|text| !text.is_empty());
    let first = either("/firstTimestamp", "/deprecatedFirstTimestamp");
    let first = if known(&first) { first } else { object["eventTime"].clone() };
    let last = either("/lastTimestamp", "/deprecatedLastTimestamp");
    let mut last = if known(&last) { last } else { first.clone() };
    let mut times = either("/count", "/deprecatedCount").as_i64().filter(|count| *count != 0).unwrap_or(1);
    if object["series"].is_object() {
        last = object["series"]["lastObservedTime"].clone();
        times = number(object, "/series/count");
    }
    let about = either("/involvedObject", "/regarding");
    let target = match text(&about, "/name") {
        "" => text(&about, "/kind").to_lowercase(),
        name => format!("{}/{name}", text(&about, "/kind").to_lowercase()),
    };
    let source = either("/source", "/deprecatedSource");
    let reporting = either("/reportingComponent", "/reportingController");
    let component = text_or(&source, "/component", reporting.as_str().unwrap_or_default());
    let host = text_or(&source, "/host", text(object, "/reportingInstance"));
    let source = if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") };
    let message = either("/message", "/note");
    vec![
        age(&last, now).into(),
        text(object, "/type").into(),
        text(object, "/reason").into(),
        target.into(),
        text(&about, "/fieldPath").into(),
        source.into(),
        message.as_str().unwrap_or_default().trim().into(),
        age(&first, now).into(),
        times.into(),
        name(object),
    ]
    .into()
}

fn access_modes(object: &Value, pointer: &str) -> String {
    let modes = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];
    let short = ["RWO", "ROX", "RWX", "RWOP"];
    let given = items(object, pointer);
    let shown = modes.iter().zip(short).filter(|(mode, _)| given.contains(&json!(mode)));
    shown.map(|(_, short)| short).collect::<Vec<_>>().join(",")
}

fn storage_class(object: &Value) -> &str {
    let annotated = &object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
    annotated.as_str().unwrap_or_else(|| text(object, "/spec/storageClassName"))
}

fn phase(object: &Value) -> &str {
    if is_going(object) { "Terminating" } else { text(object, "/status/phase") }
}

fn volume(object: &Value, now: Timestamp) -> Row {
    let claim = &object["spec"]["claimRef"];
    let claim = match claim.is_object() {
        true => format!("{}/{}", text(claim, "/namespace"), text(claim, "/name")),
        false => String::new(),
    };
    vec![
        name(object),
        text_or(object, "/spec/capacity/storage", "0").into(),
        access_modes(object, "/spec/accessModes").into(),
        text_or(object, "/spec/persistentVolumeReclaimPolicy", "Retain").into(),
        phase(object).into(),
        claim.into(),
        storage_class(object).into(),
        text_or(object, "/spec/volumeAttributesClassName", "<unset>").into(),
        text(object, "/status/reason").into(),
        created(object, now),
        text_or(object, "/spec/volumeMode", "<unset>").into(),
    ]
    .into()
}

fn claim(object: &Value, now: Timestamp) -> Row {
    let bound = !text(object, "/spec/volumeName").is_empty();
    let capacity = if bound { text_or(object, "/status/capacity/storage", "0") } else { "" };
    let modes = if bound { access_modes(object, "/status/accessModes") } else { String::new() };
    vec![
        name(object),
        phase(object).into(),
        text(object, "/spec/volumeName").into(),
        capacity.into(),
        modes.into(),
        storage_class(object).into(),
        text_or(object, "/spec/volumeAttributesClassName", "<unset>").into(),
        created(object, now),
        text_or(object, "/spec/volumeMode", "<unset>").into(),
    ]
    .into()
}
