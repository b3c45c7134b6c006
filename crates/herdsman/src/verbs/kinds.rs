//! The words for kinds, and the nearest one for a word that is none.

use anyhow::anyhow;
use kit::KindId;

/// A kind with the words that people use for it, the first of which is printed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word {
    words: &'static [&'static str],
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    /// Whether its objects are in namespaces.
    pub(crate) namespaced: bool,
}

const fn word(
    words: &'static [&'static str],
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
) -> Word {
    Word { words, group, version, kind, plural, namespaced: true }
}

const CAPI: &str = "cluster.x-k8s.io";
const RKE: &str = "rke.cattle.io";
const MANAGEMENT: &str = "management.cattle.io";

/// What can be asked for.
pub(crate) const ALL: [Word; 12] = [
    word(&["cluster", "clusters"], "provisioning.cattle.io", "v1", "Cluster", "clusters"),
    word(&["machine", "machines", "ma"], CAPI, "v1beta2", "Machine", "machines"),
    word(
        &["pool", "pools", "machinedeployment", "machinedeployments", "md"],
        CAPI,
        "v1beta2",
        "MachineDeployment",
        "machinedeployments",
    ),
    word(&["machineset", "machinesets", "ms"], CAPI, "v1beta2", "MachineSet", "machinesets"),
    word(
        &["healthcheck", "healthchecks", "machinehealthcheck", "mhc"],
        CAPI,
        "v1beta2",
        "MachineHealthCheck",
        "machinehealthchecks",
    ),
    word(
        &["controlplane", "controlplanes", "rkecontrolplane", "rcp"],
        RKE,
        "v1",
        "RKEControlPlane",
        "rkecontrolplanes",
    ),
    word(&["bootstrap", "bootstraps", "rkebootstrap"], RKE, "v1", "RKEBootstrap", "rkebootstraps"),
    word(&["snapshot", "snapshots", "etcdsnapshot"], RKE, "v1", "ETCDSnapshot", "etcdsnapshots"),
    word(&["capicluster", "capiclusters"], CAPI, "v1beta2", "Cluster", "clusters"),
    Word {
        namespaced: false,
        ..word(&["driver", "drivers", "nodedriver"], MANAGEMENT, "v3", "NodeDriver", "nodedrivers")
    },
    Word {
        namespaced: false,
        ..word(&["managementcluster", "managementclusters"], MANAGEMENT, "v3", "Cluster", "clusters")
    },
    word(&["event", "events"], "", "v1", "Event", "events"),
];

impl Word {
    /// The kind.
    pub(crate) fn id(&self) -> KindId {
        KindId::new(self.group, self.version, self.kind, self.plural)
    }

    /// The word that is printed.
    pub(crate) fn name(&self) -> &'static str {
        self.words[0]
    }
}

/// The kind that a word means.
pub(crate) fn find(word: &str) -> anyhow::Result<&'static Word> {
    let lower = word.to_lowercase();
    if let Some(found) = ALL.iter().find(|one| one.words.contains(&lower.as_str())) {
        return Ok(found);
    }
    let words = ALL.iter().flat_map(|one| one.words);
    let names: Vec<&str> = ALL.iter().map(Word::name).collect();
    let known = format!("known are: {}. For any other kind use kubectl", names.join(", "));
    Err(match nearest(&lower, words.copied()) {
        Some(near) => anyhow!("there is no kind {word:?}; did you mean {near:?}? ({known})"),
        None => anyhow!("there is no kind {word:?}; {known}"),
    })
}

/// The word most like another, if one is like it at all.
pub(crate) fn nearest<'a>(word: &str, among: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = among.map(|one| (strsim::jaro_winkler(word, one), one));
    scored.filter(|(score, _)| *score > 0.8).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, one)| one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_and_near_ones_named() {
        assert_eq!(
            find("clusters").unwrap().id(),
            KindId::new("provisioning.cattle.io", "v1", "Cluster", "clusters")
        );
        assert_eq!(find("MD").unwrap().name(), "pool");
        let wrong = find("mashines").unwrap_err().to_string();
        assert!(wrong.contains("did you mean \"machines\""), "{wrong}");
        assert!(!find("zebra").unwrap_err().to_string().contains("did you mean"));
    }
}
