//! The files that a throw-away Kubernetes and its clients read.

use std::path::PathBuf;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use super::certificates::{Authority, Identity, service_account_keys};
use super::directory::DataDirectory;
use super::{Error, system};

#[derive(Debug)]
pub(super) struct Files {
    pub(super) ca_pem: String,
    pub(super) ca: PathBuf,
    pub(super) ca_key: PathBuf,
    pub(super) server: PathBuf,
    pub(super) server_key: PathBuf,
    pub(super) service_account_key: PathBuf,
    pub(super) service_account_public: PathBuf,
    pub(super) admin_kubeconfig: PathBuf,
    pub(super) controller_manager_kubeconfig: PathBuf,
}

impl Files {
    pub(super) fn write(directory: &DataDirectory, url: &str) -> Result<Self, Error> {
        let authority = Authority::new()?;
        let Identity { certificate: ca_pem, key: ca_key } = authority.identity();
        let server = authority.server()?;
        let admin = authority.client("admin", Some("system:masters"))?;
        let controller_manager = authority.client("system:kube-controller-manager", None)?;
        let (private, public) = service_account_keys()?;
        let write = |name: &str, content: &str| {
            directory.write(name, content).map_err(system("write into the data directory"))
        };
        Ok(Files {
            ca: write("ca.crt", &ca_pem)?,
            ca_key: write("ca.key", &ca_key)?,
            server: write("server.crt", &server.certificate)?,
            server_key: write("server.key", &server.key)?,
            service_account_key: write("service-account.key", &private)?,
            service_account_public: write("service-account.pub", &public)?,
            admin_kubeconfig: write("admin.kubeconfig", &kubeconfig(url, &ca_pem, &admin))?,
            controller_manager_kubeconfig: write(
                "controller-manager.kubeconfig",
                &kubeconfig(url, &ca_pem, &controller_manager),
            )?,
            ca_pem,
        })
    }
}

/// A kubeconfig with everything in it. JSON is YAML.
fn kubeconfig(url: &str, ca_pem: &str, user: &Identity) -> String {
    let encode = |text: &str| BASE64_STANDARD.encode(text);
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "default",
        "clusters": [{
            "name": "default",
            "cluster": { "server": url, "certificate-authority-data": encode(ca_pem) },
        }],
        "users": [{
            "name": "default",
            "user": {
                "client-certificate-data": encode(&user.certificate),
                "client-key-data": encode(&user.key),
            },
        }],
        "contexts": [{ "name": "default", "context": { "cluster": "default", "user": "default" } }],
    });
    format!("{config:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_embeds_its_certificates() {
        let user = Identity { certificate: "CERT".into(), key: "KEY".into() };
        let config: serde_json::Value =
            serde_json::from_str(&kubeconfig("https://127.0.0.1:1", "CA", &user)).unwrap();
        assert_eq!(config["clusters"][0]["cluster"]["server"], "https://127.0.0.1:1");
        let decoded = |value: &serde_json::Value| {
            String::from_utf8(BASE64_STANDARD.decode(value.as_str().unwrap()).unwrap()).unwrap()
        };
        assert_eq!(decoded(&config["clusters"][0]["cluster"]["certificate-authority-data"]), "CA");
        assert_eq!(decoded(&config["users"][0]["user"]["client-key-data"]), "KEY");
    }
}
