//! The private key that hosts know.
//!
//! Ed25519 and ECDSA keys are russh's business. With RSA keys we sign ourselves, by the library that TLS uses too: the one that
//! russh would use computes in a time that tells something of the key (RUSTSEC-2023-0071).

use std::sync::Arc;

use aws_lc_rs::rsa::{KeyPair, KeyPairComponents, PublicKeyComponents};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RsaEncoding};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use num_bigint::BigUint;
use russh::client::{AuthResult, Handle, Handler};
use russh::keys::agent::AgentIdentity;
use russh::keys::ssh_key::private::{KeypairData, RsaKeypair};
use russh::keys::ssh_key::public::{KeyData, RsaPublicKey};
use russh::keys::ssh_key::{Mpint, PublicKey};
use russh::keys::{HashAlg, PrivateKey, PrivateKeyWithHashAlg, decode_secret_key};

use super::session::Error;

/// What a key in a format of its own begins with.
const PKCS1: &str = "-----BEGIN RSA PRIVATE KEY-----";
const PKCS8: &str = "-----BEGIN PRIVATE KEY-----";

/// A key that can be used.
pub(super) enum Key {
    /// russh signs with it.
    Plain(Arc<PrivateKey>),
    /// We do.
    Rsa(Rsa),
}

/// An RSA key, and what hosts know of it.
pub(super) struct Rsa {
    pair: KeyPair,
    public: PublicKey,
}

impl Key {
    /// Reads a key in the format of OpenSSH, PKCS#1 or PKCS#8.
    pub(super) fn read(text: &str) -> Result<Self, Error> {
        if let Some(rsa) = in_der(text)? {
            return Ok(Key::Rsa(rsa));
        }
        let key = decode_secret_key(text, None).map_err(unusable)?;
        match key.key_data() {
            KeypairData::Rsa(pair) => Ok(Key::Rsa(Rsa::of(pair)?)),
            _ => Ok(Key::Plain(Arc::new(key))),
        }
    }

    /// Shows a host that we have the key.
    pub(super) async fn show<H: Handler>(
        &self,
        handle: &mut Handle<H>,
        user: &str,
    ) -> Result<AuthResult, russh::Error> {
        match self {
            Key::Plain(key) => {
                let key = PrivateKeyWithHashAlg::new(key.clone(), None);
                handle.authenticate_publickey(user, key).await
            }
            Key::Rsa(rsa) => {
                // Old hosts do not say what they take, and take these.
                let hash = handle.best_supported_rsa_hash().await?.flatten().unwrap_or(HashAlg::Sha512);
                let public = rsa.public.clone();
                let shown = handle.authenticate_publickey_with(user, public, Some(hash), &mut &*rsa).await;
                shown.map_err(|error| match error {
                    Unsigned::Gone(_) => russh::Error::Disconnect,
                    Unsigned::Refused => russh::Error::Inconsistent,
                })
            }
        }
    }
}

/// An RSA key in one of the formats that are nothing but DER; none if it is in another, or of another kind.
fn in_der(text: &str) -> Result<Option<Rsa>, Error> {
    let text = text.trim();
    let pair = match text.lines().next().map(str::trim_end) {
        // Those with a passphrase say so in the next line.
        Some(PKCS1) if !text.contains("ENCRYPTED") => KeyPair::from_der(&der(text)?).map_err(unusable)?,
        Some(PKCS8) => match KeyPair::from_pkcs8(&der(text)?) {
            Ok(pair) => pair,
            Err(_) => return Ok(None),
        },
        _ => return Ok(None),
    };
    let public = pair.public_key();
    let number = |bytes: aws_lc_rs::io::Positive<'_>| {
        Mpint::from_positive_bytes(bytes.big_endian_without_leading_zero())
    };
    let public = RsaPublicKey::new(number(public.exponent()), number(public.modulus())).map_err(unusable)?;
    Ok(Some(Rsa { pair, public: PublicKey::new(KeyData::Rsa(public), "") }))
}

/// What stands between the first and the last line.
fn der(pem: &str) -> Result<Vec<u8>, Error> {
    let inner = pem.lines().skip(1).map(str::trim).take_while(|line| !line.starts_with("-----"));
    STANDARD.decode(inner.collect::<String>()).map_err(unusable)
}

fn unusable(error: impl std::fmt::Display) -> Error {
    Error::Key(format!(
        "{error}; it has to be an Ed25519, ECDSA or RSA key (2048 bits or more) in the format of OpenSSH, PKCS#1 or PKCS#8, \
         without a passphrase"
    ))
}

