//! Node drivers and their machines: what is refused before it is stored.

use api::catalogue::namespaces;
use kubeapi::{FieldError, Path};
use serde_json::Value;

use super::SecretRef;
use crate::machine::arguments::in_secret;

/// The driver whose options are partly the operator's.
const DOCKER: &str = "Docker";
/// Where Docker is, as the driver's schema fills it in.
const DOCKER_HOST: &str = "unix:///var/run/docker.sock";

/// Where a kind of a driver has its fields.
const PLACES: [(&str, &[&str]); 3] =
    [("Config", &[]), ("MachineTemplate", &["spec", "template", "spec"]), ("Machine", &["spec"])];

/// What is wrong with a NodeDriver: a program that is downloaded and run needs its SHA-256. One that is off is not fetched, and one that
/// is not changed was admitted before.
pub fn driver_checksum(old: Option<&Value>, new: &Value) -> Option<FieldError> {
    let spec = |object: &Value| ["url", "checksum", "active"].map(|field| object["spec"][field].clone());
    let text = |field: &str| new["spec"][field].as_str().unwrap_or_default();
    let is_local = text("url").is_empty() || text("url").starts_with("local://");
    if is_local || new["spec"]["active"] != true || old.is_some_and(|old| spec(old) == spec(new)) {
        return None;
    }
    let checksum = text("checksum");
    let is_digest =
        [64, 128].contains(&checksum.len()) && checksum.bytes().all(|byte| byte.is_ascii_hexdigit());
    let path = Path::new("spec").child("checksum");
    let detail = "the SHA-256 of the file at spec.url, 64 hex digits (sha256sum FILE): the server runs what it downloads";
    match checksum {
        _ if is_digest => None,
        "" => Some(FieldError::required(&path, detail)),
        other => Some(FieldError::invalid(&path, other, format!("must be {detail}"))),
    }
}

/// The Secrets that an object of a driver's kinds names anew and whose content a driver gets: whoever writes it has to be allowed to read
/// them.
pub fn machine_secrets(
    kind: &str,
    old: Option<&Value>,
    new: &Value,
    namespace: &str,
) -> Vec<(SecretRef, Path)> {
    let Some((fields_now, path)) = fields(kind, new) else { return Vec::new() };
    let before = old.and_then(|old| fields(kind, old)).map(|(fields, _)| fields);
    let texts = fields_now.as_object().into_iter().flatten();
    let anew = texts.filter(|(field, value)| before.is_none_or(|before| before[field.as_str()] != **value));
    let files = anew.filter_map(|(field, value)| {
        let (name, _) = in_secret(value.as_str()?)?;
        Some((SecretRef { namespace: namespace.into(), name: name.into() }, path.child(field)))
    });
    machine_credential(kind, old, new, namespace).into_iter().chain(files).collect()
}

/// The cloud credential in `cattle-global-data` that an object names anew. Other names lead to Secrets beside the object.
fn machine_credential(
    kind: &str,
    old: Option<&Value>,
    new: &Value,
    namespace: &str,
) -> Option<(SecretRef, Path)> {
    let named = |object: &Value| {
        let name = &fields(kind, object)?.0["common"]["cloudCredentialSecretName"];
        Some(SecretRef::named(name.as_str()?, namespace))
    };
    let secret = named(new).filter(|secret| secret.namespace == namespaces::CATTLE_GLOBAL_DATA)?;
    let is_new = namespace != namespaces::CATTLE_GLOBAL_DATA && old.and_then(named).as_ref() != Some(&secret);
    let path = fields(kind, new)?.1.child("common").child("cloudCredentialSecretName");
    is_new.then_some((secret, path))
}

/// Fields of a driver's kinds that are the operator's to set, with command-line flags of the server. They stay in the schema, because
/// machines are replaced when the hash of their fields changes; what was stored before stays.
pub fn operators_fields(kind: &str, old: Option<&Value>, new: &Value) -> Vec<FieldError> {
    if !kind.starts_with(DOCKER) {
        return Vec::new();
    }
    let Some((fields_now, path)) = fields(kind, new) else { return Vec::new() };
    let before = old.and_then(|old| fields(kind, old)).map(|(fields, _)| fields);
    let rows = [
        (
            "privileged",
            is_privileged as fn(&Value) -> bool,
            "set by the server's operator: --docker-privileged",
        ),
        ("volume", has_items, "set by the server's operator: --docker-volume"),
        ("host", is_other_host, "set by the server's operator: --docker-host"),
        (
            "network",
            is_no_network,
            "the name of a Docker network, not the network of the host or of another container",
        ),
    ];
    let changed = |field: &str| before.is_none_or(|before| before[field] != fields_now[field]);
    let refused =
        rows.iter().filter(|(field, is_refused, _)| changed(field) && is_refused(&fields_now[*field]));
    refused.map(|(field, _, detail)| FieldError::forbidden(&path.child(field), *detail)).collect()
}

fn is_privileged(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
}

fn has_items(value: &Value) -> bool {
    !value.is_null() && value.as_array().is_none_or(|items| !items.is_empty())
}

fn is_other_host(value: &Value) -> bool {
    !value.is_null() && !["", DOCKER_HOST].contains(&value.as_str().unwrap_or("?"))
}

fn is_no_network(value: &Value) -> bool {
    let name = value.as_str().unwrap_or_default();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    ["host", "none"].contains(&name) || !name.bytes().all(plain)
}

