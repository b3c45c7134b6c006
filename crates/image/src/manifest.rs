//! Manifests and indexes, of Docker and of OCI.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::digest::{self, Digest};

/// What we ask registries for.
pub(crate) const ACCEPT: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json";

/// Why a manifest is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is not JSON, or not of this shape.
    #[error("the manifest cannot be read: {0}")]
    Syntax(String),
    /// It is both an image's and an index, or neither.
    #[error("the manifest is neither an image's nor an index")]
    Ambiguous,
    /// Docker's first format, which nothing writes any more.
    #[error("the manifest is of schema version 1, which is not supported")]
    Schema1,
    /// A descriptor's digest cannot be checked.
    #[error(transparent)]
    Digest(#[from] digest::Error),
    /// The index has nothing for us.
    #[error("there is no image for {wanted}, only for {there}")]
    Platform {
        /// What we run on.
        wanted: String,
        /// What the index has.
        there: String,
    },
    /// Indexes in indexes.
    #[error("indexes are nested too deeply")]
    Nested,
}

/// An operating system and an architecture, in Go's spelling.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Platform {
    /// `linux`.
    #[serde(default)]
    pub os: String,
    /// `amd64`.
    #[serde(default)]
    pub architecture: String,
}

impl Platform {
    /// That of this program.
    pub fn ours() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Platform { os: std::env::consts::OS.into(), architecture: architecture.into() }
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)
    }
}

/// What something is and where it is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    pub(crate) platform: Option<Platform>,
    pub(crate) annotations: BTreeMap<String, String>,
}

/// What a manifest is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Manifest {
    /// Other manifests.
    Index(Vec<Descriptor>),
    /// An image's layers, the lowest first.
    Image(Vec<Descriptor>),
}

#[derive(Deserialize)]
struct RawManifest {
    #[serde(rename = "schemaVersion", default)]
    schema_version: u32,
    manifests: Option<Vec<RawDescriptor>>,
    layers: Option<Vec<RawDescriptor>>,
}

#[derive(Deserialize)]
struct RawDescriptor {
    digest: String,
    size: u64,
    platform: Option<Platform>,
    annotations: Option<BTreeMap<String, String>>,
}

impl Manifest {
    /// Reads one. What it is shows in what it has, not in what somebody calls it.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let raw: RawManifest =
            serde_json::from_slice(bytes).map_err(|error| Error::Syntax(error.to_string()))?;
        match (raw.manifests, raw.layers) {
            (Some(manifests), None) => Ok(Manifest::Index(descriptors(manifests)?)),
            (None, Some(layers)) => Ok(Manifest::Image(descriptors(layers)?)),
            (None, None) if raw.schema_version == 1 => Err(Error::Schema1),
            _ => Err(Error::Ambiguous),
        }
    }
}

/// The first of an index that fits. One that does not say is for linux/amd64.
pub(crate) fn select<'a>(index: &'a [Descriptor], wanted: &Platform) -> Result<&'a Descriptor, Error> {
    let default = Platform { os: "linux".into(), architecture: "amd64".into() };
    let platform =
        |descriptor: &'a Descriptor| descriptor.platform.clone().unwrap_or_else(|| default.clone());
    index.iter().find(|descriptor| platform(descriptor) == *wanted).ok_or_else(|| {
        let there: Vec<String> = index.iter().map(|descriptor| platform(descriptor).to_string()).collect();
        let there = if there.is_empty() { "nothing".into() } else { there.join(", ") };
        Error::Platform { wanted: wanted.to_string(), there }
    })
}

fn descriptors(raw: Vec<RawDescriptor>) -> Result<Vec<Descriptor>, Error> {
    raw.into_iter().map(descriptor).collect()
}

fn descriptor(raw: RawDescriptor) -> Result<Descriptor, Error> {
    let RawDescriptor { digest, size, platform, annotations } = raw;
    Ok(Descriptor { digest: digest.parse()?, size, platform, annotations: annotations.unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(of: &str) -> String {
        Digest::of(of.as_bytes()).to_string()
    }

    fn parse(value: &serde_json::Value) -> Result<Manifest, Error> {
        Manifest::parse(value.to_string().as_bytes())
    }

    #[test]
    fn both_kinds_are_read() {
        let layer = serde_json::json!({"digest": digest("a"), "size": 3, "mediaType": "x"});
        let Ok(Manifest::Image(layers)) = parse(&serde_json::json!({"schemaVersion": 2, "layers": [layer]}))
        else {
            panic!("not an image")
        };
        assert_eq!((layers[0].digest.to_string(), layers[0].size), (digest("a"), 3));
        assert!(matches!(parse(&serde_json::json!({"manifests": []})), Ok(Manifest::Index(_))));
    }

    #[test]
    fn what_is_no_manifest_is_refused() {
        let both = serde_json::json!({"manifests": [], "layers": []});
        assert_eq!(parse(&both), Err(Error::Ambiguous));
        assert_eq!(parse(&serde_json::json!({})), Err(Error::Ambiguous));
        let old = serde_json::json!({"schemaVersion": 1, "fsLayers": []});
        assert_eq!(parse(&old), Err(Error::Schema1));
        let escaping = serde_json::json!({"layers": [{"digest": "sha256:../../etc/passwd", "size": 1}]});
        assert!(matches!(parse(&escaping), Err(Error::Digest(_))));
        assert!(matches!(Manifest::parse(b"<html>"), Err(Error::Syntax(_))));
    }

    #[test]
    fn an_index_is_asked_for_our_platform() {
        let entry = |os: &str, architecture: &str, of: &str| {
            let platform = serde_json::json!({"os": os, "architecture": architecture, "variant": "v8"});
            serde_json::json!({"digest": digest(of), "size": 1, "platform": platform})
        };
        let entries = [
            entry("unknown", "unknown", "attestation"),
            entry("windows", "amd64", "w"),
            entry("linux", "arm64", "a"),
            serde_json::json!({"digest": digest("silent"), "size": 1}),
        ];
        let Ok(Manifest::Index(index)) = parse(&serde_json::json!({"manifests": entries})) else {
            panic!("not an index")
        };
        for (architecture, expected) in [("arm64", Some("a")), ("amd64", Some("silent")), ("s390x", None)] {
            let wanted = Platform { os: "linux".into(), architecture: architecture.into() };
            let chosen = select(&index, &wanted).ok().map(|descriptor| descriptor.digest.to_string());
            assert_eq!(chosen, expected.map(digest), "{architecture}");
        }
    }
}
