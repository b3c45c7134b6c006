//! Clients that behave badly, each under a name of its own; in a process of their own, behind everybody else in the queue
//! for the processors: they are to cost what the server does for them, not what they take of its machine.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::task::JoinSet;

use crate::MAPS;
use crate::connection::{Connection, Kind};
use crate::server::Server;

/// Requests that a flood has under way at once.
const FLOOD: usize = 200;
/// Answers that the client that does not read has asked for.
const UNREAD: usize = 100;
/// Bodies that are sent at once.
const BODIES: usize = 4;

/// What was done, by what came of it.
#[derive(Debug, Default)]
struct Counts {
    answered: AtomicU64,
    turned_away: AtomicU64,
    bodies: AtomicU64,
}

/// The process in which it happens.
pub(crate) struct Mischief(Child);

impl Mischief {
    /// Begins it.
    pub(crate) fn begin(server: &Server) -> anyhow::Result<Self> {
        let mut command = Command::new("chrt");
        command.args(["--idle", "0"]).arg(std::env::current_exe()?).arg("mischief").arg(server.kubeconfig());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(stdout) = &mut child.stdout {
            // It has begun when it says so.
            let mut byte = [0];
            while stdout.read(&mut byte)? > 0 && byte != *b"\n" {
                line.push(char::from(byte[0]));
            }
        }
        anyhow::ensure!(line == "begun", "mischief says {line:?}");
        Ok(Mischief(child))
    }

    /// Ends it; says what there was.
    pub(crate) fn end(mut self) -> anyhow::Result<String> {
        drop(self.0.stdin.take());
        let mut said = String::new();
        if let Some(stdout) = &mut self.0.stdout {
            stdout.read_to_string(&mut said)?;
        }
        self.0.wait()?;
        Ok(said.trim().to_owned())
    }
}

/// What that process does, until nobody listens to it any more.
pub(crate) async fn commit(server: &Server) -> anyhow::Result<()> {
    let (mut tasks, counts) = (JoinSet::new(), Arc::<Counts>::default());
    let flood = Arc::new(server.connect(Kind::Usual).await?);
    for number in 0..FLOOD {
        tasks.spawn(flooding(flood.clone(), number, counts.clone()));
    }
    let stuck = server.connect(Kind::Narrow).await?;
    tasks.spawn(not_reading(stuck));
    let huge = Arc::new(server.connect(Kind::Usual).await?);
    for _ in 0..BODIES {
        tasks.spawn(huge_bodies(huge.clone(), counts.clone()));
    }
    println!("begun");
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let Counts { answered, turned_away, bodies } = &*counts;
    println!("flood={} turned_away={} bodies={}", get(answered), get(turned_away), get(bodies));
    Ok(())
}

/// As fast as it goes; being told to come back later makes no difference, but for the network's sake.
async fn flooding(connection: Arc<Connection>, number: usize, counts: Arc<Counts>) {
    for round in number.. {
        let url = if round % 10 == 0 { MAPS.to_owned() } else { format!("{MAPS}/m{}", round % 500) };
        match connection.ask("flood", "GET", &url, "".into()).await {
            Ok(429) => {
                counts.turned_away.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Ok(_) => drop(counts.answered.fetch_add(1, Ordering::Relaxed)),
            Err(_) => return,
        }
    }
}

/// Asks for watches and long lists, and reads none of them.
async fn not_reading(connection: Connection) {
    let mut unread = Vec::new();
    for number in 0..UNREAD {
        let url = if number % 2 == 0 { format!("{MAPS}?watch=1") } else { MAPS.to_owned() };
        unread.extend(connection.send("stuck", "GET", &url, "".into()).await.ok());
    }
    std::future::pending().await
}

/// Bodies of the most bytes that are read, of more than that, and of what is no JSON in the end.
async fn huge_bodies(connection: Arc<Connection>, counts: Arc<Counts>) {
    let map = json!({"metadata": {"name": "huge"}, "data": {"k": "x".repeat(3 << 20)}}).to_string();
    let most = &map[..3 << 20];
    let bodies: [Bytes; 2] = [map.clone().into(), most.to_owned().into()];
    for body in bodies.iter().cycle() {
        if connection.ask("huge", "POST", MAPS, body.clone()).await.is_ok() {
            counts.bodies.fetch_add(1, Ordering::Relaxed);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
