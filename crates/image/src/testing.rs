//! Archives for tests, also such as no tool writes.

use tar::{EntryType, Header};

/// An entry of an archive.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) kind: EntryType,
    pub(crate) name: String,
    /// A file's contents, or where a link leads.
    pub(crate) content: String,
    pub(crate) mode: u32,
}

pub(crate) fn file(name: &str, content: &str) -> Entry {
    Entry { kind: EntryType::Regular, name: name.into(), content: content.into(), mode: 0o644 }
}

pub(crate) fn directory(name: &str) -> Entry {
    Entry { kind: EntryType::Directory, content: String::new(), ..file(name, "") }
}

pub(crate) fn symlink(name: &str, target: &str) -> Entry {
    Entry { kind: EntryType::Symlink, ..file(name, target) }
}

pub(crate) fn hardlink(name: &str, target: &str) -> Entry {
    Entry { kind: EntryType::Link, ..file(name, target) }
}

/// An archive with these entries. Names and targets are written as they are.
pub(crate) fn archive(entries: &[Entry]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for entry in entries {
        let is_file = entry.kind.is_file();
        let content = if is_file { entry.content.as_bytes() } else { &[] };
        let mut header = Header::new_gnu();
        header.set_entry_type(entry.kind);
        header.set_mode(entry.mode);
        header.set_size(content.len() as u64);
        let old = header.as_old_mut();
        old.name[..entry.name.len()].copy_from_slice(entry.name.as_bytes());
        if !is_file {
            old.linkname[..entry.content.len()].copy_from_slice(entry.content.as_bytes());
        }
        header.set_cksum();
        builder.append(&header, content).unwrap();
    }
    builder.into_inner().unwrap()
}
