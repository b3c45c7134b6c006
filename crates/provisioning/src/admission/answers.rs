//! What a request needs to know of the world.

use std::collections::{BTreeMap, BTreeSet};

use api::catalogue::namespaces;
use api::management::v3::PodSecurityAdmissionConfigurationTemplate;
use api::rke::v1::{ETCDSnapshot, RKEControlPlaneStatus};

use super::{Operation, Request, credentials, name};
use crate::restore;

/// A Secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretRef {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl SecretRef {
    /// The Secret that a field names: `cattle-global-data:name`, else a name in the cluster's namespace.
    pub fn named(text: &str, namespace: &str) -> Self {
        match text.split_once(':') {
            Some((prefix, name)) if prefix == namespaces::CATTLE_GLOBAL_DATA && !name.is_empty() => {
                SecretRef { namespace: prefix.into(), name: name.into() }
            }
            _ => SecretRef { namespace: namespace.into(), name: text.into() },
        }
    }
}

/// Something to look up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// Does this management cluster exist?
    ManagementCluster(String),
    /// May the user read this Secret? (A SubjectAccessReview.)
    Access(SecretRef),
    /// Does this Secret exist?
    Secret(SecretRef),
    /// This ETCDSnapshot, in the cluster's namespace.
    Snapshot(String),
    /// This PodSecurityAdmissionConfigurationTemplate.
    PodSecurityTemplate(String),
    /// Status of the cluster's control plane.
    ControlPlane,
}

/// What was found. What was not asked for may be left out.
#[derive(Clone, Debug, Default)]
pub struct Answers<'a> {
    /// Management clusters that exist.
    pub management_clusters: BTreeSet<String>,
    /// Secrets that the user may read.
    pub accessible: BTreeSet<SecretRef>,
    /// Secrets that exist.
    pub secrets: BTreeSet<SecretRef>,
    /// Snapshots that exist.
    pub snapshots: BTreeMap<String, ETCDSnapshot>,
    /// Pod security templates that exist.
    pub pod_security_templates: BTreeMap<String, PodSecurityAdmissionConfigurationTemplate>,
    /// Status of the control plane, if there is one.
    pub control_plane: Option<RKEControlPlaneStatus>,
    /// Versions that release data is known of; nothing if there is no such data.
    pub known_versions: Option<&'a BTreeSet<String>>,
    /// Arguments that the requested version knows; nothing if that is not known.
    pub known_arguments: Option<BTreeSet<String>>,
    /// Whether priority classes and disruption budgets of agents may be set.
    pub agent_scheduling: bool,
}

/// What has to be looked up for a request.
pub fn questions(request: &Request<'_>) -> Vec<Question> {
    if request.operation == Operation::Delete {
        return Vec::new();
    }
    let namespace = request.new.metadata.namespace.as_deref().unwrap_or_default();
    let mut all = Vec::new();
    if request.operation == Operation::Create {
        let name = request.new.metadata.name.as_deref().unwrap_or_default();
        all.extend(name::is_legacy(name).then(|| Question::ManagementCluster(name.into())));
    }
    for (_, text) in credentials::changed(request) {
        all.push(Question::Access(SecretRef::named(text, namespace)));
    }
    all.extend(
        credentials::changed_store(request).map(|text| Question::Secret(SecretRef::named(text, namespace))),
    );
    all.extend(restore::wanted(&request.new.spec).map(|name| Question::Snapshot(name.into())));
    let template = &request.new.spec.default_pod_security_admission_configuration_template_name;
    all.extend((!template.is_empty()).then(|| Question::PodSecurityTemplate(template.clone())));
    if request.operation == Operation::Update {
        all.push(Question::ControlPlane);
    }
    all.sort();
    all.dedup();
    all
}
