//! Files that are not the planner's own: contents of arguments, the user's files, the user's certificates; and the
//! webhook of direct access.

use api::catalogue::annotations;
use api::catalogue::secrets::keys;
use api::rke::v1::{FreeMap, KeyToPath, ObjectFileSource};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use plan::document::File;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Context, Error, file};
use crate::selector::matches;
use crate::snapshot::Object;

/// Arguments whose value is the content of a file.
const CONTENTS: [&str; 3] = ["audit-policy-file", "cloud-provider-config", "flannel-conf"];

/// Writes contents of arguments to files and puts the paths in their place.
pub(super) fn of_arguments(context: &Context<'_>, values: &mut FreeMap) -> Result<Vec<File>, Error> {
    let mut files = Vec::new();
    for key in CONTENTS {
        let Some(content) = values.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()) else {
            continue;
        };
        // A path is a path; upstream writes it into a file as if it were content.
        if content.starts_with('/') && !content.contains('\n') {
            continue;
        }
        let content = match content.strip_prefix("secret://") {
            Some(reference) if key == "cloud-provider-config" => cloud_provider_config(context, reference)?,
            _ => content.as_bytes().to_vec(),
        };
        let path = format!("{}/etc/config-files/{key}", context.data_dir);
        files.push(file(&path, content));
        values.insert(key.into(), path.into());
    }
    Ok(files)
}

fn cloud_provider_config(context: &Context<'_>, reference: &str) -> Result<Vec<u8>, Error> {
    let field = "spec.machineGlobalConfig.cloud-provider-config";
    let secret = context.cluster.secrets.get(reference);
    let secret =
        secret.ok_or_else(|| Error::reference(field, format!("Secret {reference:?} does not exist")))?;
    let annotation = annotations::SECRET_AUTHORIZED_FOR_CLUSTER;
    if !secret.is_authorized_for(annotation, &context.cluster.name) {
        let problem = format!(
            "Secret {reference:?} must name cluster {:?} in its annotation {annotation}",
            context.cluster.name
        );
        return Err(Error::reference(field, problem));
    }
    let missing =
        || Error::reference(field, format!("Secret {reference:?} has no key {:?}", keys::CREDENTIAL));
    secret.data.get(keys::CREDENTIAL).cloned().ok_or_else(missing)
}

/// The files that the spec takes from Secrets and ConfigMaps.
pub(super) fn selected(context: &Context<'_>) -> Result<Vec<File>, Error> {
    let mut files = Vec::new();
    for (index, entry) in context.cluster.spec.configuration.machine_selector_files.iter().enumerate() {
        if !matches(entry.machine_label_selector.as_ref(), &context.machine.labels) {
            continue;
        }
        for (source_index, source) in entry.file_sources.iter().enumerate() {
            let field = format!("spec.machineSelectorFiles[{index}].fileSources[{source_index}]");
            let (kind, objects, source) = match (source.secret.name.as_str(), source.config_map.name.as_str())
            {
                ("", "") => continue,
                (_, "") => ("Secret", &context.cluster.secrets, &source.secret),
                ("", _) => ("ConfigMap", &context.cluster.config_maps, &source.config_map),
                _ => return Err(Error::reference(field, "both a Secret and a ConfigMap; must be one")),
            };
            let what = format!("{kind} {:?}", source.name);
            let missing = || Error::reference(&field, format!("{what} does not exist"));
            let object = objects.get(&source.name).ok_or_else(missing)?;
            authorized(context, object, &what, &field)?;
            for item in &source.items {
                files.push(one(object, source, item, &what, &field)?);
            }
        }
    }
    Ok(files)
}

fn authorized(context: &Context<'_>, object: &Object, what: &str, field: &str) -> Result<(), Error> {
    let (annotation, cluster) = (annotations::AUTHORIZED_FOR_CLUSTERS, &context.cluster.name);
    if object.is_authorized_for(annotation, cluster) {
        return Ok(());
    }
    Err(Error::reference(
        field,
        format!("{what} must name cluster {cluster:?} in its annotation {annotation}"),
    ))
}

fn one(
    object: &Object,
    source: &ObjectFileSource,
    item: &KeyToPath,
    what: &str,
    field: &str,
) -> Result<File, Error> {
    let missing = || Error::reference(field, format!("{what} has no key {:?}", item.key));
    let content = object.data.get(&item.key).ok_or_else(missing)?;
    if !item.hash.is_empty() && item.hash != BASE64_STANDARD.encode(Sha256::digest(content)) {
        let problem = format!("key {:?} of {what} does not have the SHA-256 that the spec says", item.key);
        return Err(Error::reference(field, problem));
    }
    let permissions =
        if item.permissions.is_empty() { &source.default_permissions } else { &item.permissions };
    Ok(File { permissions: permissions.clone(), dynamic: item.dynamic, ..file(&item.path, content) })
}

/// Where the webhook of direct access is.
pub(super) fn webhook_path(context: &Context<'_>) -> String {
    format!("{}/kube-api-authn-webhook.yaml", context.data_dir)
}

/// The kubeconfig with which the API server asks who a token belongs to.
pub(super) fn authentication_webhook(context: &Context<'_>) -> Option<File> {
    let endpoint = &context.cluster.spec.local_cluster_auth_endpoint;
    if !endpoint.enabled || !context.roles.control_plane {
        return None;
    }
    let server = format!("http://{}:6440/v1/authenticate", context.loopback());
    let content = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "Default", "cluster": {"insecure-skip-tls-verify": true, "server": server}}],
        "users": [{"name": "Default", "user": {"insecure-skip-tls-verify": true}}],
        "contexts": [{"name": "webhook", "context": {"cluster": "Default", "user": "Default"}}],
        "current-context": "webhook",
    });
    Some(file(webhook_path(context), content.to_string()))
}

/// Cluster API's certificate Secrets, by the end of their names, and the files of the distribution that they become.
const AUTHORITIES: [(&str, &[&str]); 4] = [
    ("ca", &["server-ca", "client-ca"]),
    ("etcd", &["etcd/server-ca", "etcd/peer-ca"]),
    ("proxy", &["request-header-ca"]),
    ("sa", &["service"]),
];

/// The user's certificate authorities, for the first start of the cluster; the machine that has them keeps them as they
/// were, whatever becomes of the Secrets.
pub(super) fn certificates(context: &Context<'_>) -> Result<Vec<File>, Error> {
    let directory = format!("{}/server/tls/", context.data_dir);
    if let Some(delivered) = &context.machine.plan.delivered {
        let ours = |path: &str| {
            let name = path.strip_prefix(&directory).and_then(|name| name.rsplit_once('.'));
            name.is_some_and(|(base, _)| AUTHORITIES.iter().any(|(_, names)| names.contains(&base)))
        };
        return Ok(delivered.plan().files.iter().filter(|file| ours(&file.path)).cloned().collect());
    }
    if !context.placement.init || !context.placement.fresh {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for (end, names) in AUTHORITIES {
        let name = format!("{}-{end}", context.cluster.spec.cluster_name);
        let Some(secret) = context.cluster.secrets.get(&name) else { continue };
        let part = |key: &str| {
            let missing = || Error::reference(format!("Secret {name:?}"), format!("has no key {key:?}"));
            secret.data.get(key).ok_or_else(missing)
        };
        for base in names {
            if end != "sa" {
                files.push(file(format!("{directory}{base}.crt"), part("tls.crt")?));
            }
            files.push(file(format!("{directory}{base}.key"), part("tls.key")?));
        }
    }
    Ok(files)
}
