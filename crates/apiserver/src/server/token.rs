//! Continue tokens: where a list goes on, bound to the revision it started at.

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::{DecodeError, Engine};
use kubeapi::Status;
use serde::{Deserialize, Serialize};

use crate::store::Revision;

/// As upstream writes it: clients do not look inside, but people do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Token {
    v: String,
    rv: i64,
    start: String,
}

impl Token {
    /// A token to go on after `key`, one of those below `prefix`.
    pub(super) fn after(key: &str, prefix: &str, revision: Revision) -> Self {
        let relative = key.strip_prefix(prefix).unwrap_or(key);
        Token { v: "meta.k8s.io/v1".into(), rv: revision.0, start: format!("{relative}\0") }
    }

    pub(super) fn encode(&self) -> String {
        serde_json::to_vec(self).map(|bytes| URL_SAFE_NO_PAD.encode(bytes)).unwrap_or_default()
    }

    pub(super) fn decode(text: &str) -> Result<Self, Status> {
        let refuse = |why: &str| Status::bad_request(format!("invalid continue token: {why}"));
        let wrong = |error: DecodeError| {
            let at = match error {
                DecodeError::InvalidByte(at, _) => at,
                _ => text.len(),
            };
            refuse(&format!("continue key is not valid: illegal base64 data at input byte {at}"))
        };
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(wrong)?;
        let token: Token = serde_json::from_slice(&bytes).map_err(|error| match bytes.first() {
            // As Go says it; what is JSON but no token is nobody's work.
            Some(byte) if *byte != b'{' => {
                let letter = char::from(*byte);
                refuse(&format!(
                    "continue key is not valid: invalid character '{letter}' looking for beginning of value"
                ))
            }
            _ => refuse(&format!("continue key is not valid: {error}")),
        })?;
        if token.v != "meta.k8s.io/v1" {
            let why = "continue key is not valid: server does not recognize this encoded version";
            return Err(refuse(&format!("{why} {}", token.v)));
        }
        if token.rv == 0 {
            return Err(refuse(
                "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ));
        }
        if token.start.is_empty() {
            return Err(refuse(
                "continue key is not valid: encoded start key empty (version meta.k8s.io/v1)",
            ));
        }
        Ok(token)
    }

    /// The revision of the list; none if the client agreed to an inconsistent rest.
    pub(super) fn revision(&self) -> Option<Revision> {
        (self.rv > 0).then_some(Revision(self.rv))
    }

    /// The last key that was given.
    pub(super) fn key(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.start.trim_end_matches('\0'))
    }

    /// The same place, at whatever revision is the newest.
    pub(super) fn inconsistent(&self) -> Self {
        Token { rv: -1, ..self.clone() }
    }
}
