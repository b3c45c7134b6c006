//! Who is who: streams, sessions, clients, and what is dialled.

use std::fmt;

/// A stream within its session. The side that dials chooses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct StreamId(pub i64);

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One of the sessions that a client has. The side that accepted it chooses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct SessionKey(pub i64);

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A name that cannot be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} must have 1 to {most} bytes and neither \"/\" nor \"::\" in it")]
pub struct InvalidName {
    /// What it would name.
    what: &'static str,
    /// How long it may be.
    most: usize,
}

/// Who a session belongs to, as dialling names it: `c-m-abcdefgh`, `stv-cluster-c-m-abcdefgh`, a peer's id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct ClientKey(String);

impl ClientKey {
    /// An announcement is read up to 100 bytes: the key, a slash and a session's key of up to 20.
    const LONGEST: usize = 79;

    /// A key that can travel.
    ///
    /// # Errors
    /// If it is empty, too long, or would be taken apart on the way.
    pub fn new(key: impl Into<String>) -> Result<Self, InvalidName> {
        let key = key.into();
        let fits = !key.is_empty() && key.len() <= Self::LONGEST;
        match fits && !key.contains('/') && !key.contains(PREFIX_END) {
            true => Ok(ClientKey(key)),
            false => Err(InvalidName { what: "a client key", most: Self::LONGEST }),
        }
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What stands between a client's key and the protocol when a peer is asked to dial.
const PREFIX_END: &str = "::";

/// What a stream leads to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Target {
    /// `tcp`, `unix`; for a peer `<client key>::tcp`.
    pub proto: String,
    /// `host:port`, a path.
    pub address: String,
}

impl Target {
    /// Receivers read no more of a target than this, slash included.
    pub const LONGEST: usize = 266;

    /// A TCP address.
    pub fn tcp(address: impl Into<String>) -> Self {
        Target { proto: "tcp".into(), address: address.into() }
    }

    /// Whether it arrives as it is.
    pub(crate) fn fits(&self) -> bool {
        self.proto.len() + 1 + self.address.len() <= Self::LONGEST && !self.proto.contains('/')
    }

    /// The same for a peer, which has a session of that client.
    #[must_use]
    pub fn through(&self, client: &ClientKey) -> Self {
        Target { proto: format!("{client}{PREFIX_END}{}", self.proto), address: self.address.clone() }
    }

    /// What a peer is asked for: whose session, and what to dial there.
    pub fn split_client(&self) -> Option<(ClientKey, Target)> {
        let (client, proto) = self.proto.split_once(PREFIX_END)?;
        let target = Target { proto: proto.to_owned(), address: self.address.clone() };
        Some((ClientKey::new(client).ok()?, target))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.proto, self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_can_travel() {
        for good in ["c-m-abcdefgh", "stv-cluster-c-m-1", "c-x:m-1", "10.0.0.1", &"k".repeat(79)] {
            assert!(ClientKey::new(good).is_ok(), "{good}");
        }
        for bad in ["", "a/b", "a::b", &"k".repeat(80)] {
            let error = ClientKey::new(bad).unwrap_err().to_string();
            assert!(error.starts_with("a client key must have 1 to 79 bytes"), "{error}");
        }
    }

    #[test]
    fn a_peer_is_asked_for_a_client_and_a_target() {
        let client = ClientKey::new("c-1").unwrap();
        let target = Target::tcp("10.0.0.1:443");
        let asked = target.through(&client);
        assert_eq!(asked.to_string(), "c-1::tcp/10.0.0.1:443");
        assert_eq!(asked.split_client(), Some((client, target.clone())));
        assert_eq!(target.split_client(), None);
    }
}
