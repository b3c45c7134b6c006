//! Values that only who has the key can read.
//!
//! The file holds them sealed with AES-256-GCM; the cache in memory holds them plain. Sealing happens where rows are
//! written and read, so that the log, the present and every backup are covered and no reader above the store has to
//! know. Plain in memory, because the key is in the same memory: hiding values from who reads that would hide nothing,
//! and every list would have to decrypt.
//!
//! What is sealed is bound to its key in the store and to its revision: moved to another object, or put in the place of
//! a later value, it does not open.
//!
//! **Nonces** are 96 random bits. With one key, 2^32 values may be sealed before two nonces are alike with a probability
//! worth speaking of (2^-32, NIST SP 800-38D): 136 a second for a year. Whoever writes more rotates more often.

mod keyring;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use aws_lc_rs::aead::{Aad, NONCE_LEN, Nonce};
use clock::{Entropy, SystemEntropy};

pub use keyring::{BadKeys, Key, Keyring};

use super::{Revision, Scope};

/// What is sealed, and with which keys.
pub struct Seal {
    keys: ArcSwap<Keyring>,
    scopes: Vec<Scope>,
    entropy: Mutex<Box<dyn Entropy>>,
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal").field("keys", &*self.keys.load()).field("scopes", &self.scopes).finish()
    }
}

impl Default for Seal {
    /// Nothing is sealed, and nothing can be opened.
    fn default() -> Self {
        Seal::new(Keyring::default(), Vec::new(), Box::new(SystemEntropy))
    }
}

/// Why a value does not open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("there is no key {0}")]
    NoKey(Arc<str>),
    #[error("the value of {key} does not open with key {id}")]
    Damaged { key: Arc<str>, id: Arc<str> },
}

/// A sealed value, and the key that opens it.
#[derive(Debug)]
pub(super) struct Sealed {
    pub(super) id: Arc<str>,
    pub(super) value: Vec<u8>,
}

impl Seal {
    /// Seals the values of all keys in `scopes` with the first key of the ring; opens what any of them has sealed.
    pub fn new(keys: Keyring, scopes: Vec<Scope>, entropy: Box<dyn Entropy>) -> Self {
        Seal { keys: ArcSwap::from_pointee(keys), scopes, entropy: Mutex::new(entropy) }
    }

    /// Which keys' values are sealed.
    pub(super) fn scopes(&self) -> &[Scope] {
        &self.scopes
    }

    pub(super) fn keys(&self) -> Arc<Keyring> {
        self.keys.load_full()
    }

    /// Seals with the first of these from now on. Keys that are not among them still open what is there: reads may be
    /// under way that need them.
    pub(super) fn adopt(&self, keys: &Keyring) {
        let next = keys.followed_by(&self.keys.load());
        self.keys.store(Arc::new(next));
    }

    /// The key that a value is to be sealed with; none if it is to be kept as it is.
    pub(super) fn wanted(&self, key: &str) -> Option<Key> {
        let is_covered = self.scopes.iter().any(|scope| scope.contains(key));
        self.keys.load().first().filter(|_| is_covered).cloned()
    }

    /// The value as the file is to have it; none if that is as it is.
    pub(super) fn seal(&self, key: &str, revision: Revision, value: &[u8]) -> Option<Sealed> {
        let with = self.wanted(key)?;
        let value = with.seal(&context(key, revision), value, self.nonce());
        Some(Sealed { id: with.id().clone(), value })
    }

    /// The value of a row, with the key that the row names.
    pub(super) fn open(
        &self,
        id: Option<Arc<str>>,
        key: &Arc<str>,
        revision: Revision,
        value: Vec<u8>,
    ) -> Result<Vec<u8>, Unreadable> {
        let Some(id) = id else { return Ok(value) };
        let keys = self.keys.load();
        let with = keys.get(&id).ok_or_else(|| Unreadable::NoKey(id.clone()))?;
        let opened = with.open(&context(key, revision), value);
        opened.ok_or_else(|| Unreadable::Damaged { key: key.clone(), id })
    }

    /// What only the owner of a key can make: shows later whether a key is the same one.
    pub(super) fn proof(&self, of: &Key) -> Vec<u8> {
        of.seal(PROOF, &[], self.nonce())
    }

    fn nonce(&self) -> Nonce {
        let mut bytes = [0; NONCE_LEN];
        self.entropy.lock().unwrap_or_else(PoisonError::into_inner).fill(&mut bytes);
        Nonce::assume_unique_for_key(bytes)
    }
}

