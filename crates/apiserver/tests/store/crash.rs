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
#[ignore = "child process: one that the test below starts and kills"]
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
/// when it is asked for and when it is acknowledged.
async fn write(store: Arc<SqliteStore>, writer: u64) {
    let (first, second) = (format!("/{writer}/first"), format!("/{writer}/second"));
    let start = store.view().get(&first).map_or(0, |found| number(&found.value()));
    for next in start + 1.. {
        let filler = "x".repeat(next as usize % 3000);
        let pair = match next % 5 {
            0 => Write::delete(second.clone(), Expect::Anything),
            _ => Write::put(second.clone(), format!("{next} {filler}"), Expect::Anything),
        };
        let transaction = vec![Write::put(first.clone(), format!("{next} {filler}"), Expect::Anything), pair];
        say(&format!("asked {writer} {next}"));
        let commit = store.write(transaction).await.unwrap();
        say(&format!("acknowledged {writer} {next} {}", commit.revision));
    }
}

/// Says a line, whole or not at all: one that is torn lacks the zero at its end.
fn say(words: &str) {
    std::io::stdout().lock().write_all(format!("{words} 0\n").as_bytes()).unwrap();
}

fn number(value: &[u8]) -> u64 {
    std::str::from_utf8(value).unwrap().split(' ').next().unwrap().parse().unwrap()
}

/// When the victim is killed.
#[derive(Clone, Copy)]
enum When {
    /// So long after it was started.
    Starting(Duration),
    /// So long after its first acknowledgement.
    Working(Duration),
}

/// What a victim said before it was killed.
#[derive(Default)]
struct Testament {
    /// The last number that each writer asked for, and the last one that was acknowledged.
    asked: BTreeMap<u64, u64>,
    acknowledged: BTreeMap<u64, u64>,
    newest: Revision,
}

fn kill_one(directory: &Path, when: When) -> Testament {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["crash::victim", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let output = BufReader::new(victim.stdout.take().unwrap());
    let (at_work, works) = std::sync::mpsc::channel();
    let killer = std::thread::spawn(move || {
        let delay = match when {
            When::Starting(delay) => delay,
            // If it never works there is nothing to wait for, and the test fails below.
            When::Working(delay) => {
                works.recv_timeout(Duration::from_secs(20)).map_or(Duration::ZERO, |()| delay)
            }
        };
        std::thread::sleep(delay);
        victim.kill().unwrap();
        victim.wait().unwrap()
    });
    let mut testament = Testament::default();
    for line in output.lines() {
        let line = line.unwrap();
        // The test harness begins the first line with words of its own; the kill may tear the last one.
        let numbers = |from: &str| -> Vec<u64> {
            let found = line.split_once(from).map_or("", |(_, numbers)| numbers);
            found.split(' ').filter_map(|word| word.parse().ok()).collect()
        };
        if let [writer, next, 0] = numbers("asked ")[..] {
            testament.asked.insert(writer, next);
        }
        if let [writer, next, revision, 0] = numbers("acknowledged ")[..] {
            testament.acknowledged.insert(writer, next);
            testament.newest = testament.newest.max(Revision(revision as i64));
            // The killer may be gone by now.
            let _ = at_work.send(());
        }
    }
    let status = killer.join().unwrap();
    assert!(!status.success(), "the victim ended by itself");
    testament
}

/// Whether SQLite's log ends within a commit: frames of its present turn, the last of which is not a commit's last.
fn ends_within_a_commit(directory: &Path) -> bool {
    let log = std::fs::read(directory.join("herdsman.db-wal")).unwrap_or_default();
    let Some((header, frames)) = log.split_at_checked(32) else { return false };
    let page = u32::from_be_bytes(header[8..12].try_into().unwrap()) as usize;
    let salt = &header[16..24];
    let written = frames.chunks(24 + page).take_while(|frame| frame.len() >= 24 && &frame[8..16] == salt);
    written.last().is_some_and(|frame| frame[4..8] == [0; 4] || frame.len() < 24 + page)
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_half_there() {
    let rounds: u32 = std::env::var(ROUNDS).map_or(200, |rounds| rounds.parse().expect("a number of rounds"));
    let directory = TempDir::new().unwrap();
    let mut entropy = SeededEntropy::new(u64::from(rounds));
    let mut acknowledged = BTreeMap::new();
    let mut newest = Revision::ZERO;
    // Rounds in which someone waited for an answer, and in which a commit was half-way, or done and not yet told.
    let (mut in_flight, mut within_a_commit) = (0, 0);
    let runtime = crate::support::runtime();
    for round in 0..rounds {
        let when = match round % 8 {
            0 => When::Starting(Duration::from_millis(u64::from(entropy.below(40)))),
            _ => When::Working(Duration::from_micros(u64::from(entropy.below(15_000)))),
        };
        let testament = kill_one(directory.path(), when);
        let is_open = |(writer, asked): (&u64, &u64)| testament.acknowledged.get(writer) != Some(asked);
        in_flight += u32::from(testament.asked.iter().any(is_open));
        let mut half_way = ends_within_a_commit(directory.path());
        acknowledged.extend(testament.acknowledged);
        newest = newest.max(testament.newest);
        let store = open(directory.path());
        runtime.block_on(store.check()).unwrap();
        let view = store.view();
        assert!(view.head() >= newest, "round {round}: head {} below {newest}", view.head());
        for writer in 0..WRITERS {
            let value = |key: &str| view.get(&format!("/{writer}/{key}")).map(|found| number(&found.value()));
            let (said, found) =
                (acknowledged.get(&writer).copied().unwrap_or(0), value("first").unwrap_or(0));
            // The one that was under way may be there, but then with both its halves.
            assert!(found == said || found == said + 1, "round {round}: {found}, acknowledged {said}");
            assert_eq!(value("second"), (found % 5 != 0).then_some(found), "round {round}");
            half_way |= found > said;
            // What was found counts as acknowledged from now on.
            acknowledged.insert(writer, found);
        }
        within_a_commit += u32::from(half_way);
        newest = newest.max(view.head());
    }
    println!(
        "{rounds} kills, {in_flight} with writes in flight, {within_a_commit} within a commit, {newest} revisions"
    );
    assert!(in_flight >= rounds / 2, "hardly ever at work: {in_flight} of {rounds}");
    assert!(within_a_commit >= rounds / 20, "hardly ever within a commit: {within_a_commit} of {rounds}");
}
