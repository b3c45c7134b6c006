//! The ways to one cluster, and a connection by whichever there is.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::task::{Context, Poll};
use std::time::Duration;

use clock::Monotonic;
use http::Uri;
use hyper_util::rt::TokioIo;
use tunnel::{ClientKey, Target, TunnelStream};

use super::{Downstreams, Error, Inner};
use crate::Later;
use crate::credential::Hash;

/// A way that was announced has so long to come about.
const COMING: Duration = Duration::from_secs(60);

/// The ways to one cluster, by the address that is dialled at their other end.
#[derive(Clone, Debug, Default)]
pub(super) struct Ways(BTreeMap<String, Way>);

#[derive(Clone, Debug)]
struct Way {
    /// The token that its session was opened with.
    token: Hash,
    said_at: Monotonic,
}

/// Whom the session of a way belongs to: agents with one address stand in for each other, others do not.
pub(super) fn key(id: &str, address: &str) -> ClientKey {
    let readable = ClientKey::new(format!("{id}@{address}"));
    // An address that is too long, or has what a key must not have.
    let hashed = || ClientKey::new(format!("{id}@{}", Hash::of(address).short()));
    let short = || ClientKey::new(Hash::of(&format!("{id}@{address}")).short());
    readable
        .or_else(|_| hashed())
        .or_else(|_| short())
        .unwrap_or_else(|_| unreachable!("hex digits are a key"))
}

impl Ways {
    pub(super) fn add(&mut self, address: &str, token: Hash, now: Monotonic) {
        self.0.insert(address.to_owned(), Way { token, said_at: now });
    }

    /// All of them, the last one first.
    pub(super) fn all(&self, id: &str) -> Vec<(ClientKey, String)> {
        let mut all: Vec<(&String, &Way)> = self.0.iter().collect();
        all.sort_by_key(|(_, way)| std::cmp::Reverse(way.said_at));
        all.into_iter().map(|(address, _)| (key(id, address), address.clone())).collect()
    }

    /// Forgets those that are gone for good, and gives those whose token is not good any more.
    pub(super) fn sweep(
        &mut self,
        id: &str,
        now: Monotonic,
        lives: impl Fn(&ClientKey) -> bool,
        good: impl Fn(&Hash) -> bool,
    ) -> Vec<ClientKey> {
        let mut revoked = Vec::new();
        self.0.retain(|address, way| {
            let key = key(id, address);
            if !good(&way.token) {
                revoked.push(key);
                return false;
            }
            lives(&key) || now.since(way.said_at) < COMING
        });
        revoked
    }
}

/// Dials a cluster by whichever way there is; what its URL says is not looked at.
#[derive(Clone)]
pub(super) struct Through {
    pub(super) inner: Weak<Inner>,
    pub(super) id: String,
    pub(super) patience: Duration,
}

impl Through {
    async fn connect(self) -> Result<TokioIo<TunnelStream>, Error> {
        let Some(inner) = self.inner.upgrade() else { return Err(Error::NotConnected(self.id)) };
        let downstreams = Downstreams(inner);
        // Whether one came is seen when it is dialled.
        let _ = tokio::time::timeout(self.patience, downstreams.wait_for(&self.id)).await;
        for (key, address) in downstreams.live(&self.id) {
            match downstreams.0.hub.dial(&key, &Target::tcp(address)) {
                Ok(stream) => return Ok(TokioIo::new(stream)),
                Err(error) => tracing::debug!(cluster = self.id, %error, "a way is not taken"),
            }
        }
        Err(Error::NotConnected(self.id))
    }
}

impl tower::Service<Uri> for Through {
    type Response = TokioIo<TunnelStream>;
    type Error = Error;
    type Future = Later<'static, Result<Self::Response, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        Box::pin(self.clone().connect())
    }
}

#[cfg(test)]
mod tests {
    use clock::{Clock as _, ManualClock};

    use super::*;

    #[test]
    fn every_address_has_a_key() {
        assert_eq!(key("c-m-x", "10.43.0.1:443").as_str(), "c-m-x@10.43.0.1:443");
        for odd in ["[fd00::1]:443".to_owned(), format!("{}:443", "h".repeat(200))] {
            assert!(key("c-m-x", &odd).as_str().starts_with("c-m-x@"), "{odd}");
            assert_ne!(key("c-m-x", &odd), key("c-m-y", &odd));
        }
        assert_eq!(key(&"x".repeat(90), "a:1").as_str().len(), 10);
    }

    #[test]
    fn ways_come_and_go() {
        let clock = ManualClock::at(jiff::Timestamp::UNIX_EPOCH);
        let (good, bad) = (Hash::of("good"), Hash::of("bad"));
        let mut ways = Ways::default();
        for (address, token) in [("a:1", good), ("b:1", good), ("c:1", bad)] {
            ways.add(address, token, clock.monotonic());
            clock.advance(Duration::from_secs(1));
        }
        let addresses =
            |ways: &Ways| ways.all("c").into_iter().map(|(_, address)| address).collect::<Vec<_>>();
        assert_eq!(addresses(&ways), ["c:1", "b:1", "a:1"]);
        let only_a = |one: &ClientKey| *one == key("c", "a:1");
        let revoked = ways.sweep("c", clock.monotonic(), only_a, |token| *token == good);
        assert_eq!(revoked, [key("c", "c:1")]);
        assert_eq!(
            addresses(&ways),
            ["b:1", "a:1"],
            "a session that was granted a moment ago may still come"
        );
        clock.advance(COMING);
        ways.sweep("c", clock.monotonic(), only_a, |token| *token == good);
        assert_eq!(addresses(&ways), ["a:1"]);
    }
}
