use std::sync::Arc;
use std::time::Duration;

use apiserver::store::{
    Commit, Error, Event, Expect, Key, Keyring, MemoryStore, Options, Query, Revision, Scope, Seal,
    SqliteStore, Store, Watch, Write,
};
use clock::{Clock, ManualClock, SeededEntropy, SystemEntropy};
use jiff::Timestamp;
use tempfile::TempDir;

/// A store under test.
pub(crate) struct Bench {
    pub(crate) name: &'static str,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<ManualClock>,
    directory: Option<TempDir>,
    options: Options,
}

pub(crate) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Timestamp::from_second(1_800_000_000).unwrap()))
}

/// Every backend, one of them with so little memory for recent changes that most come from the log.
pub(crate) fn benches(options: &Options) -> Vec<Bench> {
    let directory = || TempDir::new().unwrap();
    let sqlite = |name, options: Options| {
        let (clock, directory) = (clock(), directory());
        let store = Arc::new(SqliteStore::open(directory.path(), options.clone(), clock.clone()).unwrap());
        Bench { name, store, clock, directory: Some(directory), options }
    };
    let memory_clock = clock();
    let memory = Arc::new(MemoryStore::new(options.clone(), memory_clock.clone()));
    vec![
        Bench {
            name: "memory",
            store: memory,
            clock: memory_clock,
            directory: None,
            options: options.clone(),
        },
        sqlite("sqlite", options.clone()),
        sqlite("sqlite, forgetful", Options { recent_events: 2, ..options.clone() }),
        sqlite("sqlite, sealed", Options { recent_events: 2, seal: seal(&["a"], ""), ..options.clone() }),
    ]
}

/// Seals what begins with a prefix, with keys of these names.
pub(crate) fn seal(ids: &[&str], prefix: &str) -> Arc<Seal> {
    Arc::new(Seal::new(ring(ids), vec![Scope::prefix(prefix)], Box::new(SystemEntropy)))
}

/// Keys of these names. One name is always the same key.
pub(crate) fn ring(ids: &[&str]) -> Keyring {
    let key = |id: &&str| Key::generate(id, &mut SeededEntropy::new(id.bytes().map(u64::from).sum()));
    Keyring::new(ids.iter().map(key).collect())
}

/// Runs a test against every backend.
pub(crate) fn on_each<F: Future<Output = ()>>(options: &Options, test: impl Fn(Bench) -> F) {
    for mut bench in benches(options) {
        println!("on {}", bench.name);
        // Kept here: a test that uses only some of the bench's fields would drop the others at once.
        let _directory = bench.directory.take();
        runtime().block_on(test(bench));
    }
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

impl Bench {
    pub(crate) async fn write(&self, write: Write) -> Result<Commit, Error> {
        self.store.write(vec![write]).await
    }

    pub(crate) async fn put(&self, key: &str, value: &str) -> Revision {
        let written = self.write(Write::put(key, value.to_owned(), Expect::Anything)).await;
        written.unwrap().revision
    }

    pub(crate) async fn delete(&self, key: &str) -> Revision {
        self.write(Write::delete(key, Expect::Present)).await.unwrap().revision
    }

    /// `key=value` of all objects at a revision.
    pub(crate) async fn all(&self, at: Option<Revision>) -> Result<Vec<String>, Error> {
        let page = self.store.list(Query { at, ..Query::all(Scope::prefix("")) }).await?;
        Ok(page.items.iter().map(|item| format!("{}={}", item.key, text(&item.value()))).collect())
    }

    pub(crate) async fn value(&self, key: &str, at: Option<Revision>) -> Result<Option<String>, Error> {
        Ok(self.store.get(key, at).await?.map(|found| text(&found.value())))
    }

    /// Closes the store and opens it again. One in memory stays as it is.
    pub(crate) fn reopen(&mut self) {
        if let Some(directory) = &self.directory {
            let (options, clock) = (self.options.clone(), self.clock.clone());
            // Something else in its place: only then is it closed.
            self.store = Arc::new(MemoryStore::new(options.clone(), clock.clone()));
            self.store = Arc::new(SqliteStore::open(directory.path(), options, clock).unwrap());
        }
    }

    pub(crate) fn pass(&self, seconds: u64) -> Timestamp {
        self.clock.advance(Duration::from_secs(seconds));
        self.clock.now()
    }
}

pub(crate) fn text(value: &[u8]) -> String {
    String::from_utf8(value.to_vec()).unwrap()
}

/// `revision change key old>new`
pub(crate) fn shown(event: &Event) -> String {
    let value = |object: &Option<Arc<apiserver::store::Stored>>| match object {
        Some(object) => text(&object.value()),
        None => "-".into(),
    };
    let (old, new) = (value(&event.previous), value(&event.current));
    format!("{} {:?} {} {old}>{new}", event.revision, event.change(), event.key)
}

/// What a watch has to give without waiting.
pub(crate) async fn drain(watch: &mut Watch) -> Result<Vec<String>, Error> {
    let mut seen = Vec::new();
    while let Some(event) = watch.next_ready().await? {
        seen.push(shown(&event));
    }
    Ok(seen)
}
