//! The one-line command that makes a host a node.

use api::rke::v1::EnvVar;

use crate::bootstrap::script::{is_name, quoted};

/// What stands for the token in stored commands; it is put in when a user who may see it reads.
const TOKEN: &str = "{token}";

/// What a host needs to know.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host<'a> {
    /// URL of the server.
    pub url: &'a str,
    /// SHA-256 of what `/cacerts` answers, in hex; empty if the system's certificates vouch for the server.
    pub ca_checksum: &'a str,
    /// The cluster's variables: proxies, above all.
    pub environment: &'a [EnvVar],
}

/// The command for a Linux host. Role flags (`--etcd --controlplane --worker`) follow it.
pub fn node_command(host: Host<'_>) -> String {
    command(host, "")
}

/// The same where nothing vouches for the server's certificate.
pub fn insecure_node_command(host: Host<'_>) -> String {
    command(host, "--insecure ")
}

fn command(host: Host<'_>, flag: &str) -> String {
    let variables: String = host
        .environment
        .iter()
        .filter(|one| !one.value.is_empty() && is_name(&one.name))
        .map(|one| format!("{}={} ", one.name, quoted(&one.value)))
        .collect();
    let checksum = match host.ca_checksum {
        "" => String::new(),
        checksum => format!(" --ca-checksum {checksum}"),
    };
    let url = host.url;
    format!(
        "{variables}curl {flag}-fL {url}/system-agent-install.sh | sudo {variables}sh -s - --server {url} \
         --label 'cattle.io/os=linux' --token {TOKEN}{checksum}"
    )
}

/// The command for a Windows host, which is always a worker.
pub fn windows_node_command(host: Host<'_>, insecure: bool) -> String {
    let flag = if insecure { "--insecure " } else { "" };
    let checksum = match host.ca_checksum {
        "" => String::new(),
        checksum => format!(" -CaChecksum {checksum}"),
    };
    let url = host.url;
    format!(
        "curl.exe {flag}-fL {url}/wins-agent-install.ps1 -o install.ps1; \
         Set-ExecutionPolicy Bypass -Scope Process -Force; \
         ./install.ps1 -Server {url} -Label 'cattle.io/os=windows' -Token {TOKEN} -Worker{checksum}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands() {
        let proxy = [
            EnvVar { name: "HTTPS_PROXY".into(), value: "http://p:3128".into() },
            EnvVar { name: "bad name".into(), value: "x".into() },
        ];
        let host = Host { url: "https://h.example.com", ca_checksum: "abc", environment: &proxy };
        assert_eq!(
            node_command(host),
            "HTTPS_PROXY='http://p:3128' curl -fL https://h.example.com/system-agent-install.sh | \
             sudo HTTPS_PROXY='http://p:3128' sh -s - --server https://h.example.com --label 'cattle.io/os=linux' \
             --token {token} --ca-checksum abc"
        );
        let plain = Host { url: "https://h", ..Default::default() };
        assert_eq!(
            insecure_node_command(plain),
            "curl --insecure -fL https://h/system-agent-install.sh | sudo sh -s - --server https://h \
             --label 'cattle.io/os=linux' --token {token}"
        );
        assert_eq!(
            windows_node_command(host, false),
            "curl.exe -fL https://h.example.com/wins-agent-install.ps1 -o install.ps1; Set-ExecutionPolicy Bypass \
             -Scope Process -Force; ./install.ps1 -Server https://h.example.com -Label 'cattle.io/os=windows' \
             -Token {token} -Worker -CaChecksum abc"
        );
    }
}
