//! Who watches what.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::{Event, Scope};

/// The registered watches. A change finds its watches by its key: one look-up for each length of prefix in use, so
/// that thousands of watches on other keys cost nothing.
#[derive(Debug, Default)]
pub(super) struct Hub {
    next: u64,
    groups: BTreeMap<Group, BTreeMap<Arc<str>, Vec<Sink>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Whole,
    Prefix(usize),
}

#[derive(Debug)]
struct Sink {
    id: u64,
    sender: mpsc::Sender<Arc<Event>>,
}

impl Hub {
    /// Registers a watch that holds `buffer` changes at most.
    pub(super) fn register(&mut self, scope: &Scope, buffer: usize) -> (u64, mpsc::Receiver<Arc<Event>>) {
        let (sender, receiver) = mpsc::channel(buffer.max(1));
        self.next += 1;
        let (group, text) = place(scope);
        let sink = Sink { id: self.next, sender };
        self.groups.entry(group).or_default().entry(text.clone()).or_default().push(sink);
        (self.next, receiver)
    }

    /// Forgets a watch.
    pub(super) fn unregister(&mut self, scope: &Scope, id: u64) {
        let (group, text) = place(scope);
        let Some(members) = self.groups.get_mut(&group) else { return };
        if let Some(sinks) = members.get_mut(text) {
            sinks.retain(|sink| sink.id != id);
            if sinks.is_empty() {
                members.remove(text);
            }
        }
        if members.is_empty() {
            self.groups.remove(&group);
        }
    }

    /// Hands a change to the watches that it concerns. One that has no room for it loses its place: it ends when it
    /// has taken what it holds.
    pub(super) fn deliver(&mut self, event: &Arc<Event>) {
        for (group, members) in &mut self.groups {
            let text = match group {
                Group::Whole => Some(&*event.key),
                Group::Prefix(length) => event.key.get(..*length),
            };
            if let Some(sinks) = text.and_then(|text| members.get_mut(text)) {
                sinks.retain(|sink| sink.sender.try_send(event.clone()).is_ok());
            }
        }
    }

    /// Ends all watches.
    pub(super) fn close(&mut self) {
        self.groups.clear();
    }
}

fn place(scope: &Scope) -> (Group, &Arc<str>) {
    match scope {
        Scope::Prefix(prefix) => (Group::Prefix(prefix.len()), prefix),
        Scope::Key(key) => (Group::Whole, key),
    }
}
