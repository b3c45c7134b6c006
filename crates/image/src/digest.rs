//! Content addresses: the SHA-256 of what is meant.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// Not a digest that can be checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a digest: sha256: and 64 lower-case hexadecimal digits are expected")]
pub struct Error(String);

/// `sha256:<64 hexadecimal digits>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Digest(String);

impl Digest {
    /// The digest of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::default();
        hasher.update(bytes);
        hasher.finish()
    }

    /// The digits, without the algorithm.
    pub fn hex(&self) -> &str {
        &self.0
    }
}

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let hex = text.strip_prefix("sha256:").filter(|hex| hex.len() == 64);
        let hex = hex.filter(|hex| hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));
        hex.map(|hex| Digest(hex.to_owned())).ok_or_else(|| Error(text.to_owned()))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

/// Computes a digest piece by piece.
#[derive(Default)]
pub(crate) struct Hasher(Sha256);

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> Digest {
        let hex = self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Digest(hex)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_nothing_is_known() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").to_string(), empty);
        assert_eq!(empty.parse(), Ok(Digest::of(b"")));
    }

    #[test]
    fn other_spellings_are_refused() {
        let digest = Digest::of(b"x").to_string();
        let upper = digest.to_uppercase().replace("SHA256", "sha256");
        for wrong in [&digest[7..], &digest[..70], &upper, &digest.replace("256:", "512:"), "sha256:../../x"]
        {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }
}
