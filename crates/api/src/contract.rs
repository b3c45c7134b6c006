//! Which version of a provider's kind is to be used: its CRD says so in labels.
//!
//! A label `cluster.x-k8s.io/v1beta2: v1alpha3_v1beta1` means that these versions of the kind keep Cluster API's
//! contract v1beta2.

use std::collections::BTreeMap;

/// The contracts that are understood, the newest first.
pub const CONTRACTS: [&str; 2] = ["v1beta2", "v1beta1"];

/// The prefix of the labels.
const LABEL: &str = "cluster.x-k8s.io/";

/// The newest contract that a CRD with these labels keeps, and the newest version of the kind that keeps it.
///
/// # Errors
/// A sentence that says which labels are missing.
pub fn version(labels: &BTreeMap<String, String>) -> Result<(&'static str, &str), String> {
    for contract in CONTRACTS {
        let versions = labels.get(&format!("{LABEL}{contract}")).map(String::as_str).unwrap_or_default();
        let newest = versions.split('_').filter(|version| !version.is_empty()).max_by_key(|one| rank(one));
        if let Some(newest) = newest {
            return Ok((contract, newest));
        }
    }
    let wanted = CONTRACTS.map(|contract| format!("{LABEL}{contract}")).join(" or ");
    Err(format!("the CRD has no label {wanted} that names its versions"))
}

/// Versions in the order in which Kubernetes prefers them: v1, then v1beta1, then v1alpha1, then all others.
fn rank(version: &str) -> (u8, u32, u32) {
    parse(version).unwrap_or_default()
}

fn parse(version: &str) -> Option<(u8, u32, u32)> {
    let rest = version.strip_prefix('v')?;
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(end);
    let major = major.parse().ok()?;
    let (stability, minor) = match rest {
        "" => return Some((3, major, 0)),
        _ => match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
            (Some(minor), _) => (2, minor),
            (_, Some(minor)) => (1, minor),
            _ => return None,
        },
    };
    Some((stability, major, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_the_newest_contract_is_taken() {
        for (labels, found) in [
            (&[("v1beta1", "v1alpha3_v1beta1")][..], Some(("v1beta1", "v1beta1"))),
            (&[("v1beta1", "v1beta1"), ("v1beta2", "v1beta1_v1_v1beta2")], Some(("v1beta2", "v1"))),
            (&[("v1beta2", "v1beta10_v1beta9")], Some(("v1beta2", "v1beta10"))),
            (&[("v1beta2", ""), ("v1beta1", "foo_v1alpha1")], Some(("v1beta1", "v1alpha1"))),
            (&[("v1alpha4", "v1alpha4")], None),
            (&[], None),
        ] {
            let labels =
                labels.iter().map(|(contract, versions)| (format!("{LABEL}{contract}"), (*versions).into()));
            let labels: BTreeMap<String, String> = labels.collect();
            assert_eq!(version(&labels).ok(), found, "{labels:?}");
        }
    }
}
