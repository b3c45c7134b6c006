//! Bytes through the network.

use std::io;
use std::time::Duration;

use clock::{Entropy as _, SeededEntropy};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;
use tunnel::mux::Limits;
use tunnel::{Session, Target};

use crate::link::Weather;
use crate::places::byte;
use crate::sessions::Tunnel;

/// Waits a little, or not, so that tasks run in another order for every seed.
async fn dawdle(entropy: &mut SeededEntropy) {
    match entropy.below(8) {
        0 => tokio::time::sleep(Duration::from_millis(entropy.below(30).into())).await,
        1 | 2 => tokio::task::yield_now().await,
        _ => {}
    }
}

/// Sends bytes there and back; an error if the tunnel said one, a panic if it lied.
async fn echo(session: Session, stream: u64, length: u64, seed: u64) -> io::Result<()> {
    let tunnelled = session.open(Target::tcp("echo")).map_err(io::Error::other)?;
    let (mut from, mut to) = tokio::io::split(tunnelled);
    let writing = async {
        let mut entropy = SeededEntropy::new(seed ^ stream);
        let mut at = 0;
        while at < length {
            let most = u64::from(entropy.below(20_000)) + 1;
            let piece: Vec<u8> = (at..length.min(at + most)).map(|at| byte(stream, at)).collect();
            to.write_all(&piece).await?;
            at += piece.len() as u64;
            dawdle(&mut entropy).await;
        }
        to.shutdown().await
    };
    let reading = async {
        let mut entropy = SeededEntropy::new(seed ^ stream ^ 0xff);
        expect(&mut from, stream, length, &mut entropy).await
    };
    tokio::try_join!(writing, reading).map(|_| ())
}

/// Reads exactly these bytes and then the end.
async fn expect(
    from: &mut (impl tokio::io::AsyncRead + Unpin),
    stream: u64,
    length: u64,
    entropy: &mut SeededEntropy,
) -> io::Result<()> {
    let mut buffer = vec![0; 10_000];
    let mut at = 0;
    loop {
        let most = entropy.below(10_000) as usize + 1;
        match from.read(&mut buffer[..most]).await? {
            0 => break,
            read => {
                for &got in &buffer[..read] {
                    assert_eq!(got, byte(stream, at), "stream {stream} at {at}");
                    at += 1;
                }
            }
        }
        dawdle(entropy).await;
    }
    assert_eq!(at, length, "stream {stream}: an end before all bytes");
    Ok(())
}

async fn source(session: Session, stream: u64, length: u64, seed: u64) -> io::Result<()> {
    let target = Target::tcp(format!("source:{stream}:{length}"));
    let mut tunnelled = session.open(target).map_err(io::Error::other)?;
    expect(&mut tunnelled, stream, length, &mut SeededEntropy::new(seed ^ stream)).await
}

async fn run(seed: u64) {
    let weather = Weather::of(seed);
    let tunnel = Tunnel::new(seed, weather).await;
    let mut entropy = SeededEntropy::new(seed + 1000);
    let mut streams = JoinSet::new();
    for stream in 0..u64::from(entropy.below(12)) + 1 {
        let length = u64::from(entropy.below(60_000));
        let session = tunnel.server.clone();
        match entropy.below(2) {
            0 => streams.spawn(echo(session, stream, length, seed)),
            _ => streams.spawn(source(session, stream, length, seed)),
        };
        dawdle(&mut entropy).await;
    }
    while let Some(ended) = streams.join_next().await {
        let result = ended.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let may_fail = weather.cut_after.is_some();
        assert!(may_fail || result.is_ok(), "seed {seed}: {result:?}");
    }
    tunnel.forgets().await;
}

#[tokio::test(start_paused = true)]
async fn bytes_arrive_once_and_in_order_or_there_is_an_error() {
    for seed in 0..60 {
        let took = tokio::time::timeout(Duration::from_secs(3600), run(seed)).await;
        assert!(took.is_ok(), "seed {seed} hangs");
    }
}

#[tokio::test(start_paused = true)]
async fn one_stalled_reader_stops_nobody_else() {
    let tunnel = Tunnel::new(1, Weather { piece: 1 << 16, ..Weather::default() }).await;
    // Nobody reads this one here, ...
    let unread = tunnel.server.open(Target::tcp("source:1:100000000")).unwrap();
    // ... and nobody that one over there.
    let mut unwritten = tunnel.server.open(Target::tcp("stuck")).unwrap();
    let filling = async {
        loop {
            unwritten.write_all(&[0; 8192]).await.unwrap();
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(60), filling).await.is_err(), "its writer waits");
    for stream in 0..5 {
        echo(tunnel.server.clone(), stream, 300_000, 1).await.unwrap();
    }
    let limits = Limits::default();
    for session in [&tunnel.server, &tunnel.client] {
        let totals = session.totals();
        assert!(totals.most_unsent <= limits.unsent, "{totals:?}");
        // Above the mark comes only what was on the way: here little.
        assert!(totals.most_unread <= limits.pause_above + (1 << 20), "{totals:?}");
    }
    // And both can still be used and left.
    drop((unread, unwritten));
    tunnel.forgets().await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_dialled_is_an_error_of_that_stream() {
    let tunnel = Tunnel::new(1, Weather { piece: 1000, ..Weather::default() }).await;
    for (address, words) in
        [("refuse", "dial tcp/refuse: connection refused"), ("denied", "connect not allowed")]
    {
        let mut stream = tunnel.server.open(Target::tcp(address)).unwrap();
        let error = stream.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (io::ErrorKind::ConnectionReset, words));
        assert_eq!(stream.write(b"x").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
    echo(tunnel.server.clone(), 1, 1000, 1).await.unwrap();
    tunnel.forgets().await;
}

#[tokio::test(start_paused = true)]
async fn the_client_may_dial_nothing_at_the_server() {
    let tunnel = Tunnel::new(1, Weather { piece: 1000, ..Weather::default() }).await;
    let mut stream = tunnel.client.open(Target::tcp("echo")).unwrap();
    let error = stream.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(error.to_string(), "connect not allowed");
    drop(stream);
    echo(tunnel.server.clone(), 1, 1000, 1).await.unwrap();
    tunnel.forgets().await;
}
