//! What is checked before a MachineSet makes machines: a kubelet must not be newer than its API server, and nobody
//! joins a control plane that is being changed.

use api::capi::v1beta2::MachineSet;
use api::catalogue::annotations;

use crate::contract::{Breach, External};
use crate::version::Version;

/// Minor versions by which a kubelet may be older than the API server.
const OLDEST_KUBELET: u64 = 3;

/// The checks, by the names that the annotation takes.
pub const CHECKS: [&str; 5] =
    ["All", "ControlPlaneIsStable", "KubernetesVersionSkew", "KubeadmVersionSkew", "ControlPlaneVersionSkew"];

/// The checks that a set, or its template of bootstrap configurations, asks to be left out.
fn skipped<'a>(set: &'a MachineSet, template: Option<&'a str>) -> Vec<&'a str> {
    let noted = set.metadata.annotations.as_ref().and_then(|all| all.get(annotations::SKIP_PREFLIGHT_CHECKS));
    let lists = noted.map(String::as_str).into_iter().chain(template);
    lists.flat_map(|list| list.split(',')).map(str::trim).collect()
}

/// Why the set must not make machines now; empty if it may. A cluster without a versioned control plane always may.
/// `template` is what the template of bootstrap configurations notes about checks to be left out.
///
/// # Errors
/// If the control plane's object breaks its contract.
pub fn objections(
    set: &MachineSet,
    template: Option<&str>,
    control_plane: Option<External<'_>>,
) -> Result<Vec<String>, Breach> {
    let skipped = skipped(set, template);
    let checked = |check: &str| !skipped.contains(&"All") && !skipped.contains(&check);
    let Some(control_plane) = control_plane else { return Ok(Vec::new()) };
    let Some(wanted) = control_plane.version()? else { return Ok(Vec::new()) };
    let kind = control_plane.kind();
    let mut objections = Vec::new();
    if checked("ControlPlaneIsStable") {
        objections.extend(
            unstable(control_plane, &wanted)?
                .map(|why| format!("{kind} {why} (\"ControlPlaneIsStable\" preflight check failed)")),
        );
    }
    let version = &set.spec.template.spec.version;
    if version.is_empty() {
        return Ok(objections);
    }
    let (Some(own), Some(theirs)) = (Version::read(version), Version::read(&wanted)) else {
        objections.push(format!("versions {version} and {wanted} cannot be compared"));
        return Ok(objections);
    };
    if checked("KubernetesVersionSkew") {
        let why = if own.minor > theirs.minor {
            Some("must not be higher than")
        } else if own.minor + OLDEST_KUBELET < theirs.minor {
            Some("must be at most 3 minor versions lower than")
        } else {
            None
        };
        objections.extend(why.map(|why| {
            format!("MachineSet version ({version}) {why} ControlPlane version ({wanted}) (\"KubernetesVersionSkew\" preflight check failed)")
        }));
    }
    let kubeadm = set.spec.template.spec.bootstrap.config_ref.as_ref();
    let kubeadm = kubeadm.is_some_and(|config| {
        config.kind == "KubeadmConfigTemplate" && config.api_group == "bootstrap.cluster.x-k8s.io"
    });
    if kubeadm && checked("KubeadmVersionSkew") && own.minor != theirs.minor {
        objections.push(format!(
            "MachineSet version ({version}) and ControlPlane version ({wanted}) must have the same minor version, kubeadm needs that (\"KubeadmVersionSkew\" preflight check failed)"
        ));
    }
    Ok(objections)
}

/// Why machines should not join now.
fn unstable(control_plane: External<'_>, wanted: &str) -> Result<Option<String>, Breach> {
    let running = control_plane.versions()?;
    if running.is_empty() {
        return Ok(Some("is provisioning".into()));
    }
    let wanted = Version::read(wanted);
    let behind = running.iter().any(|one| Version::read(&one.version) < wanted);
    Ok(behind.then(|| "is upgrading".into()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::contract::Contract;

    fn set(version: &str, skip: &str, config: &str) -> MachineSet {
        let annotations =
            if skip.is_empty() { json!({}) } else { json!({annotations::SKIP_PREFLIGHT_CHECKS: skip}) };
        serde_json::from_value(json!({
            "metadata": {"annotations": annotations},
            "spec": {"template": {"spec": {"version": version, "bootstrap": {"configRef": {
                "apiGroup": "bootstrap.cluster.x-k8s.io", "kind": config, "name": "x"
            }}}}}
        }))
        .unwrap()
    }

    fn control_plane(spec: &str, status: &str) -> Value {
        let versions = if status.is_empty() { json!([]) } else { json!([{"version": status}]) };
        json!({"kind": "FooControlPlane", "spec": {"version": spec}, "status": {"versions": versions}})
    }

    #[test]
    fn versions_have_to_fit() {
        let stable = control_plane("v1.34.1+rke2r1", "v1.34.1+rke2r1");
        let cases = [
            ("v1.34.0", "", "FooConfigTemplate", &stable, vec![]),
            ("v1.31.9", "", "FooConfigTemplate", &stable, vec![]),
            ("", "", "FooConfigTemplate", &stable, vec![]),
            ("v1.30.9", "", "FooConfigTemplate", &stable, vec!["KubernetesVersionSkew"]),
            ("v1.35.0", "", "FooConfigTemplate", &stable, vec!["KubernetesVersionSkew"]),
            ("v1.35.0", "KubernetesVersionSkew, Other", "FooConfigTemplate", &stable, vec![]),
            ("v1.35.0", "All", "FooConfigTemplate", &stable, vec![]),
            ("v1.33.0", "", "KubeadmConfigTemplate", &stable, vec!["KubeadmVersionSkew"]),
            ("v1.34.0", "", "F", &control_plane("v1.34.1", ""), vec!["ControlPlaneIsStable"]),
            ("v1.34.0", "", "F", &control_plane("v1.34.1", "v1.34.0"), vec!["ControlPlaneIsStable"]),
            (
                "v1.34.0",
                "",
                "F",
                &control_plane("v1.34.1+rke2r2", "v1.34.1+rke2r1"),
                vec!["ControlPlaneIsStable"],
            ),
            ("v1.34.0", "", "F", &json!({"kind": "Unversioned"}), vec![]),
        ];
        for (version, skip, config, object, expected) in cases {
            let external = External { contract: Contract::V1Beta2, object };
            let found = objections(&set(version, skip, config), None, Some(external)).unwrap();
            let named = found.len() == expected.len()
                && found.iter().zip(&expected).all(|(text, name)| text.contains(name));
            assert!(named, "{version} {skip:?} {object}: {found:?}");
        }
        assert_eq!(objections(&set("v9.9.9", "", "F"), None, None), Ok(vec![]));
        let external = External { contract: Contract::V1Beta2, object: &stable };
        let noted = Some("KubernetesVersionSkew");
        assert_eq!(objections(&set("v1.35.0", "", "F"), noted, Some(external)), Ok(vec![]));
    }
}
