//! Values that are sealed in the file: what is in it, what happens to keys, and files from before.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use apiserver::store::{
    Error, Expect, KeyUse, Options, Query, Revision, Scope, Seal, SqliteStore, Store, Write,
};
use tempfile::TempDir;

use crate::support::{clock, drain, ring, runtime, seal, text};

/// What must not be found in any file.
const PLAIN: &str = "a-word-that-nobody-may-read";

fn open(directory: &Path, seal: Arc<Seal>) -> Result<SqliteStore, Error> {
    // Little in memory: watches and older lists come from the file.
    SqliteStore::open(directory, Options { recent_events: 1, seal, ..Options::default() }, clock())
}

async fn put(store: &SqliteStore, key: &str, value: &str) -> Revision {
    store.write(vec![Write::put(key, value.to_owned(), Expect::Anything)]).await.unwrap().revision
}

/// Whether a word is in a file of a directory, the write-ahead log included.
fn is_found(directory: &Path, word: &str) -> bool {
    let files = directory.read_dir().unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    files.into_iter().any(|file| file.windows(word.len()).any(|window| window == word.as_bytes()))
}

fn used(directory: &Path) -> Vec<(String, u64, u64)> {
    let used = SqliteStore::key_usage(directory, &[Scope::prefix("/s/")]).unwrap();
    let shown = |KeyUse { id, objects, history }| (id.as_deref().unwrap_or("-").to_owned(), objects, history);
    used.into_iter().map(shown).collect()
}

fn uses(expected: &[(&str, u64, u64)]) -> Vec<(String, u64, u64)> {
    expected.iter().map(|(id, objects, history)| ((*id).to_owned(), *objects, *history)).collect()
}

#[test]
fn no_file_has_what_is_sealed() {
    let (directory, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    runtime().block_on(async {
        let store = open(directory.path(), seal(&["a"], "/s/")).unwrap();
        put(&store, "/s/1", PLAIN).await;
        put(&store, "/s/1", &format!("{PLAIN} {}", "large ".repeat(5000))).await;
        store.write(vec![Write::delete("/s/1", Expect::Present)]).await.unwrap();
        put(&store, "/s/2", PLAIN).await;
        put(&store, "/t/1", "everybody may read this").await;
        store.backup(&elsewhere.path().join("backup")).await.unwrap();
        for place in [directory.path(), elsewhere.path()] {
            assert!(!is_found(place, PLAIN), "{}", place.display());
            assert!(is_found(place, "everybody may read this"), "{}", place.display());
        }
        assert_eq!(used(directory.path()), uses(&[("a", 1, 2), ("-", 0, 0)]));
        drop(store);

        let store = open(directory.path(), seal(&["a"], "/s/")).unwrap();
        assert_eq!(text(&store.view().get("/s/2").unwrap().value()), PLAIN);
        let query = Query { at: Some(Revision(1)), ..Query::all(Scope::prefix("/s/")) };
        assert_eq!(text(&store.list(query).await.unwrap().items[0].value()), PLAIN);
        let mut watch = store.watch(Scope::prefix("/s/"), Revision(2)).unwrap();
        let seen = drain(&mut watch).await.unwrap();
        assert!(
            seen[0].starts_with("3 Deleted /s/1 a-word") && seen[1].ends_with(&format!("->{PLAIN}")),
            "{seen:?}"
        );
        store.check().await.unwrap();
    });
}

#[test]
fn without_the_right_key_nothing_is_opened_and_nothing_lost() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    runtime().block_on(async {
        put(&open(path, seal(&["a"], "/s/")).unwrap(), "/s/1", PLAIN).await;
    });
    let other = ring(&["b"]).iter().next().unwrap().clone();
    let namesake = apiserver::store::Key::new("a", &[9; 32]).unwrap();
    let with = |keys| {
        let ring = apiserver::store::Keyring::new(keys);
        Arc::new(Seal::new(ring, vec![Scope::prefix("/s/")], Box::new(clock::SystemEntropy)))
    };
    for (seal, expected) in [
        (
            Arc::new(Seal::default()),
            "the store has 1 values that are encrypted with key a, which was not given",
        ),
        (
            with(vec![other.clone()]),
            "the store has 1 values that are encrypted with key a, which was not given",
        ),
        (with(vec![other, namesake.clone()]), "key a is not the one that the store was encrypted with"),
        (with(vec![namesake]), "key a is not the one that the store was encrypted with"),
    ] {
        let refused = open(path, seal).err().unwrap().to_string();
        assert!(refused.starts_with(expected), "{refused}");
    }
    let store = open(path, seal(&["a"], "/s/")).unwrap();
    assert_eq!(text(&store.view().get("/s/1").unwrap().value()), PLAIN);
}

