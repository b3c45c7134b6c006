//! Sessions that last, and sessions that do not.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tunnel::Target;
use tunnel::session::Ended;

use crate::link::Weather;
use crate::sessions::Tunnel;

const CALM: Weather = Weather { delay: Duration::from_millis(50), piece: 1 << 16, cut_after: None };

#[tokio::test(start_paused = true)]
async fn an_idle_session_lasts() {
    let tunnel = Tunnel::new(1, CALM).await;
    let mut stream = tunnel.server.open(Target::tcp("echo")).unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(tunnel.server.silent() < Duration::from_secs(6), "the client shows that it is there");
    stream.write_all(b"still here").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "still here");
}

#[tokio::test(start_paused = true)]
async fn silence_ends_both_sides_and_their_streams() {
    let tunnel = Tunnel::new(1, CALM).await;
    let mut stream = tunnel.server.open(Target::tcp("echo")).unwrap();
    stream.write_all(b"x").await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), b'x');
    tunnel.open.send_replace(false);
    assert!(matches!(tunnel.server_end.await.unwrap(), Ended::Silent(_)));
    assert!(matches!(tunnel.client_end.await.unwrap(), Ended::Silent(_)));
    let error = stream.read_u8().await.unwrap_err();
    assert_eq!(error.to_string(), "tunnel disconnect");
    assert!(tunnel.server.open(Target::tcp("echo")).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_session_is_closed_by_either_side() {
    for by_server in [true, false] {
        let tunnel = Tunnel::new(1, CALM).await;
        let mut stream = tunnel.server.open(Target::tcp("echo")).unwrap();
        if by_server {
            tunnel.server.close()
        } else {
            tunnel.client.close()
        }
        let (server, client) = (tunnel.server_end.await.unwrap(), tunnel.client_end.await.unwrap());
        let (near, far) = if by_server { (server, client) } else { (client, server) };
        assert!(matches!(near, Ended::Here), "{near:?}");
        assert!(matches!(far, Ended::There | Ended::Broken(_)), "{far:?}");
        assert!(stream.read_u8().await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_silence_is_waited_out() {
    let tunnel = Tunnel::new(1, CALM).await;
    let mut stream = tunnel.server.open(Target::tcp("echo")).unwrap();
    tunnel.open.send_replace(false);
    stream.write_all(b"y").await.unwrap();
    tokio::time::sleep(Duration::from_secs(40)).await;
    tunnel.open.send_replace(true);
    assert_eq!(stream.read_u8().await.unwrap(), b'y');
}

/// Bytes for minutes, through a socket that is always full.
#[tokio::test(start_paused = true)]
async fn a_busy_session_lasts() {
    let slow = Weather { delay: Duration::from_millis(300), piece: 1 << 16, cut_after: None };
    let tunnel = Tunnel::new(1, slow).await;
    let mut stream = tunnel.server.open(Target::tcp("source:1:40000000")).unwrap();
    let began = tokio::time::sleep(Duration::ZERO).deadline();
    let read = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.unwrap();
    assert_eq!(read, 40_000_000);
    let took = tokio::time::sleep(Duration::ZERO).deadline() - began;
    assert!(took > Duration::from_secs(150), "{took:?} is too short to show anything");
}
