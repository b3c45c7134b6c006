//! Credentials in the form that kubectl reads.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubeapi::authn::MASTERS;

use super::{ADMIN, Error, Pki};

impl Pki {
    /// A kubeconfig for the administrator of the server at this URL, with credentials of its own.
    ///
    /// # Errors
    /// If nothing can be issued.
    pub fn admin_kubeconfig(&self, url: &str) -> Result<String, Error> {
        let client = self.issue_client(ADMIN, MASTERS)?;
        let [ca, certificate, key] =
            [self.ca_certificate(), &client.certificate_pem, &client.key_pem].map(|pem| STANDARD.encode(pem));
        Ok(format!(
            "apiVersion: v1
kind: Config
clusters:
- name: herdsman
  cluster:
    server: {url:?}
    certificate-authority-data: {ca}
users:
- name: {ADMIN}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: herdsman
  context:
    cluster: herdsman
    user: {ADMIN}
current-context: herdsman
"
        ))
    }
}
