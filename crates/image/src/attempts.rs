//! Where an image is looked for, and in which order.

use std::fmt;
use std::net::IpAddr;

use regex::Regex;

use crate::reference::{DOCKER_HUB, DOCKER_HUB_ALIAS, Reference, is_authority, is_repository};
use crate::registries::{Auth, Mirror, Registries, has_port};

/// The base of a registry's API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// HTTPS rather than HTTP.
    pub secure: bool,
    /// Host and perhaps port.
    pub authority: String,
    /// What stands where `/v2` usually does.
    pub path: String,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

/// One place to get the image from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Whom to ask.
    pub endpoint: Endpoint,
    /// For which repository.
    pub repository: String,
    /// On behalf of which registry, if the endpoint is not its own: the query `ns`.
    pub namespace: Option<String>,
    /// Credentials from the file.
    pub auth: Option<Auth>,
}

/// The mirrors of the reference's registry in their order, then the registry itself. Endpoints that are no URLs are
/// passed over with a warning.
pub fn attempts(registries: &Registries, reference: &Reference) -> Vec<Attempt> {
    let registry = &reference.registry;
    let mirror = registries.mirror(registry);
    let mirrored = mirror.iter().flat_map(|mirror| &mirror.endpoint).filter_map(|url| {
        let endpoint = Endpoint::parse(url);
        if endpoint.is_none() {
            tracing::warn!("endpoint {url} of registry {registry} is not a URL with a host: passed over");
        }
        endpoint
    });
    let own = Endpoint::parse(registry);
    mirrored.chain(own).map(|endpoint| attempt(registries, reference, mirror, endpoint)).collect()
}

fn attempt(
    registries: &Registries,
    reference: &Reference,
    mirror: Option<&Mirror>,
    endpoint: Endpoint,
) -> Attempt {
    let namespace = namespace(&reference.registry);
    let is_own = namespace == self::namespace(&endpoint.authority);
    let repository = match mirror {
        Some(mirror) if !is_own => rewritten(mirror, reference),
        _ => reference.repository.clone(),
    };
    let auth = registries.auth(&endpoint.authority).cloned();
    Attempt { endpoint, repository, namespace: (!is_own).then(|| namespace.to_owned()), auth }
}

/// The repository after the first rewrite that changes it into another valid one.
fn rewritten(mirror: &Mirror, reference: &Reference) -> String {
    let repository = &reference.repository;
    for (pattern, replacement) in &mirror.rewrite {
        let Ok(expression) = Regex::new(pattern) else {
            tracing::warn!("rewrite `{pattern}` for {} is not a regular expression", reference.registry);
            continue;
        };
        let result = expression.replace_all(repository, replacement);
        if result == *repository {
            continue;
        }
        if is_repository(&result) {
            return result.into_owned();
        }
        tracing::warn!("rewrite `{pattern}` makes `{result}` of {repository}, which is not a repository");
    }
    repository.clone()
}

fn namespace(authority: &str) -> &str {
    if authority == DOCKER_HUB { DOCKER_HUB_ALIAS } else { authority }
}

impl Endpoint {
    /// Reads a URL, or a host and perhaps a port and a path.
    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (Some(scheme), rest),
            None => (None, text.trim_start_matches("//")),
        };
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, ""),
        };
        let authority = without_user(authority)?;
        let secure = match scheme {
            Some("https") => true,
            Some("http") => false,
            Some(_) => return None,
            None => !is_odd_loopback(authority),
        };
        is_authority(authority).then(|| Endpoint { secure, authority: authority.into(), path: clean(path) })
    }
}

/// Credentials in a URL have never been used; they only must not end up in the host.
fn without_user(authority: &str) -> Option<&str> {
    let Some((user, host)) = authority.rsplit_once('@') else { return Some(authority) };
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:%".contains(&byte);
    user.bytes().all(allowed).then_some(host)
}

