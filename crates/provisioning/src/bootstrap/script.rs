//! The install script: settings for one server, and the installer behind them.

use std::fmt::Write as _;

use api::rke::v1::{EnvVar, RKEControlPlaneSpec};

use crate::management::AGENT_VAR_DIR;

/// Whether the agent trusts only the server's own certificates; users may set it themselves.
const STRICT_VERIFY: &str = "STRICT_VERIFY";

/// Our own end, as servers see it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Server<'a> {
    /// URL of the server.
    pub url: &'a str,
    /// SHA-256 of what `/cacerts` answers, in hex; empty if the system's certificates vouch for the server.
    pub ca_checksum: &'a str,
    /// Agents trust the server's own certificates only.
    pub strict_tls: bool,
    /// The server offers the agent for download.
    pub offers_agent: bool,
    /// The installer for Linux, `install.sh`.
    pub installer: &'a str,
    /// The installer for Windows, `install.ps1`.
    pub windows_installer: &'a str,
    /// Version of the CSI proxy for Windows; empty for the usual one.
    pub csi_proxy_version: &'a str,
    /// Where it comes from, if not from the server.
    pub csi_proxy_url: &'a str,
}

/// The script for a Linux server.
pub fn linux(server: &Server<'_>, cluster: &RKEControlPlaneSpec, token: &str) -> String {
    let mut text = "#!/usr/bin/env sh\n".to_owned();
    for one in environment(server, cluster) {
        let _ = writeln!(text, "export {}={}", one.name, quoted(&one.value));
    }
    let mut set = |name: &str, value: &str| {
        let _ = writeln!(text, "{name}={}", quoted(value));
    };
    if server.offers_agent && !server.url.is_empty() {
        set("CATTLE_AGENT_BINARY_BASE_URL", &format!("{}/assets", server.url));
    }
    for (name, value) in introduction(server, token) {
        set(name, value);
    }
    text + "\n" + server.installer + "\n"
}

/// The script for a Windows server.
pub fn windows(server: &Server<'_>, cluster: &RKEControlPlaneSpec, token: &str) -> String {
    let mut text = format!("{}\n\n", server.windows_installer);
    let mut set = |name: &str, value: &str| {
        let _ = writeln!(text, "$env:{name} = '{}'", value.replace('\'', "''"));
    };
    for one in environment(server, cluster) {
        set(&one.name, &one.value);
    }
    if server.offers_agent && !server.url.is_empty() {
        set("CATTLE_AGENT_BINARY_BASE_URL", &format!("{}/assets", server.url));
    }
    for (name, value) in introduction(server, token) {
        set(name, value);
    }
    let (version, url) = match server.csi_proxy_version {
        "" => ("v1.0.0", server.csi_proxy_url.to_owned()),
        // The installer puts the version where the placeholder is.
        version => (version, format!("{}/assets/csi-proxy-%[1]s.tar.gz", server.url)),
    };
    set("CSI_PROXY_URL", &url);
    set("CSI_PROXY_VERSION", version);
    set("CSI_PROXY_KUBELET_PATH", &format!("C:{}/bin/kubelet.exe", data_directory(cluster)));
    text + "\nInvoke-WinsInstaller @PSBoundParameters\nexit 0\n"
}

/// Whom to call, and with what.
fn introduction<'a>(server: &Server<'a>, token: &'a str) -> impl Iterator<Item = (&'static str, &'a str)> {
    let none = if token.is_empty() { "" } else { "true" };
    let all = [
        ("CATTLE_SERVER", server.url),
        ("CATTLE_CA_CHECKSUM", server.ca_checksum),
        // Roles are the Machine's, not the server's to say.
        ("CATTLE_ROLE_NONE", none),
        ("CATTLE_TOKEN", token),
    ];
    all.into_iter().filter(|(_, value)| !value.is_empty())
}

/// The cluster's variables that a shell can have, the agent's directory, and how strict the agent is.
fn environment(server: &Server<'_>, cluster: &RKEControlPlaneSpec) -> Vec<EnvVar> {
    let variable = |name: &str, value: &str| EnvVar { name: name.into(), value: value.into() };
    let given = cluster.agent_env_vars.iter().filter(|one| one.name != AGENT_VAR_DIR);
    let mut all: Vec<EnvVar> = given.cloned().collect();
    all.push(variable(AGENT_VAR_DIR, &cluster.configuration.data_directories.system_agent));
    if !all.iter().any(|one| one.name == STRICT_VERIFY) {
        all.push(variable(STRICT_VERIFY, if server.strict_tls { "true" } else { "false" }));
    }
    all.retain(|one| !one.value.is_empty() && is_name(&one.name));
    all
}

/// Whether a shell can have a variable of that name.
pub fn is_name(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    name.bytes().next().is_some_and(letter) && name.bytes().all(|byte| letter(byte) || byte.is_ascii_digit())
}

/// A value as one word of a shell.
pub fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', "'\\''"))
}

/// Where the distribution keeps its data.
fn data_directory(cluster: &RKEControlPlaneSpec) -> String {
    let runtime = if cluster.kubernetes_version.contains("k3s") { "k3s" } else { "rke2" };
    match cluster.configuration.data_directories.k8s_distro.as_str() {
        "" => format!("/var/lib/rancher/{runtime}"),
        chosen => chosen.to_owned(),
    }
}
