//! Pod security templates: a file for the API server, made from a template, delivered to every control plane node.

use std::collections::BTreeMap;

use api::catalogue::secrets::{keys, types};
use api::catalogue::{annotations, labels};
use api::management::v3::PodSecurityAdmissionConfigurationTemplate;
use api::names;
use api::provisioning::v1::{Cluster, RKEConfig};
use api::rke::v1::{FileSource, KeyToPath, ObjectFileSource, ProvisioningFiles};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kubeapi::{FieldError, Path};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Answers, Findings, Request, Version};
use crate::Object;
use crate::graph::identity;
use crate::object::controller_reference;

/// The first minor version that has pod security.
const FIRST: [u32; 2] = [1, 23];
/// The first minor version that reads the final form of its configuration.
const FINAL: [u32; 2] = [1, 25];

const ARGUMENTS: &str = "kube-apiserver-arg";

/// The set of objects that the Secret with the file is.
pub const SET: &str = "cluster-pod-security";

/// 15: the template exists, and the version knows what to do with it.
pub(super) fn template(request: &Request<'_>, answers: &Answers<'_>, findings: &mut Findings) {
    let name = &request.new.spec.default_pod_security_admission_configuration_template_name;
    let Some(config) = request.config().filter(|_| !name.is_empty() && !request.is_local()) else { return };
    let path = Path::new("spec").child("defaultPodSecurityAdmissionConfigurationTemplateName");
    let version = Version::parse(&request.new.spec.kubernetes_version);
    if version.is_some_and(|version| !is_known_to(&version)) {
        let why = "pod security templates need Kubernetes v1.23 or newer";
        findings.bad([FieldError::invalid(&path, name.as_str(), why)]);
        return;
    }
    if !answers.pod_security_templates.contains_key(name) {
        findings.bad([FieldError::not_found(&path, name.as_str())]);
    }
    let given = config.configuration.machine_global_config.get(ARGUMENTS);
    if given.is_some_and(|given| !given.is_array() && !given.is_string()) {
        let path = Path::new("spec").child("rkeConfig").child("machineGlobalConfig").child(ARGUMENTS);
        let shown = given.cloned().unwrap_or_default();
        findings.invalid([FieldError::wrong_type(&path, shown, "must be a list of texts")]);
    }
}

/// Whether the version has pod security at all.
pub(super) fn is_known_to(version: &Version) -> bool {
    version.numbers[..2] >= FIRST[..]
}

/// The Secret with the API server's file. Nothing if the template was changed after the cluster was written: its nodes take the file by its
/// hash, and take another one when the cluster is written again.
pub fn secret(cluster: &Cluster, template: &PodSecurityAdmissionConfigurationTemplate) -> Option<Object> {
    let name = cluster.metadata.name.clone().unwrap_or_default();
    let file = file(cluster, template);
    let wanted = files(cluster, hash(&file));
    let mut taken = cluster.spec.rke_config.iter().flat_map(|one| &one.configuration.machine_selector_files);
    if !taken.any(|one| *one == wanted) {
        return None;
    }
    let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
    let one = |key: &str, value: &str| Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
    Some(Object::of(&Secret {
        metadata: ObjectMeta {
            name: Some(names::pod_security_secret(&name)),
            namespace: cluster.metadata.namespace.clone(),
            labels: one(labels::BACKUP, "true"),
            annotations: one(annotations::AUTHORIZED_FOR_CLUSTERS, &name),
            owner_references: Some(vec![controller_reference(&identity(cluster), uid)]),
            ..Default::default()
        },
        type_: Some(types::OPAQUE.into()),
        data: Some(BTreeMap::from([(
            keys::ADMISSION_CONFIG_PSACT.to_owned(),
            ByteString(file.into_bytes()),
        )])),
        ..Default::default()
    }))
}

