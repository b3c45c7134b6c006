//! What a session says, and where that is found. Without a file everything is where Rancher's cluster agent finds it in its
//! pod.

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, Uri};
use tunnel::Target;
use tunnel::client::Hello;

use crate::config;
use crate::fields::Fields;

/// Where the configuration is unless the environment says otherwise.
const DEFAULT_PATH: &str = "/etc/rancher/agent/tunnel.yaml";
/// Where a pod has its server's address and token.
const CREDENTIALS: &str = "/cattle-credentials";
/// Where a pod has its server's authority.
const SERVER_CA: &str = "/etc/kubernetes/ssl/certs/serverca";
/// Where a pod has its cluster's token and authority.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

const TOKEN: &str = "x-api-tunnel-token";
const PARAMS: &str = "x-api-tunnel-params";

/// Why a session cannot be asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file.
    #[error(transparent)]
    File(#[from] config::Error),
    /// Something that it names.
    #[error("{field}: cannot read {}", path.display())]
    Read {
        /// The field.
        field: &'static str,
        /// The file that it names.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Something that nobody says.
    #[error("{0}: Required value")]
    Missing(&'static str),
    /// A server's address that is none.
    #[error("serverUrl: Invalid value: {0:?}: must be https://<host>[:<port>][/<path>]")]
    Url(String),
    /// A token that no header can carry.
    #[error("{0}: Invalid value: it has characters that cannot be sent")]
    Token(&'static str),
}

/// Who vouches for the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Authority {
    /// These certificates.
    Own(Vec<u8>),
    /// What the server itself has at `/cacerts`, if it has this checksum.
    Checksum(String),
    /// Whom the system trusts.
    System,
}

/// What is offered to which server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    server_url: Option<String>,
    token_file: PathBuf,
    ca_file: Option<PathBuf>,
    ca_checksum: Option<String>,
    cluster_address: Option<String>,
    pub(super) cluster_token_file: PathBuf,
    pub(super) cluster_kubeconfig: Option<PathBuf>,
    cluster_ca_file: PathBuf,
    allow_any_address: bool,
    /// Only the server's own authority is trusted.
    pub(super) strict: bool,
    /// The server knows the cluster already.
    pub(super) registered: bool,
}

impl Config {
    /// The configuration of a process: its file, if there is one, and its environment.
    ///
    /// # Errors
    /// If the file is not what it should be.
    pub fn load(variable: impl Fn(&str) -> String) -> Result<Self, Error> {
        let named = variable("CATTLE_TUNNEL_CONFIG");
        let path = if named.is_empty() { Path::new(DEFAULT_PATH) } else { Path::new(&named) };
        let value = match config::read(path) {
            Err(config::Error::Read { source, .. })
                if named.is_empty() && source.kind() == io::ErrorKind::NotFound =>
            {
                serde_json::Value::Null
            }
            read => read?,
        };
        let mut fields = Fields::of(&value);
        let config = Config::from_fields(&mut fields, variable);
        config::refuse(path, fields.problems())?;
        Ok(config)
    }

    fn from_fields(fields: &mut Fields<'_>, variable: impl Fn(&str) -> String) -> Self {
        let some = |text: String| (!text.is_empty()).then_some(text);
        let file = |fields: &mut Fields<'_>, key: &str, default: String| {
            PathBuf::from(some(fields.text(key)).unwrap_or(default))
        };
        let service = match (variable("KUBERNETES_SERVICE_HOST"), variable("KUBERNETES_SERVICE_PORT")) {
            (host, port) if host.is_empty() || port.is_empty() => None,
            (host, port) if host.contains(':') => Some(format!("[{host}]:{port}")),
            (host, port) => Some(format!("{host}:{port}")),
        };
        let is_true = |name: &str| variable(name).eq_ignore_ascii_case("true");
        Config {
            server_url: some(fields.text("serverUrl")).or_else(|| some(variable("CATTLE_SERVER"))),
            token_file: file(fields, "tokenFile", format!("{CREDENTIALS}/token")),
            ca_file: some(fields.text("caFile")).map(PathBuf::from),
            ca_checksum: some(variable("CATTLE_CA_CHECKSUM")).map(|sum| sum.to_lowercase()),
            cluster_address: some(fields.text("clusterAddress")).or(service),
            cluster_token_file: file(fields, "clusterTokenFile", format!("{SERVICE_ACCOUNT}/token")),
            cluster_kubeconfig: some(fields.text("clusterKubeconfig")).map(PathBuf::from),
            cluster_ca_file: file(fields, "clusterCaFile", format!("{SERVICE_ACCOUNT}/ca.crt")),
            allow_any_address: fields.flag("allowAnyAddress"),
            strict: is_true("STRICT_VERIFY") || is_true("CATTLE_AGENT_STRICT_VERIFY"),
            registered: is_true("CATTLE_AGENT_CONNECT"),
        }
    }

    /// The server's root URL.
    pub(super) fn server(&self) -> Result<Uri, Error> {
        let said = match &self.server_url {
            Some(url) => url.clone(),
            None => read("serverUrl", &Path::new(CREDENTIALS).join("url"))?,
        };
        let url: Option<Uri> = said.parse().ok();
        let good =
            url.filter(|url| url.authority().is_some() && matches!(url.scheme_str(), Some("https" | "http")));
        good.ok_or(Error::Url(said))
    }

    /// Who may have signed the server's certificate.
    pub(super) fn authority(&self) -> Result<Authority, Error> {
        let path = match (&self.ca_file, &self.ca_checksum) {
            (Some(path), _) => path.as_path(),
            (None, _) if Path::new(SERVER_CA).exists() => Path::new(SERVER_CA),
            (None, Some(checksum)) => return Ok(Authority::Checksum(checksum.clone())),
            (None, None) if self.strict => return Err(Error::Missing("caFile")),
            (None, None) => return Ok(Authority::System),
        };
        let pem = std::fs::read(path);
        pem.map(Authority::Own).map_err(|source| Error::Read {
            field: "caFile",
            path: path.to_owned(),
            source,
        })
    }

    /// What the server may dial.
    pub(super) fn gate(&self) -> impl Fn(&Target) -> bool + Send + Sync + use<> {
        let (any, address) = (self.allow_any_address, self.cluster_address.clone());
        move |target| target.proto == "tcp" && (any || address.as_ref() == Some(&target.address))
    }

    /// What the next session begins with; the server acts in the cluster by this token.
    pub(super) fn hello(&self, server: &Uri, registered: bool, token: String) -> Result<Hello, Error> {
        let address = self.cluster_address.as_deref().ok_or(Error::Missing("clusterAddress"))?;
        let ca = read_bytes("clusterCaFile", &self.cluster_ca_file)?;
        let params = serde_json::json!({"cluster": {
            "address": address,
            "token": token,
            "caCert": STANDARD.encode(ca),
        }});
        let mut headers = HeaderMap::new();
        headers.insert(TOKEN, secret("tokenFile", &read("tokenFile", &self.token_file)?)?);
        headers.insert(PARAMS, secret("clusterTokenFile", &STANDARD.encode(params.to_string()))?);
        let path = if registered { "/v3/connect" } else { "/v3/connect/register" };
        let root = server.to_string();
        let url = format!("{}{path}", root.trim_end_matches('/'));
        Ok(Hello { url: url.parse().map_err(|_| Error::Url(root))?, headers })
    }
}

