//! The work of the process that is recorded: what each of its transactions does follows from its number.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use apiserver::store::{Expect, Options, Revision, Scope, SqliteStore, Store, Write};
use clock::{Clock, SystemClock};

pub(crate) const WRITERS: u64 = 4;
/// Two directories to be made.
pub(crate) const DATA: &str = "state/data";
pub(crate) const ROOT: &str = "STORE_POWER_ROOT";
/// Transactions of each writer while the store is open: once long enough for the log beside the file to be folded in
/// and begun again.
const SESSIONS: [u64; 4] = [6, 14, 140, 10];

/// The changes of a writer's transaction, in order: two keys that always change together, the second one gone on every
/// fifth change, and a row of three that moves on.
pub(crate) fn changes(writer: u64, number: u64) -> Vec<(String, Option<String>)> {
    let value = format!("{number} {}", "x".repeat((number * 577 + writer * 131) as usize % 3000));
    let key = |name: String| format!("/{writer}/{name}");
    let mut changes = vec![
        (key("first".into()), Some(value.clone())),
        (key("second".into()), (!number.is_multiple_of(5)).then_some(value)),
        (key(format!("row/{number}")), Some(number.to_string())),
    ];
    if number > 3 {
        changes.push((key(format!("row/{}", number - 3)), None));
    }
    changes
}

/// All that a writer has after a transaction.
pub(crate) fn state(writer: u64, number: u64) -> BTreeMap<String, String> {
    let mut state = BTreeMap::new();
    // Older ones have left nothing.
    for (key, value) in (number.saturating_sub(8) + 1..=number).flat_map(|number| changes(writer, number)) {
        match value {
            Some(value) => state.insert(key, value),
            None => state.remove(&key),
        };
    }
    state
}

/// The number of the transaction that a writer's first key is from.
pub(crate) fn number(value: &[u8]) -> u64 {
    std::str::from_utf8(value).unwrap().split(' ').next().unwrap().parse().unwrap()
}

pub(crate) fn open(directory: &Path) -> Result<SqliteStore, apiserver::store::Error> {
    // Small enough limits that compaction takes its part in the work.
    let options = Options { history_bytes: 60_000, ..Options::default() };
    SqliteStore::open(directory, options, Arc::new(SystemClock))
}

/// Says what has been acknowledged, at this point in the order of all records.
#[derive(Clone)]
struct Voice(Arc<Mutex<std::fs::File>>);

impl Voice {
    fn say(&self, words: &str) {
        let mut file = self.0.lock().unwrap();
        assert_eq!(file.write(words.as_bytes()).unwrap(), words.len());
    }
}

/// Some sessions, a backup during one of them, and the backup restored in the end.
pub(crate) fn run(root: &Path) {
    let (data, copy) = (root.join(DATA), root.join("copies/copy.db"));
    let said = OpenOptions::new().create(true).append(true).open(root.join("said")).unwrap();
    let voice = Voice(Arc::new(Mutex::new(said)));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    std::fs::create_dir(copy.parent().unwrap()).unwrap();
    std::fs::File::open(root).unwrap().sync_all().unwrap();
    for (session, transactions) in SESSIONS.into_iter().enumerate() {
        let backup = (session == 1).then_some(&*copy);
        runtime.block_on(work(&data, transactions, &voice, backup));
    }
    voice.say("restoring");
    let head = SqliteStore::restore(&copy, &data, SystemClock.now()).unwrap();
    voice.say(&format!("restored {head}"));
    runtime.block_on(work(&data, 5, &voice, None));
}

async fn work(data: &Path, transactions: u64, voice: &Voice, backup: Option<&Path>) {
    let store = Arc::new(open(data).unwrap());
    let listener = tokio::spawn(listen(store.clone(), voice.clone()));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(write(store.clone(), writer, transactions, voice.clone())))
        .collect();
    let chores = async {
        if let Some(target) = backup {
            voice.say(&format!("copied {}", store.backup(target).await.unwrap()));
        }
        while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
            voice.say(&format!("floor {}", store.trim(SystemClock.now()).await.unwrap()));
            tokio::time::sleep(std::time::Duration::from_millis(3)).await;
        }
    };
    chores.await;
    for writer in writers {
        writer.await.unwrap();
    }
    listener.abort();
    // Only then is nobody left to hold the store open.
    let _ = listener.await;
    assert!(Arc::into_inner(store).is_some());
}

async fn write(store: Arc<SqliteStore>, writer: u64, transactions: u64, voice: Voice) {
    let first = format!("/{writer}/first");
    let start = store.view().get(&first).map_or(0, |found| number(&found.value()));
    for number in start + 1..=start + transactions {
        let writes = changes(writer, number).into_iter().map(|(key, value)| match value {
            Some(value) => Write::put(key, value, Expect::Anything),
            None => Write::delete(key, Expect::Present),
        });
        let commit = store.write(writes.collect()).await.unwrap();
        voice.say(&format!("done {writer} {number} {}", commit.revision));
    }
}

/// A client that hears of changes, maybe before who made them.
async fn listen(store: Arc<SqliteStore>, voice: Voice) {
    let mut watch = store.watch(Scope::prefix(""), store.view().head()).unwrap();
    drop(store);
    let mut heard = Revision::ZERO;
    while let Ok(event) = watch.next().await {
        assert!(event.revision > heard);
        heard = event.revision;
        voice.say(&format!("heard {heard}"));
    }
}
