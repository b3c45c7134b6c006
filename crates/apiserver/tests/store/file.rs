//! What only the file has: re-opening, locking, backups, a full disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use apiserver::store::{
    Error, Expect, Options, Query, RESTORE_MARGIN, Revision, Scope, SqliteStore, Store, Write,
};
use clock::Clock;
use jiff::Timestamp;
use tempfile::TempDir;

use crate::support::{clock, drain, runtime, text};

fn open(directory: &Path) -> SqliteStore {
    SqliteStore::open(directory, Options::default(), clock()).unwrap()
}

async fn put(store: &SqliteStore, key: &str, value: &str) -> Revision {
    store.write(vec![Write::put(key, value.to_owned(), Expect::Anything)]).await.unwrap().revision
}

fn directory() -> TempDir {
    TempDir::new().unwrap()
}

#[test]
fn an_opened_store_is_as_it_was_closed() {
    let directory = directory();
    runtime().block_on(async {
        let store = open(directory.path());
        put(&store, "/a", "1").await;
        put(&store, "/a", "2").await;
        let mortal = Write::create("/e", "e").for_at_most(Duration::from_secs(60));
        store.write(vec![mortal]).await.unwrap();
        put(&store, "/b", "1").await;
        store.write(vec![Write::delete("/b", Expect::Present)]).await.unwrap();
        let before: Vec<_> = store.view().scan(&Scope::prefix("")).cloned().collect();
        let (history, hash) = (store.view().history_bytes(), store.log_hash().await.unwrap());
        drop(store);

        let store = open(directory.path());
        let view = store.view();
        assert_eq!(view.scan(&Scope::prefix("")).cloned().collect::<Vec<_>>(), before);
        assert_eq!((view.head(), view.floor(), view.history_bytes()), (Revision(5), Revision(0), history));
        assert_eq!(store.log_hash().await.unwrap(), hash);
        let mut watch = store.watch(Scope::prefix(""), Revision(1)).unwrap();
        assert_eq!(
            drain(&mut watch).await.unwrap(),
            ["2 Modified /a 1>2", "3 Added /e ->e", "4 Added /b ->1", "5 Deleted /b 1>-"]
        );
        let then = clock().now() + Duration::from_secs(61);
        assert_eq!(store.expire(then).await.unwrap(), 1);
        assert_eq!(put(&store, "/a", "3").await, Revision(7));
        store.check().await.unwrap();
    });
}

#[test]
fn revisions_go_on_even_if_nothing_of_the_last_one_is_left() {
    let directory = directory();
    runtime().block_on(async {
        let store = open(directory.path());
        put(&store, "/a", "1").await;
        store.write(vec![Write::delete("/a", Expect::Present)]).await.unwrap();
        store.compact(Revision(2)).await.unwrap();
        drop(store);
        let store = open(directory.path());
        assert_eq!((store.view().head(), store.view().floor()), (Revision(2), Revision(2)));
        assert_eq!(store.view().history_bytes(), 0);
        assert_eq!(put(&store, "/a", "2").await, Revision(3));
    });
}

#[test]
fn a_directory_has_one_user_who_is_named() {
    let directory = directory();
    let store = open(directory.path());
    let refused = SqliteStore::open(directory.path(), Options::default(), clock());
    let Err(Error::Locked { holder, .. }) = refused else { panic!("a second one got in") };
    assert!(holder.starts_with(&format!("process {} ", std::process::id())), "{holder}");
    let restored = SqliteStore::restore(Path::new("/nowhere"), directory.path(), Timestamp::UNIX_EPOCH);
    assert!(matches!(restored, Err(Error::Locked { .. })), "{restored:?}");
    drop(store);
    open(directory.path());
}

