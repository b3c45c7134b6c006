//! Who belongs to whom.

use std::collections::{BTreeMap, BTreeSet};

use super::super::metadata::{Metadata, OwnerReference};
use super::super::queue::Item;

/// The dependents of every owner, by the owner's UID, and the owners that wait for theirs to go.
///
/// Only objects with references are in it: most have none.
#[derive(Debug, Default)]
pub(super) struct Graph {
    dependents: BTreeMap<String, BTreeSet<Item>>,
    /// Those that an owner has to outlive.
    blocking: BTreeMap<String, BTreeSet<Item>>,
    /// The keys of owners that wait for their dependents, by UID.
    waiting: BTreeMap<String, Item>,
    waiting_keys: BTreeSet<Item>,
}

impl Graph {
    /// Follows a change of the object at `key`. Gives the objects that have to be looked at because of it.
    pub(super) fn follow(
        &mut self,
        key: &Item,
        before: Option<&Metadata>,
        after: Option<&Metadata>,
    ) -> BTreeSet<Item> {
        let mut look = BTreeSet::new();
        let [old, new] = [before, after].map(|state| state.map_or(&[][..], |state| &state.owners));
        if old != new {
            self.relink(key, old, new, &mut look);
        }
        if let Some(after) = after {
            self.follow_deletion(key, before, after, &mut look);
        } else if let Some(before) = before {
            self.stop_waiting(&before.uid);
            look.extend(self.dependents(&before.uid).cloned());
        }
        look
    }

    fn relink(
        &mut self,
        key: &Item,
        old: &[OwnerReference],
        new: &[OwnerReference],
        look: &mut BTreeSet<Item>,
    ) {
        for owner in old {
            unlink(&mut self.dependents, &owner.uid, key);
            unlink(&mut self.blocking, &owner.uid, key);
        }
        for owner in new {
            self.dependents.entry(owner.uid.clone()).or_default().insert(key.clone());
            if owner.blocks {
                self.blocking.entry(owner.uid.clone()).or_default().insert(key.clone());
            }
            if !old.contains(owner) {
                look.insert(key.clone());
            }
        }
        // The last dependent that an owner waited for may be gone.
        let released = old.iter().filter(|owner| !new.contains(owner));
        look.extend(released.filter_map(|owner| self.waiting.get(&owner.uid)).cloned());
    }

    fn follow_deletion(
        &mut self,
        key: &Item,
        before: Option<&Metadata>,
        after: &Metadata,
        look: &mut BTreeSet<Item>,
    ) {
        if after.orphans_dependents() && !before.is_some_and(Metadata::orphans_dependents) {
            look.insert(key.clone());
        }
        if !after.waits_for_dependents() {
            self.stop_waiting(&after.uid);
        } else if !before.is_some_and(Metadata::waits_for_dependents) {
            self.waiting.insert(after.uid.clone(), key.clone());
            self.waiting_keys.insert(key.clone());
            look.insert(key.clone());
            look.extend(self.dependents(&after.uid).cloned());
        }
    }

    fn stop_waiting(&mut self, uid: &str) {
        if let Some(key) = self.waiting.remove(uid) {
            self.waiting_keys.remove(&key);
        }
    }

    /// The keys of all objects that belong to an owner.
    pub(super) fn dependents(&self, uid: &str) -> impl Iterator<Item = &Item> {
        self.dependents.get(uid).into_iter().flatten()
    }

    /// Whether an owner has to outlive some of its dependents.
    pub(super) fn is_blocked(&self, uid: &str) -> bool {
        self.blocking.contains_key(uid)
    }

    /// Whether one of an owner's dependents itself waits for dependents: they may go in circles.
    pub(super) fn has_waiting_dependent(&self, uid: &str) -> bool {
        self.dependents(uid).any(|key| self.waiting_keys.contains(key))
    }
}

fn unlink(links: &mut BTreeMap<String, BTreeSet<Item>>, uid: &str, key: &Item) {
    if let Some(keys) = links.get_mut(uid) {
        keys.remove(key);
        if keys.is_empty() {
            links.remove(uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(uid: &str, owners: &[(&str, bool)], finalizers: Option<&[&str]>) -> Metadata {
        let owners: Vec<Value> =
            owners.iter().map(|(uid, blocks)| json!({"uid": uid, "blockOwnerDeletion": blocks})).collect();
        let deleted = finalizers.map(|_| "t");
        Metadata::from_json(json!({
            "uid": uid, "ownerReferences": owners, "finalizers": finalizers, "deletionTimestamp": deleted,
        }))
    }

    #[test]
    fn what_a_change_concerns() {
        let owner = || object("o", &[], None);
        let waits = || object("o", &[], Some(&["foregroundDeletion"]));
        let orphans = || object("o", &[], Some(&["orphan"]));
        let blocks = || object("d", &[("o", true)], None);
        let follows = || object("d", &[("o", false)], None);
        let free = || object("d", &[], None);
        type Step = (&'static str, Option<Metadata>, Option<Metadata>, &'static [&'static str]);
        let stories: Vec<(&str, Vec<Step>)> = vec![
            (
                "an owner goes",
                vec![
                    ("o", None, Some(owner()), &[]),
                    ("d", None, Some(follows()), &["d"]),
                    ("o", Some(owner()), Some(owner()), &[]),
                    ("o", Some(owner()), None, &["d"]),
                    ("d", Some(follows()), None, &[]),
                ],
            ),
            (
                "an owner waits",
                vec![
                    ("d", None, Some(blocks()), &["d"]),
                    ("o", None, Some(waits()), &["d", "o"]),
                    ("o", Some(waits()), Some(waits()), &[]),
                    ("d", Some(blocks()), Some(follows()), &["d", "o"]),
                    ("d", Some(follows()), Some(free()), &["o"]),
                    ("d", Some(free()), Some(blocks()), &["d"]),
                    ("d", Some(blocks()), None, &["o"]),
                    ("o", Some(waits()), None, &[]),
                    ("d", None, Some(blocks()), &["d"]),
                    ("d", Some(blocks()), None, &[]),
                ],
            ),
            (
                "an owner lets go",
                vec![
                    ("o", None, Some(owner()), &[]),
                    ("d", None, Some(follows()), &["d"]),
                    ("o", Some(owner()), Some(orphans()), &["o"]),
                    ("o", Some(orphans()), Some(orphans()), &[]),
                    ("d", Some(follows()), Some(free()), &[]),
                    ("o", Some(orphans()), None, &[]),
                ],
            ),
        ];
        for (story, steps) in stories {
            let mut graph = Graph::default();
            for (index, (key, before, after, wanted)) in steps.into_iter().enumerate() {
                let look = graph.follow(&key.into(), before.as_ref(), after.as_ref());
                let look: Vec<&str> = look.iter().map(|key| &**key).collect();
                assert_eq!(look, wanted, "{story}, step {index}");
            }
            let nothing = graph.dependents.is_empty() && graph.blocking.is_empty();
            assert!(nothing && graph.waiting.is_empty() && graph.waiting_keys.is_empty(), "{story}");
        }
    }
}
