//! Whom an agent takes for its server: the server says on the plan Secret which authorities it has, the agent says there which ones
//! it trusts. Both say it by the SHA-256 of what `/cacerts` answers, in hex.

use sha2::{Digest as _, Sha256};

/// Annotation, the server's: the authorities that agents should trust.
pub const WANTED: &str = "herdsman.io/server-ca";
/// Annotation, the agent's: the authorities that it trusts.
pub const TRUSTED: &str = "herdsman.io/trusted-ca";

/// The checksum of certificates in PEM: as `/cacerts` answers them, with a line's end after the last. Empty without any.
pub fn checksum(pem: &[u8]) -> String {
    if pem.trim_ascii().is_empty() {
        return String::new();
    }
    let mut hash = Sha256::new();
    hash.update(pem);
    if !pem.ends_with(b"\n") {
        hash.update(b"\n");
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_lines_end_does_not_count() {
        assert_eq!(checksum(b"PEM"), checksum(b"PEM\n"));
        assert_ne!(checksum(b"PEM"), checksum(b"PEN"));
        assert_eq!(checksum(b" \n"), "");
    }
}