/// A driver's fields in an object of one of its kinds, and where they are.
fn fields<'a>(kind: &str, object: &'a Value) -> Option<(&'a Value, Path)> {
    let (_, place) = PLACES.iter().find(|(ending, _)| kind.ends_with(ending))?;
    let fields = place.iter().fold(object, |value, field| &value[*field]);
    let path = place.iter().fold(Path::default(), |path, field| path.child(field));
    Some((fields, path))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_download_needs_its_sha_256() {
        let (sha256, md5) = ("a".repeat(64), "a".repeat(32));
        let driver = |url: &str, checksum: &str, active: bool| json!({"spec": {"url": url, "checksum": checksum, "active": active}});
        for (old, new, is_refused) in [
            (None, driver("https://x/d", &sha256, true), false),
            (None, driver("https://x/d", &"a".repeat(128), true), false),
            (None, driver("local://", "", true), false),
            (None, driver("https://x/d", "", true), true),
            (None, driver("https://x/d", &md5, true), true),
            (None, driver("https://x/d", &"x".repeat(64), true), true),
            (None, driver("https://x/d", "", false), false),
            (Some(driver("https://x/d", "", false)), driver("https://x/d", "", true), true),
            (Some(driver("https://x/d", &sha256, true)), driver("https://x/d", &md5, true), true),
            (Some(driver("https://x/d", &sha256, true)), driver("https://evil/d", "", true), true),
            (Some(driver("https://x/d", "", true)), driver("https://x/d", "", true), false),
        ] {
            let found = driver_checksum(old.as_ref(), &new);
            assert_eq!(found.is_some(), is_refused, "{old:?} {new}");
            assert!(found.is_none_or(|error| error.to_string().starts_with("spec.checksum: ")));
        }
    }

    #[test]
    fn credentials_of_all_are_asked_about() {
        let machine = |name: &str| json!({"spec": {"common": {"cloudCredentialSecretName": name}}});
        let asked = |old: Option<&Value>, new: &Value| {
            machine_credential("ToyMachine", old, new, "team")
                .map(|(secret, path)| format!("{path} {}/{}", secret.namespace, secret.name))
        };
        let global = machine("cattle-global-data:cc");
        let found = "spec.common.cloudCredentialSecretName cattle-global-data/cc";
        assert_eq!(asked(None, &global).as_deref(), Some(found));
        assert_eq!(asked(Some(&machine("own")), &global).as_deref(), Some(found));
        assert_eq!(asked(Some(&global), &global), None, "it was asked about before");
        for own in ["own", "victim:secret", ""] {
            assert_eq!(asked(None, &machine(own)), None, "{own}");
        }
        let template = json!({"spec": {"template": global}});
        assert!(machine_credential("ToyMachineTemplate", None, &template, "team").is_some());
        let config = json!({"common": {"cloudCredentialSecretName": "cattle-global-data:cc"}});
        assert!(machine_credential("ToyConfig", None, &config, "team").is_some());
    }

    #[test]
    fn contents_of_secrets_are_asked_about() {
        let config = |key: &str| json!({"sshKey": key, "image": "x"});
        let asked = |old: Option<&Value>, new: &Value| {
            let all = machine_secrets("ToyConfig", old, new, "team");
            all.iter()
                .map(|(secret, path)| format!("{path} {}/{}", secret.namespace, secret.name))
                .collect::<Vec<_>>()
        };
        let referring = config("secret://keys/id");
        assert_eq!(asked(None, &referring), ["sshKey team/keys"]);
        assert_eq!(asked(Some(&config("secret://other")), &referring), ["sshKey team/keys"]);
        assert!(asked(Some(&referring), &referring).is_empty(), "it was asked about before");
        assert!(asked(None, &config("-----BEGIN")).is_empty());
    }

    #[test]
    fn what_reaches_the_host_is_the_operator_s() {
        let refused = |kind: &str, old: Option<&Value>, new: &Value| {
            operators_fields(kind, old, new).iter().map(|error| error.path.to_string()).collect::<Vec<_>>()
        };
        let usual = json!({"image": "x", "privileged": false, "volume": null, "host": DOCKER_HOST, "network": "bridge"});
        assert!(refused("DockerConfig", None, &usual).is_empty());
        assert!(refused("DockerConfig", None, &json!({"volume": [], "network": "herdsman-1"})).is_empty());
        let evil = json!({"privileged": true, "volume": ["/:/host"], "host": "unix:///run/other.sock", "network": "host"});
        assert_eq!(refused("DockerConfig", None, &evil), ["privileged", "volume", "host", "network"]);
        assert_eq!(
            refused("DockerMachine", None, &json!({"spec": {"volume": ["/:/host"]}})),
            ["spec.volume"]
        );
        let template = json!({"spec": {"template": {"spec": {"privileged": true}}}});
        assert_eq!(refused("DockerMachineTemplate", None, &template), ["spec.template.spec.privileged"]);
        for network in ["none", "container:victim", "host"] {
            assert_eq!(refused("DockerConfig", None, &json!({"network": network})), ["network"]);
        }
        assert!(refused("DockerConfig", Some(&evil), &evil).is_empty(), "it was stored before");
        assert_eq!(refused("DockerConfig", Some(&usual), &evil).len(), 4);
        assert!(refused("ToyConfig", None, &evil).is_empty(), "another driver's fields mean something else");
    }
}
