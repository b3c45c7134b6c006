use std::io::{Seek as _, SeekFrom, Write as _};

use tempfile::TempDir;

use crate::program::{Server, fail, text};

/// Where a database's header has the schema version: four bytes, the highest first.
const USER_VERSION: u64 = 60;

#[tokio::test]
async fn a_data_directory_of_a_newer_program_is_refused() {
    let place = TempDir::new().unwrap();
    let data = place.path().join("data");
    assert!(Server::start(&data).await.stop().success());
    let path = data.join("herdsman.db");
    let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(USER_VERSION)).unwrap();
    file.write_all(&99_u32.to_be_bytes()).unwrap();
    drop(file);
    let before = std::fs::read(&path).unwrap();
    let said = fail(&["apiserver", "--listen", "127.0.0.1:0", "--data-dir", text(&data)], 1);
    assert!(said.contains("has schema version 99, and this program knows versions up to 2"), "{said}");
    assert!(std::fs::read(&path).unwrap() == before, "it was changed");
}
