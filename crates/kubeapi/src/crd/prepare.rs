//! What a server changes in a CRD before it validates and stores it.

use serde_json::{Value, json};

use super::definition::text;

/// Fills in what is implied: singular and list kind, no conversion, the port of a webhook's service, and the storage
/// version as a stored one.
pub fn default(crd: &mut Value) {
    let spec = &mut crd["spec"];
    if !spec.is_object() {
        *spec = json!({});
    }
    if spec["names"].is_object() {
        let kind = text(&spec["names"], "kind");
        if text(&spec["names"], "singular").is_empty() {
            spec["names"]["singular"] = kind.to_lowercase().into();
        }
        if text(&spec["names"], "listKind").is_empty() && !kind.is_empty() {
            spec["names"]["listKind"] = format!("{kind}List").into();
        }
    }
    if spec["conversion"].is_null() {
        spec["conversion"] = json!({"strategy": "None"});
    }
    let service = spec.pointer_mut("/conversion/webhook/clientConfig/service");
    if let Some(service) = service.filter(|service| service.is_object() && service["port"].is_null()) {
        service["port"] = json!(443);
    }
    if crd["status"]["storedVersions"].as_array().is_none_or(Vec::is_empty) {
        add_stored_version(crd);
    }
}

/// Makes a CRD ready to be created: a status that only the server writes, generation 1.
pub fn prepare_create(crd: &mut Value) {
    crd["status"] = json!({});
    crd["metadata"]["generation"] = json!(1);
    add_stored_version(crd);
}

/// Makes a CRD ready to replace `old`: the status stays, a changed spec is a new generation.
pub fn prepare_update(crd: &mut Value, old: &Value) {
    crd["status"] = old["status"].clone();
    let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
    let changed = crd["spec"] != old["spec"];
    crd["metadata"]["generation"] = json!(generation + i64::from(changed));
    add_stored_version(crd);
}

/// Objects will be written in the storage version: from now on it has to stay readable.
fn add_stored_version(crd: &mut Value) {
    let versions = crd["spec"]["versions"].as_array().cloned().unwrap_or_default();
    let Some(storage) = versions.iter().find(|version| version["storage"] == true) else { return };
    let name = storage["name"].clone();
    if !crd["status"].is_object() {
        crd["status"] = json!({});
    }
    match crd["status"]["storedVersions"].as_array_mut() {
        Some(stored) if stored.contains(&name) => {}
        Some(stored) => stored.push(name),
        None => crd["status"]["storedVersions"] = json!([name]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_implied_is_filled_in() {
        let mut crd = json!({"spec": {
            "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{"name": "v1", "storage": false}, {"name": "v2", "storage": true}],
        }});
        default(&mut crd);
        assert_eq!(
            crd["spec"]["names"],
            json!({"plural": "foos", "kind": "Foo", "singular": "foo", "listKind": "FooList"})
        );
        assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
        assert_eq!(crd["status"]["storedVersions"], json!(["v2"]));
        let mut webhook = json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {
            "service": {"name": "a", "namespace": "b"}}}}}});
        default(&mut webhook);
        assert_eq!(webhook["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["port"], 443);
    }

    #[test]
    fn stored_versions_are_remembered() {
        let old = json!({
            "metadata": {"generation": 3}, "status": {"storedVersions": ["v1"], "conditions": [{"type": "Established"}]},
            "spec": {"versions": [{"name": "v1", "storage": true}]},
        });
        let mut new = json!({
            "metadata": {}, "status": {"storedVersions": ["lie"]},
            "spec": {"versions": [{"name": "v1", "storage": false}, {"name": "v2", "storage": true}]},
        });
        prepare_update(&mut new, &old);
        assert_eq!(
            new["status"],
            json!({"storedVersions": ["v1", "v2"], "conditions": [{"type": "Established"}]})
        );
        assert_eq!(new["metadata"]["generation"], 4);
        prepare_create(&mut new);
        assert_eq!(new["status"], json!({"storedVersions": ["v2"]}));
        assert_eq!(new["metadata"]["generation"], 1);
    }
}
