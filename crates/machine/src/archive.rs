//! What is known of a server, as its Secret keeps it: a tar.gz of rancher-machine's directory.
//!
//! The names in it are absolute paths, and `config.json` has absolute paths in it too. Both are written as they are in
//! rancher-machine's image, wherever the directory really is, and read wherever they are from: an archive may be packed
//! by one process and unpacked by another, ours or rancher-machine, here or elsewhere.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;
use tar::{Builder, EntryType, Header};

/// Where rancher-machine's image has its directory.
const HOME: &str = "/home/machine/.docker/machine";
/// The part of the directory that is kept.
pub const MACHINES: &str = "machines";
/// What is too large to be kept, and can be had again.
const LEFT_OUT: [&str; 4] = [".iso", ".tar.gz", ".vmdk", ".img"];
/// What says that there is a server.
const RECORD: &str = "config.json";
/// More than this is not a server's state: a Secret has room for a megabyte, packed.
const MOST_BYTES: u64 = 8 << 20;

/// Why a state is not packed or unpacked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The archive is not one.
    #[error("the state of the server cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// It is larger than a state can be.
    #[error("the state of the server is larger than {} MiB", MOST_BYTES >> 20)]
    TooLarge,
    /// A name leads out of the directory.
    #[error("the state of the server names {0:?}, which is not under a directory {MACHINES:?}")]
    Outside(String),
    /// A file cannot be read or written.
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
}

/// Packs what lies under `<storage>/machines`. The same files give the same bytes.
///
/// # Errors
/// If a file cannot be read.
pub fn pack(storage: &Path) -> Result<Vec<u8>, Error> {
    let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    let machines = storage.join(MACHINES);
    if machines.is_dir() {
        pack_directory(&mut archive, storage, &machines)?;
    }
    let packed = archive.into_inner().and_then(GzEncoder::finish);
    packed.map_err(file("pack", storage))
}

fn pack_directory(
    archive: &mut Builder<GzEncoder<Vec<u8>>>,
    storage: &Path,
    directory: &Path,
) -> Result<(), Error> {
    let listed = fs::read_dir(directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut entries = listed.map_err(file("list", directory))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name());
        let kind = entry.file_type().map_err(file("look at", &path))?;
        let left_out = LEFT_OUT.iter().any(|ending| name.to_string_lossy().ends_with(ending));
        if left_out || !(kind.is_dir() || kind.is_file()) {
            continue;
        }
        let place = path.strip_prefix(storage).unwrap_or(&path);
        let name = format!("{HOME}/{}", place.display());
        if kind.is_dir() {
            add(archive, &name, EntryType::Directory, &[]).map_err(file("pack", &path))?;
            pack_directory(archive, storage, &path)?;
            continue;
        }
        let content = fs::read(&path).map_err(file("read", &path))?;
        let content = moved(&path, content, &storage.display().to_string(), HOME);
        add(archive, &name, EntryType::Regular, &content).map_err(file("pack", &path))?;
    }
    Ok(())
}

fn add(
    archive: &mut Builder<GzEncoder<Vec<u8>>>,
    name: &str,
    kind: EntryType,
    content: &[u8],
) -> io::Result<()> {
    // Absolute and long names both need the extension.
    archive.append_pax_extensions([("path", name.as_bytes())])?;
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(if kind == EntryType::Directory { 0o700 } else { 0o600 });
    header.set_size(content.len() as u64);
    header.set_cksum();
    archive.append(&header, content)
}

/// Unpacks an archive into `<storage>/machines`; nothing of an empty one.
///
/// # Errors
/// If it is not an archive, has names of its own mind, or a file cannot be written.
pub fn unpack(packed: &[u8], storage: &Path) -> Result<(), Error> {
    for entry in read(packed)? {
        let Entry { base, place, is_directory, content } = entry;
        let path = storage.join(&place);
        if is_directory {
            fs::create_dir_all(&path).map_err(file("create", &path))?;
            continue;
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(file("create", parent))?;
        }
        let content = moved(&path, content, &base, &storage.display().to_string());
        write_private(&path, &content)?;
    }
    Ok(())
}

/// Whether an archive knows of no server. An unreadable one may know of one.
pub fn is_empty(packed: &[u8]) -> bool {
    read(packed).is_ok_and(|entries| !entries.iter().any(|entry| entry.place.ends_with(RECORD)))
}

/// A file of an archive by its name, such as `id_rsa`: of whichever server, there is but one.
pub fn find(packed: &[u8], name: &str) -> Option<Vec<u8>> {
    let entries = read(packed).ok()?;
    entries
        .into_iter()
        .find(|entry| !entry.is_directory && entry.place.ends_with(name))
        .map(|one| one.content)
}

struct Entry {
    /// What stands before `machines`.
    base: String,
    /// The rest, `machines` included.
    place: PathBuf,
    is_directory: bool,
    content: Vec<u8>,
}

fn read(packed: &[u8]) -> Result<Vec<Entry>, Error> {
    if packed.is_empty() {
        return Ok(Vec::new());
    }
    let mut archive = tar::Archive::new(GzDecoder::new(packed).take(MOST_BYTES));
    let entries = entries(&mut archive);
    match archive.into_inner().limit() {
        0 => Err(Error::TooLarge),
        _ => entries,
    }
}

