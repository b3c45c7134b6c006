//! Servers that know each other.

use std::sync::Arc;

use clock::SeededEntropy;
use tokio::io::AsyncReadExt as _;
use tokio::task::JoinHandle;
use tunnel::hub::{Identity, Peer};
use tunnel::{Hub, Target};

use crate::world::{Way, client, first_line, hub, key, until};

fn identity(id: &str, token: &str) -> Identity {
    Identity { id: id.into(), token: token.into() }
}

/// `from` keeps a session with `to`, as `us`.
fn join(from: &Hub, to: &Hub, us: Identity) -> JoinHandle<()> {
    let peer =
        Peer { url: "wss://10.0.0.2/v3/connect".parse().expect("a URL"), transport: Arc::new(Way::to(to)) };
    let from = from.clone();
    tokio::spawn(async move {
        from.join_peer(&us, peer, Box::new(SeededEntropy::new(9))).await.expect("who we are can be said");
    })
}

#[tokio::test(start_paused = true)]
async fn a_client_of_one_server_is_reached_through_another() {
    let (one, two) = (hub(1), hub(2));
    one.trust_peer(identity("two", "secret"));
    let _before = client(&Way::to(&two), "token-of-c-before", "before");
    two.wait_for(&key("c-before")).await;
    let _join = join(&two, &one, identity("two", "secret"));
    one.wait_for(&key("c-before")).await;
    let after = client(&Way::to(&two), "token-of-c-after", "after");
    one.wait_for(&key("c-after")).await;
    for name in ["before", "after"] {
        let mut stream = one.dial(&key(&format!("c-{name}")), &Target::tcp("x")).unwrap();
        assert_eq!(first_line(&mut stream).await.unwrap(), format!("{name} tcp/x"));
    }
    assert!(one.clients().is_empty(), "they are not its own");
    let view = one.view();
    assert_eq!(view[0].clients, [key("c-after"), key("c-before")]);
    // It hears that one goes, ...
    after.abort();
    until(|| !one.has(&key("c-after"))).await;
    assert!(one.has(&key("c-before")));
    // ... and that the server itself is not to be trusted any more.
    one.distrust_peer("two");
    until(|| !one.has(&key("c-before"))).await;
}

#[tokio::test(start_paused = true)]
async fn own_sessions_come_first_and_peers_ask_once() {
    let (one, two) = (hub(1), hub(2));
    one.trust_peer(identity("two", "secret"));
    two.trust_peer(identity("one", "secret"));
    let _joins = (join(&two, &one, identity("two", "secret")), join(&one, &two, identity("one", "secret")));
    let here = client(&Way::to(&one), "token-of-c-1", "here");
    let there = client(&Way::to(&two), "token-of-c-1", "there");
    until(|| one.view().iter().any(|session| !session.clients.is_empty())).await;
    until(|| two.view().iter().any(|session| !session.clients.is_empty())).await;
    until(|| one.clients().len() == 1 && two.clients().len() == 1).await;
    let mut stream = one.dial(&key("c-1"), &Target::tcp("x")).unwrap();
    assert_eq!(first_line(&mut stream).await.unwrap(), "here tcp/x");
    here.abort();
    until(|| one.clients().is_empty()).await;
    let mut stream = one.dial(&key("c-1"), &Target::tcp("x")).unwrap();
    assert_eq!(first_line(&mut stream).await.unwrap(), "there tcp/x");
    // Neither has it: a peer that was asked does not ask back.
    there.abort();
    until(|| two.clients().is_empty()).await;
    if let Ok(mut stream) = one.dial(&key("c-1"), &Target::tcp("x")) {
        let error = stream.read_u8().await.unwrap_err().to_string();
        assert!(error.contains("failed to find Session for client c-1"), "{error}");
    }
    until(|| !one.has(&key("c-1"))).await;
}

#[tokio::test(start_paused = true)]
async fn a_stranger_is_no_peer() {
    let (one, two) = (hub(1), hub(2));
    one.trust_peer(identity("two", "secret"));
    let _client = client(&Way::to(&two), "token-of-c-1", "x");
    two.wait_for(&key("c-1")).await;
    let _joins = (join(&two, &one, identity("two", "guess")), join(&two, &one, identity("three", "secret")));
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert!(one.view().is_empty());
}
