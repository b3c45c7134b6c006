//! The server under load: a process of its own, on the loopback, over TLS.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;

use crate::connection::{Connection, Kind};

/// How a server is reached. One that was started here ends with this.
pub(crate) struct Server {
    process: Option<Child>,
    _directory: Option<tempfile::TempDir>,
    kubeconfig: PathBuf,
    address: String,
    tls: Arc<ClientConfig>,
}

impl Server {
    /// Starts ours, in an empty directory.
    pub(crate) fn start(program: &Path) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut command = Command::new(program);
        command.args(["apiserver", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory.path());
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut ready = String::new();
        if let Some(stdout) = &mut process.stdout {
            BufReader::new(stdout.by_ref()).read_line(&mut ready)?;
        }
        let path = ready.split_whitespace().find_map(|word| word.strip_prefix("kubeconfig="));
        let path = path.with_context(|| format!("the server says {ready:?}"))?;
        let mut server = Server::of(Path::new(path))?;
        (server.process, server._directory) = (Some(process), Some(directory));
        Ok(server)
    }

    /// One that runs already, as its administrator's kubeconfig says.
    pub(crate) fn of(kubeconfig: &Path) -> anyhow::Result<Self> {
        let config: Value = serde_saphyr::from_str(&std::fs::read_to_string(kubeconfig)?)?;
        let url = config["clusters"][0]["cluster"]["server"].as_str().unwrap_or_default();
        let address = url.strip_prefix("https://").with_context(|| format!("{url:?} is no address"))?;
        Ok(Server {
            process: None,
            _directory: None,
            kubeconfig: kubeconfig.to_owned(),
            address: address.trim_end_matches('/').to_owned(),
            tls: Arc::new(administrator(&config)?),
        })
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub(crate) async fn connect(&self, kind: Kind) -> anyhow::Result<Connection> {
        Connection::open(&self.address, self.tls.clone(), kind).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// TLS as the administrator of a kubeconfig has it.
fn administrator(config: &Value) -> anyhow::Result<ClientConfig> {
    let pem = |value: &Value| STANDARD.decode(value.as_str().unwrap_or_default());
    let mut roots = RootCertStore::empty();
    let authority = pem(&config["clusters"][0]["cluster"]["certificate-authority-data"])?;
    for certificate in CertificateDer::pem_slice_iter(&authority) {
        roots.add(certificate?)?;
    }
    let user = &config["users"][0]["user"];
    let certificates = CertificateDer::pem_slice_iter(&pem(&user["client-certificate-data"])?)
        .collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(&pem(&user["client-key-data"])?)?;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let mut tls = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(certificates, key)?;
    tls.alpn_protocols = vec![b"h2".to_vec()];
    Ok(tls)
}
