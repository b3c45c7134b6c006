//! Certificates and keys: an authority of our own, what it issues, and TLS with it.
//!
//! What lasts is in files ([`Keys::open`]); everything else is issued when it is needed. A simulation gives fixed
//! [`Keys`] instead.

mod error;
mod issue;
mod kubeconfig;
mod tls;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use clock::{Clock, Entropy};
use rcgen::{Issuer, KeyPair};
use rustls::pki_types::CertificateDer;

pub use error::Error;
pub use issue::Issued;
pub use tls::Clients;

use crate::auth::SigningKey;
use crate::files;

/// The file with the administrator's credentials, in the data directory.
pub const ADMIN_KUBECONFIG: &str = "admin.kubeconfig";
/// The user name of who uses it.
pub const ADMIN: &str = "herdsman-admin";

/// What has to last, each in PEM format.
#[derive(Clone)]
pub struct Keys {
    /// The authority's certificate.
    pub ca_certificate: String,
    /// The authority's private key.
    pub ca_key: String,
    /// The private key, P-256 or RSA, that signs the tokens of ServiceAccounts.
    pub signing_key: String,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("ca_certificate", &self.ca_certificate).finish_non_exhaustive()
    }
}

impl Keys {
    /// Those in `<data_dir>/pki`: `ca.crt`, `ca.key` and `sa.key`. Made if they are not there, never overwritten.
    ///
    /// # Errors
    /// If files cannot be read or written, or the authority's key is missing beside its certificate. Whether they
    /// make sense is for [`Pki::new`] to say.
    pub fn open(data_dir: &Path, clock: &dyn Clock, entropy: &mut dyn Entropy) -> Result<Self, Error> {
        let directory = data_dir.join("pki");
        files::make_directory(&directory)?;
        let [certificate, key, signing] = ["ca.crt", "ca.key", "sa.key"].map(|name| directory.join(name));
        let kept = files::read(&certificate)?;
        if kept.is_some() && files::read(&key)?.is_none() {
            return Err(Error::NoCaKey(key));
        }
        // The key comes first: a certificate is never there without it, also not after a crash.
        let ca_key = files::keep(&key, files::Mode::Secret, issue::new_key)?;
        let ca_certificate = match kept {
            Some(kept) => kept,
            None => files::keep(&certificate, files::Mode::Public, || {
                issue::authority(&ca_key, clock.now(), entropy)
            })?,
        };
        let signing_key = files::keep(&signing, files::Mode::Secret, issue::new_key)?;
        Ok(Keys { ca_certificate, ca_key, signing_key })
    }
}

/// The authority, and what else is needed to issue.
pub struct Pki {
    authority: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    keys: Keys,
    clock: Arc<dyn Clock>,
    entropy: Mutex<Box<dyn Entropy>>,
}

impl std::fmt::Debug for Pki {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pki").field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl Pki {
    /// The authority with these keys.
    ///
    /// # Errors
    /// If they are damaged, do not belong together, or the certificate is not an authority's or out of its time.
    pub fn new(keys: Keys, clock: Arc<dyn Clock>, entropy: Box<dyn Entropy>) -> Result<Self, Error> {
        let (certificate, authority) = issue::open_authority(&keys, clock.now())?;
        Ok(Pki { authority, certificate, keys, clock, entropy: Mutex::new(entropy) })
    }

    /// The authority's certificate in PEM format, for clients and for `kube-root-ca.crt`.
    pub fn ca_certificate(&self) -> &str {
        &self.keys.ca_certificate
    }

    /// The key that signs the tokens of ServiceAccounts.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn signing_key(&self) -> Result<SigningKey, Error> {
        SigningKey::from_pem(&self.keys.signing_key).map_err(Error::SigningKey)
    }

    /// Writes `admin.kubeconfig` into the data directory, with new credentials for the administrator of the server
    /// at this URL. Gives the path.
    ///
    /// # Errors
    /// If nothing can be issued or written.
    pub fn write_admin_kubeconfig(&self, data_dir: &Path, url: &str) -> Result<std::path::PathBuf, Error> {
        let path = data_dir.join(ADMIN_KUBECONFIG);
        files::replace(&path, self.admin_kubeconfig(url)?.as_bytes(), files::Mode::Secret)?;
        Ok(path)
    }

    fn with_entropy<T>(&self, draw: impl FnOnce(&mut dyn Entropy) -> T) -> T {
        let mut entropy = self.entropy.lock().unwrap_or_else(PoisonError::into_inner);
        draw(&mut **entropy)
    }
}
