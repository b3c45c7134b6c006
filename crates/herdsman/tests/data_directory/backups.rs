use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;

use crate::program::{Server, fail, is_in_database, succeed, text};

#[tokio::test]
async fn a_backup_of_a_running_server_makes_a_working_one() {
    let place = TempDir::new().unwrap();
    let [data, other, backup] = ["data", "other", "backup"].map(|name| place.path().join(name));
    let server = Server::start(&data).await;
    server.create("s", "before").await;
    let (_, then) = server.read("s").await;
    let to = ["backup", "--to", text(&backup), "--data-dir", text(&data)];
    assert!(succeed(&to).starts_with("backup of revision "));
    assert_eq!(backup.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fail(&to, 1).contains("exists"));
    server.change("s", "after").await;

    let from = ["restore", "--from", text(&backup), "--data-dir", text(&data)];
    let said = fail(&from, 1);
    assert!(said.contains("is in use by process"), "{said}");
    assert_eq!(server.read("s").await.0, "after");
    let (_, latest) = server.read("s").await;
    assert!(server.stop().success());

    let said = succeed(&from);
    assert!(said.contains("goes on at revision"), "{said}");
    assert!(data.join("herdsman.db.replaced-1").exists());
    let server = Server::start(&data).await;
    assert_eq!(server.read("s").await, ("before".into(), then));
    server.change("s", "later").await;
    assert!(server.read("s").await.1 > latest);
    assert!(server.stop().success());

    // Elsewhere it is the same server: clients trust it, and its keys are its own again.
    let from = ["restore", "--from", text(&backup), "--data-dir", text(&other)];
    succeed(&from);
    let content = |directory: &std::path::Path, name| std::fs::read_to_string(directory.join(name)).unwrap();
    for name in ["pki/ca.crt", "pki/ca.key", "pki/sa.key", "encryption.key"] {
        assert_eq!(content(&data, name), content(&other, name), "{name}");
    }
    let keys = content(&other, "encryption.key");
    let key = keys.lines().last().unwrap().split_once(' ').unwrap().1;
    assert!(!is_in_database(&other, key), "the key is in the file that it protects");
    let server = Server::start(&other).await;
    assert_eq!(server.read("s").await.0, "before");
    assert!(server.stop().success());
}

#[tokio::test]
async fn a_backup_without_the_key_needs_the_key_file() {
    let place = TempDir::new().unwrap();
    let [data, other, backup] = ["data", "other", "backup"].map(|name| place.path().join(name));
    let server = Server::start(&data).await;
    server.create("s", "word").await;
    assert!(server.stop().success());
    succeed(&["backup", "--without-encryption-key", "--to", text(&backup), "--data-dir", text(&data)]);
    let said = succeed(&["restore", "--from", text(&backup), "--data-dir", text(&other)]);
    assert!(said.contains("the backup has no encryption key"), "{said}");

    let said = fail(&["apiserver", "--listen", "127.0.0.1:0", "--data-dir", text(&other)], 1);
    assert!(said.contains("put back the key file that belongs to this store"), "{said}");
    assert!(!other.join("encryption.key").exists());
    std::fs::copy(data.join("encryption.key"), other.join("encryption.key")).unwrap();
    let server = Server::start(&other).await;
    assert_eq!(server.read("s").await.0, "word");
}

#[test]
fn what_is_no_backup_is_refused() {
    let place = TempDir::new().unwrap();
    let [data, backup] = ["data", "backup"].map(|name| place.path().join(name));
    let said = fail(&["backup", "--to", text(&backup), "--data-dir", text(&data)], 1);
    assert!(said.contains("is not a store") && !data.exists(), "{said}");
    std::fs::write(&backup, "something else ".repeat(1000)).unwrap();
    let said = fail(&["restore", "--from", text(&backup), "--data-dir", text(&data)], 1);
    assert!(said.contains("is not a store") && !data.join("herdsman.db").exists(), "{said}");
    fail(&["backup", "--data-dir", text(&data)], 2);
    fail(&["restore", "--from", text(&backup)], 2);
}