fn entries(archive: &mut tar::Archive<impl io::Read>) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::new();
    for entry in archive.entries().map_err(Error::Unreadable)? {
        let mut entry = entry.map_err(Error::Unreadable)?;
        let kind = entry.header().entry_type();
        if !kind.is_dir() && !kind.is_file() {
            continue;
        }
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let (base, place) = split(&name).ok_or_else(|| Error::Outside(name.clone()))?;
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(Error::Unreadable)?;
        entries.push(Entry { base, place, is_directory: kind.is_dir(), content });
    }
    Ok(entries)
}

/// `/home/x/machines/m/config.json` is `/home/x` and `machines/m/config.json`.
fn split(name: &str) -> Option<(String, PathBuf)> {
    let (base, rest) = name.split_once(&format!("/{MACHINES}/"))?;
    let rest = Path::new(rest);
    let plain = rest.components().all(|part| matches!(part, Component::Normal(_)));
    (plain && rest.components().next().is_some()).then(|| (base.to_owned(), Path::new(MACHINES).join(rest)))
}

/// The content of a file that moves from one directory to another: paths in `config.json` move with it.
fn moved(path: &Path, content: Vec<u8>, from: &str, to: &str) -> Vec<u8> {
    if from == to || from.is_empty() || path.file_name().is_none_or(|name| name != RECORD) {
        return content;
    }
    let Ok(mut document) = serde_json::from_slice::<Value>(&content) else { return content };
    if !relocate(&mut document, from, to) {
        return content;
    }
    serde_json::to_vec_pretty(&document).unwrap_or(content)
}

fn relocate(value: &mut Value, from: &str, to: &str) -> bool {
    match value {
        Value::String(text) => match text.strip_prefix(from) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                *text = format!("{to}{rest}");
                true
            }
            _ => false,
        },
        Value::Array(items) => items.iter_mut().fold(false, |any, item| relocate(item, from, to) | any),
        Value::Object(fields) => fields.values_mut().fold(false, |any, item| relocate(item, from, to) | any),
        _ => false,
    }
}

/// Writes a file that nobody else may read.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> Result<(), Error> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let written = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut open| open.write_all(content).and_then(|()| open.sync_all()));
    written.map_err(file("write", path))
}

fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { what, path, source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn state(storage: &Path) -> PathBuf {
        let machine = storage.join("machines").join("m".repeat(63));
        fs::create_dir_all(&machine).unwrap();
        let record = serde_json::json!({
            "Driver": {"StorePath": storage, "SSHKeyPath": machine.join("id_rsa"), "IPAddress": "10.0.0.1"},
            "Name": "m",
        });
        fs::write(machine.join("config.json"), record.to_string()).unwrap();
        fs::write(machine.join("id_rsa"), "a key").unwrap();
        fs::write(machine.join("boot.iso"), "large").unwrap();
        machine
    }

    #[test]
    fn a_state_moves() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        state(here.path());
        let packed = pack(here.path()).unwrap();
        assert_eq!(pack(here.path()).unwrap(), packed, "the same files give the same bytes");
        assert!(!is_empty(&packed));
        assert_eq!(find(&packed, "id_rsa").as_deref(), Some("a key".as_bytes()));
        let record: Value = serde_json::from_slice(&find(&packed, "config.json").unwrap()).unwrap();
        assert_eq!(record["Driver"]["StorePath"], HOME, "as in rancher-machine's image");

        unpack(&packed, there.path()).unwrap();
        let machine = there.path().join("machines").join("m".repeat(63));
        let record: Value = serde_json::from_slice(&fs::read(machine.join("config.json")).unwrap()).unwrap();
        assert_eq!(record["Driver"]["StorePath"], there.path().to_str().unwrap());
        assert_eq!(record["Driver"]["SSHKeyPath"], machine.join("id_rsa").to_str().unwrap());
        assert!(!machine.join("boot.iso").exists());
        assert_eq!(fs::metadata(machine.join("id_rsa")).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(find(&pack(there.path()).unwrap(), "id_rsa"), find(&packed, "id_rsa"));
    }

    #[test]
    fn a_bomb_is_not_unpacked() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let machine = state(here.path());
        fs::write(machine.join("zeros"), vec![0; 9 << 20]).unwrap();
        let packed = pack(here.path()).unwrap();
        assert!(packed.len() < 1 << 20, "it fits into a Secret");
        assert!(matches!(unpack(&packed, there.path()), Err(Error::TooLarge)));
        assert_eq!(fs::read_dir(there.path()).unwrap().count(), 0, "nothing of it");
        assert!(!is_empty(&packed), "it may know of a server");
        assert_eq!(find(&packed, "id_rsa"), None);
    }

    #[test]
    fn nothing_is_empty() {
        let storage = tempfile::tempdir().unwrap();
        assert!(is_empty(&[]) && is_empty(&pack(storage.path()).unwrap()));
        unpack(&[], storage.path()).unwrap();
        assert!(!is_empty(b"not an archive"), "it may be a server: it is not forgotten");
        assert!(unpack(b"not an archive", storage.path()).is_err());
    }

    #[test]
    fn names_stay_inside() {
        let storage = tempfile::tempdir().unwrap();
        for name in ["/etc/passwd", "/x/machines/../../etc/passwd", "/x/machines/"] {
            let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
            add(&mut archive, name, EntryType::Regular, b"x").unwrap();
            let packed = archive.into_inner().unwrap().finish().unwrap();
            assert!(matches!(unpack(&packed, storage.path()), Err(Error::Outside(_))), "{name}");
        }
    }
}
