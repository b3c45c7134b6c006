//! Where the API server reaches webhooks: at a URL, or behind a Service of its cluster.

use std::fmt;

use anyhow::{Context as _, bail};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::serving;

/// Where webhooks are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// At a URL, without a slash at its end.
    Url(String),
    /// Behind a Service: an API server knows its address without DNS.
    Service { namespace: String, name: String, port: u16 },
}

impl Endpoint {
    /// Reads a URL. A host `<name>.<namespace>.svc` is that Service.
    pub(crate) fn parse(url: &str) -> anyhow::Result<Self> {
        let wrong = || format!("--webhook-url: {url:?} is not of the form https://HOST[:PORT]");
        let parsed: http::Uri = url.parse().with_context(wrong)?;
        let host = parsed.host().unwrap_or_default();
        if parsed.scheme_str() != Some("https") || host.is_empty() || !matches!(parsed.path(), "" | "/") {
            bail!(wrong());
        }
        // The API server quotes it to anybody whose request could not be asked about.
        if parsed.authority().is_some_and(|authority| authority.as_str().contains('@'))
            || parsed.query().is_some()
        {
            bail!("--webhook-url: it may hold neither a user nor a query: users see it in error messages");
        }
        let service = host.strip_suffix(".cluster.local").unwrap_or(host).strip_suffix(".svc");
        match service.and_then(|service| service.split_once('.')) {
            Some((name, namespace)) if !namespace.contains('.') => Ok(Endpoint::Service {
                namespace: namespace.into(),
                name: name.into(),
                port: parsed.port_u16().unwrap_or(443),
            }),
            _ => Ok(Endpoint::Url(url.trim_end_matches('/').to_owned())),
        }
    }

    /// What the API server expects a certificate for.
    pub(crate) fn names(&self) -> Vec<String> {
        match self {
            Endpoint::Url(url) => serving::host(url).into_iter().collect(),
            Endpoint::Service { namespace, name, .. } => {
                let name = format!("{name}.{namespace}.svc");
                vec![format!("{name}.cluster.local"), name]
            }
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Url(url) => f.write_str(url),
            Endpoint::Service { namespace, name, port } => write!(f, "https://{name}.{namespace}.svc:{port}"),
        }
    }
}

/// What the API server is told: where it asks, and who vouches for whoever answers there (PEM).
#[derive(Clone, Copy)]
pub(super) struct Asks<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) authority: &'a str,
}

impl Asks<'_> {
    /// A client configuration for a path.
    pub(super) fn at(&self, path: &str) -> Value {
        let mut config = match self.endpoint {
            Endpoint::Url(url) => json!({"url": format!("{url}{path}")}),
            Endpoint::Service { namespace, name, port } => {
                json!({"service": {"namespace": namespace, "name": name, "port": port, "path": path}})
            }
        };
        config["caBundle"] = json!(ByteString(self.authority.into()));
        config
    }

    /// The same as a patch of one that may be of the other kind.
    pub(super) fn instead(&self, path: &str) -> Value {
        let mut config = self.at(path);
        let other = if matches!(self.endpoint, Endpoint::Url(_)) { "service" } else { "url" };
        config[other] = Value::Null;
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_known_by_its_name() {
        let service = Endpoint::parse("https://herdsman.cattle-system.svc:9443").unwrap();
        assert_eq!(
            service.names(),
            ["herdsman.cattle-system.svc.cluster.local", "herdsman.cattle-system.svc"]
        );
        let asks = Asks { endpoint: &service, authority: "ca" };
        assert_eq!(
            asks.instead("/convert"),
            json!({"url": null, "caBundle": "Y2E=", "service": {
                "namespace": "cattle-system", "name": "herdsman", "port": 9443, "path": "/convert"
            }})
        );
        let same = Endpoint::parse("https://herdsman.cattle-system.svc.cluster.local:9443/").unwrap();
        assert_eq!((&same, same.to_string().as_str()), (&service, "https://herdsman.cattle-system.svc:9443"));
    }

    #[test]
    fn everything_else_is_a_url() {
        for (text, host) in
            [("https://127.0.0.1:9443", "127.0.0.1"), ("https://[::1]:9443", "::1"), ("https://h", "h")]
        {
            let url = Endpoint::parse(text).unwrap();
            assert_eq!((url.to_string().as_str(), url.names()), (text, vec![host.to_owned()]));
            let asks = Asks { endpoint: &url, authority: "ca" };
            assert_eq!(asks.at("/x")["url"], format!("{text}/x"));
            assert_eq!(asks.instead("/x")["service"], Value::Null);
        }
        for wrong in ["h", "http://h", "https://h/x", "/nowhere", "https://u:p@h", "https://h/?token=x"] {
            assert!(Endpoint::parse(wrong).unwrap_err().to_string().starts_with("--webhook-url"), "{wrong}");
        }
    }
}
