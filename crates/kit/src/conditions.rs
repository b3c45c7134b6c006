//! Conditions: what a status says in a list of findings, and how many findings become one.
//!
//! The texts are an API: people read them, and tools of the Cluster API world group and sort by them.

mod aggregate;
pub mod legacy;
mod merge;
mod mirror;
mod summary;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

pub use aggregate::{Aggregate, Source};
pub use merge::merge;
pub use mirror::{Provided, mirror, provided};
pub use summary::{Gate, Reasons, summary};

/// The order in which conditions are listed; types that are not named come after these, by name, and before the last
/// two.
const ORDER: [&str; 37] = [
    "Available",
    "Ready",
    "UpToDate",
    "RemoteConnectionProbe",
    "BootstrapConfigReady",
    "InfrastructureReady",
    "ControlPlaneInitialized",
    "ControlPlaneAvailable",
    "WorkersAvailable",
    "CertificatesAvailable",
    "Initialized",
    "EtcdClusterHealthy",
    "ControlPlaneComponentsHealthy",
    "NodeHealthy",
    "NodeReady",
    "NodeKubeadmLabelsAndTaintsSet",
    "EtcdPodHealthy",
    "EtcdMemberHealthy",
    "APIServerPodHealthy",
    "ControllerManagerPodHealthy",
    "SchedulerPodHealthy",
    "HealthCheckSucceeded",
    "OwnerRemediated",
    "TopologyReconciled",
    "Updating",
    "RollingOut",
    "Remediating",
    "ScalingDown",
    "ScalingUp",
    "MachinesReady",
    "ControlPlaneMachinesReady",
    "WorkerMachinesReady",
    "MachinesUpToDate",
    "ControlPlaneMachinesUpToDate",
    "WorkerMachinesUpToDate",
    "Paused",
    "Deleting",
];

/// How many entries at the end of [`ORDER`] come after the types that it does not name.
const LAST: usize = 2;

/// Longest message that the API takes.
const LONGEST_MESSAGE: usize = 32_768;

/// What a condition says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// It is so.
    True,
    /// It is not so.
    False,
    /// Cannot be told.
    Unknown,
}

impl Status {
    /// As the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::True => "True",
            Status::False => "False",
            Status::Unknown => "Unknown",
        }
    }

    /// The status of this spelling; none for any other word.
    pub fn read(text: &str) -> Option<Self> {
        [Status::True, Status::False, Status::Unknown].into_iter().find(|status| status.as_str() == text)
    }

    /// `True` or `False`.
    pub fn of(so: bool) -> Self {
        if so { Status::True } else { Status::False }
    }
}

/// Which status of a condition is good news.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Polarity {
    /// True is good.
    #[default]
    Positive,
    /// False is good.
    Negative,
}

/// What a finding means for somebody who wants all to be well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Weight {
    /// Bad news.
    Issue,
    /// No news.
    Unknown,
    /// Good news.
    Info,
}

impl Polarity {
    pub(crate) fn weigh(self, status: Status) -> Weight {
        match (self, status) {
            (_, Status::Unknown) => Weight::Unknown,
            (Polarity::Positive, Status::True) | (Polarity::Negative, Status::False) => Weight::Info,
            _ => Weight::Issue,
        }
    }

    /// The status that carries `weight`.
    pub(crate) fn status(self, weight: Weight) -> Status {
        match (self, weight) {
            (_, Weight::Unknown) => Status::Unknown,
            (Polarity::Positive, Weight::Info) | (Polarity::Negative, Weight::Issue) => Status::True,
            _ => Status::False,
        }
    }
}

/// A condition that is yet to be written: no times, no generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is about.
    pub type_: String,
    /// What it says.
    pub status: Status,
    /// Why, in one word for programs; never empty.
    pub reason: String,
    /// Why, for people; may be empty.
    pub message: String,
}

impl Finding {
    /// A finding without a message.
    pub fn new(type_: &str, status: Status, reason: &str) -> Self {
        Finding { type_: type_.into(), status, reason: reason.into(), message: String::new() }
    }

    /// It is so.
    pub fn yes(type_: &str, reason: &str) -> Self {
        Finding::new(type_, Status::True, reason)
    }

    /// It is not so.
    pub fn no(type_: &str, reason: &str) -> Self {
        Finding::new(type_, Status::False, reason)
    }

    /// Cannot be told.
    pub fn unknown(type_: &str, reason: &str) -> Self {
        Finding::new(type_, Status::Unknown, reason)
    }

    /// The same, with words for people.
    #[must_use]
    pub fn saying(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }
}

