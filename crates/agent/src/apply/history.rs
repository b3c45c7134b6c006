//! The history of applied plans, for people who look after a machine.

use std::path::Path;

use jiff::Timestamp;
use jiff::tz::Offset;
use plan::document::Document;

use crate::disk::{self, Attributes};

/// How many are kept.
const KEPT: usize = 64;
const SUFFIX: &str = "-applied.plan";

/// Adds a plan, unless it is the newest one already. What goes wrong is only logged: nothing depends on it.
pub(super) fn record(directory: &Path, document: &Document, now: Timestamp) {
    if let Err(error) = try_record(directory, document, now) {
        tracing::warn!(error = %crate::chain(&error), "the history of plans is not kept");
    }
}

fn try_record(directory: &Path, document: &Document, now: Timestamp) -> Result<(), disk::Error> {
    disk::make_directories(directory)?;
    disk::make_directory(directory, Attributes { mode: 0o700, owner: None })?;
    let mut names: Vec<_> =
        disk::names(directory)?.into_iter().filter(|name| name.ends_with(SUFFIX)).collect();
    let content = entry(document);
    let newest = names.last().map(|name| disk::read(&directory.join(name))).transpose()?.flatten();
    if newest.as_ref() == Some(&content) {
        return Ok(());
    }
    let name = format!("{}{SUFFIX}", stamp(now));
    disk::write(&directory.join(&name), &content, Attributes::PRIVATE)?;
    names.retain(|kept| *kept != name);
    for old in names.iter().take((names.len() + 1).saturating_sub(KEPT)) {
        disk::remove(&directory.join(old))?;
    }
    Ok(())
}

fn entry(document: &Document) -> Vec<u8> {
    let mut entry = b"{\"Plan\":".to_vec();
    entry.extend(document.bytes());
    entry.extend(format!(",\"Checksum\":\"{}\"}}", document.checksum()).bytes());
    entry
}

/// `20260102-030405`.
pub(super) fn stamp(now: Timestamp) -> String {
    let utc = Offset::UTC.to_datetime(now);
    let (date, time) = (utc.date(), utc.time());
    format!(
        "{:04}{:02}{:02}-{:02}{:02}{:02}",
        date.year(),
        date.month(),
        date.day(),
        time.hour(),
        time.minute(),
        time.second()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(n: u32) -> Document {
        Document::parse(format!("{{\"error\":\"{n}\"}}")).unwrap()
    }

    fn at(second: i64) -> Timestamp {
        "2026-01-02T03:04:05Z".parse::<Timestamp>().unwrap() + jiff::SignedDuration::from_secs(second)
    }

    #[test]
    fn newest_first_seen_and_pruned() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("applied");
        record(&path, &document(1), at(0));
        record(&path, &document(1), at(1));
        assert_eq!(disk::names(&path).unwrap(), ["20260102-030405-applied.plan"]);
        let text = disk::read(&path.join("20260102-030405-applied.plan")).unwrap().unwrap();
        let said = format!("{{\"Plan\":{{\"error\":\"1\"}},\"Checksum\":\"{}\"}}", document(1).checksum());
        assert_eq!(String::from_utf8(text).unwrap(), said);
        for n in 2..100 {
            record(&path, &document(n), at(i64::from(n)));
        }
        let names = disk::names(&path).unwrap();
        assert_eq!((names.len(), names[0].as_str()), (64, "20260102-030441-applied.plan"));
    }
}
