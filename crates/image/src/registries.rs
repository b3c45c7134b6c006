//! `registries.yaml`: mirrors, credentials and TLS of registries, as RKE2 and K3s write it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer};

use crate::reference::{DOCKER_HUB, DOCKER_HUB_ALIAS};

/// The key that stands for every registry without one of its own.
const EVERY: &str = "*";

/// Why the file is of no use.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is there and cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// It is not what it should be.
    #[error("{}: {message}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        message: String,
    },
}

/// The whole file. Keys that we do not know are passed over.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Registries {
    /// Other places to get a registry's images from, by the registry's name or `*`.
    #[serde(deserialize_with = "nullable")]
    pub mirrors: BTreeMap<String, Option<Mirror>>,
    /// How to talk to a host, by its name (and port) or `*`.
    #[serde(deserialize_with = "nullable")]
    pub configs: BTreeMap<String, Option<Config>>,
}

/// Where else to look.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Mirror {
    /// URLs to try in this order, before the registry itself.
    #[serde(deserialize_with = "nullable")]
    pub endpoint: Vec<String>,
    /// Regular expressions over repositories and what their matches become, at these endpoints.
    #[serde(deserialize_with = "nullable")]
    pub rewrite: BTreeMap<String, String>,
}

/// How to talk to a host.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Who we are.
    pub auth: Option<Auth>,
    /// Whom we trust.
    pub tls: Option<Tls>,
}

/// Credentials, in one of the spellings that there are.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Auth {
    /// A user, with `password`.
    #[serde(deserialize_with = "nullable")]
    pub username: String,
    /// The user's password.
    #[serde(deserialize_with = "nullable")]
    pub password: String,
    /// Base64 of `username:password`.
    #[serde(deserialize_with = "nullable")]
    pub auth: String,
    /// A token that buys access tokens.
    #[serde(alias = "identitytoken", deserialize_with = "nullable")]
    pub identity_token: String,
    /// An access token.
    #[serde(alias = "registrytoken", deserialize_with = "nullable")]
    pub registry_token: String,
}

/// Debug output ends up in logs.
impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth").field("username", &self.username).finish_non_exhaustive()
    }
}

/// TLS towards a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Tls {
    /// PEM of authorities to trust beside the system's.
    #[serde(deserialize_with = "nullable")]
    pub ca_file: String,
    /// PEM of our certificate, with `key_file`.
    #[serde(deserialize_with = "nullable")]
    pub cert_file: String,
    /// PEM of its key.
    #[serde(deserialize_with = "nullable")]
    pub key_file: String,
    /// Trust anybody.
    #[serde(deserialize_with = "nullable")]
    pub insecure_skip_verify: bool,
}

impl Registries {
    /// Reads the first of these files that there is; nothing configured if there is none.
    pub fn read_first(files: &[PathBuf]) -> Result<Self, Error> {
        for path in files {
            match std::fs::read_to_string(path) {
                Ok(text) => return Self::parse(&text, path),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(Error::Read { path: path.clone(), source }),
            }
        }
        Ok(Self::default())
    }

    fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let parsed: Result<Option<Self>, _> = serde_saphyr::from_str(text);
        let parsed =
            parsed.map_err(|error| Error::Parse { path: path.to_owned(), message: error.to_string() })?;
        Ok(parsed.unwrap_or_default())
    }

    /// The mirror of a registry: its own, or else that of all. The first key that is there ends the search, even if
    /// nothing is under it.
    pub(crate) fn mirror(&self, registry: &str) -> Option<&Mirror> {
        let mut keys = vec![registry.to_owned()];
        if registry == DOCKER_HUB {
            keys.push(DOCKER_HUB_ALIAS.to_owned());
        } else if !has_port(registry) {
            keys.extend([format!("{registry}:443"), format!("{registry}:80")]);
        }
        keys.push(EVERY.to_owned());
        keys.iter().find_map(|key| self.mirrors.get(key))?.as_ref()
    }

    /// The credentials for a host.
    pub(crate) fn auth(&self, host: &str) -> Option<&Auth> {
        self.config(host)?.auth.as_ref()
    }

    /// The TLS settings for a host.
    pub(crate) fn tls(&self, host: &str) -> Option<&Tls> {
        self.config(host)?.tls.as_ref()
    }

    fn config(&self, host: &str) -> Option<&Config> {
        let alias = (host == DOCKER_HUB).then_some(DOCKER_HUB_ALIAS);
        let mut keys = [Some(host), alias, Some(EVERY)].into_iter().flatten();
        keys.find_map(|key| self.configs.get(key))?.as_ref()
    }
}

