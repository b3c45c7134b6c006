//! Volumes, claims to them, and their attachment to nodes.

use serde_json::{Value, json};

use super::findings::{Findings, text, texts};
use super::pod;
use crate::quantity::Quantity;
use crate::{FieldError, Path, name};

const ACCESS: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const MODES: [&str; 2] = ["Block", "Filesystem"];
const CLAIMED: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

/// The order in which upstream looks for what a volume is.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

fn access(spec: &Value, path: &Path, found: &mut Findings) {
    let path = path.child("accessModes");
    for mode in texts(spec, "accessModes") {
        found.one_of(&path, mode, &ACCESS);
    }
    let alone = |mode: &&str| *mode == "ReadWriteOncePod";
    let modes: Vec<&str> = texts(spec, "accessModes").filter(|mode| ACCESS.contains(mode)).collect();
    if modes.iter().any(alone) && !modes.iter().all(alone) {
        found.forbidden(&path, "may not use ReadWriteOncePod with other access modes");
    }
}

fn positive(amount: &Value, path: &Path, found: &mut Findings) {
    let parsed = amount.as_str().and_then(|text| Quantity::parse(text).ok());
    if let Some(parsed) = parsed.filter(|parsed| parsed.is_negative() || parsed.is_zero()) {
        found.invalid(path, parsed.to_string(), "must be greater than zero");
    }
}

fn class(spec: &Value, path: &Path, found: &mut Findings) {
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        found.each(&path.child("storageClassName"), class, name::dns_subdomain(class));
    }
}

pub(super) fn claim(object: &Value, found: &mut Findings) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    if texts(spec, "accessModes").next().is_none() {
        found.required(&path.child("accessModes"), "at least 1 access mode is required");
    }
    found.selector(&spec["selector"], &path.child("selector"));
    access(spec, &path, found);
    let (storage, at) = (&spec["resources"]["requests"]["storage"], path.child("resources").key("storage"));
    match storage.is_null() {
        true => found.required(&at, ""),
        false => positive(storage, &at, found),
    }
    class(spec, &path, found);
    found.optional_one_of(spec, "volumeMode", &path, &MODES);
}

pub(super) fn claim_update(new: &Value, old: &Value, found: &mut Findings) {
    claim(new, found);
    let (mut spec, mut before) = (new["spec"].clone(), old["spec"].clone());
    if text(&before, "volumeName").is_empty() {
        before["volumeName"] = spec["volumeName"].clone();
    }
    // A claim that nobody chose a class for may get one.
    if before["storageClassName"].is_null() {
        before["storageClassName"] = spec["storageClassName"].clone();
    }
    if new["status"]["phase"] == "Bound" {
        spec["resources"]["requests"]["storage"] = before["resources"]["requests"]["storage"].clone();
        spec["volumeAttributesClassName"] = before["volumeAttributesClassName"].clone();
    }
    for spec in [&mut spec, &mut before] {
        if let Some(fields) = spec.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
    }
    if spec != before {
        found.forbidden(&Path::new("spec"), CLAIMED);
    }
    let size = |value: &Value| value.as_str().and_then(|text| Quantity::parse(text).ok());
    let requested = |object: &Value| size(&object["spec"]["resources"]["requests"]["storage"]);
    let real = size(&old["status"]["capacity"]["storage"]);
    if requested(new) < requested(old) && requested(new) <= real {
        let path = Path::new("spec").child("resources").child("requests").child("storage");
        found.forbidden(&path, "field can not be less than status.capacity");
    }
    found.unchanged(&new["spec"]["volumeMode"], &old["spec"]["volumeMode"], &Path::new("volumeMode"));
}

