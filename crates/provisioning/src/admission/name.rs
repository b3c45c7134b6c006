//! Who the cluster is, and who made it.

use std::collections::BTreeMap;

use api::catalogue::{annotations, namespaces};
use kubeapi::{FieldError, Path};

use super::{Answers, Findings, Operation, Request};

/// The cluster that the server itself runs in.
pub(super) const LOCAL: &str = "local";

/// Longest name: it becomes the value of labels.
const LONGEST: usize = 63;

pub(super) fn deletion(request: &Request<'_>, findings: &mut Findings) {
    if request.is_local() {
        let path = Path::new("metadata").child("name");
        findings.bad([FieldError::forbidden(&path, "the local cluster may not be deleted")]);
    }
}

/// A name of the form `c-xxxxx`, which old management clusters have.
pub(super) fn is_legacy(name: &str) -> bool {
    name.strip_prefix("c-").is_some_and(|rest| {
        rest.len() == 5 && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    })
}

/// 1: the name.
pub(super) fn name(request: &Request<'_>, answers: &Answers<'_>, findings: &mut Findings) {
    if request.operation != Operation::Create {
        return;
    }
    let name = request.new.metadata.name.as_deref().unwrap_or_default();
    let path = Path::new("metadata").child("name");
    let namespace = request.new.metadata.namespace.as_deref().unwrap_or_default();
    if name == LOCAL {
        if namespace != namespaces::FLEET_LOCAL {
            let why = format!("only the cluster in namespace {} may have this name", namespaces::FLEET_LOCAL);
            findings.invalid([FieldError::invalid(&path, name, why)]);
        }
        return;
    }
    if is_legacy(name) {
        if !answers.management_clusters.contains(name) {
            let why = "names of the form c-xxxxx are kept for management clusters";
            findings.invalid([FieldError::invalid(&path, name, why)]);
        }
        return;
    }
    if name.len() > LONGEST {
        findings.invalid([FieldError::too_long(&path, LONGEST)]);
    }
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let shaped = name.chars().count() >= 2
        && !name.starts_with('-')
        && name.chars().skip(1).all(|one| u8::try_from(one).is_ok_and(letter));
    if !shaped {
        let why = "must be two or more of a-z, 0-9 and -, and not begin with -";
        findings.invalid([FieldError::invalid(&path, name, why)]);
    }
}

/// 2: a cluster of ours stays ours.
pub(super) fn kept_kind(request: &Request<'_>, _: &Answers<'_>, findings: &mut Findings) {
    let Some(old) = request.old.filter(|_| !request.is_local()) else { return };
    if old.spec.rke_config.is_some() != request.config().is_some() {
        let path = Path::new("spec").child("rkeConfig");
        findings
            .bad([FieldError::forbidden(&path, "cannot be added to or taken from a cluster that exists")]);
    }
}

/// 3: pools' names become labels.
pub(super) fn pool_names(request: &Request<'_>, _: &Answers<'_>, findings: &mut Findings) {
    let pools = request.config().into_iter().flat_map(|config| &config.machine_pools);
    let path = Path::new("spec").child("rkeConfig").child("machinePools");
    let existing = |name: &str| {
        let pools = request.old_config().into_iter().flat_map(|config| &config.machine_pools);
        pools.into_iter().any(|pool| pool.name == name)
    };
    for (index, pool) in pools.enumerate() {
        let path = path.index(index).child("name");
        if pool.name.len() > LONGEST && !existing(&pool.name) {
            findings.invalid([FieldError::too_long(&path, LONGEST)]);
        } else if !existing(&pool.name) && !pool.name.is_empty() {
            let wrong = kubeapi::name::label_value(&pool.name).into_iter();
            findings.invalid(wrong.map(|why| FieldError::invalid(&path, pool.name.as_str(), why)));
        }
    }
}

/// 4: the creator is who made it.
pub(super) fn creator(request: &Request<'_>, _: &Answers<'_>, findings: &mut Findings) {
    let old = request.old.map(|old| old.metadata.annotations.as_ref());
    let user = Some(request.user).filter(|_| !request.master);
    findings.invalid(creator_errors(old, request.new.metadata.annotations.as_ref(), user));
}

/// Ours: ids are given by the server. Old objects that have the annotation keep it, and it decides nothing.
pub(super) fn management_name(request: &Request<'_>, _: &Answers<'_>, findings: &mut Findings) {
    let key = annotations::MANAGEMENT_CLUSTER_NAME;
    let noted =
        |marks: Option<&BTreeMap<String, String>>| marks?.get(key).filter(|id| !id.is_empty()).cloned();
    let Some(asked) = noted(request.new.metadata.annotations.as_ref()) else { return };
    let before = request.old.and_then(|old| noted(old.metadata.annotations.as_ref()));
    if !request.master && before.as_ref() != Some(&asked) {
        let path = Path::new("metadata").child("annotations").key(key);
        findings.invalid([FieldError::forbidden(&path, "the server gives the cluster its id: leave it out")]);
    }
}

/// What is wrong with the note of who made an object; `old` is there on updates. Without a user, somebody writes who may note anybody.
pub(super) fn creator_errors(
    old: Option<Option<&BTreeMap<String, String>>>,
    new: Option<&BTreeMap<String, String>>,
    user: Option<&str>,
) -> Vec<FieldError> {
    let path = Path::new("metadata").child("annotations").key(annotations::CREATOR_ID);
    let noted = |marks: Option<&BTreeMap<String, String>>| marks?.get(annotations::CREATOR_ID).cloned();
    let Some(creator) = noted(new) else { return Vec::new() };
    let mut errors = Vec::new();
    if new.is_some_and(|marks| marks.contains_key(annotations::NO_CREATOR_RBAC)) {
        let why = format!("cannot be set together with {}", annotations::NO_CREATOR_RBAC);
        errors.push(FieldError::forbidden(&path, why));
    }
    match old.map(noted) {
        None if user.is_some_and(|user| creator != user) => {
            errors.push(FieldError::forbidden(&path, "must be the user who makes the object"));
        }
        Some(before) if user.is_some() && before.as_ref() != Some(&creator) => {
            errors.push(FieldError::invalid(&path, creator, "cannot be changed"));
        }
        _ => {}
    }
    errors
}
