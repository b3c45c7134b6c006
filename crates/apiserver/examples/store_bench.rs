//! How fast the store is: `cargo run --release -p apiserver --example store_bench [directory]`.
//!
//! Durable writes of 2 KiB values with 1 and 32 writers at a time, lists of 10,000 and 50,000 of them, a list at an
//! older revision from the log, opening, and memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use apiserver::store::{Error, MemoryStore, Options, Query, Revision, Scope, SqliteStore, Store, Write};
use clock::{Clock, SystemClock};

const VALUE: usize = 2048;

fn main() -> Result<(), Error> {
    let base = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = base.join(format!("store-bench-{}", std::process::id()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let result = runtime.expect("a runtime").block_on(measure(&directory));
    // Left-overs in a temporary directory harm nobody.
    let _ = std::fs::remove_dir_all(&directory);
    result
}

async fn measure(directory: &Path) -> Result<(), Error> {
    let store: Arc<SqliteStore> = Arc::new(open(directory)?);
    for (writers, each) in [(1, 2000), (32, 400)] {
        let took = write(store.clone(), writers, each).await;
        let rate = (writers * each) as f64 / took.as_secs_f64();
        println!(
            "durable writes, {writers} at a time: {rate:.0}/s ({:.3} ms each)",
            1000.0 * writers as f64 / rate
        );
    }
    drop(store);
    std::fs::remove_dir_all(directory).map_err(|error| Error::Corrupt(error.to_string()))?;

    let store = open(directory)?;
    println!("memory, empty: {} KiB", resident());
    let before = resident();
    for (from, to) in [(0, 10_000), (10_000, 50_000)] {
        fill(&store, from, to).await?;
        let (count, took) = list(&store, None).await?;
        println!("list of {count} values: {:.2} ms", took.as_secs_f64() * 1000.0);
    }
    println!("memory, 50,000 values while writing: {} KiB more", resident() - before);
    let old = store.view().head();
    for number in 0..20_000 {
        let found = store.view().get(&key(number)).map(|found| found.modified).unwrap_or_default();
        store.write(vec![Write::update(key(number), value(), found)]).await?;
        if number == 100 {
            let (count, took) = list(&store, Some(old)).await?;
            println!("list of {count} values, 100 changes ago: {:.2} ms", took.as_secs_f64() * 1000.0);
        }
    }
    let (count, took) = list(&store, Some(old)).await?;
    println!(
        "list of {count} values, 20,000 changes ago, from the log: {:.1} ms",
        took.as_secs_f64() * 1000.0
    );
    drop(store);
    let start = SystemClock.monotonic();
    let store = open(directory)?;
    println!(
        "opening with 50,000 values: {:.0} ms",
        SystemClock.monotonic().since(start).as_secs_f64() * 1000.0
    );
    drop(store);

    let before = resident();
    let many: Vec<_> =
        (0..100).map(|_| MemoryStore::new(Options::default(), Arc::new(SystemClock))).collect();
    println!("an empty memory store: {} KiB", (resident() - before) / many.len() as i64);
    Ok(())
}

fn open(directory: &Path) -> Result<SqliteStore, Error> {
    SqliteStore::open(directory, Options::default(), Arc::new(SystemClock))
}

fn key(number: usize) -> String {
    format!("/registry/example.io/widgets/default/widget-{number:06}")
}

fn value() -> Vec<u8> {
    vec![b'x'; VALUE]
}

async fn write(store: Arc<SqliteStore>, writers: usize, each: usize) -> Duration {
    let start = SystemClock.monotonic();
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for number in 0..each {
                    let key = format!("/registry/{writers}/{writer}/{number}");
                    store.write(vec![Write::create(key, value())]).await.expect("a write");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a writer");
    }
    SystemClock.monotonic().since(start)
}

async fn fill(store: &SqliteStore, from: usize, to: usize) -> Result<(), Error> {
    for start in (from..to).step_by(500) {
        store.write((start..start + 500).map(|number| Write::create(key(number), value())).collect()).await?;
    }
    Ok(())
}

async fn list(store: &SqliteStore, at: Option<Revision>) -> Result<(usize, Duration), Error> {
    let start = SystemClock.monotonic();
    let page = store.list(Query { at, ..Query::all(Scope::prefix("/registry/example.io/widgets/")) }).await?;
    Ok((page.items.len(), SystemClock.monotonic().since(start)))
}

/// Memory of this process, in KiB.
fn resident() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
