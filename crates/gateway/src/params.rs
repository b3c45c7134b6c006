//! What a tunnel's client tells of its cluster: where the API is, seen from there, and how to be somebody there.
//!
//! Rancher's cluster agent and `herdsman-agent tunnel` say the same, in the same header, with every session.

use api::catalogue::headers::TUNNEL_PARAMS;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use serde::Deserialize;

/// The API of a cluster with a tunnel.
#[derive(Clone, PartialEq, Eq)]
pub struct Params {
    /// `host:port`, as it is dialled at the tunnel's other end.
    pub address: String,
    /// The token of an account there.
    pub token: String,
    /// Who vouches for the API: base64 of PEM.
    pub ca: String,
}

impl std::fmt::Debug for Params {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Params").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Why a client's words cannot be used, for its log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// The header is missing.
    #[error("header {TUNNEL_PARAMS} is missing: it says where the cluster's API is")]
    Missing,
    /// It is not what it should be.
    #[error("header {TUNNEL_PARAMS} is not base64 of JSON")]
    NotJson,
    /// A part is missing.
    #[error("header {TUNNEL_PARAMS}: cluster.{0} is empty")]
    Empty(&'static str),
    /// No certificates.
    #[error("header {TUNNEL_PARAMS}: cluster.caCert is not base64 of PEM")]
    Certificates,
    /// An address that cannot be dialled.
    #[error("header {TUNNEL_PARAMS}: cluster.address: Invalid value: {0:?}: must be <host>:<port>")]
    Address(String),
    /// Nodes of an older kind.
    #[error("header {TUNNEL_PARAMS}: nodes do not open tunnels here, clusters do")]
    Node,
}

#[derive(Deserialize)]
struct Document {
    cluster: Option<Cluster>,
    node: Option<serde::de::IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Cluster {
    address: String,
    token: String,
    ca_cert: String,
}

/// What the headers of a client say.
///
/// # Errors
/// If that is not enough to reach its cluster.
pub fn read(headers: &HeaderMap) -> Result<Params, Unusable> {
    let text = headers.get(TUNNEL_PARAMS).ok_or(Unusable::Missing)?;
    let document: Document = STANDARD
        .decode(text.as_bytes())
        .ok()
        .and_then(|json| serde_json::from_slice(&json).ok())
        .ok_or(Unusable::NotJson)?;
    let cluster = match document {
        Document { cluster: Some(cluster), .. } => cluster,
        Document { node: Some(_), .. } => return Err(Unusable::Node),
        Document { .. } => return Err(Unusable::Empty("address")),
    };
    Params { address: cluster.address, token: cluster.token, ca: cluster.ca_cert }.checked()
}

impl Params {
    /// The same, if it can be used.
    ///
    /// # Errors
    /// If a part is missing, or is not what it should be.
    pub fn checked(self) -> Result<Self, Unusable> {
        for (name, value) in [("address", &self.address), ("token", &self.token), ("caCert", &self.ca)] {
            if value.is_empty() {
                return Err(Unusable::Empty(name));
            }
        }
        let url: Option<http::Uri> = self.url().parse().ok();
        if url.and_then(|url| url.authority()?.port_u16()).is_none() || self.address.contains(['/', '@']) {
            return Err(Unusable::Address(self.address));
        }
        let pem = STANDARD.decode(&self.ca).ok().filter(|pem| pem.starts_with(b"-----BEGIN"));
        pem.map(|_| ()).ok_or(Unusable::Certificates)?;
        Ok(self)
    }

    /// The API's URL.
    pub fn url(&self) -> String {
        format!("https://{}", bracketed(&self.address))
    }

    /// The other way round: the address of a URL that was kept.
    pub fn address_of(url: &str) -> &str {
        url.strip_prefix("https://").unwrap_or(url).trim_end_matches('/')
    }
}

/// An address of IPv6 without brackets gets them: Rancher's agent leaves them out.
fn bracketed(address: &str) -> String {
    match address.rsplit_once(':') {
        Some((host, port)) if host.contains(':') && !host.starts_with('[') => format!("[{host}]:{port}"),
        _ => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const PEM: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t";

    fn said(document: &Value) -> Result<Params, Unusable> {
        let mut headers = HeaderMap::new();
        headers.insert("x-api-tunnel-params", STANDARD.encode(document.to_string()).parse().unwrap());
        read(&headers)
    }

    #[test]
    fn a_cluster_is_where_it_says() {
        let params =
            said(&json!({"cluster": {"address": "10.43.0.1:443", "token": "t", "caCert": PEM}})).unwrap();
        assert_eq!((params.url().as_str(), params.token.as_str()), ("https://10.43.0.1:443", "t"));
        assert_eq!(Params::address_of(&params.url()), params.address);
        let six = said(&json!({"cluster": {"address": "fd00::1:443", "token": "t", "caCert": PEM}})).unwrap();
        assert_eq!(six.url(), "https://[fd00::1]:443");
        assert!(!format!("{params:?}").contains("\"t\""));
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(read(&HeaderMap::new()), Err(Unusable::Missing));
        let whole = json!({"address": "h:1", "token": "t", "caCert": PEM});
        for (key, value, error) in [
            ("address", "", Unusable::Empty("address")),
            ("token", "", Unusable::Empty("token")),
            ("caCert", "", Unusable::Empty("caCert")),
            ("caCert", "%", Unusable::Certificates),
            ("caCert", "AAAA", Unusable::Certificates),
            ("address", "h", Unusable::Address("h".into())),
            ("address", "h:1/x", Unusable::Address("h:1/x".into())),
            ("address", "a@h:1", Unusable::Address("a@h:1".into())),
        ] {
            let mut cluster = whole.clone();
            cluster[key] = value.into();
            assert_eq!(said(&json!({ "cluster": cluster })), Err(error), "{key}={value}");
        }
        assert_eq!(said(&json!({"node": {"requestedHostname": "h"}})), Err(Unusable::Node));
        assert_eq!(said(&json!({})), Err(Unusable::Empty("address")));
        let mut headers = HeaderMap::new();
        headers.insert("x-api-tunnel-params", "?".parse().unwrap());
        assert_eq!(read(&headers), Err(Unusable::NotJson));
    }
}
