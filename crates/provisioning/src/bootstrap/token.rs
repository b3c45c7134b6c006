//! The token that a server introduces itself with: one machine's, and not for long.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest as _, Sha256};

/// How long tokens are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// Whether they end at all.
    pub enabled: bool,
    /// Unused.
    pub unused: SignedDuration,
    /// After they were last used.
    pub used: SignedDuration,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Lifetimes {
            enabled: true,
            unused: SignedDuration::from_mins(30),
            used: SignedDuration::from_secs(30),
        }
    }
}

/// What a token is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worth {
    /// Good for ever.
    Unlimited,
    /// Good until then.
    Until(Timestamp),
    /// No longer good: mark it so.
    Ended,
}

/// What a token is worth, made at `created` and last used at `accessed`.
pub fn worth(lifetimes: Lifetimes, created: Timestamp, accessed: Option<Timestamp>, now: Timestamp) -> Worth {
    if !lifetimes.enabled {
        return Worth::Unlimited;
    }
    let unused = created.saturating_add(lifetimes.unused).unwrap_or(created);
    let used = accessed.map(|accessed| accessed.saturating_add(lifetimes.used).unwrap_or(accessed));
    let end = used.map_or(unused, |used| used.min(unused));
    if now >= end { Worth::Ended } else { Worth::Until(end) }
}

/// What stands in the script for an account's token: its hash, so that the script does not hold the account's own.
pub fn introduction(account_token: &[u8]) -> String {
    URL_SAFE.encode(Sha256::digest(account_token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_ends_half_an_hour_old_or_half_a_minute_after_its_use() {
        let at = |text: &str| -> Timestamp { format!("2026-01-01T{text}Z").parse().unwrap() };
        let worth = |accessed: Option<&str>, now| {
            worth(Lifetimes::default(), at("10:00:00"), accessed.map(at), at(now))
        };
        assert_eq!(worth(None, "10:29:59"), Worth::Until(at("10:30:00")));
        assert_eq!(worth(None, "10:30:00"), Worth::Ended);
        assert_eq!(worth(Some("10:05:00"), "10:05:29"), Worth::Until(at("10:05:30")));
        assert_eq!(worth(Some("10:05:00"), "10:05:30"), Worth::Ended);
        assert_eq!(
            worth(Some("10:29:50"), "10:29:59"),
            Worth::Until(at("10:30:00")),
            "use does not prolong it"
        );
        let for_ever = Lifetimes { enabled: false, ..Default::default() };
        assert_eq!(super::worth(for_ever, at("10:00:00"), None, at("20:00:00")), Worth::Unlimited);
    }

    #[test]
    fn the_script_holds_a_hash() {
        assert_eq!(introduction(b"token"), "PEaenWxYddN6Q_NT1PiOYfz4EsZu7jRXRlpAsNpBU-A=");
    }
}
