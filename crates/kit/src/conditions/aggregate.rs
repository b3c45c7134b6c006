//! The same condition of many objects becomes one.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{Finding, Polarity, Reasons, Weight, find, indented};

/// How many different messages are told.
const MESSAGES: usize = 3;
/// How many objects are named before a message.
const NAMES: usize = 3;

/// An object whose condition takes part.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Its kind.
    pub kind: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Whether it is a machine of the control plane: those are told first.
    pub control_plane: bool,
    /// Its conditions.
    pub conditions: &'a [Condition],
}

/// How conditions of many objects become one.
#[derive(Clone, Copy, Debug)]
pub struct Aggregate<'a> {
    /// The condition that is looked at.
    pub type_: &'a str,
    /// Which status of it, and of the result, is good.
    pub polarity: Polarity,
    /// The result's type.
    pub target: &'a str,
    /// The result's reasons.
    pub reasons: Reasons,
}

/// Objects that say the same.
struct Group<'a> {
    kind: &'a str,
    weight: Weight,
    message: String,
    names: Vec<&'a str>,
    control_plane: bool,
}

impl Aggregate<'_> {
    /// One finding for all: bad if one is, else unknown if one is, else good. A missing condition is unknown.
    pub fn over(&self, sources: &[Source<'_>]) -> Finding {
        let mut groups: BTreeMap<(&str, Weight, String), Group<'_>> = BTreeMap::new();
        for source in sources {
            let finding = match find(source.conditions, self.type_) {
                Some(condition) => Finding::from(condition),
                None => Finding::unknown(self.type_, "NotYetReported")
                    .saying(format!("Condition {} not yet reported", self.type_)),
            };
            let weight = self.polarity.weigh(finding.status);
            let message = match (weight, finding.message.is_empty()) {
                (Weight::Info, _) | (_, false) => finding.message,
                (_, true) => finding.reason,
            };
            let key = (source.kind, weight, message.clone());
            let group = groups.entry(key).or_insert_with(|| Group {
                kind: source.kind,
                weight,
                message,
                names: Vec::new(),
                control_plane: false,
            });
            group.names.push(source.name);
            group.control_plane |= source.control_plane;
        }
        let worst = groups.values().map(|group| group.weight).min().unwrap_or(Weight::Info);
        let told: Vec<Group<'_>> = groups
            .into_values()
            .filter(|group| match worst {
                Weight::Info => !group.message.is_empty(),
                _ => group.weight != Weight::Info,
            })
            .collect();
        Finding::new(self.target, self.polarity.status(worst), self.reasons.of(worst)).saying(text(told))
    }
}

fn text(mut groups: Vec<Group<'_>>) -> String {
    for group in &mut groups {
        group.names.sort_unstable();
    }
    groups.sort_by(|a, b| {
        let key =
            |group: &Group<'_>| (!group.control_plane, group.weight, std::cmp::Reverse(group.names.len()));
        (a.kind, key(a), &a.names).cmp(&(b.kind, key(b), &b.names))
    });
    let rest = groups.split_off(groups.len().min(MESSAGES));
    let mut lines: Vec<String> = groups.iter().map(line).collect();
    lines.extend(others(&rest));
    lines.join("\n")
}

fn line(group: &Group<'_>) -> String {
    let named = group.names.iter().take(NAMES).copied().collect::<Vec<_>>().join(", ");
    let more = match group.names.len().saturating_sub(NAMES) {
        0 => String::new(),
        more => format!(", ... ({more} more)"),
    };
    format!("* {} {named}{more}:{}", kinds(group.kind, group.names.len()), indented(&group.message))
}

