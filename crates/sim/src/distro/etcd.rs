//! Who is a member of etcd, and who has a quorum.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::machine::MachineName;

/// The members of etcd, whether or not they run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Members(BTreeMap<MachineName, Member>);

/// One member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) address: Ipv4Addr,
}

impl Members {
    pub(crate) fn add(&mut self, machine: MachineName, member: Member) {
        self.0.insert(machine, member);
    }

    /// Takes a machine out. Gives the member that it was.
    pub(crate) fn remove(&mut self, machine: &MachineName) -> Option<Member> {
        self.0.remove(machine)
    }

    pub(crate) fn contains(&self, machine: &MachineName) -> bool {
        self.0.contains_key(machine)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&MachineName, &Member)> {
        self.0.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether a member has a quorum: more than half of all members run and reach it, itself among them.
    pub(crate) fn has_quorum(
        &self,
        at: &MachineName,
        running: &BTreeSet<MachineName>,
        reaches: impl Fn(&MachineName, &MachineName) -> bool,
    ) -> bool {
        let counts =
            |member: &&MachineName| running.contains(*member) && (*member == at || reaches(at, member));
        self.0.contains_key(at)
            && running.contains(at)
            && self.0.keys().filter(counts).count() > self.0.len() / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str) -> Member {
        Member { name: format!("{name}-1"), address: Ipv4Addr::LOCALHOST }
    }

    fn set(names: &[&str]) -> BTreeSet<MachineName> {
        names.iter().map(|name| MachineName::from(*name)).collect()
    }

    #[test]
    fn more_than_half() {
        let mut members = Members::default();
        for name in ["a", "b", "c"] {
            members.add(name.into(), member(name));
        }
        let everybody = |_: &MachineName, _: &MachineName| true;
        for (at, running, quorum) in [
            ("a", set(&["a", "b", "c"]), true),
            ("a", set(&["a", "b"]), true),
            ("a", set(&["a"]), false),
            ("a", set(&["b", "c"]), false),
            ("other", set(&["a", "b", "other"]), false),
        ] {
            assert_eq!(members.has_quorum(&at.into(), &running, everybody), quorum, "{at} of {running:?}");
        }
        members.remove(&"b".into());
        members.remove(&"c".into());
        assert!(members.has_quorum(&"a".into(), &set(&["a"]), everybody), "one of one");
    }

    #[test]
    fn the_larger_side_of_a_partition() {
        let mut members = Members::default();
        for name in ["a", "b", "c"] {
            members.add(name.into(), member(name));
        }
        let running = set(&["a", "b", "c"]);
        let reaches =
            |one: &MachineName, other: &MachineName| (one.as_str() == "a") == (other.as_str() == "a");
        assert!(!members.has_quorum(&"a".into(), &running, reaches));
        assert!(members.has_quorum(&"b".into(), &running, reaches));
    }
}
