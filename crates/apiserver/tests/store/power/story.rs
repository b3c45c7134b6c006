//! What was said up to a point, and what therefore has to be there.

use std::collections::BTreeMap;
use std::path::Path;

use apiserver::store::{Expect, Revision, Scope, SqliteStore, Store, Write};

use super::record::Record;
use super::work::{WRITERS, changes, number, open, state};

/// What clients know.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    /// Each writer's last acknowledged transaction.
    done: BTreeMap<u64, u64>,
    /// What acknowledged transactions changed, by revision.
    log: BTreeMap<i64, (String, Option<String>)>,
    /// The newest revision that anyone was told, and the highest floor.
    newest: i64,
    floor: i64,
    pub(crate) copied: Option<i64>,
    pub(crate) restoring: bool,
    restored: bool,
    /// Whether a transaction may be under way.
    settled: bool,
}

impl Story {
    pub(crate) fn hear(&mut self, words: &str) {
        let mut parts = words.split(' ');
        let what = parts.next().unwrap();
        let numbers: Vec<i64> = parts.map(|part| part.parse().unwrap()).collect();
        match (what, &numbers[..]) {
            ("done", [writer, number, revision]) => {
                let (writer, number) = (writer.unsigned_abs(), number.unsigned_abs());
                let made = changes(writer, number);
                let first = revision + 1 - made.len() as i64;
                self.log.extend((first..).zip(made));
                self.done.insert(writer, number);
                self.newest = self.newest.max(*revision);
            }
            ("heard", [revision]) => self.newest = self.newest.max(*revision),
            ("floor", [floor]) => self.floor = self.floor.max(*floor),
            ("copied", [revision]) => self.copied = Some(*revision),
            ("restoring", []) => self.restoring = true,
            ("restored", [head]) => (self.restoring, self.restored, self.newest) = (false, true, *head),
            _ => panic!("unknown words: {words}"),
        }
    }

    /// What the backup holds, when all is known that was written before it.
    pub(crate) fn of_copy(whole: &[Record]) -> Story {
        let mut story = Story { settled: true, ..Story::default() };
        let said = whole.iter().filter_map(|record| match record {
            Record::Said(words) => Some(words),
            _ => None,
        });
        let before_restore: Vec<_> = said.take_while(|words| *words != "restoring").collect();
        let copied = before_restore.iter().find_map(|words| words.strip_prefix("copied ")?.parse().ok());
        let copied: i64 = copied.expect("a backup");
        for words in before_restore {
            let revision = words.rsplit(' ').next().and_then(|word| word.parse::<i64>().ok());
            if words.starts_with("done") && revision.is_some_and(|revision| revision <= copied) {
                story.hear(words);
            }
        }
        story.log.clear();
        story
    }

    /// The story of those who are told about a restored store.
    pub(crate) fn after_restore(&self, copy: &Story) -> Story {
        Story { newest: self.newest, ..copy.clone() }
    }

    /// Goes on from the backup.
    pub(crate) fn go_back(&mut self, copy: &Story) {
        (self.done, self.log) = (copy.done.clone(), BTreeMap::new());
    }

    pub(crate) fn is_restored(&self) -> bool {
        self.restored
    }

    /// Whether the store in a directory is what clients have to find, and works.
    pub(crate) async fn holds(&self, directory: &Path) -> Result<(), String> {
        let store = open(directory).map_err(|error| format!("it does not open: {error}"))?;
        store.check().await.map_err(|error| format!("it is not sound: {error}"))?;
        for writer in 0..WRITERS {
            self.writer_has_all(&store, writer)?;
        }
        self.log_has_all(&store).await?;
        self.goes_on(store, directory).await
    }

    fn writer_has_all(&self, store: &SqliteStore, writer: u64) -> Result<(), String> {
        let view = store.view();
        let done = self.done.get(&writer).copied().unwrap_or(0);
        let found = view.get(&format!("/{writer}/first")).map_or(0, |first| number(&first.value()));
        // The one that was under way may be there.
        let last = if self.settled { done } else { done + 1 };
        if !(done..=last).contains(&found) {
            return Err(format!("writer {writer} is at {found}, acknowledged was {done}"));
        }
        let scope = Scope::prefix(format!("/{writer}/"));
        let there: BTreeMap<String, String> = view
            .scan(&scope)
            .map(|object| (object.key.to_string(), String::from_utf8(object.value().to_vec()).unwrap()))
            .collect();
        match there == state(writer, found) {
            true => Ok(()),
            false => {
                Err(format!("transaction {found} of writer {writer} is not all there: {:?}", there.keys()))
            }
        }
    }

    /// Every change above the floor is told, without a gap, and as it was acknowledged.
    async fn log_has_all(&self, store: &SqliteStore) -> Result<(), String> {
        let (head, floor) = (store.view().head(), store.view().floor());
        if head.0 < self.newest || floor.0 < self.floor {
            return Err(format!("head {head}, floor {floor}; told were {} and {}", self.newest, self.floor));
        }
        let mut watch = store.watch(Scope::prefix(""), floor).map_err(|error| error.to_string())?;
        for expected in floor.0 + 1..=head.0 {
            let event = watch.next_ready().await.map_err(|error| error.to_string())?;
            let event = event.ok_or_else(|| format!("no change {expected}"))?;
            let value =
                event.current.as_ref().map(|object| String::from_utf8(object.value().to_vec()).unwrap());
            let acknowledged = self.log.get(&expected);
            let is_it = acknowledged.is_none_or(|(key, had)| **key == *event.key && *had == value);
            if event.revision.0 != expected || !is_it {
                return Err(format!("change {expected} is {} of {}", event.revision, event.key));
            }
        }
        Ok(())
    }

    /// The next change takes the next revision, and is there when the store is opened again.
    async fn goes_on(&self, store: SqliteStore, directory: &Path) -> Result<(), String> {
        let head = store.view().head();
        let write = Write::put("/afterwards", "there", Expect::Anything);
        let commit = store.write(vec![write]).await.map_err(|error| error.to_string())?;
        drop(store);
        let store = open(directory).map_err(|error| format!("it does not open again: {error}"))?;
        let found = store.view().get("/afterwards").map(|object| object.modified);
        match found == Some(commit.revision) && commit.revision == Revision(head.0 + 1) {
            true => Ok(()),
            false => Err(format!("{found:?} written as {} on {head}", commit.revision)),
        }
    }
}