#[test]
fn a_rotation_changes_the_seals_and_nothing_else() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    runtime().block_on(async {
        let store = open(path, seal(&["a"], "/s/")).unwrap();
        for round in 0..3 {
            for number in 0..150 {
                put(&store, &format!("/s/{number}"), &format!("{PLAIN} {round}")).await;
            }
        }
        put(&store, "/t/1", "plain").await;
        assert_eq!(used(path), uses(&[("a", 150, 300), ("-", 0, 0)]));
        let before = (store.log_hash().await.unwrap(), store.view().head());

        store.adopt_keys(ring(&["b", "a"])).await.unwrap();
        assert_eq!(used(path), uses(&[("a", 150, 300), ("b", 0, 0), ("-", 0, 0)]));
        store.reseal().await.unwrap();
        assert_eq!(used(path), uses(&[("b", 150, 300), ("-", 0, 0)]));
        assert_eq!((store.log_hash().await.unwrap(), store.view().head()), before);
        assert!(store.watch(Scope::prefix("/s/"), before.1).unwrap().next_ready().await.unwrap().is_none());
        store.check().await.unwrap();
        drop(store);

        // The old key is needed by nobody.
        let store = open(path, seal(&["b"], "/s/")).unwrap();
        assert_eq!(store.log_hash().await.unwrap(), before.0);
        let wrong = apiserver::store::Keyring::new(vec![apiserver::store::Key::new("b", &[9; 32]).unwrap()]);
        let refused = store.adopt_keys(wrong).await;
        assert!(matches!(refused, Err(Error::WrongKey { .. })), "{refused:?}");
        put(&store, "/s/1", "still b").await;
        assert_eq!(used(path), uses(&[("b", 150, 301), ("-", 0, 0)]));
    });
}

#[test]
fn writes_go_on_while_values_are_sealed_anew() {
    let directory = TempDir::new().unwrap();
    runtime().block_on(async {
        let store = open(directory.path(), seal(&["a"], "/s/")).unwrap();
        for number in 0..700 {
            put(&store, &format!("/s/{number:03}"), PLAIN).await;
        }
        store.adopt_keys(ring(&["b", "a"])).await.unwrap();
        let writes = async {
            for number in 0..50 {
                put(&store, &format!("/s/{:03}", number * 13), "new").await;
            }
        };
        let (resealed, ()) = tokio::join!(store.reseal(), writes);
        resealed.unwrap();
        assert_eq!(used(directory.path()), uses(&[("b", 700, 50), ("-", 0, 0)]));
    });
}

#[test]
fn what_is_sealed_follows_the_setting() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    runtime().block_on(async {
        let store = open(path, Arc::default()).unwrap();
        put(&store, "/s/1", PLAIN).await;
        put(&store, "/s/1", PLAIN).await;
        drop(store);
        assert!(is_found(path, PLAIN));

        let store = open(path, seal(&["a"], "/s/")).unwrap();
        assert_eq!(used(path), uses(&[("a", 0, 0), ("-", 1, 1)]));
        assert_eq!(text(&store.view().get("/s/1").unwrap().value()), PLAIN);
        store.reseal().await.unwrap();
        assert_eq!(used(path), uses(&[("a", 1, 1), ("-", 0, 0)]));
        assert!(!is_found(path, PLAIN), "something is left of what was plain");
        drop(store);

        let store = open(path, seal(&["a"], "/other/")).unwrap();
        store.reseal().await.unwrap();
        assert_eq!(used(path), uses(&[("a", 0, 0), ("-", 1, 1)]));
        drop(store);
        assert_eq!(text(&open(path, Arc::default()).unwrap().view().get("/s/1").unwrap().value()), PLAIN);
    });
}

#[test]
fn a_value_that_was_moved_does_not_open() {
    let directory = TempDir::new().unwrap();
    runtime().block_on(async {
        let store = open(directory.path(), seal(&["a"], "/s/")).unwrap();
        put(&store, "/s/mine", "low").await;
        put(&store, "/s/theirs", "high").await;
    });
    let file = rusqlite::Connection::open(directory.path().join("herdsman.db")).unwrap();
    let moved = "UPDATE log SET value = (SELECT value FROM log WHERE revision = 2) WHERE revision = 1";
    file.execute(moved, []).unwrap();
    let refused = open(directory.path(), seal(&["a"], "/s/")).err().unwrap();
    assert_eq!(
        refused.to_string(),
        "the value of /s/mine does not open with key a: it was damaged, or put there by somebody else"
    );
}

/// A data directory as the first version of the program left it: `gzip -9 -n < herdsman.db` after a server had started,
/// two Secrets were made and one of them changed, and a ConfigMap was made and deleted.
const VERSION_1: &[u8] = include_bytes!("data/version-1.db.gz");

#[test]
fn a_store_of_version_1_becomes_the_present_one() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    let mut file = Vec::new();
    flate2::read::GzDecoder::new(VERSION_1).read_to_end(&mut file).unwrap();
    std::fs::write(path.join("herdsman.db"), &file).unwrap();
    let secrets = || seal(&["a"], "/registry/core/secrets/");
    let word = "c2Vjb25kLXZlcnNpb24tMQ==";
    assert!(is_found(path, word));
    let usage = SqliteStore::key_usage(path, &[]);
    assert!(matches!(usage, Err(Error::OlderSchema { found: 1, known: 2 })), "{usage:?}");
    runtime().block_on(async {
        let unsealed = open(path, Arc::default()).unwrap();
        let before = (unsealed.log_hash().await.unwrap(), unsealed.view().head());
        drop(unsealed);
        let store = open(path, secrets()).unwrap();
        store.reseal().await.unwrap();
        assert_eq!((store.log_hash().await.unwrap(), store.view().head()), before);
        let secret = store.view().get("/registry/core/secrets/default/old2").unwrap().clone();
        assert!(text(&secret.value()).contains(word));
        assert!(!is_found(path, word));
        let query = Query { at: Some(secret.created), ..Query::all(Scope::key(secret.key.clone())) };
        let first = &store.list(query).await.unwrap().items[0];
        assert!(text(&first.value()).contains("Zmlyc3QtdmVyc2lvbi0x"));
        assert!(store.view().get("/registry/core/configmaps/default/gone").is_none());
        assert!(put(&store, "/registry/core/secrets/default/new", "1").await > before.1);
        store.check().await.unwrap();
    });
}
