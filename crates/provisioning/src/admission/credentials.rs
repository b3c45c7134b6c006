//! Credentials: whose use the user must be allowed, and which must exist.

use api::provisioning::v1::Cluster;
use kubeapi::{FieldError, Path};

use super::{Answers, Findings, Request, SecretRef};

/// Every credential that a cluster names, with its field.
fn named(cluster: &Cluster) -> Vec<(Path, &str)> {
    let spec = Path::new("spec");
    let mut all =
        vec![(spec.child("cloudCredentialSecretName"), cluster.spec.cloud_credential_secret_name.as_str())];
    let config = spec.child("rkeConfig");
    for (index, pool) in cluster.spec.rke_config.iter().flat_map(|config| &config.machine_pools).enumerate() {
        let path = config.child("machinePools").index(index).child("cloudCredentialSecretName");
        all.push((path, &pool.common.cloud_credential_secret_name));
    }
    all.extend(
        store(cluster).map(|name| (config.child("etcd").child("s3").child("cloudCredentialName"), name)),
    );
    all.retain(|(_, name)| !name.is_empty());
    all
}

/// The credential of the snapshots' bucket.
fn store(cluster: &Cluster) -> Option<&str> {
    let etcd = cluster.spec.rke_config.as_ref()?.configuration.etcd.as_ref()?;
    Some(etcd.s3.as_ref()?.cloud_credential_name.as_str()).filter(|name| !name.is_empty())
}

/// Credentials that the cluster did not name before.
pub(super) fn changed<'a>(request: &Request<'a>) -> Vec<(Path, &'a str)> {
    let before: Vec<&str> = request.old.into_iter().flat_map(named).map(|(_, name)| name).collect();
    named(request.new).into_iter().filter(|(_, name)| !before.contains(name)).collect()
}

/// The credential of the snapshots' bucket, if it is another one now.
pub(super) fn changed_store<'a>(request: &Request<'a>) -> Option<&'a str> {
    store(request.new).filter(|name| request.old.and_then(store) != Some(name))
}

/// 8: nobody uses by way of a cluster what he may not read himself.
pub(super) fn access(request: &Request<'_>, answers: &Answers<'_>, findings: &mut Findings) {
    let namespace = request.new.metadata.namespace.as_deref().unwrap_or_default();
    for (path, name) in changed(request) {
        let secret = SecretRef::named(name, namespace);
        if !answers.accessible.contains(&secret) {
            let why = format!(
                "user {} cannot get secret {}/{}: ask for access to it",
                request.user, secret.namespace, secret.name
            );
            findings.unauthorized([FieldError::forbidden(&path, why)]);
        }
    }
}

/// 13: the bucket's credential is there.
pub(super) fn snapshot_store(request: &Request<'_>, answers: &Answers<'_>, findings: &mut Findings) {
    let Some(name) = changed_store(request) else { return };
    let namespace = request.new.metadata.namespace.as_deref().unwrap_or_default();
    if !answers.secrets.contains(&SecretRef::named(name, namespace)) {
        let path =
            Path::new("spec").child("rkeConfig").child("etcd").child("s3").child("cloudCredentialName");
        findings.bad([FieldError::not_found(&path, name)]);
    }
}
