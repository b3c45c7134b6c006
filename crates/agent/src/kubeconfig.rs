//! The part of a kubeconfig that an agent needs: one server, how to trust it, and who we are.

use std::fmt;
use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use serde::Deserialize;

/// Why a kubeconfig cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not YAML, or of another shape.
    #[error("not a kubeconfig: {0}")]
    Parse(String),
    /// A context, cluster or user that something names is not there.
    #[error("there is no {kind} {name:?}")]
    Missing {
        /// What it would be.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// The server's address.
    #[error("server {0:?} is not an http or https URL")]
    Server(String),
    /// A value that is not base64.
    #[error("{0} is not base64")]
    Base64(&'static str),
    /// A file that the kubeconfig names.
    #[error("{field}: cannot read {path}")]
    File {
        /// The field that names it.
        field: &'static str,
        /// Its path.
        path: String,
        /// Why not.
        source: std::io::Error,
    },
    /// A way to log in that an agent does not have.
    #[error("users[].user.{0} is not supported: use a token or a client certificate")]
    Unsupported(&'static str),
}

/// A server and the way to it.
#[derive(Clone)]
pub struct Kubeconfig {
    /// `http` or `https`, with host; a path below which the API is may follow.
    pub server: Uri,
    /// Certificates in PEM to trust in place of the system's.
    pub ca: Option<Vec<u8>>,
    /// Trust whoever answers.
    pub insecure: bool,
    /// The name that the server's certificate is for, if not the host's.
    pub server_name: Option<String>,
    /// A proxy, whatever the environment says.
    pub proxy: Option<String>,
    /// Sent with each request.
    pub token: Option<String>,
    /// Certificate and key, both PEM.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for Kubeconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubeconfig").field("server", &self.server).finish_non_exhaustive()
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Document {
    clusters: Vec<NamedCluster>,
    users: Vec<NamedUser>,
    contexts: Vec<NamedContext>,
    current_context: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority: String,
    certificate_authority_data: String,
    insecure_skip_tls_verify: bool,
    tls_server_name: String,
    proxy_url: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedUser {
    name: String,
    user: User,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct User {
    token: String,
    #[serde(rename = "tokenFile")]
    token_file: String,
    client_certificate: String,
    client_certificate_data: String,
    client_key: String,
    client_key_data: String,
    exec: Option<serde_json::Value>,
    auth_provider: Option<serde_json::Value>,
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Context {
    cluster: String,
    user: String,
}

impl Kubeconfig {
    /// Reads the current context.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let document: Document =
            serde_saphyr::from_str(text).map_err(|error| Error::Parse(error.to_string()))?;
        let missing = |kind, name: &str| Error::Missing { kind, name: name.to_owned() };
        let current = &document.current_context;
        let context = document.contexts.into_iter().find(|context| context.name == *current);
        let context = context.ok_or_else(|| missing("context", current))?.context;
        let cluster = document.clusters.into_iter().find(|cluster| cluster.name == context.cluster);
        let cluster = cluster.ok_or_else(|| missing("cluster", &context.cluster))?.cluster;
        let user = match context.user.as_str() {
            "" => User::default(),
            name => {
                let user = document.users.into_iter().find(|user| user.name == name);
                user.ok_or_else(|| missing("user", name))?.user
            }
        };
        Kubeconfig::assemble(cluster, user)
    }

    fn assemble(cluster: Cluster, user: User) -> Result<Self, Error> {
        if user.exec.is_some() {
            return Err(Error::Unsupported("exec"));
        }
        if user.auth_provider.is_some() {
            return Err(Error::Unsupported("auth-provider"));
        }
        if !user.username.is_empty() {
            return Err(Error::Unsupported("username"));
        }
        let some = |text: String| (!text.is_empty()).then_some(text);
        let ca = material(
            "certificate-authority-data",
            &cluster.certificate_authority_data,
            "certificate-authority",
            &cluster.certificate_authority,
        )?;
        let certificate = material(
            "client-certificate-data",
            &user.client_certificate_data,
            "client-certificate",
            &user.client_certificate,
        )?;
        let key = material("client-key-data", &user.client_key_data, "client-key", &user.client_key)?;
        let token = match (some(user.token), some(user.token_file)) {
            (Some(token), _) => Some(token),
            (None, Some(path)) => Some(String::from_utf8_lossy(&read("tokenFile", &path)?).trim().to_owned()),
            (None, None) => None,
        };
        Ok(Kubeconfig {
            server: server(&cluster.server)?,
            ca,
            insecure: cluster.insecure_skip_tls_verify,
            server_name: some(cluster.tls_server_name),
            proxy: some(cluster.proxy_url),
            token,
            identity: certificate.zip(key),
        })
    }

    /// Whether it is spoken to through TLS.
    pub fn is_tls(&self) -> bool {
        self.server.scheme_str() == Some("https")
    }
}

fn server(text: &str) -> Result<Uri, Error> {
    let wrong = || Error::Server(text.to_owned());
    // As client-go: an address without a scheme is http.
    let full = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let uri: Uri = full.parse().map_err(|_| wrong())?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(host)) if !host.is_empty() => Ok(uri),
        _ => Err(wrong()),
    }
}

/// Data in the document comes before a file that it names; a blank one is none.
fn material(
    data_field: &'static str,
    data: &str,
    file_field: &'static str,
    path: &str,
) -> Result<Option<Vec<u8>>, Error> {
    let bytes = match (data, path) {
        ("", "") => return Ok(None),
        ("", path) => read(file_field, path)?,
        (data, _) => {
            let packed: String = data.split_whitespace().collect();
            STANDARD.decode(packed).map_err(|_| Error::Base64(data_field))?
        }
    };
    Ok((!bytes.trim_ascii().is_empty()).then_some(bytes))
}

fn read(field: &'static str, path: &str) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::File { field, path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig(cluster: &str, user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: agent\n  cluster: {cluster}\nusers:\n- name: agent\n  user: {user}\ncontexts:\n- name: agent\n  context: {{cluster: agent, user: agent}}\ncurrent-context: agent\n"
        )
    }

    #[test]
    fn what_rancher_emits() {
        let text = kubeconfig(
            "{server: 'https://rancher.example:8443/k8s', certificate-authority-data: cGVt}",
            "{token: t}",
        );
        let config = Kubeconfig::parse(&text).unwrap();
        assert_eq!(config.server, "https://rancher.example:8443/k8s");
        assert_eq!((config.ca.as_deref(), config.token.as_deref()), (Some(&b"pem"[..]), Some("t")));
        assert!(config.is_tls() && !config.insecure && config.identity.is_none());
    }

    #[test]
    fn what_cannot_be_used() {
        let good = "{server: 'https://s'}";
        for (cluster, user, said) in [
            ("{server: 'ftp://s'}", "{}", "server \"ftp://s\" is not an http or https URL"),
            ("{}", "{}", "server \"\" is not an http or https URL"),
            (
                "{server: 'https://s', certificate-authority-data: '*'}",
                "{}",
                "certificate-authority-data is not base64",
            ),
            (
                good,
                "{exec: {command: x}}",
                "users[].user.exec is not supported: use a token or a client certificate",
            ),
            (good, "{tokenFile: /does/not/exist}", "tokenFile: cannot read /does/not/exist"),
        ] {
            assert_eq!(Kubeconfig::parse(&kubeconfig(cluster, user)).unwrap_err().to_string(), said);
        }
        let other = kubeconfig(good, "{}").replace("current-context: agent", "current-context: other");
        assert_eq!(Kubeconfig::parse(&other).unwrap_err().to_string(), "there is no context \"other\"");
        assert!(matches!(Kubeconfig::parse("- 1"), Err(Error::Parse(_))));
    }

    #[test]
    fn blank_is_none() {
        let text = kubeconfig("{server: 'rancher.example', certificate-authority-data: 'Cgo='}", "{}");
        let config = Kubeconfig::parse(&text).unwrap();
        assert_eq!(config.ca, None);
        assert_eq!(config.server, "http://rancher.example/");
    }
}