/// What is counted instead of told, by kind and weight.
fn others(rest: &[Group<'_>]) -> Vec<String> {
    let mut counts: BTreeMap<(&str, Weight), usize> = BTreeMap::new();
    for group in rest {
        *counts.entry((group.kind, group.weight)).or_default() += group.names.len();
    }
    let line = |((kind, weight), count): ((&str, Weight), usize)| {
        let what = match weight {
            Weight::Issue => "with other issues",
            Weight::Unknown => "with status unknown",
            Weight::Info => "with additional info",
        };
        format!("And {count} {} {what}", kinds(kind, count))
    };
    counts.into_iter().map(line).collect()
}

fn kinds(kind: &str, count: usize) -> String {
    if count == 1 { kind.into() } else { format!("{kind}s") }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::conditions::{Status, set};

    const READY: Aggregate<'_> = Aggregate {
        type_: "Ready",
        polarity: Polarity::Positive,
        target: "MachinesReady",
        reasons: Reasons { issue: "NotReady", unknown: "ReadyUnknown", info: "Ready" },
    };

    fn conditions(finding: Option<Finding>) -> Vec<Condition> {
        let mut conditions = Vec::new();
        if let Some(finding) = finding {
            set(&mut conditions, finding, 1, Timestamp::UNIX_EPOCH);
        }
        conditions
    }

    fn over(aggregate: Aggregate<'_>, machines: &[(&str, Option<Finding>)]) -> Finding {
        let listed: Vec<(&str, Vec<Condition>)> =
            machines.iter().map(|(name, finding)| (*name, conditions(finding.clone()))).collect();
        let sources: Vec<Source<'_>> = listed
            .iter()
            .map(|(name, conditions)| Source {
                kind: "Machine",
                name,
                control_plane: name.starts_with("cp"),
                conditions,
            })
            .collect();
        aggregate.over(&sources)
    }

    fn no(message: &str) -> Option<Finding> {
        Some(Finding::no("Ready", "NotReady").saying(message))
    }

    #[test]
    fn all_well_or_nothing_at_all_is_good() {
        assert_eq!(over(READY, &[]), Finding::yes("MachinesReady", "Ready"));
        let well = Some(Finding::yes("Ready", "Ready"));
        assert_eq!(over(READY, &[("a", well.clone()), ("b", well)]), Finding::yes("MachinesReady", "Ready"));
    }

    #[test]
    fn objects_that_say_the_same_share_a_line() {
        let found = over(
            READY,
            &[
                ("e", no("x")),
                ("a", no("x")),
                ("b", no("x")),
                ("c", no("x")),
                ("d", Some(Finding::yes("Ready", "Ready"))),
                ("f", None),
            ],
        );
        assert_eq!(found.status, Status::False);
        assert_eq!(
            found.message,
            "* Machines a, b, c, ... (1 more): x\n* Machine f: Condition Ready not yet reported"
        );
    }

    #[test]
    fn three_messages_are_told_and_the_control_plane_first() {
        let found = over(
            READY,
            &[
                ("a", no("1")),
                ("b", no("1")),
                ("c", no("2")),
                ("d", no("3")),
                ("e", no("4")),
                ("cp", no("5\n6")),
                ("g", None),
            ],
        );
        assert_eq!(
            found.message,
            "* Machine cp:\n  5\n  6\n* Machines a, b: 1\n* Machine c: 2\nAnd 2 Machines with other issues\nAnd 1 Machine with status unknown"
        );
    }

    #[test]
    fn bad_news_of_a_negative_condition_is_true() {
        let rolling = Aggregate {
            type_: "RollingOut",
            polarity: Polarity::Negative,
            target: "RollingOut",
            reasons: Reasons { issue: "RollingOut", unknown: "RollingOutUnknown", info: "NotRollingOut" },
        };
        let machines = [("a", Some(Finding::no("RollingOut", "NotRollingOut")))];
        assert_eq!(over(rolling, &machines), Finding::no("RollingOut", "NotRollingOut"));
        let machines = [("a", Some(Finding::yes("RollingOut", "RollingOut").saying("1 of 3")))];
        assert_eq!(
            over(rolling, &machines),
            Finding::yes("RollingOut", "RollingOut").saying("* Machine a: 1 of 3")
        );
    }
}