pub(crate) fn has_port(authority: &str) -> bool {
    authority.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'))
}

/// YAML with a key and nothing after it means the same as without the key.
fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Registries {
        Registries::parse(text, Path::new("registries.yaml")).unwrap()
    }

    #[test]
    fn a_whole_file_is_understood() {
        let registries = parse(
            "mirrors:\n  docker.io:\n    endpoint:\n      - https://m.example\n    rewrite:\n      \"^rancher/(.*)\": \"x/$1\"\n  \"*\":\n\
             configs:\n  m.example:\n    auth:\n      username: u\n      password: p\n    tls:\n      ca_file: /ca\n      insecure_skip_verify: true\n    other: 1\n  e.example:\n",
        );
        let mirror = registries.mirror(DOCKER_HUB).unwrap();
        assert_eq!(mirror.endpoint, ["https://m.example"]);
        assert_eq!(mirror.rewrite["^rancher/(.*)"], "x/$1");
        assert_eq!(registries.auth("m.example").unwrap().username, "u");
        let tls = registries.tls("m.example").unwrap();
        assert!(tls.insecure_skip_verify && tls.ca_file == "/ca" && tls.key_file.is_empty());
        assert!(registries.auth("e.example").is_none());
    }

    #[test]
    fn empty_files_configure_nothing() {
        for text in ["", "\n", "# nothing\n", "mirrors:\nconfigs:\n", "{}"] {
            assert!(parse(text).mirrors.is_empty(), "{text:?}");
        }
        assert!(Registries::parse("mirrors: [", Path::new("r.yaml")).is_err());
    }

    #[test]
    fn the_first_key_that_is_there_ends_the_search() {
        let every = "mirrors:\n  \"*\":\n    endpoint: [every]\n";
        let own = format!("{every}  r.io:\n");
        let with_port = format!("{every}  r.io:443:\n    endpoint: [port]\n");
        for (text, registry, expected) in [
            (every, "r.io", Some("every")),
            (&own, "r.io", None),
            (&own, "s.io", Some("every")),
            (&with_port, "r.io", Some("port")),
            (&with_port, "r.io:80", Some("every")),
        ] as [(&str, &str, Option<&str>); 5]
        {
            let registries = parse(text);
            let found = registries.mirror(registry).map(|mirror| mirror.endpoint[0].as_str());
            assert_eq!(found, expected, "{registry} in {text}");
        }
    }

    #[test]
    fn the_first_existing_file_counts() {
        let directory = tempfile::tempdir().unwrap();
        let files = ["a", "b", "c"].map(|name| directory.path().join(name));
        assert!(Registries::read_first(&files).unwrap().configs.is_empty());
        std::fs::write(&files[2], "configs: {last: {}}").unwrap();
        assert!(Registries::read_first(&files).unwrap().configs.contains_key("last"));
        std::fs::write(&files[1], "configs: {middle: {}}").unwrap();
        assert!(Registries::read_first(&files).unwrap().configs.contains_key("middle"));
    }

    #[test]
    fn secrets_are_not_printed() {
        let auth = Auth { password: "hunter2".into(), auth: "aHVudGVy".into(), ..Auth::default() };
        assert!(!format!("{auth:?}").contains("hunter") && !format!("{auth:?}").contains("aHV"));
    }
}
