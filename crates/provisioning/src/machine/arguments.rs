//! A machine's fields become a driver's command line.

use std::collections::{BTreeMap, BTreeSet};

use api::catalogue::annotations;
use api::catalogue::secrets::keys;
use api::machine::{Driver, Machine};
use api::names::{self, InfraMachine};
use serde_json::{Value, json};

use super::flags::SSH_KEYS;

/// Where the files of a Job lie.
pub(super) const FILES: &str = "/path/to/machine/files";

/// Tags that say whose a server is, for the cloud's own controllers.
const AWS_OWNED: &str = "kubernetes.io/cluster/";

/// The security group that the driver may change.
const AWS_GROUP: &str = "rancher-nodes";

/// How the content of a file is referred to: `secret://NAME/KEY`, in a Secret beside the machine.
const IN_SECRET: &str = "secret://";

/// The key of a Secret with an SSH key, as Kubernetes calls it.
const SSH_PRIVATE_KEY: &str = "ssh-privatekey";

/// The name and the key of the Secret that a text refers to, if it does.
pub fn in_secret(text: &str) -> Option<(&str, &str)> {
    let place = text.strip_prefix(IN_SECRET)?;
    Some(place.split_once('/').unwrap_or((place, SSH_PRIVATE_KEY)))
}

/// What a command line needs to know of the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<'a> {
    /// Name of the provisioning cluster.
    pub name: &'a str,
    /// Name of the management cluster.
    pub management_name: &'a str,
}

/// The driver's flags for a machine, sorted, and the files that they point to.
pub fn driver(
    driver: &Driver,
    machine: &Machine,
    aliases: &BTreeMap<String, String>,
    cluster: Cluster<'_>,
) -> (Vec<String>, BTreeMap<String, String>) {
    let driver = driver.name();
    let mut fields = machine.spec.fields.clone();
    let files = take_files(&mut fields, aliases);
    if driver == "amazonec2" {
        own_on_aws(&mut fields, cluster.management_name);
    }
    let mut all: Vec<String> = fields.iter().flat_map(|(field, value)| flag(&driver, field, value)).collect();
    if driver == "amazonec2" && fields.get("securityGroupReadonly").is_none_or(Value::is_null) {
        let group = fields.get("securityGroup");
        let first = group.and_then(|group| group.get(0).unwrap_or(group).as_str()).unwrap_or_default();
        all.extend((first != AWS_GROUP).then(|| "--amazonec2-security-group-readonly".to_owned()));
    }
    if driver == "harvester" {
        all.push(format!("--harvester-cluster-name={}", cluster.name));
    }
    all.sort();
    (all, files)
}

fn flag(driver: &str, field: &str, value: &Value) -> Vec<String> {
    let flag = format!("--{driver}-{}", kebab(field));
    match value {
        Value::Number(number) => vec![format!("{flag}={number}")],
        Value::String(text) if !text.is_empty() => vec![format!("{flag}={text}")],
        Value::Bool(true) => vec![flag],
        Value::Array(items) => {
            items.iter().filter_map(Value::as_str).map(|item| format!("{flag}={item}")).collect()
        }
        _ => Vec::new(),
    }
}

/// `ipv6AddressCount` is `ipv6-address-count`: a dash before each large letter that follows a small one or a digit.
pub(super) fn kebab(field: &str) -> String {
    separated(field, '-').to_lowercase()
}

/// The same with any separator, and letters as they are.
pub(super) fn separated(field: &str, separator: char) -> String {
    let mut text = String::new();
    let mut before = None;
    for letter in field.chars() {
        let joint = letter.is_ascii_uppercase()
            && before.is_some_and(|before: char| before.is_ascii_lowercase() || before.is_ascii_digit());
        if joint {
            text.push(separator);
        }
        text.push(letter);
        before = Some(letter);
    }
    text
}

/// Takes out contents that the driver wants as files, and leaves paths. Paths are ours alone: one that a user wrote would be one of
/// the host on which the driver runs.
fn take_files(
    fields: &mut BTreeMap<String, Value>,
    aliases: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let given: Vec<_> = aliases.keys().map(|schema_field| fields.remove(schema_field)).collect();
    let paths: BTreeSet<String> = aliases.values().map(|driver_field| kebab(driver_field)).collect();
    fields.retain(|field, _| !paths.contains(&kebab(field)));
    let mut files = BTreeMap::new();
    for ((schema_field, driver_field), content) in aliases.iter().zip(given) {
        let Some(Value::String(mut content)) = content.filter(|content| content != "") else { continue };
        let name = match SSH_KEYS.contains(&schema_field.as_str()) {
            true => keys::SSH_KEY,
            false => driver_field,
        };
        // Editors and the API drop the last newline; keys are not readable without it.
        if !content.ends_with('\n') {
            content.push('\n');
        }
        files.insert(name.to_owned(), content);
        fields.insert(driver_field.clone(), json!(format!("{FILES}/{name}")));
    }
    files
}

/// The cloud provider finds the cluster's servers by this tag. Users who set one of their own know better.
fn own_on_aws(fields: &mut BTreeMap<String, Value>, management_name: &str) {
    let owned = format!("{AWS_OWNED}{management_name},owned");
    let tags = match fields.get("tags").and_then(Value::as_str).unwrap_or_default() {
        "" => owned,
        tags if tags.contains(AWS_OWNED) => return,
        tags => format!("{tags},{owned}"),
    };
    fields.insert("tags".into(), json!(tags));
}

/// What the server is called at its cloud.
pub fn instance(machine: &Machine) -> String {
    names::instance(InfraMachine(machine.metadata.name.as_deref().unwrap_or_default()))
}

/// What the server calls itself.
pub fn hostname(machine: &Machine) -> String {
    let marks = machine.metadata.annotations.as_ref();
    let limit = marks.and_then(|marks| marks.get(annotations::HOSTNAME_LENGTH_LIMIT)?.parse().ok());
    let limit = limit.filter(|limit| (10..=63).contains(limit)).unwrap_or(63);
    names::hostname(InfraMachine(machine.metadata.name.as_deref().unwrap_or_default()), limit)
}
