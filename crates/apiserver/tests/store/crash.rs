//! A process that writes is killed without warning, again and again: what it acknowledged is there.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use apiserver::store::{Expect, Options, Revision, SqliteStore, Store, Write};
use clock::{Entropy, SeededEntropy, SystemClock};
use tempfile::TempDir;

const DIRECTORY: &str = "STORE_CRASH_DIRECTORY";
const ROUNDS: &str = "STORE_CRASH_ROUNDS";
const WRITERS: u64 = 8;

fn open(directory: &Path) -> SqliteStore {
    // Small enough limits that compaction takes its part in the work.
    let options = Options { history_bytes: 200_000, ..Options::default() };
    SqliteStore::open(directory, options, Arc::new(SystemClock)).unwrap()
}

#[test]
#[ignore = "not a test: the process that the test below starts and kills"]
fn victim() {
    // Somebody runs all ignored tests.
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Arc::new(open(Path::new(&directory)));
        let mut work: Vec<_> =
            (0..WRITERS).map(|writer| tokio::spawn(write(store.clone(), writer))).collect();
        work.push(tokio::spawn(async move {
            loop {
                store.trim(clock::Clock::now(&SystemClock)).await.unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }));
        for part in work {
            part.await.unwrap();
        }
    });
}

/// Two keys that always change together, the second one deleted on every fifth change. Each change says its number
/// when it is acknowledged.
async fn write(store: Arc<SqliteStore>, writer: u64) {
    let (first, second) = (format!("/{writer}/first"), format!("/{writer}/second"));
    let start = store.view().get(&first).map_or(0, |found| number(&found.value));
    for next in start + 1.. {
        let filler = "x".repeat(next as usize % 3000);
        let pair = match next % 5 {
            0 => Write::delete(second.clone(), Expect::Anything),
            _ => Write::put(second.clone(), format!("{next} {filler}"), Expect::Anything),
        };
        let transaction = vec![Write::put(first.clone(), format!("{next} {filler}"), Expect::Anything), pair];
        let commit = store.write(transaction).await.unwrap();
        let line = format!("acknowledged {writer} {next} {}\n", commit.revision);
        std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
    }
}

fn number(value: &[u8]) -> u64 {
    std::str::from_utf8(value).unwrap().split(' ').next().unwrap().parse().unwrap()
}

/// Lets a victim work for a while and kills it. Gives each writer's last acknowledged number, and the last revision.
fn kill_one(directory: &Path, after: Duration) -> (BTreeMap<u64, u64>, Revision) {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["crash::victim", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let output = BufReader::new(victim.stdout.take().unwrap());
    let killer = std::thread::spawn(move || {
        std::thread::sleep(after);
        victim.kill().unwrap();
        victim.wait().unwrap()
    });
    let mut last = BTreeMap::new();
    let mut newest = Revision::ZERO;
    for line in output.lines() {
        let line = line.unwrap();
        // The test harness begins the first line with words of its own.
        let Some((_, numbers)) = line.split_once("acknowledged ") else { continue };
        // The kill may tear the last line.
        let numbers: Vec<i64> = numbers.split(' ').filter_map(|word| word.parse().ok()).collect();
        if let [writer, next, revision] = numbers[..] {
            last.insert(writer.unsigned_abs(), next.unsigned_abs());
            newest = newest.max(Revision(revision));
        }
    }
    let status = killer.join().unwrap();
    assert!(!status.success(), "the victim ended by itself");
    (last, newest)
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_half_there() {
    let rounds: u32 = std::env::var(ROUNDS).map_or(30, |rounds| rounds.parse().expect("a number of rounds"));
    let directory = TempDir::new().unwrap();
    let mut entropy = SeededEntropy::new(u64::from(rounds));
    let mut acknowledged = BTreeMap::new();
    let mut newest = Revision::ZERO;
    let runtime = crate::support::runtime();
    for round in 0..rounds {
        // Often while it starts, often in full work.
        let (last, revision) =
            kill_one(directory.path(), Duration::from_millis(u64::from(entropy.below(150))));
        acknowledged.extend(last);
        newest = newest.max(revision);
        let store = open(directory.path());
        runtime.block_on(store.check()).unwrap();
        let view = store.view();
        assert!(view.head() >= newest, "round {round}: head {} below {newest}", view.head());
        for (writer, said) in &acknowledged {
            let value = |key: &str| view.get(&format!("/{writer}/{key}")).map(|found| number(&found.value));
            let found = value("first").unwrap_or(0);
            // The one that was under way may be there, but then with both its halves.
            assert!(found == *said || found == said + 1, "round {round}: {found}, acknowledged {said}");
            assert_eq!(value("second"), (found % 5 != 0).then_some(found), "round {round}");
        }
        // Numbers that were found count as acknowledged from now on.
        for writer in 0..WRITERS {
            if let Some(found) = view.get(&format!("/{writer}/first")) {
                acknowledged.insert(writer, number(&found.value));
            }
        }
        newest = newest.max(view.head());
    }
    assert!(newest > Revision(1000), "hardly anything was written: {newest}");
}
