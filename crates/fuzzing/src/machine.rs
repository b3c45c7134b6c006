//! Node drivers: what plugins answer, what Secrets keep of servers, what is downloaded.

/// Answers of a plugin, one after the other.
pub(crate) fn gob(bytes: &[u8]) {
    // Every answer takes at least a byte.
    assert!(::machine::plugin::answers(bytes) <= bytes.len());
}

/// The archive in a state Secret.
pub(crate) fn archive(bytes: &[u8]) {
    let found = ::machine::archive::find(bytes, "config.json");
    assert!(found.is_none() || !::machine::archive::is_empty(bytes));
}

/// The file behind a node driver's URL.
pub(crate) fn download(bytes: &[u8]) {
    if let Ok(program) = ::machine::download::program(bytes) {
        assert!(program.starts_with(b"\x7fELF"));
    }
}
