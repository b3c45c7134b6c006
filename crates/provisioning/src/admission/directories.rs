//! The environment of agents, and where things lie on the nodes.

use api::provisioning::v1::Cluster;
use kubeapi::{FieldError, Path};

use super::{Answers, Findings, Operation, Request};
use crate::management::AGENT_VAR_DIR;

/// What a shell would make something of.
const SHELL: &str = "\"'`*?#~=%$|&;<>{}[]()";

/// 9: spaces in NO_PROXY make agents ignore it.
pub(super) fn no_proxy(request: &Request<'_>, _: &Answers<'_>, findings: &mut Findings) {
    let find = |cluster: &Cluster| {
        let variables = cluster.spec.agent_env_vars.iter().enumerate();
        let mut found = variables.filter(|(_, one)| one.name.eq_ignore_ascii_case("no_proxy"));
        found.next().map(|(index, one)| (index, one.value.clone()))
    };
    let Some((index, value)) = find(request.new).filter(|(_, value)| value.contains(char::is_whitespace))
    else {
        return;
    };
    // A value that was let in once does not stop later changes.
    if request.old.and_then(find).is_some_and(|(_, old)| old == value) {
        return;
    }
    let path = Path::new("spec").child("agentEnvVars").index(index).child("value");
    findings.bad([FieldError::invalid(&path, value, "NO_PROXY must not contain spaces")]);
}

/// 10: directories, which cannot move once nodes use them.
pub(super) fn directories(request: &Request<'_>, _: &Answers<'_>, findings: &mut Findings) {
    if request.config().is_none() {
        return;
    }
    variable(request, findings);
    let all = named(request.new);
    let path = |field: &str| Path::new("spec").child("rkeConfig").child("dataDirectories").child(field);
    for (field, directory) in all.iter().filter(|(_, directory)| !directory.is_empty()) {
        findings.bad(shape(directory).map(|why| FieldError::invalid(&path(field), directory.as_str(), why)));
    }
    for (index, (field, directory)) in all.iter().enumerate() {
        for (other_field, other) in &all[index + 1..] {
            let apart = directory.is_empty() || other.is_empty() || !is_nested(directory, other);
            if !apart {
                let why = format!("must neither be nor hold nor lie in {other_field} ({other})");
                findings.bad([FieldError::invalid(&path(field), directory.as_str(), why)]);
            }
        }
    }
    if let Some(old) = request.old.filter(|old| old.spec.rke_config.is_some()) {
        let (before, after) = (effective(old), effective(request.new));
        for ((field, before), (_, after)) in before.iter().zip(&after).filter(|(old, new)| old != new) {
            let why = format!("cannot be changed once the cluster exists (it is {before:?})");
            findings.bad([FieldError::invalid(&path(field), after.as_str(), why)]);
        }
    }
}

/// The agent's directory has a field of its own.
fn variable(request: &Request<'_>, findings: &mut Findings) {
    let set =
        |cluster: &Cluster| cluster.spec.agent_env_vars.iter().position(|one| one.name == AGENT_VAR_DIR);
    let before = request.old.and_then(set).is_some();
    let Some(index) = set(request.new).filter(|_| request.operation == Operation::Create || !before) else {
        return;
    };
    let path = Path::new("spec").child("agentEnvVars").index(index).child("name");
    let why = format!("{AGENT_VAR_DIR} cannot be set: use spec.rkeConfig.dataDirectories.systemAgent");
    findings.bad([FieldError::forbidden(&path, why)]);
}

fn named(cluster: &Cluster) -> [(&'static str, String); 3] {
    let directories =
        cluster.spec.rke_config.as_ref().map(|config| config.configuration.data_directories.clone());
    let directories = directories.unwrap_or_default();
    [
        ("systemAgent", directories.system_agent),
        ("provisioning", directories.provisioning),
        ("k8sDistro", directories.k8s_distro),
    ]
}

/// As [`named`], where the agent's directory may stand in the variable of old clusters.
fn effective(cluster: &Cluster) -> [(&'static str, String); 3] {
    let mut all = named(cluster);
    if all[0].1.is_empty() {
        let variable = cluster.spec.agent_env_vars.iter().find(|one| one.name == AGENT_VAR_DIR);
        all[0].1 = variable.map(|one| one.value.clone()).unwrap_or_default();
    }
    all
}

fn shape(directory: &str) -> Option<&'static str> {
    if !directory.starts_with('/') {
        return Some("must be an absolute path");
    }
    if directory.contains(|letter| SHELL.contains(letter)) {
        return Some("cannot contain shell expressions");
    }
    let clean = directory == "/" || directory.split('/').skip(1).all(|part| !matches!(part, "" | "." | ".."));
    (!clean).then_some("must be without //, /./, /../ and a / at its end")
}

fn is_nested(left: &str, right: &str) -> bool {
    let within = |inner: &str, outer: &str| inner == outer || inner.starts_with(&format!("{outer}/"));
    within(left, right) || within(right, left)
}
