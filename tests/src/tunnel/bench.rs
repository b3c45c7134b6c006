//! The same load through our tunnel, Go's, and a plain TLS websocket for each connection: programs of the same shape, one
//! after the other in short rounds, so that a noisy machine is as noisy for all.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use clock::{Clock as _, Deadline, SystemClock};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::places::{place, receive, send, visit};
use super::program::{Maker, Programs, Running, Server};
use super::tls::Files;

const KEY: &str = "c-bench";
/// Connections at once that open streams.
const OPENERS: usize = 16;
/// What a small request has, both ways.
const SMALL: usize = 128;
/// Requests before the clock runs.
const WARM: usize = 20;
/// A stream that goes on for longer than anything is measured.
const ENDLESS: u64 = 1 << 50;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Bytes of a long transfer.
    pub bytes: u64,
    /// How often everything is measured; the median counts.
    pub rounds: usize,
    /// How long what is counted or timed goes on.
    pub time: Duration,
}

impl Plan {
    /// A first impression.
    pub const QUICK: Plan = Plan { bytes: 256 << 20, rounds: 1, time: Duration::from_secs(2) };
    /// The bars are for this one.
    pub const WHOLE: Plan = Plan { bytes: 1 << 30, rounds: 3, time: Duration::from_secs(5) };
}

/// One contestant, running.
struct Tunnel {
    server: Server,
    _client: Running,
    place: SocketAddr,
}

impl Tunnel {
    async fn start(maker: Maker, programs: &Programs, tls: &Files, place: SocketAddr) -> Result<Self> {
        let server = programs.server(maker, tls, &[])?;
        let client = programs.client(maker, &server, KEY)?;
        let tunnel = Tunnel { server, _client: client, place };
        // The first byte through it.
        tunnel.request(&mut tunnel.visit("echo").await?).await?;
        Ok(tunnel)
    }

    async fn visit(&self, word: &str) -> Result<TcpStream> {
        visit(&self.server.forward, KEY, self.place, word).await
    }

    async fn request(&self, stream: &mut TcpStream) -> Result<()> {
        let mut answer = [0; SMALL];
        stream.write_all(&[7; SMALL]).await?;
        stream.read_exact(&mut answer).await.context("an answer")?;
        Ok(())
    }

    /// Megabytes a second from behind the tunnel.
    async fn download(&self, bytes: u64) -> Result<f64> {
        let mut stream = self.visit(&format!("source {bytes}")).await?;
        let began = SystemClock.monotonic();
        receive(&mut stream, bytes).await?;
        Ok(rate(bytes, SystemClock.monotonic().since(began)))
    }

    /// Megabytes a second to behind the tunnel.
    async fn upload(&self, bytes: u64) -> Result<f64> {
        let mut stream = self.visit(&format!("sink {bytes}")).await?;
        let began = SystemClock.monotonic();
        send(&mut stream, bytes).await?;
        stream.read_u8().await.context("all arrived")?;
        Ok(rate(bytes, SystemClock.monotonic().since(began)))
    }

    /// Streams a second: opened, asked, answered, closed.
    async fn streams(self: Arc<Self>, time: Duration) -> Result<f64> {
        let done = Arc::new(AtomicU64::new(0));
        let deadline = Deadline::after(&SystemClock, time);
        let began = SystemClock.monotonic();
        let mut openers = JoinSet::new();
        for _ in 0..OPENERS {
            let (tunnel, done) = (self.clone(), done.clone());
            openers.spawn(async move {
                while !deadline.passed(&SystemClock) {
                    tunnel.request(&mut tunnel.visit("echo").await?).await?;
                    done.fetch_add(1, Ordering::Relaxed);
                }
                anyhow::Ok(())
            });
        }
        while let Some(opener) = openers.join_next().await {
            opener??;
        }
        Ok(done.load(Ordering::Relaxed) as f64 / SystemClock.monotonic().since(began).as_secs_f64())
    }

    /// The 99th of a hundred small requests, in milliseconds, while another stream is as fast as it can.
    async fn small_beside_large(&self, time: Duration) -> Result<f64> {
        let mut large = self.visit(&format!("source {ENDLESS}")).await?;
        let large = tokio::spawn(async move { receive(&mut large, ENDLESS).await });
        let mut stream = self.visit("echo").await?;
        for _ in 0..WARM {
            self.request(&mut stream).await?;
        }
        let deadline = Deadline::after(&SystemClock, time);
        let mut times = Vec::new();
        while !deadline.passed(&SystemClock) {
            let began = SystemClock.monotonic();
            self.request(&mut stream).await?;
            times.push(SystemClock.monotonic().since(began).as_secs_f64() * 1000.0);
        }
        large.abort();
        times.sort_by(f64::total_cmp);
        times.get(times.len() * 99 / 100).copied().context("no request was answered")
    }

    /// The most bytes of one stream that ever waited to be sent or read at the server; of ours only.
    async fn most_waiting(&self) -> Result<(u64, u64)> {
        let mut stream = TcpStream::connect(&self.server.forward).await?;
        stream.write_all(b"view\n").await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        let view: serde_json::Value = serde_json::from_str(&text)?;
        let most = |name: &str| view[0]["totals"][name].as_u64().context("the hub's view");
        Ok((most("mostUnsent")?, most("mostUnread")?))
    }
}

fn rate(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / 1e6 / time.as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// What is measured, in this order.
const MEASURED: [(&str, &str); 4] =
    [("download", "MB/s"), ("upload", "MB/s"), ("streams", "/s"), ("small_beside_large_p99", "ms")];
const MAKERS: [Maker; 3] = [Maker::Ours, Maker::Go, Maker::Raw];

/// Measures, and says each result in a line `measured <name> herdsman=<number> go=<number> raw=<number> <unit>`.
pub async fn run(programs: &Programs, plan: Plan, mut say: impl FnMut(String)) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let tls = Files::make(scratch.path())?;
    let place = place().await?;
    let mut results = vec![vec![Vec::new(); MAKERS.len()]; MEASURED.len()];
    let mut waiting = (0, 0);
    for round in 0..plan.rounds {
        for (maker_index, maker) in MAKERS.into_iter().enumerate() {
            let tunnel = Arc::new(Tunnel::start(maker, programs, &tls, place).await?);
            let values = [
                tunnel.download(plan.bytes).await?,
                tunnel.upload(plan.bytes).await?,
                tunnel.clone().streams(plan.time).await?,
                tunnel.small_beside_large(plan.time).await?,
            ];
            if maker == Maker::Ours {
                let (unsent, unread) = tunnel.most_waiting().await?;
                waiting = (waiting.0.max(unsent), waiting.1.max(unread));
            }
            for (measured, value) in values.into_iter().enumerate() {
                say(format!("round {} {} {} {value:.2}", round + 1, MEASURED[measured].0, maker.name()));
                results[measured][maker_index].push(value);
            }
        }
    }
    for ((name, unit), values) in MEASURED.into_iter().zip(results) {
        let values = MAKERS
            .iter()
            .zip(values)
            .map(|(maker, values)| format!("{}={:.2}", maker.name(), median(values)));
        say(format!("measured {name} {} {unit}", values.collect::<Vec<_>>().join(" ")));
    }
    say(format!("waiting unsent={} unread={}", waiting.0, waiting.1));
    Ok(())
}
