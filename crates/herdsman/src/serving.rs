//! What `up` and `server` are told of the one port, and of what nodes get from it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::gateway::headers::Proxies;
use ::gateway::{Authorities, Certificates};
use anyhow::{Context as _, bail};
use clock::{Clock, SystemEntropy};
use controllers::controlplane::Releases;
use machine::docker::{self, Docker};

use crate::embedded::{advertised, reachable};
use crate::releases::ReleaseArguments;

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
#[group(id = "serving")]
pub(crate) struct ServingArguments {
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
    /// Address or network (CIDR) of load balancers in front of this server, whose X-Forwarded-For is believed; may be repeated
    #[arg(long, value_name = "CIDR")]
    trusted_proxy: Vec<String>,
    #[command(flatten)]
    drivers: DriverArguments,
    /// A directory with agents that nodes download, as `cargo xtask dist` makes it; may be repeated
    #[arg(long, value_name = "DIRECTORY")]
    assets: Vec<PathBuf>,
    #[command(flatten)]
    releases: ReleaseArguments,
}

/// What can be said of drivers.
#[derive(Debug, clap::Args)]
struct DriverArguments {
    /// A driver that is off by default: `docker`, whose containers are no boundary to this host; may be repeated
    #[arg(long, value_name = "NAME", value_parser = ["docker"])]
    enable_driver: Vec<String>,
    /// With --enable-driver docker: where Docker is
    #[arg(long, value_name = "URL", env = "DOCKER_HOST", default_value = docker::HOST)]
    docker_host: String,
    /// With --enable-driver docker: a volume for every container, as `/on/the/host:/in/the/container[:ro]`; may be repeated
    #[arg(long, value_name = "VOLUME", requires = "enable_driver")]
    docker_volume: Vec<String>,
    /// With --enable-driver docker: containers are privileged
    #[arg(long, requires = "enable_driver")]
    docker_privileged: bool,
    /// A file or directory that rancher-machine and its drivers may read beside the system's files; may be repeated
    #[arg(long, value_name = "PATH")]
    driver_read: Vec<PathBuf>,
    /// Hosts of the driver ssh are taken only with a hostKey in their config, instead of trusting the first key seen
    #[arg(long)]
    strict_host_keys: bool,
}

impl DriverArguments {
    /// The driver `docker`, if it is enabled.
    fn docker(self) -> Option<Docker> {
        self.enable_driver.iter().any(|name| name == "docker").then_some(Docker {
            host: self.docker_host,
            privileged: self.docker_privileged,
            volumes: self.docker_volume,
        })
    }
}

/// The same, found good.
#[derive(Clone)]
pub(crate) struct Serving {
    pub(crate) listen: SocketAddr,
    pub(crate) server_url: Option<String>,
    pub(crate) certificate: Certificate,
    pub(crate) rancher_machine: Option<PathBuf>,
    /// The driver `docker`, if it is enabled.
    pub(crate) docker: Option<Docker>,
    /// What rancher-machine and its drivers may read beside the system's files.
    pub(crate) driver_read: Vec<PathBuf>,
    /// Whether hosts of the driver `ssh` need a key that a user gave.
    pub(crate) strict_host_keys: bool,
    /// Load balancers in front of the server.
    pub(crate) proxies: Proxies,
    /// Where agents for nodes are.
    pub(crate) assets: Vec<PathBuf>,
    /// Which arguments distributions take.
    pub(crate) releases: Arc<Releases>,
}

/// Where the server's certificate comes from.
#[derive(Clone)]
pub(crate) enum Certificate {
    /// Our own authority issues one for what we know ourselves by, and for these.
    Issued(Vec<String>),
    /// Somebody brings it: chain, key, and who vouches for it (empty: every system does), as PEM.
    Own { chain: String, key: String, ca: String },
}

impl ServingArguments {
    /// Looks at everything once.
    pub(crate) fn checked(self) -> anyhow::Result<Serving> {
        Ok(Serving {
            certificate: self.certificate()?,
            server_url: self.server_url.as_deref().map(checked_url).transpose()?,
            rancher_machine: rancher_machine(self.machine_binary)?,
            proxies: Proxies::new(&self.trusted_proxy).context("--trusted-proxy")?,
            driver_read: self.drivers.driver_read.clone(),
            strict_host_keys: self.drivers.strict_host_keys,
            docker: self.drivers.docker(),
            releases: self.releases.read()?,
            listen: self.listen,
            assets: self.assets,
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

impl Certificate {
    /// The certificate of a server at `address` that others know by `url`; `authorities` issue it if nobody brought one.
    pub(crate) fn certificates(
        self,
        authorities: Authorities,
        address: SocketAddr,
        url: &str,
        clock: &Arc<dyn Clock>,
    ) -> anyhow::Result<Certificates> {
        let names = match self {
            Certificate::Own { chain, key, ca } => {
                return Ok(Certificates::own(&chain, &key, &ca, clock.clone())?);
            }
            Certificate::Issued(names) => names,
        };
        let mut all = vec!["localhost".to_owned()];
        all.extend(
            [address.ip(), reachable(address).ip(), advertised(address.ip())].map(|ip| ip.to_string()),
        );
        all.extend(host(url));
        all.extend(names);
        all.dedup();
        issued(authorities, all, clock)
    }
}

/// A certificate of our own authority, for these names.
pub(crate) fn issued(
    authorities: Authorities,
    names: Vec<String>,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<Certificates> {
    Ok(Certificates::issued(authorities, names, clock.clone(), Box::new(SystemEntropy))?)
}

/// The host of a URL.
pub(crate) fn host(url: &str) -> Option<String> {
    let url = url.parse::<http::Uri>().ok()?;
    Some(url.host()?.trim_matches(['[', ']']).to_owned())
}

/// Where nodes and users reach a server that nobody has given a name.
pub(crate) fn public_url(address: SocketAddr) -> String {
    format!("https://{}", SocketAddr::new(advertised(address.ip()), address.port()))
}

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
