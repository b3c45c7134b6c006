//! Who we are at a registry.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::reference::DOCKER_HUB;
use crate::registries::Auth;

/// What we can prove.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credentials {
    /// Nothing.
    Anonymous,
    /// Base64 of a name and a password.
    Basic(String),
    /// A token that buys access tokens.
    Identity(String),
    /// An access token.
    Access(String),
}

impl Credentials {
    pub(crate) fn of(auth: &Auth) -> Self {
        if !auth.identity_token.is_empty() {
            return Credentials::Identity(auth.identity_token.clone());
        }
        if !auth.registry_token.is_empty() {
            return Credentials::Access(auth.registry_token.clone());
        }
        if !auth.auth.is_empty() {
            return Credentials::Basic(auth.auth.clone());
        }
        if auth.username.is_empty() && auth.password.is_empty() {
            return Credentials::Anonymous;
        }
        Credentials::Basic(STANDARD.encode(format!("{}:{}", auth.username, auth.password)))
    }
}

/// Docker's own file.
#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: BTreeMap<String, Auth>,
}

/// The credentials for a host in Docker's `config.json`. A file that is not there or not understood has none.
pub(crate) fn from_docker(config: &Path, authority: &str) -> Option<Auth> {
    let bytes = std::fs::read(config).ok()?;
    match serde_json::from_slice::<DockerConfig>(&bytes) {
        Ok(config) => lookup(config, authority),
        Err(error) => {
            tracing::warn!("{} is passed over: {error}", config.display());
            None
        }
    }
}

fn lookup(config: DockerConfig, authority: &str) -> Option<Auth> {
    let is_hub = |host: &str| matches!(host, "docker.io" | "registry-1.docker.io" | DOCKER_HUB);
    let is_it = |key: &str| {
        let host = key.split_once("://").map_or(key, |(_, rest)| rest);
        let host = host.split('/').next().unwrap_or_default();
        host == authority || (is_hub(host) && is_hub(authority))
    };
    let mut auths = config.auths.into_iter();
    auths.find_map(|(key, auth)| {
        (is_it(&key) && Credentials::of(&auth) != Credentials::Anonymous).then_some(auth)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dockers_file_is_asked_by_host() {
        let text = r#"{"auths": {"https://index.docker.io/v1/": {"auth": "aHVi"}, "r.io:5000": {"auth": "cg=="},
            "https://s.io": {"identitytoken": "t"}, "empty.io": {}}, "credsStore": "x"}"#;
        for (authority, expected) in [
            ("index.docker.io", Some(Credentials::Basic("aHVi".into()))),
            ("r.io:5000", Some(Credentials::Basic("cg==".into()))),
            ("r.io", None),
            ("s.io", Some(Credentials::Identity("t".into()))),
            ("empty.io", None),
        ] {
            let found = lookup(serde_json::from_str(text).unwrap(), authority);
            assert!(found.as_ref().map(Credentials::of) == expected, "{authority}");
        }
    }

    #[test]
    fn spellings_have_an_order() {
        let auth = Auth { username: "u".into(), password: "p".into(), ..Auth::default() };
        assert!(Credentials::of(&auth) == Credentials::Basic("dTpw".into()));
        let auth = Auth { auth: "eA==".into(), ..auth };
        assert!(Credentials::of(&auth) == Credentials::Basic("eA==".into()));
        assert!(Credentials::of(&Auth::default()) == Credentials::Anonymous);
    }

    #[test]
    fn a_broken_file_has_no_credentials() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.json");
        assert!(from_docker(&path, "r.io").is_none());
        std::fs::write(&path, "{").unwrap();
        assert!(from_docker(&path, "r.io").is_none());
    }
}