impl From<&Condition> for Finding {
    fn from(condition: &Condition) -> Self {
        Finding {
            type_: condition.type_.clone(),
            status: Status::read(&condition.status).unwrap_or(Status::Unknown),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
        }
    }
}

/// The condition of a type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether there is a condition of this type with this status.
pub fn has(conditions: &[Condition], type_: &str, status: Status) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == status.as_str())
}

/// Takes the condition of a type away.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) {
    conditions.retain(|condition| condition.type_ != type_);
}

/// Writes a finding into the list, in its place.
///
/// # Guarantees
/// - The transition time is kept while the status is the same.
/// - A list that has the finding already stays as it is, to the letter.
pub fn set(conditions: &mut Vec<Condition>, finding: Finding, generation: i64, now: Timestamp) {
    let mut message = finding.message;
    message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
    let status = finding.status.as_str();
    let before = conditions.iter_mut().find(|condition| condition.type_ == finding.type_);
    let since = before.as_ref().filter(|before| before.status == status);
    let since = since.map_or_else(|| seconds(now), |before| before.last_transition_time.clone());
    let condition = Condition {
        type_: finding.type_,
        status: status.into(),
        reason: finding.reason,
        message,
        observed_generation: (generation > 0).then_some(generation),
        last_transition_time: since,
    };
    match before {
        Some(before) => *before = condition,
        None => conditions.push(condition),
    }
    sort(conditions);
}

/// A time as the API keeps it: without fractions of a second.
pub fn seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// Puts conditions into the order in which everybody lists them.
pub fn sort(conditions: &mut [Condition]) {
    let named = |type_: &str| ORDER.iter().position(|known| *known == type_);
    conditions.sort_by_cached_key(|condition| {
        let place = named(&condition.type_).map(|place| match place + LAST >= ORDER.len() {
            true => place + 1,
            false => place,
        });
        (place.unwrap_or(ORDER.len() - LAST), condition.type_.clone())
    });
}

/// A message as a list item's text: a text of several lines, or a list, begins on a line of its own.
pub(crate) fn indented(message: &str) -> String {
    if !message.contains('\n') && !message.starts_with("* ") {
        return format!(" {message}");
    }
    message.lines().map(|line| format!("\n  {line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_time_changes_with_the_status_only() {
        let mut conditions = Vec::new();
        set(&mut conditions, Finding::yes("Ready", "Ready"), 1, at(10));
        set(&mut conditions, Finding::yes("Ready", "StillReady").saying("text"), 2, at(20));
        assert_eq!(conditions[0].last_transition_time.0, at(10));
        assert_eq!(
            (conditions[0].reason.as_str(), conditions[0].observed_generation),
            ("StillReady", Some(2))
        );
        set(&mut conditions, Finding::no("Ready", "NotReady"), 2, at(30));
        assert_eq!(conditions[0].last_transition_time.0, at(30));
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn fractions_of_a_second_are_dropped() {
        let mut conditions = Vec::new();
        set(&mut conditions, Finding::yes("Ready", "Ready"), 1, "2026-01-01T00:00:00.75Z".parse().unwrap());
        assert_eq!(conditions[0].last_transition_time.0, "2026-01-01T00:00:00Z".parse().unwrap());
    }

    #[test]
    fn conditions_have_an_order() {
        let mut conditions = Vec::new();
        for type_ in ["Deleting", "Zeal", "Paused", "Ready", "PlanApplied", "Available", "WorkersAvailable"] {
            set(&mut conditions, Finding::yes(type_, "Reason"), 1, at(1));
        }
        let types: Vec<&str> = conditions.iter().map(|condition| condition.type_.as_str()).collect();
        assert_eq!(
            types,
            ["Available", "Ready", "WorkersAvailable", "PlanApplied", "Zeal", "Paused", "Deleting"]
        );
    }

    #[test]
    fn statuses_are_read_and_weighed() {
        assert_eq!(Status::read("True"), Some(Status::True));
        assert_eq!(Status::read("true"), None);
        assert_eq!(Polarity::Positive.weigh(Status::False), Weight::Issue);
        assert_eq!(Polarity::Negative.weigh(Status::False), Weight::Info);
        assert_eq!(Polarity::Negative.weigh(Status::Unknown), Weight::Unknown);
        assert_eq!(Polarity::Negative.status(Weight::Issue), Status::True);
    }

    #[test]
    fn endless_messages_are_cut() {
        let mut conditions = Vec::new();
        set(&mut conditions, Finding::no("Ready", "NotReady").saying("é".repeat(30_000)), 1, at(1));
        assert_eq!(conditions[0].message.len(), LONGEST_MESSAGE);
    }
}
