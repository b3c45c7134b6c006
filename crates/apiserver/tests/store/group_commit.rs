use std::sync::Arc;

use apiserver::store::{Error, Event, Expect, Options, Revision, Scope, SqliteStore, Store, Write};
use clock::{Entropy, SeededEntropy};
use tempfile::TempDir;

use crate::support::clock;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn concurrent_writers_get_each_revision_once_and_the_log_has_them_all() {
    const WRITERS: usize = 32;
    const EACH: usize = 50;
    let directory = TempDir::new().unwrap();
    runtime().block_on(async {
        let store = Arc::new(SqliteStore::open(directory.path(), Options::default(), clock()).unwrap());
        let mut watch = store.watch(Scope::prefix(""), Revision::ZERO).unwrap();
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let store = store.clone();
                tokio::spawn(async move {
                    let mut events: Vec<Arc<Event>> = Vec::new();
                    for number in 0..EACH {
                        let write = Write::create(format!("/{writer}/{number}"), format!("{number}"));
                        let commit = store.write(vec![write]).await.unwrap();
                        // Acknowledged means readable.
                        assert!(store.view().get(&format!("/{writer}/{number}")).is_some());
                        events.extend(commit.events);
                    }
                    events
                })
            })
            .collect();
        let mut events = Vec::new();
        for writer in writers {
            events.extend(writer.await.unwrap());
        }
        events.sort_by_key(|event| event.revision);
        let revisions: Vec<i64> = events.iter().map(|event| event.revision.0).collect();
        assert_eq!(revisions, (1..=(WRITERS * EACH) as i64).collect::<Vec<_>>());
        for event in &events {
            assert_eq!(&watch.next().await.unwrap(), event);
        }
        store.check().await.unwrap();
    });
}

#[test]
fn of_many_who_swap_the_same_object_one_wins_each_round() {
    const WRITERS: i64 = 16;
    const EACH: i64 = 25;
    let directory = TempDir::new().unwrap();
    runtime().block_on(async {
        let store = Arc::new(SqliteStore::open(directory.path(), Options::default(), clock()).unwrap());
        store.write(vec![Write::create("/n", "0")]).await.unwrap();
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| {
                let store = store.clone();
                tokio::spawn(async move {
                    for _ in 0..EACH {
                        increment(&*store).await;
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
        let total = String::from_utf8(store.view().get("/n").unwrap().value().to_vec()).unwrap();
        assert_eq!(total, (WRITERS * EACH).to_string());
        assert_eq!(store.view().head(), Revision(1 + WRITERS * EACH));
    });
}

/// Adds one by compare and swap, going on from what a refusal shows.
async fn increment(store: &dyn Store) {
    let mut found = store.get("/n", None).await.unwrap().unwrap();
    loop {
        let number: i64 = std::str::from_utf8(&found.value()).unwrap().parse().unwrap();
        match store.write(vec![Write::update("/n", (number + 1).to_string(), found.modified)]).await {
            Ok(_) => return,
            Err(Error::Conflict { found: newer, .. }) => found = newer,
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn a_write_whose_client_left_is_carried_out() {
    let directory = TempDir::new().unwrap();
    runtime().block_on(async {
        let store = SqliteStore::open(directory.path(), Options::default(), clock()).unwrap();
        for number in 0..100 {
            let write = store.write(vec![Write::create(format!("/{number}"), "x")]);
            // The request is in line after the first poll; nobody waits for its answer.
            let _ = tokio::time::timeout(std::time::Duration::ZERO, write).await;
        }
        store.write(vec![Write::put("/last", "x", Expect::Anything)]).await.unwrap();
        assert_eq!(store.view().head(), Revision(101));
    });
}

#[test]
fn watches_that_come_and_go_under_load_miss_nothing() {
    const WRITES: i64 = 3000;
    let directory = TempDir::new().unwrap();
    runtime().block_on(async {
        // So few changes in memory that a watch has to read the log while it grows, and live with its small buffer.
        let options = Options { recent_events: 20, watch_buffer: 10, ..Options::default() };
        let store = Arc::new(SqliteStore::open(directory.path(), options, clock()).unwrap());
        let watchers: Vec<_> = (0..4)
            .map(|number| {
                let store = store.clone();
                tokio::spawn(async move {
                    let mut entropy = SeededEntropy::new(number);
                    let mut seen = Revision::ZERO;
                    while seen < Revision(WRITES) {
                        let mut watch = store.watch(Scope::prefix("/"), seen).unwrap();
                        for _ in 0..entropy.below(200) {
                            match watch.next().await {
                                Ok(event) => assert_eq!(event.revision, Revision(seen.0 + 1)),
                                Err(Error::Lagged { resume }) => {
                                    assert_eq!(resume, seen);
                                    break;
                                }
                                Err(other) => panic!("{other}"),
                            }
                            seen = Revision(seen.0 + 1);
                            if seen == Revision(WRITES) {
                                break;
                            }
                        }
                    }
                })
            })
            .collect();
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let store = store.clone();
                tokio::spawn(async move {
                    for number in 0..WRITES / 4 {
                        let write = Write::put(format!("/{writer}/{}", number % 10), "x", Expect::Anything);
                        store.write(vec![write]).await.unwrap();
                    }
                })
            })
            .collect();
        for task in writers.into_iter().chain(watchers) {
            task.await.unwrap();
        }
    });
}