/// Whether a proof was made with this key.
pub(super) fn proves(key: &Key, proof: Vec<u8>) -> bool {
    key.open(PROOF, proof).is_some()
}

const PROOF: &[u8] = b"herdsman proof of key";

/// What a sealed value is bound to.
fn context(key: &str, revision: Revision) -> Vec<u8> {
    [b"herdsman value 1\0", &revision.0.to_le_bytes()[..], key.as_bytes()].concat()
}

fn aad(context: &[u8]) -> Aad<&[u8]> {
    Aad::from(context)
}

#[cfg(test)]
mod tests {
    use clock::SeededEntropy;

    use super::*;

    fn key(id: &str, byte: u8) -> Key {
        Key::new(id, &[byte; 32]).unwrap()
    }

    fn seal(keys: Vec<Key>) -> Seal {
        Seal::new(Keyring::new(keys), vec![Scope::prefix("/s/")], Box::new(SeededEntropy::new(1)))
    }

    fn open(seal: &Seal, sealed: &Sealed, key: &str, revision: i64) -> Result<Vec<u8>, Unreadable> {
        seal.open(Some(sealed.id.clone()), &key.into(), Revision(revision), sealed.value.clone())
    }

    #[test]
    fn a_value_opens_only_in_its_place() {
        let seal = seal(vec![key("a", 1)]);
        let sealed = seal.seal("/s/x", Revision(7), b"secret").unwrap();
        assert!(!sealed.value.windows(6).any(|window| window == b"secret"));
        assert_eq!(open(&seal, &sealed, "/s/x", 7).unwrap(), b"secret");
        for (key, revision) in [("/s/y", 7), ("/s/x", 8)] {
            let damaged = Unreadable::Damaged { key: key.into(), id: "a".into() };
            assert_eq!(open(&seal, &sealed, key, revision), Err(damaged));
        }
    }

    #[test]
    fn every_bit_counts() {
        let seal = seal(vec![key("a", 1)]);
        let sealed = seal.seal("/s/x", Revision(7), b"secret").unwrap();
        for bit in 0..sealed.value.len() * 8 {
            let mut value = sealed.value.clone();
            value[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&seal, &Sealed { id: "a".into(), value }, "/s/x", 7).is_err(), "bit {bit}");
        }
        for length in 0..sealed.value.len() {
            let value = sealed.value[..length].to_vec();
            assert!(open(&seal, &Sealed { id: "a".into(), value }, "/s/x", 7).is_err(), "length {length}");
        }
    }

    #[test]
    fn the_first_key_seals_and_all_open() {
        let old = seal(vec![key("a", 1)]);
        let sealed = old.seal("/s/x", Revision(1), b"1").unwrap();
        let both = seal(vec![key("b", 2), key("a", 1)]);
        assert_eq!(open(&both, &sealed, "/s/x", 1).unwrap(), b"1");
        assert_eq!(&*both.seal("/s/x", Revision(2), b"2").unwrap().id, "b");
        let new = seal(vec![key("b", 2)]);
        assert_eq!(open(&new, &sealed, "/s/x", 1), Err(Unreadable::NoKey("a".into())));
        old.adopt(&Keyring::new(vec![key("b", 2)]));
        assert_eq!(&**old.wanted("/s/x").unwrap().id(), "b");
        assert_eq!(open(&old, &sealed, "/s/x", 1).unwrap(), b"1");
    }

    #[test]
    fn what_is_not_covered_stays_as_it_is() {
        assert!(seal(vec![key("a", 1)]).seal("/t/x", Revision(1), b"1").is_none());
        assert!(Seal::default().seal("/s/x", Revision(1), b"1").is_none());
    }

    #[test]
    fn a_proof_tells_keys_of_one_name_apart() {
        let seal = seal(vec![key("a", 1)]);
        let proof = seal.proof(&key("a", 1));
        assert!(proves(&key("a", 1), proof.clone()));
        assert!(!proves(&key("a", 2), proof));
    }

    #[test]
    fn nonces_differ() {
        let seal = seal(vec![key("a", 1)]);
        let nonces =
            (0..1000).map(|_| seal.seal("/s/x", Revision(1), b"1").unwrap().value[..NONCE_LEN].to_vec());
        assert_eq!(nonces.collect::<std::collections::BTreeSet<_>>().len(), 1000);
    }
}
