//! Many watchers, few writes: how long an event is on its way.

use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clock::{Clock, Monotonic, SystemClock};
use serde_json::Value;
use tokio::task::JoinSet;

use super::contestant::{get, good, request};
use super::objects::{Kind, Numbers, Objects};
use super::pairs::quantile;
use super::watches::Watches;
use crate::client::{Server, Session};

/// Watchers, and how many of them share a connection: as many as kube-apiserver lets.
const WATCHERS: usize = 1000;
const SHARED_BY: usize = 100;
/// Between two writes.
const PAUSE: Duration = Duration::from_millis(100);
/// Writes that are not counted: everything is being done for the first time.
const WARM_UP: usize = 5;
/// Objects that are written in turn.
const OBJECTS: usize = 10;
/// The number of objects before the first write.
const UNUSED: usize = 99_999_999;
/// How long the last events may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// When each write was sent.
type Sent = Arc<Vec<OnceLock<Monotonic>>>;

/// Writes for a while, and gives the milliseconds from sending a write to the arrival of its event that 99 of 100
/// events do not exceed.
pub(super) async fn latency(
    server: &Server,
    objects: &Objects,
    kind: Kind,
    namespace: &str,
    writes: usize,
) -> Result<f64> {
    let writer = Session::new(server.clone());
    let path = kind.path(namespace);
    for number in 0..OBJECTS {
        // A number that is never written later: a write that changes nothing is no event.
        let body = objects.make(kind, &name(number), UNUSED);
        // They are there from the second round on.
        writer.send(&request("POST", &path, body)).await?;
    }
    let from = revision(&writer, &path).await?;
    let total = writes + WARM_UP;
    let sent: Sent = Arc::new((0..total).map(|_| OnceLock::new()).collect());
    let mut watchers = watchers(server, &format!("{path}?watch=1&resourceVersion={from}"), &sent).await?;
    for number in 0..total {
        tokio::time::sleep(PAUSE).await;
        write(&writer, objects, kind, &path, number, &sent).await?;
    }
    let mut all = Vec::new();
    while let Some(latencies) = tokio::time::timeout(PATIENCE, watchers.join_next()).await? {
        all.extend(latencies.context("a watcher failed")??);
    }
    ensure!(all.len() == writes * WATCHERS, "{} events of {}", all.len(), writes * WATCHERS);
    let at = |share| quantile(&all, share);
    eprintln!("events: p50 {:.2} p90 {:.2} p99 {:.2} most {:.2} ms", at(0.5), at(0.9), at(0.99), at(1.0));
    Ok(at(0.99))
}

fn name(number: usize) -> String {
    format!("watched-{}", number % OBJECTS)
}

async fn revision(session: &Session, path: &str) -> Result<String> {
    let answer = session.send(&get(&format!("{path}?limit=1"))).await?;
    let list: Value = serde_json::from_slice(&answer.body)?;
    Ok(list["metadata"]["resourceVersion"].as_str().context("no revision")?.to_owned())
}

async fn write(
    writer: &Session,
    objects: &Objects,
    kind: Kind,
    path: &str,
    number: usize,
    sent: &Sent,
) -> Result<()> {
    let path = format!("{path}/{}", name(number));
    let mut object: Value = serde_json::from_slice(&objects.make(kind, &name(number), number))?;
    if kind == Kind::Custom {
        // Custom resources are only updated by who knows what is there.
        let there: Value = serde_json::from_slice(&writer.send(&get(&path)).await?.body)?;
        object["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"].clone();
    }
    let request = request("PUT", &path, object.to_string().into());
    let _ = sent[number].set(SystemClock.monotonic());
    good(&writer.send(&request).await?)
}

/// Watchers that see everything that will be written. Each connection ends when its watches have.
async fn watchers(server: &Server, path: &str, sent: &Sent) -> Result<JoinSet<Result<Vec<f64>>>> {
    let mut watchers = JoinSet::new();
    for _ in 0..WATCHERS / SHARED_BY {
        let watches = Watches::open(server, path, SHARED_BY).await?;
        watchers.spawn(follow(watches, sent.clone()));
    }
    Ok(watchers)
}

/// The milliseconds that each event took.
async fn follow(mut watches: Watches, sent: Sent) -> Result<Vec<f64>> {
    let (mut latencies, mut left) = (Vec::with_capacity(SHARED_BY * sent.len()), SHARED_BY * sent.len());
    let mut numbers = Numbers::default();
    while left > 0 {
        watches
            .events(|event, now| {
                let number = numbers.of(event).context("an event without a number")?;
                let begin = sent.get(number).and_then(OnceLock::get).context("an event of no write")?;
                left -= 1;
                if number >= WARM_UP {
                    latencies.push(now.since(*begin).as_secs_f64() * 1000.0);
                }
                Ok(())
            })
            .await?;
    }
    Ok(latencies)
}