/// A registry on this machine, on a port of its own, speaks plain HTTP.
fn is_odd_loopback(authority: &str) -> bool {
    if !has_port(authority) || authority.ends_with(":443") {
        return false;
    }
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// A path without empty segments; `/v2` if there is none.
fn clean(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    if segments.is_empty() { "/v2".into() } else { format!("/{}", segments.join("/")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(yaml: &str, image: &str) -> Vec<Attempt> {
        let registries: Registries = serde_saphyr::from_str(yaml).unwrap();
        attempts(&registries, &image.parse().unwrap())
    }

    fn shown(yaml: &str, image: &str) -> Vec<String> {
        let one = |attempt: &Attempt| {
            let user = attempt.auth.as_ref().map(|auth| format!(" as {}", auth.username));
            let namespace = attempt.namespace.as_ref().map(|namespace| format!(" ns={namespace}"));
            let (user, namespace) = (user.unwrap_or_default(), namespace.unwrap_or_default());
            format!("{}/{}{namespace}{user}", attempt.endpoint, attempt.repository)
        };
        of(yaml, image).iter().map(one).collect()
    }

    const HUB: &str = "https://index.docker.io/v2/library/busybox";

    #[test]
    fn endpoints_come_in_order_and_the_registry_last() {
        let one = |key: &str, endpoints: &str| format!("mirrors: {{\"{key}\": {{endpoint: [{endpoints}]}}}}");
        let both = "mirrors: {\"*\": {endpoint: [every.io]}, docker.io: {endpoint: [own.io]}}";
        let bad = one(
            "docker.io",
            "\"https://a.io/v2\", \"https://user:bad{@b.io\", \"/v2\", \"ftp://c.io\", d.io/v2",
        );
        for (yaml, image, expected) in [
            ("{}".into(), "busybox", vec![HUB.into()]),
            ("{}".into(), "r.io/ab", vec!["https://r.io/v2/ab".into()]),
            (
                one("r.io", "\"http://r.io:5000/v2/\""),
                "r.io/ab",
                vec!["http://r.io:5000/v2/ab ns=r.io".into(), "https://r.io/v2/ab".into()],
            ),
            (one("s.io", "t.io"), "busybox", vec![HUB.into()]),
            (
                one("docker.io", "b.io, a.io/"),
                "busybox",
                vec![
                    "https://b.io/v2/library/busybox ns=docker.io".into(),
                    "https://a.io/v2/library/busybox ns=docker.io".into(),
                    HUB.into(),
                ],
            ),
            (
                one("*", "m.io"),
                "r.io/ab",
                vec!["https://m.io/v2/ab ns=r.io".into(), "https://r.io/v2/ab".into()],
            ),
            (
                both.into(),
                "busybox",
                vec!["https://own.io/v2/library/busybox ns=docker.io".into(), HUB.into()],
            ),
            (
                one("r.io", "\"https://m.io/proxy//r/\""),
                "r.io/ab",
                vec!["https://m.io/proxy/r/ab ns=r.io".into(), "https://r.io/v2/ab".into()],
            ),
            (
                bad,
                "busybox",
                vec![
                    "https://a.io/v2/library/busybox ns=docker.io".into(),
                    "https://d.io/v2/library/busybox ns=docker.io".into(),
                    HUB.into(),
                ],
            ),
        ] as [(String, &str, Vec<String>); 9]
        {
            assert_eq!(shown(&yaml, image), expected, "{image} with {yaml}");
        }
    }

    #[test]
    fn loopback_on_an_odd_port_is_plain() {
        for (image, expected) in [
            ("localhost:5000/ab", "http://localhost:5000/v2/ab"),
            ("localhost:443/ab", "https://localhost:443/v2/ab"),
            ("127.0.0.1:5000/ab", "http://127.0.0.1:5000/v2/ab"),
            ("127.0.0.1:443/ab", "https://127.0.0.1:443/v2/ab"),
            ("[::1]:5000/ab", "http://[::1]:5000/v2/ab"),
            ("10.0.0.1:5000/ab", "https://10.0.0.1:5000/v2/ab"),
        ] {
            assert_eq!(shown("{}", image), [expected], "{image}");
        }
    }

    #[test]
    fn rewrites_apply_at_mirrors_only() {
        let with = |rewrite: &str| {
            format!(
                "mirrors: {{docker.io: {{endpoint: [m.io, \"https://index.docker.io\"], rewrite: {{{rewrite}}}}}}}"
            )
        };
        for (rewrite, image, expected) in [
            ("\"(.*\": \"docker/$1\"", "busybox", "library/busybox"),
            ("\"(.*)\": \"docker/$1\"", "busybox", "docker/library/busybox"),
            ("\"rancher/(.*)\": \"prod/$1\", \"l/(.*)\": \"stage/$1\"", "rancher/rke2:v1", "prod/rke2"),
            ("\"rancher/(.*)\": \"prod/$1\"", "busybox", "library/busybox"),
            ("\"/\": \"-\"", "a/b/c", "a-b-c"),
            ("\"a/b\": \"A B\"", "a/b", "a/b"),
            ("\"a/b\": \"../../x\"", "a/b", "a/b"),
        ] {
            let repositories: Vec<String> =
                of(&with(rewrite), image).into_iter().map(|attempt| attempt.repository).collect();
            let plain = image.parse::<Reference>().unwrap().repository;
            assert_eq!(repositories, [expected, &plain, &plain], "{image} by {rewrite}");
        }
    }

    #[test]
    fn credentials_are_the_endpoints_own() {
        let mirrored = |key: &str| {
            format!(
                "{{mirrors: {{docker.io: {{endpoint: [\"http://m.io:5000\"]}}}}, configs: {{\"{key}\": {{auth: {{username: u}}}}}}}}"
            )
        };
        for (key, mirror, own) in [
            ("m.io:5000", " as u", ""),
            ("m.io", "", ""),
            ("docker.io", "", " as u"),
            ("index.docker.io", "", " as u"),
            ("*", " as u", " as u"),
        ] {
            let expected =
                [format!("http://m.io:5000/v2/library/busybox ns=docker.io{mirror}"), format!("{HUB}{own}")];
            assert_eq!(shown(&mirrored(key), "busybox"), expected, "{key}");
        }
    }
}
