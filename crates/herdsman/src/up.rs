//! `herdsman up`: the whole product on this machine.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use tokio::sync::Notify;

use crate::data_dir;
use crate::embedded::{Options, Stop};
use crate::product::{Address, Certificate, Product, Setup};

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where everything is kept; made if it is not there. By default /var/lib/herdsman for root, else ~/.local/share/herdsman
    #[arg(long, value_name = "DIRECTORY", env = data_dir::VARIABLE)]
    data_dir: Option<PathBuf>,
    /// Address and port to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8443")]
    listen: SocketAddr,
    /// The one URL by which nodes and users reach this server; by default the machine's address
    #[arg(long, value_name = "URL", env = "HERDSMAN_SERVER_URL")]
    server_url: Option<String>,
    /// The server's certificate and its chain, PEM; without it our own authority issues one
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Who vouches for the certificate, PEM; leave it out if every system does
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
    /// A further host name or address for the certificate that our own authority issues; may be repeated
    #[arg(long, value_name = "NAME", conflicts_with = "tls_cert")]
    tls_san: Vec<String>,
    /// The program rancher-machine, for its drivers; by default looked for in PATH
    #[arg(long, value_name = "FILE")]
    machine_binary: Option<PathBuf>,
    /// A directory with agents that nodes download, as `cargo xtask dist` makes it; may be repeated
    #[arg(long, value_name = "DIRECTORY")]
    assets: Vec<PathBuf>,
    #[command(flatten)]
    options: Options,
}

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut stop = Stop::new()?;
        let product = Product::start(arguments.setup()?).await?;
        let keys_changed = Notify::new();
        let ready = |address: &Address| {
            let kubeconfig = address.kubeconfig.display();
            println!("ready url={} kubeconfig={kubeconfig}", address.url);
            eprintln!(
                "next: export KUBECONFIG={kubeconfig} && herdsman create cluster demo --pool all:1:all --wait"
            );
        };
        product.run(ready, stop.asked(&keys_changed), &keys_changed).await;
        Ok(())
    })
}

impl Arguments {
    fn setup(self) -> anyhow::Result<Setup> {
        Ok(Setup {
            certificate: self.certificate()?,
            server_url: self.server_url.as_deref().map(checked_url).transpose()?,
            rancher_machine: rancher_machine(self.machine_binary)?,
            directory: self.data_dir.unwrap_or_else(data_dir::default),
            listen: self.listen,
            assets: self.assets,
            options: self.options,
        })
    }

    fn certificate(&self) -> anyhow::Result<Certificate> {
        let read = |flag: &str, path: &Path| {
            std::fs::read_to_string(path).with_context(|| format!("{flag}: cannot read {}", path.display()))
        };
        let (Some(chain), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(Certificate::Issued(self.tls_san.clone()));
        };
        Ok(Certificate::Own {
            chain: read("--tls-cert", chain)?,
            key: read("--tls-key", key)?,
            ca: self.tls_ca.as_deref().map(|ca| read("--tls-ca", ca)).transpose()?.unwrap_or_default(),
        })
    }
}

/// A URL that nodes can use: https, a host, and nothing behind it.
fn checked_url(url: &str) -> anyhow::Result<String> {
    let parsed: http::Uri =
        url.parse().with_context(|| format!("--server-url: {url:?} is no URL: https://HOST[:PORT]"))?;
    if parsed.scheme_str() != Some("https") || parsed.host().is_none_or(str::is_empty) {
        bail!("--server-url: {url:?} is not of the form https://HOST[:PORT]");
    }
    if !matches!(parsed.path(), "" | "/") || parsed.query().is_some() {
        bail!("--server-url: {url:?} has a path; nodes need the root of a host: https://HOST[:PORT]");
    }
    Ok(url.trim_end_matches('/').to_owned())
}

/// The program rancher-machine: the one that was named, or the one in PATH if there is one.
fn rancher_machine(named: Option<PathBuf>) -> anyhow::Result<Option<PathBuf>> {
    if let Some(path) = named {
        if !path.is_file() {
            bail!("--machine-binary: there is no file {}", path.display());
        }
        return Ok(Some(path));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    Ok(std::env::split_paths(&path).map(|one| one.join("rancher-machine")).find(|one| one.is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_url_is_the_root_of_a_host() {
        assert_eq!(checked_url("https://h.example.com:8443/").unwrap(), "https://h.example.com:8443");
        for wrong in ["h.example.com", "http://h", "https://h/x", "https://h?x", "https://"] {
            assert!(checked_url(wrong).unwrap_err().to_string().starts_with("--server-url"), "{wrong}");
        }
    }
}
