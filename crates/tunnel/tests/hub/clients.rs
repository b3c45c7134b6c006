//! Clients and their sessions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clock::{RuntimeClock, SeededEntropy};
use jiff::Timestamp;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tunnel::Target;
use tunnel::client::Client;
use tunnel::hub::Unreachable;
use tunnel::serve::Nothing;
use tunnel::session::Settings;
use tunnel::websocket::Error;

use crate::world::{Way, client, first_line, hello, hub, key, until};

#[tokio::test(start_paused = true)]
async fn a_client_is_reached_by_its_key() {
    let hub = hub(1);
    let target = Target::tcp("10.0.0.1:443");
    assert_eq!(hub.dial(&key("c-1"), &target).unwrap_err(), Unreachable::NoSession(key("c-1")));
    let way = Way::to(&hub);
    let (_one, _two) = (client(&way, "token-of-c-1", "one"), client(&way, "token-of-c-2", "two"));
    hub.wait_for(&key("c-1")).await;
    hub.wait_for(&key("c-2")).await;
    assert_eq!(hub.clients(), [key("c-1"), key("c-2")]);
    let mut stream = hub.dial(&key("c-2"), &target).unwrap();
    assert_eq!(first_line(&mut stream).await.unwrap(), "two tcp/10.0.0.1:443");
    stream.write_all(b"hello").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "hello");
}

#[tokio::test(start_paused = true)]
async fn who_is_refused_hears_why() {
    let hub = hub(1);
    let connect = async |token: &str| {
        let mut client = Client {
            transport: Arc::new(Way::to(&hub)),
            handler: Arc::new(Nothing),
            settings: Settings::default(),
            clock: Arc::new(RuntimeClock::starting_at(Timestamp::UNIX_EPOCH)),
            entropy: Box::new(SeededEntropy::new(1)),
        };
        client.once(&hello(token), &mut |_| {}).await
    };
    for (token, status, words) in
        [("stolen", 401, "failed authentication"), ("token-of-a/b", 400, "a client key must have")]
    {
        match connect(token).await {
            Err(Error::Refused { status: code, message }) => {
                assert!(code == status && message.starts_with(words), "{code} {message}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn streams_are_spread_over_sessions_and_fail_over() {
    let hub = hub(1);
    let (way_one, way_two) = (Way::to(&hub), Way::to(&hub));
    let one = client(&way_one, "token-of-c-1", "one");
    let _two = client(&way_two, "token-of-c-1", "two");
    until(|| hub.view().len() == 2).await;
    let mut streams = Vec::new();
    let mut counts = BTreeMap::new();
    for _ in 0..10 {
        let mut stream = hub.dial(&key("c-1"), &Target::tcp("x")).unwrap();
        let said = first_line(&mut stream).await.unwrap();
        *counts.entry(said).or_insert(0) += 1;
        streams.push(stream);
    }
    assert_eq!(counts, BTreeMap::from([("one tcp/x".into(), 5), ("two tcp/x".into(), 5)]));
    // One of them goes away: its streams end, new ones go to the other.
    way_one.set_open(false);
    one.abort();
    until(|| hub.view().len() == 1).await;
    let mut ended = 0;
    for mut stream in streams {
        ended += u32::from(stream.write_all(b"x").await.is_err());
    }
    assert_eq!(ended, 5);
    for _ in 0..3 {
        let mut stream = hub.dial(&key("c-1"), &Target::tcp("x")).unwrap();
        assert_eq!(first_line(&mut stream).await.unwrap(), "two tcp/x");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_comes_back() {
    let hub = hub(1);
    let way = Way::to(&hub);
    let _client = client(&way, "token-of-c-1", "one");
    hub.wait_for(&key("c-1")).await;
    way.set_open(false);
    hub.disconnect(&key("c-1"));
    until(|| !hub.has(&key("c-1"))).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    way.set_open(true);
    hub.wait_for(&key("c-1")).await;
    let mut stream = hub.dial(&key("c-1"), &Target::tcp("x")).unwrap();
    assert_eq!(first_line(&mut stream).await.unwrap(), "one tcp/x");
}

#[tokio::test(start_paused = true)]
async fn what_is_going_on_can_be_seen() {
    let hub = hub(1);
    let _client = client(&Way::to(&hub), "token-of-c-1", "one");
    hub.wait_for(&key("c-1")).await;
    let mut stream = hub.dial(&key("c-1"), &Target::tcp("x:1")).unwrap();
    first_line(&mut stream).await.unwrap();
    stream.write_all(b"hello").await.unwrap();
    stream.read_exact(&mut [0; 5]).await.unwrap();
    let view = serde_json::to_value(hub.view()).unwrap();
    assert_eq!(view[0]["client"], "c-1");
    assert_eq!(view[0]["kind"], "client");
    assert_eq!(view[0]["streams"][0]["target"]["address"], "x:1");
    assert_eq!(view[0]["streams"][0]["sent"], 5);
    let metrics = || {
        let (mut registry, mut text) = (Registry::default(), String::new());
        registry.register_collector(Box::new(hub.clone()));
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    };
    let now = metrics();
    for line in [
        "herdsman_tunnel_sessions 1",
        "herdsman_tunnel_peer_sessions 0",
        "herdsman_tunnel_streams 1",
        "herdsman_tunnel_streams_opened_total 1",
        "herdsman_tunnel_sent_bytes_total 5",
    ] {
        assert!(now.lines().any(|said| said == line), "{line} in\n{now}");
    }
    hub.disconnect(&key("c-1"));
    until(|| metrics().contains("\nherdsman_tunnel_sessions 0\n")).await;
    assert!(metrics().contains("\nherdsman_tunnel_sent_bytes_total 5\n"), "sessions that are over count on");
}
