//! Versions of Kubernetes.

use std::cmp::Ordering;

use kubeapi::{FieldError, Path};

use super::{Answers, Findings, Request};
use crate::restore;

/// A version of a distribution: `v1.33.5+rke2r1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Major, minor and patch.
    pub numbers: [u32; 3],
    /// `rc1` of `v1.33.0-rc1+rke2r1`.
    pub pre_release: String,
    /// `rke2` or `k3s`.
    pub distribution: &'static str,
    /// `r1` of `rke2r1`, `1` of `k3s1`.
    pub build: String,
}

impl Version {
    /// Reads a version; nothing if it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let (core, distribution) = text.strip_prefix('v')?.split_once('+')?;
        let (core, pre_release) = core.split_once('-').unwrap_or((core, ""));
        let mut numbers = [0; 3];
        let mut parts = core.split('.');
        for number in &mut numbers {
            let part = parts.next()?;
            let canonical = part == "0" || !part.starts_with('0');
            *number = part
                .bytes()
                .all(|byte| byte.is_ascii_digit())
                .then(|| part.parse().ok())?
                .filter(|_| canonical)?;
        }
        let (distribution, build) =
            match (distribution.strip_prefix("rke2"), distribution.strip_prefix("k3s")) {
                (Some(build), _) => ("rke2", build),
                (_, Some(build)) => ("k3s", build),
                _ => return None,
            };
        let digits = build.strip_prefix('r').unwrap_or(build);
        let numbered = digits.starts_with(|letter: char| letter.is_ascii_digit());
        (parts.next().is_none() && numbered).then(|| Version {
            numbers,
            pre_release: pre_release.into(),
            distribution,
            build: build.into(),
        })
    }

    /// Major and minor.
    fn minor(&self) -> [u32; 2] {
        [self.numbers[0], self.numbers[1]]
    }
}

/// Versions that can be, upgrades that can be.
pub(super) fn version(request: &Request<'_>, answers: &Answers<'_>, findings: &mut Findings) {
    if request.config().is_none() || !request.changed(|cluster| &cluster.spec.kubernetes_version) {
        return;
    }
    // A restore brings its own version, whatever stands here until then.
    let restoring = restore::wanted(&request.new.spec).is_some()
        && request.changed(|cluster| Some(cluster.spec.rke_config.as_ref()?.etcd_snapshot_restore.as_ref()));
    if restoring {
        return;
    }
    let text = request.new.spec.kubernetes_version.as_str();
    let path = Path::new("spec").child("kubernetesVersion");
    if text.is_empty() {
        findings.bad([FieldError::required(&path, "rkeConfig needs a version such as v1.33.5+rke2r1")]);
        return;
    }
    let Some(new) = Version::parse(text) else {
        let why = "must be a version of RKE2 or K3s such as v1.33.5+rke2r1 or v1.33.5+k3s1";
        findings.bad([FieldError::invalid(&path, text, why)]);
        return;
    };
    if answers.known_versions.is_some_and(|known| !known.contains(text)) {
        findings.warn(format!("{path}: {text} is not in the release data: its arguments cannot be checked"));
    }
    let old = request.old.map(|old| old.spec.kubernetes_version.as_str()).and_then(Version::parse);
    if let Some(old) = old {
        step(&old, &new, (&path, text), findings);
    }
}

/// From one version to the next.
fn step(old: &Version, new: &Version, (path, text): (&Path, &str), findings: &mut Findings) {
    if old.distribution != new.distribution {
        let why = format!("the cluster runs {}: a cluster cannot change its distribution", old.distribution);
        findings.bad([FieldError::invalid(path, text, why)]);
        return;
    }
    match new.minor().cmp(&old.minor()) {
        Ordering::Less => {
            let why = "a lower minor version cannot read what the cluster has stored: restore a snapshot of \
                       that version with restoreRKEConfig kubernetesVersion or all";
            findings.bad([FieldError::invalid(path, text, why)]);
        }
        Ordering::Equal if new.numbers < old.numbers => {
            findings.warn(format!("{path}: {text} is older than the version that the cluster runs"));
        }
        Ordering::Greater if new.numbers[0] == old.numbers[0] && new.numbers[1] > old.numbers[1] + 1 => {
            findings.warn(format!(
                "{path}: {text} skips a minor version: upgrade to v{}.{} first",
                old.numbers[0],
                old.numbers[1] + 1
            ));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        let good = [
            "v1.28.0+rke2r1",
            "v1.33.5+k3s1",
            "v1.33.0-rc1+rke2r1",
            "v1.31.4+k3s1-build20260101",
            "v1.35.1+k3s3",
        ];
        for text in good {
            assert!(Version::parse(text).is_some(), "{text}");
        }
        let bad = [
            "",
            "1.33.5+rke2r1",
            "v1.33.5",
            "v1.33+rke2r1",
            "v1.33.5.1+rke2r1",
            "v1.33.5+eks1",
            "v01.3.5+k3s1",
            "v1.33.5+rke2",
            "vx.y.z+k3s1",
        ];
        for text in bad {
            assert_eq!(Version::parse(text), None, "{text}");
        }
        assert_eq!(Version::parse("v1.33.5+rke2r1").unwrap().numbers, [1, 33, 5]);
    }
}
