//! A disk that fails for a while: what is refused is refused wholly, and the store goes on afterwards.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use apiserver::store::{Error, Expect, Options, SqliteStore, Store, Write};
use clock::SystemClock;
use tempfile::TempDir;

use super::record::{Record, Recorder};
use crate::support::runtime;

const ROOT: &str = "STORE_FAULTS_ROOT";
const TRANSACTIONS: u64 = 60;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

fn open(root: &Path) -> Result<SqliteStore, Error> {
    // Compaction takes its part.
    let options = Options { history_bytes: 20_000, ..Options::default() };
    SqliteStore::open(&root.join("data"), options, Arc::new(SystemClock))
}

/// The two halves of a transaction, of which the last one that was acknowledged has to be there.
fn transaction(number: u64) -> Vec<Write> {
    let value = format!("{number} {}", "x".repeat((number * 577) as usize % 3000));
    ["/first", "/second"].map(|key| Write::put(key, value.clone(), Expect::Anything)).into()
}

fn found(store: &SqliteStore) -> [u64; 2] {
    let view = store.view();
    ["/first", "/second"].map(|key| view.get(key).map_or(0, |found| super::work::number(&found.value())))
}

#[test]
#[ignore = "child process: one that the test below gives a failing disk"]
fn victim() {
    // Somebody runs all ignored tests.
    let Ok(root) = std::env::var(ROOT) else { return };
    let root = Path::new(&root);
    let mut last = 0;
    runtime().block_on(async {
        let store = open(root).unwrap();
        let mut head = 0;
        for number in 1..=TRANSACTIONS {
            match store.write(transaction(number)).await {
                Ok(commit) => {
                    assert_eq!(commit.revision.0, head + 2, "revisions are dense, also after a failure");
                    (last, head) = (number, commit.revision.0);
                }
                Err(Error::DiskFull | Error::Storage { .. }) => {
                    std::fs::write(root.join("said"), "refused").unwrap()
                }
                Err(other) => panic!("{other}"),
            }
            assert_eq!(found(&store), [last, last]);
            if number % 20 == 0 {
                let trimmed = store.trim(clock::Clock::now(&SystemClock)).await;
                assert!(
                    matches!(trimmed, Ok(_) | Err(Error::DiskFull | Error::Storage { .. })),
                    "{trimmed:?}"
                );
            }
        }
        store.check().await.unwrap();
    });
    // It opens as soon as the disk works again.
    let store = (0..100).find_map(|_| open(root).ok()).expect("a store");
    assert_eq!(found(&store), [last, last]);
    runtime().block_on(store.check()).unwrap();
}

fn run(recorder: &Recorder, faults: &str) -> Vec<Record> {
    let root = TempDir::new().unwrap();
    let path = root.path().canonicalize().unwrap();
    let mut victim = Command::new(std::env::current_exe().unwrap());
    victim.args(["power::faults::victim", "--exact", "--ignored", "--test-threads=1"]);
    victim.env(ROOT, &path).env("RECORD_FAIL", faults);
    recorder.run(victim, &path)
}

#[test]
fn a_disk_that_fails_for_a_while_is_survived() {
    let recorder = Recorder::new();
    let sound = run(&recorder, "0 0 0");
    let acts = |records: &[Record]| {
        let is_act = |record: &&Record| {
            matches!(record, Record::Write { .. } | Record::Cut { .. } | Record::Sync { .. })
        };
        records.iter().filter(is_act).count()
    };
    let first_write = sound.iter().position(
        |record| matches!(record, Record::MakeFile { path, .. } if path.ends_with("herdsman.db-wal")),
    );
    // The store has to be made before it can survive anything: from its first write on.
    let (from, to) = (acts(&sound[..first_write.unwrap()]) + 60, acts(&sound));
    let mut refusals = 0;
    for (round, first) in (from..to).step_by((to - from) / 24).enumerate() {
        let (count, error) = ([1, 3, 30][round % 3], [EIO, ENOSPC][round % 2]);
        let records = run(&recorder, &format!("{first} {count} {error}"));
        refusals += u32::from(records.iter().any(|record| matches!(record, Record::Said(_))));
    }
    assert!(refusals >= 12, "the faults were hardly noticed: {refusals} times");
}
