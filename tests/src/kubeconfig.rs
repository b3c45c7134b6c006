//! What a kubeconfig says about a server and its administrator.

use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

/// A server, the authority that vouches for it, and who its administrator is. The first entry of each kind counts.
#[derive(Clone, Debug)]
pub struct Kubeconfig {
    /// The server's URL.
    pub server: String,
    /// Its certificate authority, PEM.
    pub authority: String,
    /// The administrator's certificate and key, PEM.
    pub certificate: Option<(String, String)>,
    /// The administrator's bearer token.
    pub token: Option<String>,
}

impl Kubeconfig {
    /// Reads a file; what it refers to is read as well.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let config: Value = serde_saphyr::from_str(&text).with_context(|| path.display().to_string())?;
        let directory = path.parent().unwrap_or(Path::new("."));
        let cluster = &config["clusters"][0]["cluster"];
        let user = &config["users"][0]["user"];
        let certificate = pem(user, "client-certificate", directory)?;
        let key = pem(user, "client-key", directory)?;
        Ok(Kubeconfig {
            server: cluster["server"].as_str().context("no server")?.to_owned(),
            authority: pem(cluster, "certificate-authority", directory)?.context("no authority")?,
            certificate: certificate.zip(key),
            token: user["token"].as_str().map(str::to_owned),
        })
    }
}

/// `<field>-data`, decoded, or the file that `<field>` names.
fn pem(parent: &Value, field: &str, directory: &Path) -> Result<Option<String>> {
    if let Some(data) = parent[format!("{field}-data")].as_str() {
        return Ok(Some(String::from_utf8(BASE64_STANDARD.decode(data)?)?));
    }
    let Some(path) = parent[field].as_str() else { return Ok(None) };
    let path = directory.join(path);
    Ok(Some(std::fs::read_to_string(&path).with_context(|| path.display().to_string())?))
}
