//! The administrator's token, and the kubeconfig that carries it.
//!
//! The port takes bearer tokens only. Where the API server's own administrator has a client certificate, this is what takes its
//! place: one opaque token, kept nowhere but in the kubeconfig's file.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use clock::Entropy;
use kubeapi::authn::{MASTERS, User};

/// What the administrator's token begins with.
pub const PREFIX: &str = "hdm_";

/// A new token.
pub fn token(entropy: &mut dyn Entropy) -> String {
    let mut bytes = [0; 32];
    entropy.fill(&mut bytes);
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
}

/// Who holds it.
pub fn user() -> User {
    User { name: apiserver::pki::ADMIN.into(), groups: vec![MASTERS.into()], ..User::default() }
}

/// The kubeconfig of who holds it. `ca` is PEM; empty if every system trusts the server.
pub fn kubeconfig(url: &str, ca: &str, token: &str) -> String {
    let ca = match ca {
        "" => String::new(),
        ca => format!("    certificate-authority-data: {}\n", STANDARD.encode(ca)),
    };
    let admin = apiserver::pki::ADMIN;
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: herdsman
  cluster:
{ca}    server: {url:?}
users:
- name: {admin}
  user:
    token: {token:?}
contexts:
- name: herdsman
  context:
    cluster: herdsman
    user: {admin}
current-context: herdsman
"
    )
}

/// The token in a kubeconfig that [`kubeconfig`] made: a server that starts again keeps it.
pub fn token_in(kubeconfig: &str) -> Option<String> {
    let document: serde_json::Value = serde_saphyr::from_str(kubeconfig).ok()?;
    let token = document["users"][0]["user"]["token"].as_str()?;
    token.starts_with(PREFIX).then(|| token.to_owned())
}

#[cfg(test)]
mod tests {
    use clock::SeededEntropy;

    use super::*;

    #[test]
    fn a_kubeconfig_keeps_its_token() {
        let token = token(&mut SeededEntropy::new(1));
        let text = kubeconfig("https://h:8443", "PEM\n", &token);
        assert_eq!(token_in(&text), Some(token));
        let read = agent::kubeconfig::Kubeconfig::parse(&text).unwrap();
        assert_eq!(
            (read.server.to_string(), read.ca.unwrap()),
            ("https://h:8443/".into(), b"PEM\n".to_vec())
        );
        assert_eq!(token_in("users: [{user: {client-certificate-data: x}}]"), None);
        assert_eq!(token_in("users: [{user: {token: somebody-elses}}]"), None);
        assert_eq!(token_in("{"), None);
    }
}
