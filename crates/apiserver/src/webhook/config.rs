use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::Error;

/// Where a webhook is: a `clientConfig` of the API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientConfig {
    /// The place; a configuration without one cannot be called.
    pub endpoint: Option<Endpoint>,
    /// Certificates in PEM that the webhook's has to be signed by; empty for those that this machine trusts.
    pub ca_bundle: Vec<u8>,
}

/// The place of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// An https URL.
    Url(String),
    /// A Service of this cluster.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The path to call there.
        path: String,
        /// The Service's port.
        port: u16,
    },
}

/// What a URL for a webhook is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) host: String,
    pub(super) port: u16,
    /// The port, if the URL says it.
    said_port: Option<u16>,
    pub(super) path: String,
}

impl Place {
    /// Host and port as in the URL.
    pub(super) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        self.said_port.map_or(host.clone(), |port| format!("{host}:{port}"))
    }
}

impl ClientConfig {
    /// Reads a `clientConfig`. What is not there or not understood is left out: the API's validation came before.
    pub fn read(config: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let service = &config["service"];
        let endpoint = match (service.is_object(), config["url"].as_str()) {
            (true, _) => Some(Endpoint::Service {
                namespace: text(&service["namespace"]),
                name: text(&service["name"]),
                path: text(&service["path"]),
                port: service["port"].as_u64().and_then(|port| port.try_into().ok()).unwrap_or(443),
            }),
            (false, Some(url)) => Some(Endpoint::Url(url.to_owned())),
            (false, None) => None,
        };
        let bundle = STANDARD.decode(text(&config["caBundle"])).unwrap_or_default();
        // A bundle of nothing but space is none.
        let ca_bundle = if bundle.trim_ascii().is_empty() { Vec::new() } else { bundle };
        ClientConfig { endpoint, ca_bundle }
    }

    pub(super) fn place(&self) -> Result<Place, Error> {
        match self.endpoint.as_ref().ok_or(Error::NoEndpoint)? {
            Endpoint::Service { namespace, name, path, port } => Ok(Place {
                host: format!("{name}.{namespace}.svc"),
                port: *port,
                said_port: Some(*port),
                path: if path.starts_with('/') { path.clone() } else { format!("/{path}") },
            }),
            Endpoint::Url(url) => {
                let uri: http::Uri =
                    url.parse().map_err(|error: http::uri::InvalidUri| Error::Url(error.to_string()))?;
                let host = uri.host().ok_or_else(|| Error::Url(format!("{url:?} has no host")))?;
                let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                let said_port = uri.port_u16();
                Ok(Place { host, port: said_port.unwrap_or(443), said_port, path: uri.path().to_owned() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn configurations_are_read() {
        for (config, authority, host, port, path) in [
            (json!({"url": "https://a.b/c/d"}), "a.b", "a.b", 443, "/c/d"),
            (json!({"url": "https://[::1]:8443"}), "[::1]:8443", "::1", 8443, "/"),
            (json!({"service": {"namespace": "n", "name": "s"}}), "s.n.svc:443", "s.n.svc", 443, "/"),
            (
                json!({"service": {"namespace": "n", "name": "s", "path": "/p", "port": 9}}),
                "s.n.svc:9",
                "s.n.svc",
                9,
                "/p",
            ),
        ] {
            let place = ClientConfig::read(&config).place().unwrap();
            assert_eq!(
                (place.authority().as_str(), place.host.as_str(), place.port, place.path.as_str()),
                (authority, host, port, path),
                "{config}"
            );
        }
        assert!(matches!(ClientConfig::read(&json!({})).place(), Err(Error::NoEndpoint)));
        assert!(ClientConfig::read(&json!({"caBundle": "Cgo="})).ca_bundle.is_empty());
        assert_eq!(ClientConfig::read(&json!({"caBundle": "YQ=="})).ca_bundle, b"a");
    }
}