/// Whether the cluster's nodes take such a file.
pub fn is_delivered(cluster: &Cluster) -> bool {
    let ours = files(cluster, String::new());
    let mut taken = cluster.spec.rke_config.iter().flat_map(|one| &one.configuration.machine_selector_files);
    taken.any(|one| without_hashes(one) == ours)
}

fn hash(file: &str) -> String {
    STANDARD.encode(Sha256::digest(file))
}

/// Makes the nodes take the file, and the API server read it.
pub(super) fn deliver(cluster: &mut Cluster, template: &PodSecurityAdmissionConfigurationTemplate) {
    let hash = hash(&file(cluster, template));
    withdraw(cluster);
    let files = files(cluster, hash);
    let argument = argument(cluster);
    let Some(config) = &mut cluster.spec.rke_config else { return };
    config.configuration.machine_selector_files.push(files);
    let mut given = arguments(config);
    given.insert(0, argument);
    config.configuration.machine_global_config.insert(ARGUMENTS.into(), json!(given));
}

/// Undoes [`deliver`].
pub(super) fn withdraw(cluster: &mut Cluster) {
    let (ours, argument) = (files(cluster, String::new()), argument(cluster));
    let Some(config) = &mut cluster.spec.rke_config else { return };
    config.configuration.machine_selector_files.retain(|one| without_hashes(one) != ours);
    let given = arguments(config);
    if !given.contains(&argument) {
        return;
    }
    let left: Vec<String> = given.into_iter().filter(|one| *one != argument).collect();
    match left.is_empty() {
        true => drop(config.configuration.machine_global_config.remove(ARGUMENTS)),
        false => drop(config.configuration.machine_global_config.insert(ARGUMENTS.into(), json!(left))),
    }
}

fn arguments(config: &RKEConfig) -> Vec<String> {
    match config.configuration.machine_global_config.get(ARGUMENTS) {
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(Value::String(one)) => vec![one.clone()],
        _ => Vec::new(),
    }
}

fn argument(cluster: &Cluster) -> String {
    format!("admission-control-config-file={}", path(cluster))
}

/// Where the file lies on the nodes.
fn path(cluster: &Cluster) -> String {
    let runtime = if cluster.spec.kubernetes_version.contains("k3s") { "k3s" } else { "rke2" };
    format!("/etc/rancher/{runtime}/config/rancher-psact.yaml")
}

fn files(cluster: &Cluster, hash: String) -> ProvisioningFiles {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let selected = BTreeMap::from([(labels::CONTROL_PLANE_ROLE.to_owned(), "true".to_owned())]);
    let item = KeyToPath {
        key: keys::ADMISSION_CONFIG_PSACT.into(),
        path: path(cluster),
        hash,
        ..Default::default()
    };
    let secret =
        ObjectFileSource { name: names::pod_security_secret(name), items: vec![item], ..Default::default() };
    ProvisioningFiles {
        machine_label_selector: Some(LabelSelector { match_labels: Some(selected), match_expressions: None }),
        file_sources: vec![FileSource { secret, ..Default::default() }],
    }
}

fn without_hashes(files: &ProvisioningFiles) -> ProvisioningFiles {
    let mut files = files.clone();
    for item in files.file_sources.iter_mut().flat_map(|source| &mut source.secret.items) {
        item.hash.clear();
    }
    files
}

/// The API server's file.
fn file(cluster: &Cluster, template: &PodSecurityAdmissionConfigurationTemplate) -> String {
    let version = Version::parse(&cluster.spec.kubernetes_version);
    let early = version.is_some_and(|version| version.numbers[..2] < FINAL[..]);
    let configuration = serde_json::to_value(&template.configuration).unwrap_or_default();
    let document = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{
            "name": "PodSecurity",
            "configuration": {
                "apiVersion": format!("pod-security.admission.config.k8s.io/{}", if early { "v1beta1" } else { "v1" }),
                "kind": "PodSecurityConfiguration",
                "defaults": configuration["defaults"],
                "exemptions": configuration["exemptions"],
            },
        }],
    });
    serde_saphyr::to_string(&document).unwrap_or_default()
}
