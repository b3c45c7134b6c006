//! Pools: what they refer to, what they do, who makes their machines.

use std::collections::{BTreeMap, BTreeSet};

use api::provisioning::v1::MachinePool;
use k8s_openapi::api::core::v1::ObjectReference;
use kubeapi::{FieldError, Path};

use super::{Answers, Findings, Request};
use crate::bootstrap::cloud_config;
use crate::graph::Source;
use crate::object::group;

/// Where the documentation says how to get from drivers to native providers and back.
const MIGRATION: &str = "docs/provider-migration.md";

/// Group of the providers that Cluster API's own documentation lists.
const PROVIDERS: &str = "infrastructure.cluster.x-k8s.io";

fn path() -> Path {
    Path::new("spec").child("rkeConfig").child("machinePools")
}

fn pools<'a>(request: &Request<'a>) -> impl Iterator<Item = (usize, &'a MachinePool)> + use<'a> {
    request.config().into_iter().flat_map(|config| config.machine_pools.iter().enumerate())
}

/// Names and references are whole, and stay in the namespace.
pub(super) fn references(request: &Request<'_>, _: &Answers<'_>, findings: &mut Findings) {
    let namespace = request.new.metadata.namespace.as_deref().unwrap_or_default();
    if let Some(reference) = request.config().and_then(|config| config.infrastructure_ref.as_ref()) {
        let path = Path::new("spec").child("rkeConfig").child("infrastructureRef");
        findings.invalid(whole(reference, &path, namespace));
        if group(reference.api_version.as_deref().unwrap_or_default()).is_empty() {
            let why =
                "must be group/version of the provider, such as infrastructure.cluster.x-k8s.io/v1beta1";
            findings.invalid([FieldError::required(&path.child("apiVersion"), why)]);
        }
    }
    let mut names = BTreeSet::new();
    for (index, pool) in pools(request) {
        let path = path().index(index);
        if pool.name.is_empty() {
            findings.invalid([FieldError::required(&path.child("name"), "")]);
        } else if !names.insert(pool.name.as_str()) {
            findings.invalid([FieldError::duplicate(&path.child("name"), pool.name.as_str())]);
        }
        let path = path.child("machineConfigRef");
        let Some(reference) = &pool.machine_config_ref else {
            findings.invalid([FieldError::required(&path, "a machine config, or a native machine template")]);
            continue;
        };
        findings.invalid(whole(reference, &path, namespace));
        findings.invalid(shaped(reference, &path));
    }
}

fn whole(reference: &ObjectReference, path: &Path, namespace: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (field, value) in [("kind", &reference.kind), ("name", &reference.name)] {
        if value.as_deref().unwrap_or_default().is_empty() {
            errors.push(FieldError::required(&path.child(field), ""));
        }
    }
    if let Some(other) =
        reference.namespace.as_deref().filter(|other| !other.is_empty() && *other != namespace)
    {
        let why = format!("must be {namespace:?}, the cluster's own namespace");
        errors.push(FieldError::invalid(&path.child("namespace"), other, why));
    }
    errors
}

/// Machines are cloned from templates, and configs are drivers'.
fn shaped(reference: &ObjectReference, path: &Path) -> Option<FieldError> {
    let kind = reference.kind.as_deref().filter(|kind| !kind.is_empty())?;
    let (ending, why) = match Source::of(reference).is_native() {
        true => ("Template", "must be a machine template of the provider: a kind that ends in Template"),
        false => ("Config", "must be a node driver's machine config: a kind that ends in Config"),
    };
    let fits = kind.strip_suffix(ending).is_some_and(|driver| !driver.is_empty());
    (!fits).then(|| FieldError::invalid(&path.child("kind"), kind, why))
}

/// Every pool does something, and all of them together everything.
pub(super) fn roles(request: &Request<'_>, _: &Answers<'_>, findings: &mut Findings) {
    for (index, pool) in pools(request) {
        let path = path().index(index);
        if !pool.etcd_role && !pool.control_plane_role && !pool.worker_role {
            let why = "at least one of etcdRole, controlPlaneRole and workerRole must be true";
            findings.invalid([FieldError::required(&path, why)]);
        }
        if pool.machine_os == "windows" && (pool.etcd_role || pool.control_plane_role) {
            let field = if pool.etcd_role { "etcdRole" } else { "controlPlaneRole" };
            let why = "machines with Windows can only be workers";
            findings.invalid([FieldError::invalid(&path.child(field), true, why)]);
        } else if !matches!(pool.machine_os.as_str(), "" | "linux" | "windows") {
            let supported = ["linux", "windows"];
            findings.invalid([FieldError::not_supported(
                &path.child("machineOS"),
                pool.machine_os.as_str(),
                supported,
            )]);
        }
    }
    let all: Vec<&MachinePool> = pools(request).map(|(_, pool)| pool).collect();
    if all.is_empty() {
        return;
    }
    let missing: Vec<&str> = [
        ("etcd", all.iter().any(|pool| pool.etcd_role)),
        ("control plane", all.iter().any(|pool| pool.control_plane_role)),
        ("worker", all.iter().any(|pool| pool.worker_role)),
    ]
    .into_iter()
    .filter_map(|(role, has)| (!has).then_some(role))
    .collect();
    if !missing.is_empty() {
        findings.warn(format!(
            "{}: no pool has the role {}: the cluster starts when machines with it register",
            path(),
            missing.join(", ")
        ));
    }
    let members: i32 = all.iter().filter(|pool| pool.etcd_role).filter_map(|pool| pool.quantity).sum();
    if members > 0 && members % 2 == 0 {
        findings.warn(format!(
            "{}: {members} etcd members survive no more failures than {}",
            path(),
            members - 1
        ));
    }
    shared_configs(&all, findings);
}

fn shared_configs(all: &[&MachinePool], findings: &mut Findings) {
    let mut users: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for pool in all {
        let Some(reference) = &pool.machine_config_ref else { continue };
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        users.entry((text(&reference.kind), text(&reference.name))).or_default().push(&pool.name);
    }
    for ((kind, name), pools) in users.into_iter().filter(|(_, pools)| pools.len() > 1) {
        findings.warn(format!(
            "{}: {} share {kind} {name}: a change of it replaces the machines of all",
            path(),
            pools.join(", ")
        ));
    }
}

/// Who makes machines does not change, and what he does not look at is said.
pub(super) fn providers(request: &Request<'_>, _: &Answers<'_>, findings: &mut Findings) {
    let Some(config) = request.config() else { return };
    if let Some(old) = request.old_config() {
        kept_infrastructure(old.infrastructure_ref.as_ref(), config.infrastructure_ref.as_ref(), findings);
        kept_sources(request, &old.machine_pools, findings);
    }
    let native: Vec<(usize, &MachinePool)> = pools(request).filter(|(_, pool)| is_native(pool)).collect();
    let drivers = pools(request).count() > native.len();
    if !request.new.spec.cloud_credential_secret_name.is_empty() && !drivers && !native.is_empty() {
        findings
            .warn("spec.cloudCredentialSecretName: ignored: native providers have credentials of their own");
    }
    for (index, pool) in pools(request).filter(|(_, pool)| !is_native(pool)) {
        if pool.userdata.as_ref().is_some_and(|data| !data.inline_userdata.is_empty()) {
            findings.warn(format!(
                "{}.userdata: ignored: user data of node drivers stands in their machine configs",
                path().index(index)
            ));
        }
    }
    for (index, pool) in native {
        ignored(&path().index(index), pool, findings);
        served(&path().index(index), pool, config.infrastructure_ref.as_ref(), findings);
    }
}

fn is_native(pool: &MachinePool) -> bool {
    pool.machine_config_ref.as_ref().is_some_and(|reference| Source::of(reference).is_native())
}

fn kept_infrastructure(
    old: Option<&ObjectReference>,
    new: Option<&ObjectReference>,
    findings: &mut Findings,
) {
    let path = Path::new("spec").child("rkeConfig").child("infrastructureRef");
    let same = |old: &ObjectReference, new: &ObjectReference| {
        let group = |one: &ObjectReference| group(one.api_version.as_deref().unwrap_or_default()).to_owned();
        (group(old), &old.kind, &old.name) == (group(new), &new.kind, &new.name)
    };
    match (old, new) {
        (None, None) => {}
        (Some(old), Some(new)) if same(old, new) => {}
        (Some(_), Some(_)) => {
            findings.bad([FieldError::forbidden(&path, "cannot be changed once the cluster exists")]);
        }
        _ => {
            let why =
                format!("a cluster cannot change between node drivers and native providers: see {MIGRATION}");
            findings.bad([FieldError::forbidden(&path, why)]);
        }
    }
}

fn kept_sources(request: &Request<'_>, old: &[MachinePool], findings: &mut Findings) {
    for (index, pool) in pools(request) {
        let Some(before) = old.iter().find(|one| one.name == pool.name) else { continue };
        let both = before.machine_config_ref.is_some() && pool.machine_config_ref.is_some();
        if both && is_native(before) != is_native(pool) {
            let path = path().index(index).child("machineConfigRef");
            let why = format!(
                "a pool cannot change between node drivers and native providers: add a pool and delete this one, \
                 see {MIGRATION}"
            );
            findings.bad([FieldError::forbidden(&path, why)]);
        }
    }
}

/// What a native pool says that nobody reads.
fn ignored(path: &Path, pool: &MachinePool, findings: &mut Findings) {
    if !pool.common.cloud_credential_secret_name.is_empty() {
        findings.warn(format!(
            "{path}.cloudCredentialSecretName: ignored: native providers have credentials of their own"
        ));
    }
    if pool.hostname_length_limit != 0 {
        findings.warn(format!("{path}.hostnameLengthLimit: ignored: native providers name their servers"));
    }
    if pool.machine_os == "windows" {
        let why = "native providers cannot make machines with Windows: use a node driver's pool";
        findings.invalid([FieldError::invalid(&path.child("machineOS"), "windows", why)]);
    }
}

/// Providers make machines in infrastructure clusters of their own.
fn served(
    path: &Path,
    pool: &MachinePool,
    infrastructure: Option<&ObjectReference>,
    findings: &mut Findings,
) {
    let Some(reference) = &pool.machine_config_ref else { return };
    if group(reference.api_version.as_deref().unwrap_or_default()) != PROVIDERS {
        return;
    }
    let kind = reference.kind.as_deref().unwrap_or_default();
    let Some(provider) = kind.strip_suffix("MachineTemplate").filter(|provider| !provider.is_empty()) else {
        return;
    };
    let found = infrastructure.and_then(|one| one.kind.as_deref()).unwrap_or("RKECluster");
    if found != format!("{provider}Cluster") {
        findings.warn(format!(
            "{path}.machineConfigRef: machines of {kind} are usually made in a {provider}Cluster, and the cluster's \
             infrastructure is a {found}: the provider may not serve this pool"
        ));
    }
}

/// User data of native pools is merged: it has to be mergeable.
pub(super) fn user_data(request: &Request<'_>, _: &Answers<'_>, findings: &mut Findings) {
    for (index, pool) in pools(request).filter(|(_, pool)| is_native(pool)) {
        let Some(data) = &pool.userdata else { continue };
        if let Err(error) = cloud_config::parse(&data.inline_userdata) {
            let path = path().index(index).child("userdata").child("inlineUserdata");
            findings.invalid([FieldError::invalid(&path, data.inline_userdata.as_str(), error.to_string())]);
        }
    }
}
