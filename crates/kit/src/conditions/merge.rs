//! Conditions that several writers keep in one list.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{find, sort};

/// The list to write when somebody else has written meanwhile: `live` with what changed between `before` and `after`.
///
/// # Guarantees
/// - Types in `owned` are as in `after`.
/// - Other types are as in `after` where we changed them, else as in `live`. Where both changed the same one to
///   different ends, ours counts: the next look starts from what was written.
pub fn merge(
    live: &[Condition],
    before: &[Condition],
    after: &[Condition],
    owned: &[&str],
) -> Vec<Condition> {
    let changed = |type_: &str| owned.contains(&type_) || find(before, type_) != find(after, type_);
    let theirs = live.iter().filter(|condition| !changed(&condition.type_));
    let ours = after.iter().filter(|condition| changed(&condition.type_));
    let mut merged: Vec<Condition> = theirs.chain(ours).cloned().collect();
    sort(&mut merged);
    merged
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use crate::conditions::{Finding, Status, set};

    fn list(entries: &[(usize, u8)]) -> Vec<Condition> {
        let mut conditions = Vec::new();
        for (type_, reason) in entries {
            let finding = Finding::new(&format!("T{type_}"), Status::True, &format!("R{reason}"));
            set(&mut conditions, finding, 1, Timestamp::UNIX_EPOCH);
        }
        conditions
    }

    #[test]
    fn foreign_conditions_survive() {
        let before = list(&[(1, 1)]);
        let after = list(&[(1, 2)]);
        let live = list(&[(1, 1), (2, 7)]);
        assert_eq!(merge(&live, &before, &after, &["T1"]), list(&[(1, 2), (2, 7)]));
    }

    fn lists() -> impl Strategy<Value = Vec<Condition>> {
        proptest::collection::vec((0_usize..6, 0_u8..3), 0..6).prop_map(|entries| list(&entries))
    }

    proptest! {
        #[test]
        fn nobody_loses_anything(live in lists(), before in lists(), after in lists()) {
            let merged = merge(&live, &before, &after, &["T0", "T1"]);
            for type_ in ["T0", "T1", "T2", "T3", "T4", "T5"] {
                let ours = ["T0", "T1"].contains(&type_) || find(&before, type_) != find(&after, type_);
                let expected = if ours { find(&after, type_) } else { find(&live, type_) };
                prop_assert_eq!(find(&merged, type_), expected);
            }
            prop_assert!(merge(&merged, &after, &after, &[]) == merged);
        }
    }
}
