use std::fmt;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clock::Entropy;

use super::aad;

/// The bytes of a key.
const KEY_LEN: usize = 32;

/// What the file says of itself.
const HEADING: &str = "# Keys that encrypt values in herdsman.db. The first one writes, all of them read.
# Without this file what they encrypted is lost: keep a copy apart from the database.
";

/// Why a text is no keyring.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKeys {
    /// A line is not a name and 32 bytes in base64.
    #[error("line {0} is not \"<name> <32 bytes in base64>\"")]
    Line(usize),
    /// Two keys have one name.
    #[error("there are two keys {0}")]
    Twice(String),
    /// There is no key at all.
    #[error("there is no key in it")]
    Empty,
}

/// A key with the name that values carry.
#[derive(Clone)]
pub struct Key {
    id: Arc<str>,
    bytes: [u8; KEY_LEN],
    cipher: Arc<LessSafeKey>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&self.id).finish()
    }
}

impl Key {
    /// A key of these bytes; none if they are not 32.
    pub fn new(id: &str, bytes: &[u8]) -> Option<Self> {
        let cipher = UnboundKey::new(&AES_256_GCM, bytes).ok()?;
        let cipher = Arc::new(LessSafeKey::new(cipher));
        Some(Key { id: id.into(), bytes: bytes.try_into().ok()?, cipher })
    }

    /// A new key.
    pub fn generate(id: &str, entropy: &mut dyn Entropy) -> Self {
        let mut bytes = [0; KEY_LEN];
        entropy.fill(&mut bytes);
        let key = Key::new(id, &bytes);
        key.expect("a key of AES-256 has 32 bytes")
    }

    /// Its name.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// The nonce, the sealed value and its tag.
    pub(super) fn seal(&self, context: &[u8], value: &[u8], nonce: Nonce) -> Vec<u8> {
        let mut sealed = Vec::with_capacity(NONCE_LEN + value.len() + AES_256_GCM.tag_len());
        sealed.extend_from_slice(nonce.as_ref());
        sealed.extend_from_slice(value);
        let tag = self.cipher.seal_in_place_separate_tag(nonce, aad(context), &mut sealed[NONCE_LEN..]);
        let tag = tag.expect("AES-GCM seals any value below 64 GiB");
        sealed.extend_from_slice(tag.as_ref());
        sealed
    }

    /// What [`Key::seal`] was given; none if this is not what it gave for the same context.
    pub(super) fn open(&self, context: &[u8], mut sealed: Vec<u8>) -> Option<Vec<u8>> {
        let nonce = Nonce::try_assume_unique_for_key(sealed.get(..NONCE_LEN)?).ok()?;
        let plain = self.cipher.open_in_place(nonce, aad(context), sealed.get_mut(NONCE_LEN..)?).ok()?.len();
        sealed.truncate(NONCE_LEN + plain);
        sealed.drain(..NONCE_LEN);
        Some(sealed)
    }
}

/// Keys in order: the first one seals, all of them open.
#[derive(Clone, Debug, Default)]
pub struct Keyring(Vec<Key>);

impl Keyring {
    /// These keys.
    pub fn new(keys: Vec<Key>) -> Self {
        Keyring(keys)
    }

    /// Reads the text of a key file: a name and 32 bytes in base64 on each line, beside empty ones and comments.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, BadKeys> {
        let lines = (1..).zip(text.lines().map(str::trim));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let mut keys = Keyring::default();
        for (number, line) in lines {
            let key = parse_line(line).ok_or(BadKeys::Line(number))?;
            if keys.get(&key.id).is_some() {
                return Err(BadKeys::Twice(key.id.to_string()));
            }
            keys.0.push(key);
        }
        if keys.0.is_empty() { Err(BadKeys::Empty) } else { Ok(keys) }
    }

    /// The text of the key file.
    pub fn render(&self) -> String {
        let lines = self.0.iter().map(|key| format!("{} {}\n", key.id, STANDARD.encode(key.bytes)));
        std::iter::once(HEADING.to_owned()).chain(lines).collect()
    }

    /// The key that seals.
    pub fn first(&self) -> Option<&Key> {
        self.0.first()
    }

    /// The key of a name.
    pub fn get(&self, id: &str) -> Option<&Key> {
        self.0.iter().find(|key| &*key.id == id)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Key> {
        self.0.iter()
    }

    /// Whether the two are the same keys in the same order.
    pub fn is_same(&self, other: &Keyring) -> bool {
        let bytes = |ring: &Keyring| ring.0.iter().map(|key| (key.id.clone(), key.bytes)).collect::<Vec<_>>();
        bytes(self) == bytes(other)
    }

    /// These keys, then those of `others` that have other names.
    pub fn followed_by(&self, others: &Keyring) -> Keyring {
        let more = others.0.iter().filter(|key| self.get(&key.id).is_none());
        Keyring(self.0.iter().chain(more).cloned().collect())
    }
}

fn parse_line(line: &str) -> Option<Key> {
    let (id, bytes) = line.split_once(char::is_whitespace)?;
    Key::new(id, &STANDARD.decode(bytes.trim()).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_reads_what_it_wrote() {
        let keys = ["b", "a"].map(|id| Key::new(id, id.repeat(32).as_bytes()).unwrap());
        let ring = Keyring::new(keys.to_vec());
        let read = Keyring::parse(&ring.render()).unwrap();
        assert!(read.is_same(&ring));
        assert_eq!(&**read.first().unwrap().id(), "b");
    }

    #[test]
    fn what_is_no_key_is_told_with_its_line() {
        let good = STANDARD.encode([7; 32]);
        let short = STANDARD.encode([7; 31]);
        for (text, expected) in [
            (String::new(), BadKeys::Empty),
            ("# only\n\n".into(), BadKeys::Empty),
            (format!("# keys\na {good}\nb {short}\n"), BadKeys::Line(3)),
            (format!("a {good}\nb"), BadKeys::Line(2)),
            (format!("a {good}\nb !!!!"), BadKeys::Line(2)),
            (format!("a {good}\na {good}"), BadKeys::Twice("a".into())),
        ] {
            assert_eq!(Keyring::parse(&text).unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn keys_do_not_show_themselves() {
        let ring = Keyring::new(vec![Key::new("a", &[65; 32]).unwrap()]);
        assert_eq!(format!("{ring:?}"), "Keyring([Key(\"a\")])");
    }
}
