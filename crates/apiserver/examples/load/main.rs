//! Good clients beside bad ones: how long requests of 50 clients take with 1,000 watches open, alone and beside a
//! flood, a client that does not read, and one that sends huge bodies.
//!
//! `load <herdsman> [seconds of each phase]` prints one line for each phase and one with the ratio; so does
//! `load --kubeconfig <file> [seconds]` for a server that runs already.

mod connection;
mod mischief;
mod server;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use clock::{Clock, SystemClock};
use http_body_util::BodyExt;
use serde_json::json;
use tokio::task::JoinSet;

use connection::{Connection, Kind};
use mischief::Mischief;
use server::Server;

const CLIENTS: usize = 50;
const WATCHES: usize = 1_000;
/// kube-apiserver allows no more requests on one connection.
const WATCHES_PER_CONNECTION: usize = 100;
/// Each client asks about as often as a busy controller does.
const PAUSE: Duration = Duration::from_millis(200);
/// An answer that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(20);
/// Of so many requests one writes: ten writes a second, all of them told to all watches.
const WRITES_ONE_IN: usize = 25;
/// What is there to be read.
const OBJECTS: usize = 500;

const MAPS: &str = "/api/v1/namespaces/load/configmaps";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (server, rest) = match words.as_slice() {
        ["mischief", kubeconfig] => return mischief::commit(&Server::of(Path::new(kubeconfig))?).await,
        ["--kubeconfig", file, rest @ ..] => (Server::of(Path::new(file))?, rest),
        [program, rest @ ..] => (Server::start(Path::new(program))?, rest),
        [] => anyhow::bail!("which herdsman?"),
    };
    let seconds = rest.first().map_or(Ok(10), |text| text.parse())?;
    let phase = Duration::from_secs(seconds);
    prepare(&server).await?;
    let mut watches = watch(&server).await?;
    // The first requests pay for connections and caches.
    good(&server, Duration::from_secs(2)).await?;
    let alone = good(&server, phase).await?;
    report("alone", &alone);
    let mischief = Mischief::begin(&server)?;
    let beside = good(&server, phase).await?;
    report("beside", &beside);
    println!("mischief {}", mischief.end()?);
    ensure!(watches.try_join_next().is_none(), "a good watch ended");
    println!("ratio {:.3}", percentile(&beside, 99) / percentile(&alone, 99));
    Ok(())
}

fn report(name: &str, milliseconds: &[f64]) {
    let at = |percent| percentile(milliseconds, percent);
    println!("{name} requests={} p50={:.2} p99={:.2} ms", milliseconds.len(), at(50), at(99));
}

/// Of sorted values.
fn percentile(values: &[f64], percent: usize) -> f64 {
    let index = (values.len() * percent / 100).min(values.len().saturating_sub(1));
    values.get(index).copied().unwrap_or(f64::NAN)
}

fn map(name: &str) -> String {
    json!({"metadata": {"name": name}, "data": {"k": "x".repeat(500)}}).to_string()
}

/// Rights for everybody here, and something to read.
async fn prepare(server: &Server) -> anyhow::Result<()> {
    let admin = server.connect(Kind::Usual).await?;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({
        "metadata": {"name": "load"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}],
    });
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": {"name": "load"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "load"},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": "load"}],
    });
    let namespace = json!({"metadata": {"name": "load"}});
    for (url, body) in [
        (format!("{rbac}/clusterroles"), role),
        (format!("{rbac}/clusterrolebindings"), binding),
        ("/api/v1/namespaces".into(), namespace),
    ] {
        let code = admin.ask("", "POST", &url, body.to_string().into()).await?;
        ensure!(code == 201, "{url}: {code}");
    }
    for number in 0..OBJECTS {
        admin.ask("", "POST", MAPS, map(&format!("m{number}")).into()).await?;
    }
    Ok(())
}

/// Opens all watches, and keeps reading them.
async fn watch(server: &Server) -> anyhow::Result<JoinSet<()>> {
    let mut watches = JoinSet::new();
    let list = server.connect(Kind::Usual).await?.get(&format!("{MAPS}?limit=1")).await?;
    let head = list["metadata"]["resourceVersion"].as_str().context("a list has a revision")?.to_owned();
    for first in (0..WATCHES).step_by(WATCHES_PER_CONNECTION) {
        let connection = Arc::new(server.connect(Kind::Usual).await?);
        for number in first..(first + WATCHES_PER_CONNECTION).min(WATCHES) {
            // From one change on: what is there already is not what is measured.
            let url = format!("{MAPS}?watch=1&resourceVersion={head}&timeoutSeconds=3600");
            let response = connection.send(&format!("watcher-{number}"), "GET", &url, "".into()).await?;
            ensure!(response.status() == 200, "a watch: {}", response.status());
            let (mut body, connection) = (response.into_body(), connection.clone());
            watches.spawn(async move {
                while let Some(Ok(_)) = body.frame().await {}
                drop(connection);
            });
        }
    }
    Ok(watches)
}

/// What the good clients do; gives how long each request took, sorted.
async fn good(server: &Server, phase: Duration) -> anyhow::Result<Vec<f64>> {
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let connection = server.connect(Kind::Usual).await?;
        clients.spawn(client(connection, number, phase));
    }
    let mut all = Vec::new();
    while let Some(took) = clients.join_next().await {
        all.extend(took??);
    }
    all.sort_by(f64::total_cmp);
    Ok(all)
}

async fn client(connection: Connection, number: usize, phase: Duration) -> anyhow::Result<Vec<f64>> {
    let (user, begun) = (format!("good-{number}"), SystemClock.monotonic());
    // Not all at the same moment.
    tokio::time::sleep(PAUSE.mul_f64(number as f64 / CLIENTS as f64)).await;
    let mut took = Vec::new();
    for round in number.. {
        let started = SystemClock.monotonic();
        if started.since(begun) > phase {
            break;
        }
        let one = format!("{MAPS}/m{}", (round * 7) % OBJECTS);
        let (method, url, body) = match round % WRITES_ONE_IN {
            0 => ("PUT", one, map(&format!("m{}", (round * 7) % OBJECTS))),
            1..=3 => ("GET", format!("{MAPS}?limit=20"), String::new()),
            _ => ("GET", one, String::new()),
        };
        let answer = connection.ask(&user, method, &url, body.into());
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        let code = answer.with_context(|| format!("{user}: {method} {url} is not answered"))??;
        ensure!(code == 200, "{user}: {code}");
        let elapsed = SystemClock.monotonic().since(started);
        took.push(elapsed.as_secs_f64() * 1000.0);
        tokio::time::sleep(PAUSE.saturating_sub(elapsed)).await;
    }
    Ok(took)
}
