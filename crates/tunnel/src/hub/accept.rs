//! Who may have a session, and the HTTP request that begins it.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode, request};
use http_body_util::Full;
use hyper_util::rt::TokioIo;

use super::{Hub, Kind, PEER_ID, PEER_TOKEN};
use crate::names::ClientKey;
use crate::serve::Later;
use crate::websocket;

/// What is thought of who asks for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is this one.
    Is(ClientKey),
    /// It is nobody that we know of.
    Nobody,
    /// It says something that cannot be; in words for it.
    Wrong(String),
}

/// Says who asks for a session.
pub trait Authorizer: Send + Sync {
    /// Who it is, by the head of its request.
    fn authorize<'a>(&'a self, head: &'a request::Parts) -> Later<'a, Verdict>;
}

/// Several authorizers: the first that knows who it is counts; if none does, the first that says what is wrong.
#[derive(Clone)]
pub struct Chain(pub Vec<Arc<dyn Authorizer>>);

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Chain of {}", self.0.len())
    }
}

impl Authorizer for Chain {
    fn authorize<'a>(&'a self, head: &'a request::Parts) -> Later<'a, Verdict> {
        Box::pin(async move {
            let mut best = Verdict::Nobody;
            for authorizer in &self.0 {
                match (authorizer.authorize(head).await, &best) {
                    (Verdict::Is(client), _) => return Verdict::Is(client),
                    (Verdict::Wrong(why), Verdict::Nobody) => best = Verdict::Wrong(why),
                    _ => {}
                }
            }
            best
        })
    }
}

impl Hub {
    /// Answers a request for a session. If it is granted, the session is kept by a task of its own once the connection is
    /// upgraded; the codes of refusals are those of Go's implementation.
    pub async fn answer<B>(&self, request: Request<B>, authorizer: &dyn Authorizer) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let (client, kind) = match self.peer(&head) {
            Some(peer) => (peer, Kind::Peer),
            None => match authorizer.authorize(&head).await {
                Verdict::Is(client) => (client, Kind::Client),
                Verdict::Nobody => return refusal(StatusCode::UNAUTHORIZED, "failed authentication"),
                Verdict::Wrong(why) => return refusal(StatusCode::BAD_REQUEST, &why),
            },
        };
        let mut request = Request::from_parts(head, body);
        let Some(answer) = websocket::accept(&request) else {
            return refusal(StatusCode::BAD_REQUEST, "a websocket has to be asked for");
        };
        let upgrade = hyper::upgrade::on(&mut request);
        let hub = self.clone();
        tokio::spawn(async move {
            match upgrade.await {
                Ok(upgraded) => {
                    let socket = websocket::serve(TokioIo::new(upgraded)).await;
                    hub.keep(client, kind, socket).await;
                }
                Err(error) => tracing::info!(client = client.as_str(), "no websocket came about: {error}"),
            }
        });
        answer.map(|()| Full::default())
    }

    /// The peer that this is, if it can prove it.
    fn peer(&self, head: &request::Parts) -> Option<ClientKey> {
        let header = |name| head.headers.get(name)?.to_str().ok();
        let (id, token) = (header(PEER_ID)?, header(PEER_TOKEN)?);
        let registry = self.registry();
        let known = registry.peers.get(id)?;
        same(known.as_bytes(), token.as_bytes()).then(|| ClientKey::new(id).ok()).flatten()
    }
}

fn refusal(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text.to_owned()));
    *response.status_mut() = status;
    response
}

/// Equality that takes as long for a nearly right token as for a wrong one.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |seen, (one, other)| seen | (one ^ other)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Says(Verdict);

    impl Authorizer for Says {
        fn authorize<'a>(&'a self, _: &'a request::Parts) -> Later<'a, Verdict> {
            Box::pin(async { self.0.clone() })
        }
    }

    #[tokio::test]
    async fn the_first_that_knows_counts() {
        let is = |name: &str| Verdict::Is(ClientKey::new(name).unwrap());
        let wrong = |why: &str| Verdict::Wrong(why.into());
        let head = Request::new(()).into_parts().0;
        for (said, verdict) in [
            (vec![], Verdict::Nobody),
            (vec![Verdict::Nobody, is("a"), is("b")], is("a")),
            (vec![wrong("x"), is("a")], is("a")),
            (vec![wrong("x"), Verdict::Nobody, wrong("y")], wrong("x")),
        ] {
            let chain =
                Chain(said.into_iter().map(|one| Arc::new(Says(one)) as Arc<dyn Authorizer>).collect());
            assert_eq!(chain.authorize(&head).await, verdict);
        }
    }

    #[test]
    fn tokens_are_equal_or_not() {
        assert!(same(b"abc", b"abc") && same(b"", b""));
        assert!(!same(b"abc", b"abd") && !same(b"abc", b"ab"));
    }
}
