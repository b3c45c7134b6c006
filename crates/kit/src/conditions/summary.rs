//! Several conditions of one object become one.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{Finding, Polarity, Status, Weight, find, indented};

/// A condition that takes part in a summary.
#[derive(Clone, Debug)]
pub struct Gate {
    /// Its type.
    pub type_: String,
    /// Which status is good.
    pub polarity: Polarity,
    /// Whether it may be missing.
    pub optional: bool,
    /// What is told instead of the condition.
    pub instead: Option<Finding>,
}

impl Gate {
    /// True is good, and it has to be there.
    pub fn positive(type_: &str) -> Self {
        Gate { type_: type_.into(), polarity: Polarity::Positive, optional: false, instead: None }
    }

    /// False is good, and it has to be there.
    pub fn negative(type_: &str) -> Self {
        Gate { polarity: Polarity::Negative, ..Gate::positive(type_) }
    }

    /// The same, but it may be missing.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// The same, told in other words.
    #[must_use]
    pub fn told_as(mut self, finding: Option<Finding>) -> Self {
        self.instead = finding;
        self
    }
}

/// The reasons of a summary.
#[derive(Clone, Copy, Debug)]
pub struct Reasons {
    /// Something is wrong.
    pub issue: &'static str,
    /// Something is not known.
    pub unknown: &'static str,
    /// All is well.
    pub info: &'static str,
}

impl Reasons {
    pub(crate) fn of(self, weight: Weight) -> &'static str {
        match weight {
            Weight::Issue => self.issue,
            Weight::Unknown => self.unknown,
            Weight::Info => self.info,
        }
    }
}

/// One finding for several: bad if one of them is, else unknown if one of them is, else good. The message lists what
/// is not good, first what is bad; if all is good, what is said about it.
pub fn summary(target: &str, gates: &[Gate], conditions: &[Condition], reasons: Reasons) -> Finding {
    let mut weighed: Vec<(Weight, Finding)> = Vec::new();
    for gate in gates {
        let told = gate.instead.clone().or_else(|| find(conditions, &gate.type_).map(Finding::from));
        let finding = match told {
            Some(finding) => finding,
            None if gate.optional => continue,
            None => Finding::unknown(&gate.type_, "NotYetReported").saying("Condition not yet reported"),
        };
        weighed.push((gate.polarity.weigh(finding.status), finding));
    }
    // Stable: conditions of the same weight stay in the order in which they are asked for.
    weighed.sort_by_key(|(weight, _)| *weight);
    let worst = weighed.first().map_or(Weight::Info, |(weight, _)| *weight);
    let told = weighed.iter().filter(|(weight, finding)| match worst {
        Weight::Info => !finding.message.is_empty(),
        _ => *weight != Weight::Info,
    });
    let lines: Vec<String> = told.map(|(_, finding)| line(finding)).collect();
    let status = Polarity::Positive.status(worst);
    Finding::new(target, status, reasons.of(worst)).saying(lines.join("\n"))
}

fn line(finding: &Finding) -> String {
    let text = if finding.message.is_empty() { &finding.reason } else { &finding.message };
    format!("* {}:{}", finding.type_, indented(text))
}

/// Whether a summary's inputs are all good: for those who only want the answer.
impl Finding {
    /// Whether the finding says that it is so.
    pub fn is_true(&self) -> bool {
        self.status == Status::True
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::conditions::set;

    const REASONS: Reasons = Reasons { issue: "NotReady", unknown: "ReadyUnknown", info: "Ready" };

    fn summed(gates: &[Gate], findings: Vec<Finding>) -> (Status, String, String) {
        let mut conditions = Vec::new();
        for finding in findings {
            set(&mut conditions, finding, 1, Timestamp::UNIX_EPOCH);
        }
        let found = summary("Ready", gates, &conditions, REASONS);
        (found.status, found.reason, found.message)
    }

    #[test]
    fn the_worst_decides_and_is_told_first() {
        let gates = [
            Gate::negative("Deleting"),
            Gate::positive("A"),
            Gate::positive("B"),
            Gate::positive("C").optional(),
        ];
        let well = || {
            vec![
                Finding::no("Deleting", "NotDeleting"),
                Finding::yes("A", "Ready"),
                Finding::yes("B", "Ready"),
            ]
        };
        let cases = [
            (well(), (Status::True, "Ready", "")),
            (
                vec![
                    Finding::no("Deleting", "NotDeleting"),
                    Finding::yes("A", "Ready").saying("by hand"),
                    Finding::yes("B", "Ready"),
                ],
                (Status::True, "Ready", "* A: by hand"),
            ),
            (
                vec![Finding::no("Deleting", "NotDeleting"), Finding::yes("A", "Ready").saying("by hand")],
                (Status::Unknown, "ReadyUnknown", "* B: Condition not yet reported"),
            ),
            (
                vec![
                    Finding::no("Deleting", "NotDeleting"),
                    Finding::unknown("A", "InternalError"),
                    Finding::no("B", "Bad").saying("one\ntwo"),
                ],
                (Status::False, "NotReady", "* B:\n  one\n  two\n* A: InternalError"),
            ),
            (
                vec![
                    Finding::yes("Deleting", "Draining"),
                    Finding::yes("A", "Ready"),
                    Finding::yes("B", "Ready"),
                    Finding::no("C", "Off").saying("* x: y"),
                ],
                (Status::False, "NotReady", "* Deleting: Draining\n* C:\n  * x: y"),
            ),
        ];
        for (findings, (status, reason, message)) in cases {
            let text = format!("{findings:?}");
            assert_eq!(summed(&gates, findings), (status, reason.into(), message.into()), "{text}");
        }
    }

    #[test]
    fn a_condition_may_be_told_in_other_words() {
        let gates = [Gate::positive("A").told_as(Some(Finding::yes("A", "Fine").saying("never mind")))];
        let found = summed(&gates, vec![Finding::no("A", "Bad").saying("very bad")]);
        assert_eq!(found, (Status::True, "Ready".into(), "* A: never mind".into()));
    }
}
