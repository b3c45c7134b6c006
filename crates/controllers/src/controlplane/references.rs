//! Which Secrets and ConfigMaps a control plane's spec refers to.

use std::collections::{BTreeMap, BTreeSet};

use api::catalogue::namespaces::CATTLE_GLOBAL_DATA;
use api::rke::v1::{FreeMap, RKEControlPlaneSpec};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kit::Key;
use planner::Object;
use serde_json::Value;

/// How an argument says that its content is in a Secret.
const IN_SECRET: &str = "secret://";

/// Cluster API's certificate Secrets that users may make before the cluster, by the end of their names.
const AUTHORITIES: [&str; 4] = ["ca", "etcd", "proxy", "sa"];

/// Names, as the spec spells them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct References {
    /// In the cluster's own namespace.
    pub(crate) secrets: BTreeSet<String>,
    /// In the cluster's own namespace, or where administrators keep cloud credentials.
    pub(crate) credentials: BTreeSet<String>,
    /// In the cluster's own namespace.
    pub(crate) config_maps: BTreeSet<String>,
}

/// What a spec refers to, and the user's certificate authorities.
pub(crate) fn of(spec: &RKEControlPlaneSpec) -> References {
    let configuration = &spec.configuration;
    let mut found = References::default();
    for config in configuration.registries.iter().flat_map(|registries| registries.configs.values()) {
        found.secrets.extend([config.auth_config_secret_name.clone(), config.tls_secret_name.clone()]);
    }
    if let Some(s3) = configuration.etcd.as_ref().and_then(|etcd| etcd.s3.as_ref()) {
        found.credentials.insert(s3.cloud_credential_name.clone());
    }
    for source in configuration.machine_selector_files.iter().flat_map(|files| &files.file_sources) {
        found.secrets.insert(source.secret.name.clone());
        found.config_maps.insert(source.config_map.name.clone());
    }
    found.secrets.extend(in_arguments(&configuration.machine_global_config));
    for selected in &configuration.machine_selector_config {
        found.secrets.extend(in_arguments(&selected.config));
    }
    found.secrets.extend(AUTHORITIES.map(|end| format!("{}-{end}", spec.cluster_name)));
    for names in [&mut found.secrets, &mut found.credentials, &mut found.config_maps] {
        names.remove("");
    }
    found
}

fn in_arguments(arguments: &FreeMap) -> impl Iterator<Item = String> {
    let texts = arguments.values().filter_map(Value::as_str);
    texts.filter_map(|text| text.strip_prefix(IN_SECRET)).map(str::to_owned)
}

/// Where a name in a spec leads: nowhere but into the cluster's own namespace. Who may write a Cluster may not read every Secret.
pub(crate) fn own(namespace: &str, name: &str) -> Option<Key> {
    match name.split_once(':') {
        Some((other, name)) => (other == namespace).then(|| Key::new(other, name)),
        None => Some(Key::new(namespace, name)),
    }
}

/// Where the name of a cloud credential leads: also to those that administrators keep for all.
pub(crate) fn credential(namespace: &str, name: &str) -> Option<Key> {
    match name.split_once(':') {
        Some((CATTLE_GLOBAL_DATA, name)) => Some(Key::new(CATTLE_GLOBAL_DATA, name)),
        _ => own(namespace, name),
    }
}

/// Where a name in an administrator's setting leads.
pub(crate) fn anywhere(namespace: &str, name: &str) -> Option<Key> {
    let (namespace, name) = name.split_once(':').unwrap_or((namespace, name));
    Some(Key::new(namespace, name))
}

/// A Secret or ConfigMap as the planner takes it.
pub(crate) fn object(object: &kit::Object) -> Object {
    let document = object.document();
    let mut data = decoded(&document["data"]);
    if document["kind"] == "ConfigMap" {
        let texts = document["data"].as_object().into_iter().flatten();
        data = texts.filter_map(|(key, text)| Some((key.clone(), text.as_str()?.into()))).collect();
        data.extend(decoded(&document["binaryData"]));
    }
    Object {
        type_: document["type"].as_str().unwrap_or_default().into(),
        annotations: object.meta().annotations.clone().unwrap_or_default(),
        data,
    }
}

/// The data of a Secret, base64 taken off. What is not base64 is left out.
pub(crate) fn decoded(data: &Value) -> BTreeMap<String, Vec<u8>> {
    let all = data.as_object().into_iter().flatten();
    all.filter_map(|(key, value)| Some((key.clone(), STANDARD.decode(value.as_str()?).ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_reference_is_found() {
        let spec: RKEControlPlaneSpec = serde_json::from_value(json!({
            "clusterName": "c",
            "registries": {"configs": {"r.example.com": {"authConfigSecretName": "auth", "tlsSecretName": "tls"}}},
            "etcd": {"s3": {"cloudCredentialName": "cattle-global-data:s3"}},
            "machineSelectorFiles": [{"fileSources": [{"secret": {"name": "file"}}, {"configMap": {"name": "map"}}]}],
            "machineGlobalConfig": {"cloud-provider-config": "secret://other:cloud", "cni": "calico"},
            "machineSelectorConfig": [{"config": {"cloud-provider-config": "secret://own"}}]
        }))
        .unwrap();
        let found = of(&spec);
        let secrets: Vec<&str> = found.secrets.iter().map(String::as_str).collect();
        assert_eq!(
            secrets,
            ["auth", "c-ca", "c-etcd", "c-proxy", "c-sa", "file", "other:cloud", "own", "tls"]
        );
        assert_eq!(found.config_maps, BTreeSet::from(["map".to_owned()]));
        assert_eq!(found.credentials, BTreeSet::from(["cattle-global-data:s3".to_owned()]));
    }

    #[test]
    fn a_name_leads_into_no_other_namespace() {
        let global = "cattle-global-data:s3";
        for (name, as_own, as_credential) in [
            ("s", Some(("n", "s")), Some(("n", "s"))),
            ("n:s", Some(("n", "s")), Some(("n", "s"))),
            ("victim:s", None, None),
            ("cattle-system:tls", None, None),
            (global, None, Some(("cattle-global-data", "s3"))),
        ] {
            let key = |found: Option<(&str, &str)>| found.map(|(namespace, name)| Key::new(namespace, name));
            assert_eq!(own("n", name), key(as_own), "{name}");
            assert_eq!(credential("n", name), key(as_credential), "{name}");
        }
        assert_eq!(anywhere("n", "cattle-system:auth"), Some(Key::new("cattle-system", "auth")));
    }

    #[test]
    fn config_maps_hold_text_and_bytes() {
        let map = json!({"kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "text"}, "binaryData": {"b": "Ynl0ZXM="}});
        let found = object(&kit::Object::from_document(map).unwrap());
        assert_eq!(
            found.data,
            BTreeMap::from([("a".into(), b"text".to_vec()), ("b".into(), b"bytes".to_vec())])
        );
    }
}
