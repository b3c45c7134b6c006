//! The key that signs the tokens of ServiceAccounts.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Why a key or a signature is not good.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// What was given is no PEM file of a private RSA or P-256 key.
    #[error("not a private RSA or P-256 key in PEM format")]
    Malformed(#[source] jsonwebtoken::errors::Error),
    /// As before, found by the other reader.
    #[error("not a private RSA or P-256 key in PKCS#8 format")]
    NotPkcs8(#[source] rcgen::Error),
    /// Nothing could be signed.
    #[error("signing failed")]
    Sign(#[source] jsonwebtoken::errors::Error),
}

/// A private RSA or P-256 key with its public half. The signatures of an RSA key depend on nothing but the text: a run
/// can be replayed. A P-256 key is made and signs in a fraction of the time.
pub struct SigningKey {
    algorithm: Algorithm,
    private: EncodingKey,
    public: DecodingKey,
    jwk: Jwk,
    id: String,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl SigningKey {
    /// From a PEM file in PKCS#8 format.
    ///
    /// # Errors
    /// If it is not one, or of another kind of key.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let pair = KeyPair::from_pem(pem).map_err(KeyError::NotPkcs8)?;
        let (algorithm, private) = match pair.is_compatible(&PKCS_ECDSA_P256_SHA256) {
            true => (Algorithm::ES256, EncodingKey::from_ec_pem(pem.as_bytes())),
            false => (Algorithm::RS256, EncodingKey::from_rsa_pem(pem.as_bytes())),
        };
        let private = private.map_err(KeyError::Malformed)?;
        // As upstream: the hash of the public key.
        let id = URL_SAFE_NO_PAD.encode(Sha256::digest(pair.subject_public_key_info()));
        let mut jwk = Jwk::from_encoding_key(&private, algorithm).map_err(KeyError::Malformed)?;
        jwk.common.key_id = Some(id.clone());
        jwk.common.public_key_use = Some(PublicKeyUse::Signature);
        let public = DecodingKey::from_jwk(&jwk).map_err(KeyError::Malformed)?;
        Ok(SigningKey { algorithm, private, public, jwk, id })
    }

    /// A token with these claims.
    pub(super) fn sign(&self, claims: &impl Serialize) -> Result<String, KeyError> {
        let header = Header { typ: None, kid: Some(self.id.clone()), ..Header::new(self.algorithm) };
        jsonwebtoken::encode(&header, claims, &self.private).map_err(KeyError::Sign)
    }

    /// The claims of a token that this key has signed; times and audiences are not looked at.
    pub(super) fn open<T: DeserializeOwned>(&self, token: &str) -> Result<T, &'static str> {
        const BAD: &str = "go-jose/go-jose: error in cryptographic primitive";
        let header = jsonwebtoken::decode_header(token).map_err(|_| BAD)?;
        if header.kid.is_some_and(|id| id != self.id) {
            return Err("invalid signature, no keys found");
        }
        let mut validation = Validation::new(self.algorithm);
        // The library would ask the system for the time: ours comes from outside.
        (validation.validate_exp, validation.validate_nbf, validation.validate_aud) = (false, false, false);
        validation.required_spec_claims.clear();
        jsonwebtoken::decode(token, &self.public, &validation).map(|token| token.claims).map_err(|_| BAD)
    }

    /// What its signatures are called.
    pub(super) fn algorithm(&self) -> &'static str {
        if self.algorithm == Algorithm::ES256 { "ES256" } else { "RS256" }
    }

    /// What others check signatures with: a JSON Web Key Set.
    pub(super) fn public_keys(&self) -> Value {
        json!({"keys": [self.jwk]})
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{PKCS_RSA_SHA256, RsaKeySize};

    use super::*;

    #[test]
    fn either_kind_of_key_signs_and_is_told() {
        let elliptic = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let rsa = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap();
        let [elliptic, rsa] = [elliptic, rsa].map(|key| SigningKey::from_pem(&key.serialize_pem()).unwrap());
        for (key, other, algorithm) in [(&elliptic, &rsa, "ES256"), (&rsa, &elliptic, "RS256")] {
            let token = key.sign(&json!({"sub": "a"})).unwrap();
            assert_eq!(key.open::<Value>(&token), Ok(json!({"sub": "a"})));
            assert!(other.open::<Value>(&token).is_err());
            assert_eq!(key.algorithm(), algorithm);
            let shown = &key.public_keys()["keys"][0];
            assert_eq!((&shown["alg"], shown["use"].as_str()), (&json!(algorithm), Some("sig")));
            assert!(shown.get("d").is_none(), "the private half is told");
        }
    }
}