#[test]
fn a_closed_store_can_be_opened_at_once_also_while_processes_start() {
    let directory = directory();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                // A process that starts holds this one's open files until it becomes another program.
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let mut program = std::process::Command::new(std::env::current_exe().unwrap());
                    program.arg("--list").stdout(std::process::Stdio::null()).status().unwrap();
                }
            });
        }
        let opened: Vec<_> = (0..100)
            .map(|_| SqliteStore::open(directory.path(), Options::default(), clock()).err())
            .collect();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(opened.iter().all(Option::is_none), "{:?}", opened.iter().flatten().next());
    });
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let (parent, runtime) = (directory(), runtime());
    let directory = parent.path().join("data");
    let store = open(&directory);
    runtime.block_on(put(&store, "/a", "secret"));
    let backup = parent.path().join("backup");
    runtime.block_on(store.backup(&backup)).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    for file in [directory.join("herdsman.db"), directory.join("herdsman.db-wal"), backup] {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[test]
fn files_of_others_are_refused() {
    let directory = directory();
    let path = directory.path().join("herdsman.db");
    std::fs::write(&path, "not a database, but long enough to look like one ".repeat(100)).unwrap();
    let refused = SqliteStore::open(directory.path(), Options::default(), clock());
    assert!(matches!(refused, Err(Error::NotAStore { .. })), "{:?}", refused.err());

    std::fs::remove_file(&path).unwrap();
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
    let refused = SqliteStore::open(directory.path(), Options::default(), clock());
    assert!(matches!(refused, Err(Error::NotAStore { .. })), "{:?}", refused.err());
}

#[test]
fn a_store_of_a_newer_program_is_left_alone() {
    let directory = directory();
    drop(open(directory.path()));
    let path = directory.path().join("herdsman.db");
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let refused = SqliteStore::open(directory.path(), Options::default(), clock());
    let refused = refused.err().unwrap();
    assert!(matches!(refused, Error::NewerSchema { found: 99, known: 2 }), "{refused:?}");
    assert!(refused.to_string().contains("has schema version 99, and this program knows versions up to 2"));
}

#[test]
fn the_file_can_shrink() {
    let directory = directory();
    let pragma = |name: &str| {
        let connection = rusqlite::Connection::open(directory.path().join("herdsman.db")).unwrap();
        connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap()
    };
    runtime().block_on(async {
        let store = open(directory.path());
        assert_eq!(pragma("auto_vacuum"), 2);
        let value = "x".repeat(4000);
        for _ in 0..40 {
            let writes = (0..50).map(|_| Write::put("/a", value.clone(), Expect::Anything)).collect();
            store.write(writes).await.unwrap();
        }
        let before = pragma("page_count");
        store.compact(store.view().head()).await.unwrap();
        let after = pragma("page_count") - pragma("freelist_count");
        assert!(before > 1000 && after < 50, "{before} pages before, {after} after");
        assert!(pragma("page_count") < before / 2, "{} pages", pragma("page_count"));
        store.check().await.unwrap();
    });
}

#[test]
fn a_full_disk_is_said_and_survived() {
    let directory = directory();
    let options = Options { quota_bytes: Some(1 << 20), ..Options::default() };
    runtime().block_on(async {
        let store = SqliteStore::open(directory.path(), options, clock()).unwrap();
        let value = "x".repeat(10_000);
        let mut kept = 0;
        let failed = loop {
            match store.write(vec![Write::put("/a", value.clone(), Expect::Anything)]).await {
                Ok(commit) => kept = commit.revision.0,
                Err(error) => break error,
            }
            assert!(kept < 1000);
        };
        assert!(matches!(failed, Error::DiskFull), "{failed:?}");
        assert!(kept > 50, "{kept}");
        assert_eq!(store.view().head(), Revision(kept));
        store.check().await.unwrap();
        // Room is made; writes go on where they stopped.
        store.compact(Revision(kept)).await.unwrap();
        assert_eq!(put(&store, "/a", &value).await, Revision(kept + 1));
        store.check().await.unwrap();
    });
}

#[test]
#[ignore = "default"]
fn a_disk_without_room_is_said_and_survived() {
    let Some(small) = SmallFileSystem::mount() else {
        // Past the harness, which keeps the words of tests that pass.
        std::io::Write::write_all(
            &mut std::io::stdout(),
            b"skip full-disk: a tmpfs cannot be mounted here\n",
        )
        .unwrap();
        return;
    };
    let directory = TempDir::new_in(small.0.path()).unwrap();
    let stuffing = small.0.path().join("stuffing");
    runtime().block_on(async {
        let store = open(directory.path());
        for round in 1..=3 {
            let known = put(&store, "/a", &"x".repeat(10_000)).await;
            fill_up(&stuffing);
            let mut kept = known;
            let failed = loop {
                match store.write(vec![Write::put("/a", vec![b'x'; 10_000], Expect::Anything)]).await {
                    Ok(commit) => kept = commit.revision,
                    Err(error) => break error,
                }
            };
            assert!(matches!(failed, Error::DiskFull), "round {round}: {failed:?}");
            assert_eq!(store.view().head(), kept);
            std::fs::remove_file(&stuffing).unwrap();
            assert_eq!(put(&store, "/a", "y").await, Revision(kept.0 + 1));
            store.check().await.unwrap();
        }
        let head = store.view().head();
        drop(store);
        let store = open(directory.path());
        assert_eq!(store.view().head(), head);
        store.check().await.unwrap();
    });
}

/// A file system of a few MiB, in memory.
struct SmallFileSystem(TempDir);

impl SmallFileSystem {
    /// `None` where mounting is not allowed.
    fn mount() -> Option<Self> {
        let place = directory();
        let mut mount = std::process::Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]).arg(place.path()).status();
        mounted.is_ok_and(|status| status.success()).then_some(SmallFileSystem(place))
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        // Lazily: the store's last file may be closed a moment later.
        let _ = std::process::Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

/// Writes a file until there is no room left.
fn fill_up(path: &Path) {
    use std::io::Write as _;
    let mut file = std::fs::File::create(path).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
}

#[test]
fn a_backup_is_one_state_of_a_store_in_use() {
    let (directory, target) = (directory(), directory());
    let backup = target.path().join("backup.db");
    runtime().block_on(async {
        let store = Arc::new(open(directory.path()));
        for number in 0..200 {
            put(&store, &format!("/k/{number}"), "1").await;
        }
        let writer = tokio::spawn({
            let store = store.clone();
            async move {
                for number in 0..200 {
                    put(&store, &format!("/k/{number}"), "2").await;
                }
            }
        });
        let copied = store.backup(&backup).await.unwrap();
        writer.await.unwrap();
        assert!(copied >= Revision(200) && copied <= Revision(400), "{copied}");
        let again = store.backup(&backup).await;
        assert!(matches!(again, Err(Error::File { .. })), "{again:?}");

        let other = target.path().join("data");
        let head = SqliteStore::restore(&backup, &other, Timestamp::UNIX_EPOCH).unwrap();
        let restored = open(&other);
        assert_eq!(restored.view().head(), head);
        let at = Query { at: Some(copied), ..Query::all(Scope::prefix("")) };
        let expected: Vec<String> = store
            .list(at)
            .await
            .unwrap()
            .items
            .iter()
            .map(|item| format!("{}={}", item.key, text(&item.value())))
            .collect();
        let found: Vec<String> = restored
            .view()
            .scan(&Scope::prefix(""))
            .map(|item| format!("{}={}", item.key, text(&item.value())))
            .collect();
        assert_eq!(found, expected);
        restored.check().await.unwrap();
    });
}

#[test]
fn a_restored_store_goes_on_above_all_revisions() {
    let (directory, target) = (directory(), directory());
    let backup = target.path().join("backup.db");
    runtime().block_on(async {
        let store = open(directory.path());
        let old = put(&store, "/a", "1").await;
        store.backup(&backup).await.unwrap();
        let newest = put(&store, "/a", "2").await;
        drop(store);

        let head = SqliteStore::restore(&backup, directory.path(), Timestamp::UNIX_EPOCH).unwrap();
        assert!(head.0 >= newest.0 + RESTORE_MARGIN);
        let store = open(directory.path());
        assert_eq!((store.view().head(), store.view().floor()), (head, head));
        // What clients know from before is refused: it may be of the time that the backup has not seen.
        for known in [old, newest] {
            assert!(matches!(store.watch(Scope::prefix(""), known), Err(Error::Compacted { .. })));
        }
        let mut watch = store.watch(Scope::prefix(""), head).unwrap();
        assert_eq!(put(&store, "/a", "3").await, Revision(head.0 + 1));
        assert_eq!(drain(&mut watch).await.unwrap(), [format!("{} Modified /a 1>3", head.0 + 1)]);
        assert!(store.trim(Timestamp::UNIX_EPOCH).await.unwrap() >= head);
        store.compact(store.view().head()).await.unwrap();
        store.check().await.unwrap();
        drop(store);

        // Once more: above again, and the replaced stores are kept.
        let second = SqliteStore::restore(&backup, directory.path(), Timestamp::UNIX_EPOCH).unwrap();
        assert!(second.0 > head.0 + RESTORE_MARGIN);
        for number in [1, 2] {
            assert!(directory.path().join(format!("herdsman.db.replaced-{number}")).exists());
        }
    });
}

/// A database of before, with changes that are only in its log so far.
fn leave_unfinished(path: &Path) {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.pragma_update(None, "journal_mode", "WAL").unwrap();
    connection
        .execute_batch("CREATE TABLE of_before (a); INSERT INTO of_before VALUES (zeroblob(9000))")
        .unwrap();
    let log = PathBuf::from(format!("{}-wal", path.display()));
    let left = std::fs::read(&log).unwrap();
    drop(connection);
    std::fs::write(&log, left).unwrap();
}

#[test]
fn what_a_killed_restore_left_does_not_meet_the_next_one() {
    let (directory, target) = (directory(), directory());
    let backup = target.path().join("backup.db");
    runtime().block_on(async {
        let store = open(target.path());
        put(&store, "/a", "1").await;
        // A killed backup leaves the like.
        leave_unfinished(&target.path().join("backup.db-partial"));
        store.backup(&backup).await.unwrap();
        leave_unfinished(&directory.path().join("restore.partial"));
        // Somebody has removed the store by hand, but for its log.
        leave_unfinished(&directory.path().join("herdsman.db"));
        std::fs::remove_file(directory.path().join("herdsman.db")).unwrap();
        SqliteStore::restore(&backup, directory.path(), Timestamp::UNIX_EPOCH).unwrap();
        let restored = open(directory.path());
        restored.check().await.unwrap();
        assert_eq!(text(&restored.view().get("/a").unwrap().value()), "1");
        drop(restored);
        let strange = "SELECT count(*) FROM sqlite_schema WHERE name = 'of_before'";
        let connection = rusqlite::Connection::open(directory.path().join("herdsman.db")).unwrap();
        assert_eq!(connection.query_row(strange, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    });
}

#[test]
fn what_is_no_backup_is_not_restored() {
    let (directory, target) = (directory(), directory());
    let nonsense = target.path().join("nonsense");
    std::fs::write(&nonsense, "x".repeat(5000)).unwrap();
    let empty = target.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    runtime().block_on(async {
        put(&open(directory.path()), "/a", "1").await;
        for bad in [nonsense, empty, target.path().join("absent")] {
            let refused = SqliteStore::restore(&bad, directory.path(), Timestamp::UNIX_EPOCH);
            assert!(refused.is_err(), "{}", bad.display());
        }
        let store = open(directory.path());
        assert_eq!(store.view().head(), Revision(1));
    });
}

#[test]
fn damage_is_found() {
    let directory = directory();
    let damage = |sql: &str| {
        let connection = rusqlite::Connection::open(directory.path().join("herdsman.db")).unwrap();
        connection.execute_batch(sql).unwrap();
    };
    runtime().block_on(async {
        let store = open(directory.path());
        for value in ["1", "2", "3"] {
            put(&store, "/a", value).await;
        }
        store.check().await.unwrap();
        for (harm, repair) in [
            ("UPDATE current SET revision = 2", "UPDATE current SET revision = 3"),
            ("DELETE FROM current", "INSERT INTO current VALUES ('/a', 3)"),
            (
                "UPDATE log SET revision = 20 WHERE revision = 2",
                "UPDATE log SET revision = 2 WHERE revision = 20",
            ),
            (
                "UPDATE log SET previous = 9 WHERE revision = 2",
                "UPDATE log SET previous = 1 WHERE revision = 2",
            ),
            (
                "UPDATE counter SET value = 1 WHERE name = 'reserved'",
                "UPDATE counter SET value = 9 WHERE name = 'reserved'",
            ),
        ] {
            damage(harm);
            let found = store.check().await;
            assert!(matches!(found, Err(Error::Corrupt(_))), "{harm}: {found:?}");
            damage(repair);
            store.check().await.unwrap();
        }
    });
}
