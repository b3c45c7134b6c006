//! Image references: `[registry/]repository[:tag][@digest]`.

use std::fmt;
use std::str::FromStr;

use crate::digest::{self, Digest};

/// The registry of references that name none.
pub const DOCKER_HUB: &str = "index.docker.io";
/// What people call it.
pub const DOCKER_HUB_ALIAS: &str = "docker.io";
/// The tag of references that name none.
const DEFAULT_TAG: &str = "latest";
/// Where Docker Hub keeps repositories without a namespace.
const DEFAULT_NAMESPACE: &str = "library";

/// Why a reference is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The part before the first slash is not a host.
    #[error("image `{image}`: `{registry}` is not a registry's host and port")]
    Registry {
        /// The whole reference.
        image: String,
        /// The part.
        registry: String,
    },
    /// The repository has other characters, or too many or too few.
    #[error(
        "image `{image}`: `{repository}` is not a repository: 2 to 255 of a-z 0-9 . _ - /, no empty or `..` segment"
    )]
    Repository {
        /// The whole reference.
        image: String,
        /// The part.
        repository: String,
    },
    /// The tag has other characters, or too many.
    #[error("image `{image}`: `{tag}` is not a tag: at most 128 of A-Z a-z 0-9 . _ -")]
    Tag {
        /// The whole reference.
        image: String,
        /// The part.
        tag: String,
    },
    /// What follows `@` is not a digest.
    #[error("image `{image}`: {source}")]
    Digest {
        /// The whole reference.
        image: String,
        /// What is wrong with it.
        source: digest::Error,
    },
}

/// Which image of a repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Selector {
    /// What the tag names now.
    Tag(String),
    /// Exactly this one.
    Digest(Digest),
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selector::Tag(tag) => f.write_str(tag),
            Selector::Digest(digest) => digest.fmt(f),
        }
    }
}

/// A complete reference. Its parts have been checked: they are safe in URLs. Of a reference with a tag and a digest
/// the digest counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// Host and perhaps port; [`DOCKER_HUB`] by default.
    pub registry: String,
    /// The repository, with Docker Hub's namespace if it needs one.
    pub repository: String,
    /// Which image in it.
    pub selector: Selector,
}

impl FromStr for Reference {
    type Err = Error;

    fn from_str(image: &str) -> Result<Self, Error> {
        let (named, digest) = match image.split_once('@') {
            Some((named, digest)) => (named, Some(digest)),
            None => (image, None),
        };
        let (name, tag) = split_tag(named);
        let (registry, repository) = split_registry(name);
        if !is_authority(registry) {
            return Err(Error::Registry { image: image.into(), registry: registry.into() });
        }
        if !is_repository(repository) {
            return Err(Error::Repository { image: image.into(), repository: repository.into() });
        }
        if !is_tag(tag) {
            return Err(Error::Tag { image: image.into(), tag: tag.into() });
        }
        let wrong = |source| Error::Digest { image: image.into(), source };
        let selector = match digest {
            Some(digest) => Selector::Digest(digest.parse().map_err(wrong)?),
            None => Selector::Tag(tag.into()),
        };
        let repository = match registry {
            DOCKER_HUB if !repository.contains('/') => format!("{DEFAULT_NAMESPACE}/{repository}"),
            _ => repository.into(),
        };
        Ok(Reference { registry: registry.into(), repository, selector })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if matches!(self.selector, Selector::Tag(_)) { ':' } else { '@' };
        write!(f, "{}/{}{separator}{}", self.registry, self.repository, self.selector)
    }
}

/// A colon before a slash belongs to a port.
fn split_tag(named: &str) -> (&str, &str) {
    match named.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') && !tag.is_empty() => (name, tag),
        Some((name, "")) => (name, DEFAULT_TAG),
        _ => (named, DEFAULT_TAG),
    }
}

/// The first segment is a registry only if a repository's could not look so.
fn split_registry(name: &str) -> (&str, &str) {
    match name.split_once('/') {
        Some((DOCKER_HUB_ALIAS, repository)) => (DOCKER_HUB, repository),
        Some((first, repository)) if first.contains(['.', ':']) => (first, repository),
        _ => (DOCKER_HUB, name),
    }
}

/// Whether this is a host, or an address in brackets, and perhaps a port.
pub(crate) fn is_authority(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_name = |host: &str| {
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    };
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let host_is_fine = match address {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => is_name(host),
    };
    host_is_fine && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

pub(crate) fn is_repository(text: &str) -> bool {
    let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'/');
    (2..=255).contains(&text.len())
        && text.bytes().all(allowed)
        && text.split('/').all(|segment| !matches!(segment, "" | "." | ".."))
}

fn is_tag(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (1..=128).contains(&text.len()) && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "82becede498899ec668628e7cb0ad87b6e1c371cb8a1e597d83a47fac21d6af3";

    #[test]
    fn references_are_completed() {
        let digest = format!("@sha256:{HEX}");
        for (image, whole) in [
            ("busybox", "index.docker.io/library/busybox:latest".into()),
            ("busybox:", "index.docker.io/library/busybox:latest".into()),
            ("docker.io/busybox:1", "index.docker.io/library/busybox:1".into()),
            ("rancher/rke2:v1.33.11-rke2r1", "index.docker.io/rancher/rke2:v1.33.11-rke2r1".into()),
            ("localhost/a", "index.docker.io/localhost/a:latest".into()),
            ("localhost:5000/ab", "localhost:5000/ab:latest".into()),
            ("registry.local/team/a/b:X_1.2", "registry.local/team/a/b:X_1.2".into()),
            ("[::1]:5000/a/b", "[::1]:5000/a/b:latest".into()),
            (&format!("busybox{digest}"), format!("index.docker.io/library/busybox{digest}")),
            (&format!("r.io:443/ab:1.2{digest}"), format!("r.io:443/ab{digest}")),
        ] as [(&str, String); 10]
        {
            let parsed: Reference = image.parse().unwrap();
            assert_eq!(parsed.to_string(), whole, "{image}");
            assert_eq!(whole.parse(), Ok(parsed), "{whole}");
        }
    }

    #[test]
    fn what_cannot_be_one_is_refused() {
        let two_digests = format!("a/b@sha256:{HEX}@sha256:{HEX}");
        for image in [
            "",
            "a",
            "UPPER/case",
            "a b",
            "a/../b",
            "r.io/../../etc",
            "r.io/a//b",
            "r.io:port/ab",
            "r.io:99999/ab",
            "ab:tag with space",
            "ab@sha256:12",
            "ab@md5:12",
            "ab:t?x=1",
            "r.io/ab?x",
            "[::1/ab",
            "[zz]:1/ab",
            "u@r.io/ab",
            &two_digests,
        ] {
            assert!(image.parse::<Reference>().is_err(), "{image}");
        }
    }
}