fn secret(field: &'static str, text: &str) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::from_str(text).map_err(|_| Error::Token(field))?;
    value.set_sensitive(true);
    Ok(value)
}

pub(super) fn read(field: &'static str, path: &Path) -> Result<String, Error> {
    Ok(String::from_utf8_lossy(&read_bytes(field, path)?).trim().to_owned())
}

fn read_bytes(field: &'static str, path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::Read { field, path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(value: &serde_json::Value, environment: &[(&str, &str)]) -> Config {
        let variable = |name: &str| {
            environment
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
                .unwrap_or_default()
        };
        Config::from_fields(&mut Fields::of(value), variable)
    }

    #[test]
    fn in_a_pod_nothing_has_to_be_said() {
        let pod = config(
            &json!(null),
            &[
                ("KUBERNETES_SERVICE_HOST", "10.43.0.1"),
                ("KUBERNETES_SERVICE_PORT", "443"),
                ("STRICT_VERIFY", "True"),
            ],
        );
        assert_eq!(pod.cluster_address.as_deref(), Some("10.43.0.1:443"));
        assert_eq!(pod.token_file, Path::new("/cattle-credentials/token"));
        assert_eq!(pod.cluster_ca_file, Path::new("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"));
        assert!(pod.strict && !pod.registered && !pod.allow_any_address);
        let six = config(
            &json!(null),
            &[("KUBERNETES_SERVICE_HOST", "fd00::1"), ("KUBERNETES_SERVICE_PORT", "443")],
        );
        assert_eq!(six.cluster_address.as_deref(), Some("[fd00::1]:443"));
    }

    #[test]
    fn only_the_cluster_may_be_dialled() {
        let one = config(&json!({"clusterAddress": "127.0.0.1:6443"}), &[]);
        let any = config(&json!({"clusterAddress": "127.0.0.1:6443", "allowAnyAddress": true}), &[]);
        for (target, by_one, by_any) in [
            (Target::tcp("127.0.0.1:6443"), true, true),
            (Target::tcp("127.0.0.1:22"), false, true),
            (Target { proto: "unix".into(), address: "127.0.0.1:6443".into() }, false, false),
        ] {
            assert_eq!((one.gate()(&target), any.gate()(&target)), (by_one, by_any), "{target}");
        }
    }

    #[test]
    fn the_server_is_told_token_and_cluster() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).display().to_string();
        let whole = config(
            &json!({
                "serverUrl": "https://server.example/herdsman/", "tokenFile": at("token"), "clusterAddress": "127.0.0.1:6443",
                "clusterCaFile": at("ca"),
            }),
            &[],
        );
        let server = whole.server().unwrap();
        let error = whole.hello(&server, false, "s4".into()).unwrap_err().to_string();
        assert!(error.starts_with("clusterCaFile: cannot read "), "{error}");
        for (name, text) in [("token", "t0ken\n"), ("ca", "PEM\n")] {
            std::fs::write(at(name), text).unwrap();
        }
        let hello = whole.hello(&server, false, "s4".into()).unwrap();
        assert_eq!(hello.url, "https://server.example/herdsman/v3/connect/register");
        assert_eq!(hello.headers[TOKEN], "t0ken");
        let params = STANDARD.decode(&hello.headers[PARAMS]).unwrap();
        let params: serde_json::Value = serde_json::from_slice(&params).unwrap();
        assert_eq!(
            params,
            json!({"cluster": {"address": "127.0.0.1:6443", "token": "s4", "caCert": "UEVNCg=="}})
        );
        assert_eq!(
            whole.hello(&server, true, String::new()).unwrap().url,
            "https://server.example/herdsman/v3/connect"
        );
    }

    #[test]
    fn mistakes_name_their_field() {
        let wrong = config(&json!({"serverUrl": "server.example"}), &[]);
        assert!(
            wrong
                .server()
                .unwrap_err()
                .to_string()
                .starts_with("serverUrl: Invalid value: \"server.example\"")
        );
        let server = "https://server.example".parse().unwrap();
        assert_eq!(
            wrong.hello(&server, false, String::new()).unwrap_err().to_string(),
            "clusterAddress: Required value"
        );
        let strict = config(&json!({}), &[("CATTLE_AGENT_STRICT_VERIFY", "true")]);
        if !Path::new(SERVER_CA).exists() {
            assert_eq!(strict.authority().unwrap_err().to_string(), "caFile: Required value");
            let by_sum = config(&json!({}), &[("CATTLE_CA_CHECKSUM", "AB12"), ("STRICT_VERIFY", "true")]);
            assert_eq!(by_sum.authority().unwrap(), Authority::Checksum("ab12".into()));
            assert_eq!(config(&json!({}), &[]).authority().unwrap(), Authority::System);
        }
    }
}