pub(super) fn volume(object: &Value, found: &mut Findings) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    if texts(spec, "accessModes").next().is_none() {
        found.required(&path.child("accessModes"), "");
    }
    access(spec, &path, found);
    let (capacity, at) = (&spec["capacity"], path.child("capacity"));
    let count = capacity.as_object().map_or(0, serde_json::Map::len);
    if count == 0 {
        found.required(&at, "");
    }
    if count != 1 || capacity["storage"].is_null() {
        found.0.push(FieldError::not_supported(&at, capacity.clone(), ["storage"]));
    }
    for (resource, amount) in capacity.as_object().into_iter().flatten() {
        positive(amount, &at.key(resource), found);
    }
    let policies = ["Delete", "Recycle", "Retain"];
    found.optional_one_of(spec, "persistentVolumeReclaimPolicy", &path, &policies);
    let affinity = &spec["nodeAffinity"]["required"];
    if !affinity.is_null() {
        pod::node_selector(affinity, &path.child("nodeAffinity").child("required"), found);
    }
    source(spec, &path, found);
    class(spec, &path, found);
    found.optional_one_of(spec, "volumeMode", &path, &MODES);
}

fn source(spec: &Value, path: &Path, found: &mut Findings) {
    let given: Vec<&str> = SOURCES.into_iter().filter(|kind| !spec[*kind].is_null()).collect();
    let Some((first, others)) = given.split_first() else {
        return found.required(path, "must specify a volume type");
    };
    let required: &[&str] = match *first {
        "hostPath" | "local" => &["path"],
        "nfs" => &["server", "path"],
        "csi" => &["driver", "volumeHandle"],
        _ => &[],
    };
    for field in required {
        if text(&spec[*first], field).is_empty() {
            found.required(&path.child(first).child(field), "");
        }
    }
    if *first == "local" && spec["nodeAffinity"]["required"].is_null() {
        found.required(&path.child("nodeAffinity"), "Local volume requires node affinity");
    }
    for kind in others {
        found.forbidden(&path.child(kind), "may not specify more than 1 volume type");
    }
}

pub(super) fn volume_update(new: &Value, old: &Value, found: &mut Findings) {
    volume(new, found);
    let source = |object: &Value| SOURCES.map(|kind| object["spec"][kind].clone());
    if source(new) != source(old) {
        let path = Path::new("spec").child("persistentvolumesource");
        found.forbidden(&path, "spec.persistentvolumesource is immutable after creation");
    }
    found.unchanged(&new["spec"]["volumeMode"], &old["spec"]["volumeMode"], &Path::new("volumeMode"));
}

pub(super) fn attachment(object: &Value, found: &mut Findings) {
    attachment_spec(object, found);
    let (spec, path) = (&object["spec"], Path::new("spec"));
    let attacher = text(spec, "attacher");
    if attacher.is_empty() {
        found.required(&path.child("attacher"), "");
    }
    found.each(&path.child("attacher"), attacher, name::dns_subdomain(&attacher.to_lowercase()));
}

fn attachment_spec(object: &Value, found: &mut Findings) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    if text(spec, "attacher").is_empty() {
        found.required(&path.child("attacher"), "");
    }
    let (source, at) = (&spec["source"], path.child("source"));
    let why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (source["inlineVolumeSpec"].is_null(), source["persistentVolumeName"].as_str()) {
        (true, None) => found.required(&at, why),
        (false, Some(_)) => found.forbidden(&at, why),
        (true, Some("")) => {
            let why = "must specify non empty persistentVolumeName";
            found.required(&at.child("persistentVolumeName"), why);
        }
        _ => {}
    }
    let node = text(spec, "nodeName");
    found.each(&path.child("nodeName"), node, name::dns_subdomain(node));
}

pub(super) fn attachment_update(new: &Value, old: &Value, found: &mut Findings) {
    attachment_spec(new, found);
    if new["spec"] != old["spec"] {
        let (spec, source) = (&new["spec"], &new["spec"]["source"]);
        let shown = json!({
            "Attacher": spec["attacher"], "NodeName": spec["nodeName"],
            "Source": {
                "PersistentVolumeName": source["persistentVolumeName"],
                "InlineVolumeSpec": source["inlineVolumeSpec"],
            },
        });
        found.invalid(&Path::new("spec"), shown, "field is immutable");
    }
}