impl Rsa {
    /// OpenSSH leaves out two numbers that follow from the others.
    fn of(pair: &RsaKeypair) -> Result<Self, Error> {
        let (public, private) = (pair.public(), pair.private());
        let number = |number: &Mpint| number.as_positive_bytes().map(<[u8]>::to_vec).unwrap_or_default();
        let (d, p, q) = (number(private.d()), number(private.p()), number(private.q()));
        let less_one = |prime: &[u8]| BigUint::from_bytes_be(prime) - 1_u32;
        if [&p, &q].iter().any(|prime| less_than_two(prime)) {
            return Err(unusable("its primes are none"));
        }
        let exponent = |prime: &[u8]| (BigUint::from_bytes_be(&d) % less_one(prime)).to_bytes_be();
        let components = KeyPairComponents {
            public_key: PublicKeyComponents { n: number(public.n()), e: number(public.e()) },
            dP: exponent(&p),
            dQ: exponent(&q),
            qInv: number(private.iqmp()),
            d: d.clone(),
            p,
            q,
        };
        let pair = KeyPair::from_components(&components).map_err(unusable)?;
        Ok(Rsa { pair, public: PublicKey::new(KeyData::Rsa(public.clone()), "") })
    }

    /// The signature of a message as SSH has it: how it was made, then the signature.
    fn signature(&self, hash: Option<HashAlg>, message: &[u8]) -> Result<Vec<u8>, Unsigned> {
        let (name, padding): (&str, &'static dyn RsaEncoding) = match hash {
            Some(HashAlg::Sha256) => ("rsa-sha2-256", &RSA_PKCS1_SHA256),
            _ => ("rsa-sha2-512", &RSA_PKCS1_SHA512),
        };
        let mut signature = vec![0; self.pair.public_modulus_len()];
        let random = aws_lc_rs::rand::SystemRandom::new();
        self.pair.sign(padding, &random, message, &mut signature).map_err(|_| Unsigned::Refused)?;
        Ok([text(name.as_bytes())?, text(&signature)?].concat())
    }
}

fn less_than_two(number: &[u8]) -> bool {
    BigUint::from_bytes_be(number) < BigUint::from(2_u32)
}

/// Bytes as SSH has them: their number, then themselves.
fn text(bytes: &[u8]) -> Result<Vec<u8>, Unsigned> {
    let length = u32::try_from(bytes.len()).map_err(|_| Unsigned::Refused)?;
    Ok([&length.to_be_bytes(), bytes].concat())
}

/// Why a host was not shown the key.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unsigned {
    /// The connection is gone.
    #[error(transparent)]
    Gone(#[from] russh::SendError),
    /// The key cannot sign that.
    #[error("the key cannot sign")]
    Refused,
}

impl russh::Signer for &Rsa {
    type Error = Unsigned;

    async fn auth_sign(
        &mut self,
        _: &AgentIdentity,
        hash: Option<HashAlg>,
        mut message: Vec<u8>,
    ) -> Result<Vec<u8>, Unsigned> {
        let signature = text(&self.signature(hash, &message)?)?;
        message.extend(signature);
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA512, UnparsedPublicKey};

    use super::*;

    /// Keys of one pair in every format, made by `ssh-keygen -t rsa -b 2048 -N ''`, `-p -m PEM` and `-p -m PKCS8`.
    const FORMATS: [&str; 3] = [
        include_str!("../../testdata/rsa.openssh"),
        include_str!("../../testdata/rsa.pkcs1"),
        include_str!("../../testdata/rsa.pkcs8"),
    ];

    #[test]
    fn an_rsa_key_is_the_same_in_every_format() {
        let public = include_str!("../../testdata/rsa.pub");
        let known = public.split_whitespace().nth(1).unwrap();
        for text in FORMATS {
            let Key::Rsa(rsa) = Key::read(text).unwrap_or_else(|error| panic!("{error}: {text}")) else {
                panic!("{text}")
            };
            let shown = rsa.public.to_openssh().unwrap();
            assert_eq!(shown.split_whitespace().nth(1), Some(known), "{text}");
            let signed = rsa.signature(Some(HashAlg::Sha512), b"a message").unwrap();
            let signature = signed.strip_prefix(b"\0\0\0\x0crsa-sha2-512\0\0\x01\0").unwrap();
            let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA512, rsa.pair.public_key());
            public.verify(b"a message", signature).unwrap();
        }
    }

    #[test]
    fn other_keys_are_left_to_others() {
        for name in ["ed25519", "ecdsa"] {
            let path = format!("{}/testdata/{name}.openssh", env!("CARGO_MANIFEST_DIR"));
            let key = Key::read(&std::fs::read_to_string(path).unwrap());
            assert!(matches!(key, Ok(Key::Plain(_))), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_told() {
        let encrypted = include_str!("../../testdata/rsa.passphrase");
        let cut = &FORMATS[1][..FORMATS[1].len() / 2];
        for text in ["", "no key", encrypted, cut, "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n"] {
            let Err(error) = Key::read(text) else { panic!("{text}") };
            assert!(error.to_string().contains("without a passphrase"), "{error}");
        }
    }
}
