//! The command lines of a throw-away Kubernetes.

use std::path::Path;

use super::files::Files;

#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    pub(super) etcd_clients: u16,
    pub(super) etcd_peers: u16,
    pub(super) api: u16,
}

impl Ports {
    pub(super) fn url(self) -> String {
        format!("https://127.0.0.1:{}", self.api)
    }

    fn etcd_url(self) -> String {
        format!("http://127.0.0.1:{}", self.etcd_clients)
    }
}

pub(super) fn etcd(_: &Files, ports: Ports, directory: &Path) -> Vec<String> {
    let (clients, peers) = (ports.etcd_url(), format!("http://127.0.0.1:{}", ports.etcd_peers));
    flags([
        ("name", "default"),
        ("data-dir", &text(&directory.join("etcd"))),
        ("listen-client-urls", &clients),
        ("advertise-client-urls", &clients),
        ("listen-peer-urls", &peers),
        ("initial-advertise-peer-urls", &peers),
        ("initial-cluster", &format!("default={peers}")),
    ])
}

/// For data that nobody will miss: it need not survive a power cut.
pub(super) fn etcd_without_sync(files: &Files, ports: Ports, directory: &Path) -> Vec<String> {
    let mut words = etcd(files, ports, directory);
    words.extend(flags([("unsafe-no-fsync", "true")]));
    words
}

pub(super) fn kube_apiserver(files: &Files, ports: Ports, _: &Path) -> Vec<String> {
    flags([
        ("etcd-servers", ports.etcd_url().as_str()),
        ("bind-address", "127.0.0.1"),
        ("secure-port", &ports.api.to_string()),
        // A Service of the API server at a loopback address is refused; nothing here runs that would use one.
        ("advertise-address", "127.0.0.1"),
        ("endpoint-reconciler-type", "none"),
        ("service-cluster-ip-range", "10.96.0.0/16"),
        ("authorization-mode", "RBAC"),
        ("client-ca-file", &text(&files.ca)),
        ("tls-cert-file", &text(&files.server)),
        ("tls-private-key-file", &text(&files.server_key)),
        ("service-account-issuer", "https://kubernetes.default.svc"),
        ("service-account-signing-key-file", &text(&files.service_account_key)),
        ("service-account-key-file", &text(&files.service_account_public)),
        ("allow-privileged", "true"),
    ])
}

/// The files of an audit log.
pub(super) const AUDIT_POLICY: &str = "audit-policy.yaml";
pub(super) const AUDIT_LOG: &str = "audit.log";

pub(super) fn kube_apiserver_audited(files: &Files, ports: Ports, directory: &Path) -> Vec<String> {
    let mut words = kube_apiserver(files, ports, directory);
    words.extend(flags([
        ("audit-policy-file", text(&directory.join(AUDIT_POLICY)).as_str()),
        ("audit-log-path", &text(&directory.join(AUDIT_LOG))),
    ]));
    words
}

pub(super) fn kube_controller_manager(files: &Files, _: Ports, _: &Path) -> Vec<String> {
    flags([
        ("kubeconfig", text(&files.controller_manager_kubeconfig).as_str()),
        // Its only server is for metrics.
        ("secure-port", "0"),
        ("leader-elect", "false"),
        ("use-service-account-credentials", "true"),
        ("service-account-private-key-file", &text(&files.service_account_key)),
        ("root-ca-file", &text(&files.ca)),
        ("cluster-signing-cert-file", &text(&files.ca)),
        ("cluster-signing-key-file", &text(&files.ca_key)),
        // Tests wait for what it does: no pauses of its own.
        ("kube-api-qps", "500"),
        ("kube-api-burst", "1000"),
    ])
}

fn flags<const N: usize>(pairs: [(&str, &str); N]) -> Vec<String> {
    pairs.iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
