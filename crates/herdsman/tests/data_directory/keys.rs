use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use clock::{Deadline, SystemClock};
use tempfile::TempDir;

use crate::program::{Server, fail, is_in_database, succeed, text};

const WORD: &str = "a-word-that-nobody-may-read";

fn rotate<'a>(data: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    [&["rotate-encryption-key", "--data-dir", text(data)], more].concat()
}

/// Asks until the answer is as expected.
async fn wait_for(arguments: &[&str], expected: impl Fn(&str) -> bool) -> String {
    let deadline = Deadline::after(&SystemClock, Duration::from_secs(60));
    loop {
        let said = succeed(arguments);
        if expected(&said) {
            return said;
        }
        assert!(!deadline.passed(&SystemClock), "{said}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn keys_are_rotated_while_the_server_runs() {
    let place = TempDir::new().unwrap();
    let data = place.path().join("data");
    let server = Server::start(&data).await;
    let mode = data.join("encryption.key").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for number in 0..20 {
        server.create(&format!("s{number}"), WORD).await;
    }
    assert!(!is_in_database(&data, WORD) && !is_in_database(&data, "YS13b3JkLXRoYXQtbm9ib2R5LW1heS1yZWFk"));

    let said = succeed(&rotate(&data, &[]));
    assert!(said.starts_with("added key "), "{said}");
    server.signal("-HUP");
    let status = rotate(&data, &["--status"]);
    let done = |said: &str| {
        let lines: Vec<&str> = said.lines().collect();
        lines[0].ends_with(" objects=20 history=0 writes")
            && lines[1].ends_with(" objects=0 history=0 old")
            && lines[2] == "not encrypted objects=0 history=0"
    };
    wait_for(&status, done).await;
    let said = succeed(&rotate(&data, &["--drop-unused"]));
    assert!(said.starts_with("dropped key ") && said.lines().count() == 3, "{said}");
    assert_eq!(server.read("s7").await.0, WORD);
    server.change("s7", "other").await;
    assert!(server.stop().success());
    let server = Server::start(&data).await;
    assert_eq!((server.read("s7").await.0, server.read("s8").await.0), ("other".into(), WORD.into()));

    // A key that no server has taken up yet leaves the others where they are.
    assert!(server.stop().success());
    let said = succeed(&rotate(&data, &[]));
    assert!(said.contains("not taken up yet"), "{said}");
    assert!(fail(&rotate(&data, &["--drop-unused"]), 1).contains("has not been taken up"));
    assert_eq!(Server::start(&data).await.read("s8").await.0, WORD);
}

#[tokio::test]
async fn other_kinds_can_be_encrypted_too_or_none() {
    let place = TempDir::new().unwrap();
    let data = place.path().join("data");
    let server = Server::start_with(&data, &["--encrypt-resources="]).await;
    server.create("s", WORD).await;
    let status = rotate(&data, &["--status", "--encrypt-resources", "secrets,configmaps"]);
    let plain =
        |said: &str| said.contains("not encrypted objects=") && !said.contains("not encrypted objects=0");
    assert!(plain(&succeed(&status)));
    assert!(server.stop().success());
    let server = Server::start_with(&data, &["--encrypt-resources=secrets,configmaps"]).await;
    wait_for(&status, |said| said.contains("not encrypted objects=0 history=0")).await;
    assert_eq!(server.read("s").await.0, WORD);
}

#[tokio::test]
async fn a_key_file_that_is_gone_or_open_to_others_is_said() {
    let place = TempDir::new().unwrap();
    let data = place.path().join("data");
    let start = ["apiserver", "--listen", "127.0.0.1:0", "--data-dir", text(&data)];
    let server = Server::start(&data).await;
    server.create("s", WORD).await;
    assert!(server.stop().success());
    let [file, away] = ["encryption.key", "away"].map(|name| data.join(name));

    std::fs::rename(&file, &away).unwrap();
    let said = fail(&start, 1);
    assert!(said.contains("values that are encrypted with key") && said.contains("encryption.key"), "{said}");
    assert!(!file.exists());
    std::fs::write(&file, "nonsense").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(fail(&start, 1).contains("is no key file: line 1 is not"));
    std::fs::rename(&away, &file).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(fail(&start, 1).contains("can be read by others (mode 640)"));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(Server::start(&data).await.read("s").await.0, WORD);
}
