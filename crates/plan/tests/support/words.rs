//! A plan Secret in a line of words, and what is written to it in another: what tables are made of.
//!
//! `plan=X state=pending rev=3 applied=X failed=Y failures=2 successes=1 max=3 last=-10 output=old statuses=none`
//!
//! Times are seconds from now. `X` and `Y` are plans with one instruction each; `Z` cannot be read.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use plan::document::{Instruction, OneTimeInstruction};
use plan::secret::{self, Changes, Data};
use plan::{Checksum, Document, Plan, gotime, output};

pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

pub(crate) fn after(seconds: i64) -> Timestamp {
    now() + SignedDuration::from_secs(seconds)
}

pub(crate) fn plan_bytes(name: &str) -> Vec<u8> {
    if name == "Z" {
        return b"{".to_vec();
    }
    let common = Instruction { name: "run".into(), command: name.into(), ..Instruction::default() };
    let instruction = OneTimeInstruction { common, save_output: true, ..OneTimeInstruction::default() };
    Document::encode(Plan { instructions: vec![instruction], ..Plan::default() }).bytes().to_vec()
}

pub(crate) fn data(words: &str) -> Data {
    let mut data = Data::from([(secret::PROBE_STATUSES.to_owned(), b"{}".to_vec())]);
    for word in words.split_whitespace() {
        let (name, value) = word.split_once('=').unwrap();
        let checksum = || Checksum::of(&plan_bytes(value)).to_string().into_bytes();
        let packed = || output::encode(&BTreeMap::from([("run".to_owned(), value.as_bytes().to_vec())]));
        let (key, bytes) = match name {
            "plan" => (secret::PLAN, plan_bytes(value)),
            "state" => (secret::PLAN_STATE, value.into()),
            "rev" => (secret::PLAN_REVISION, value.into()),
            "applied" => (secret::APPLIED_CHECKSUM, checksum()),
            "failed" => (secret::FAILED_CHECKSUM, checksum()),
            "failures" => (secret::FAILURE_COUNT, value.into()),
            "successes" => (secret::SUCCESS_COUNT, value.into()),
            "max" => (secret::MAX_FAILURES, value.into()),
            "threshold" => (secret::FAILURE_THRESHOLD, value.into()),
            "last" => (secret::LAST_APPLY_TIME, gotime::format(after(value.parse().unwrap())).into()),
            "output" => (secret::APPLIED_OUTPUT, packed()),
            "failed-output" => (secret::FAILED_OUTPUT, packed()),
            "statuses" => {
                data.remove(secret::PROBE_STATUSES);
                continue;
            }
            other => panic!("no such word: {other}"),
        };
        data.insert(key.to_owned(), bytes);
    }
    data
}

/// What is written, readable: `applied=X failures=0 ...`; a key that is emptied or removed is `-`.
pub(crate) fn keys(changes: &Changes) -> String {
    let word = |(key, value): (&&'static str, &Option<Vec<u8>>)| {
        let value = value.as_deref().unwrap_or_default();
        format!("{}={}", short(key), if value.is_empty() { "-".into() } else { readable(key, value) })
    };
    changes.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn short(key: &str) -> &str {
    match key {
        secret::PLAN_STATE => "state",
        secret::PLAN_REVISION => "rev",
        secret::APPLIED_CHECKSUM => "applied",
        secret::FAILED_CHECKSUM => "failed",
        secret::FAILURE_COUNT => "failures",
        secret::SUCCESS_COUNT => "successes",
        secret::LAST_APPLY_TIME => "last",
        secret::APPLIED_OUTPUT => "output",
        secret::FAILED_OUTPUT => "failed-output",
        secret::APPLIED_PERIODIC_OUTPUT => "periodic",
        secret::PROBE_STATUSES => "statuses",
        secret::MAX_FAILURES => "max",
        secret::FAILURE_THRESHOLD => "threshold",
        other => other,
    }
}

fn readable(key: &str, value: &[u8]) -> String {
    let text = || String::from_utf8(value.to_vec()).unwrap();
    let plan = |checksum: &str| {
        let known = ["X", "Y", "Z"].into_iter();
        let mut found = known.filter(|name| Checksum::of(&plan_bytes(name)).to_string() == checksum);
        found.next().unwrap_or("another").to_owned()
    };
    match key {
        secret::PLAN | secret::APPLIED_PLAN => plan(&Checksum::of(value).to_string()),
        secret::APPLIED_CHECKSUM | secret::FAILED_CHECKSUM => plan(&text()),
        secret::APPLIED_OUTPUT | secret::FAILED_OUTPUT => {
            String::from_utf8(output::decode(value).unwrap()["run"].clone()).unwrap()
        }
        secret::APPLIED_PERIODIC_OUTPUT => {
            let outputs = output::decode_periodic(value).unwrap();
            let failures: Vec<_> =
                outputs.iter().map(|(name, run)| format!("{name}:{}", run.failures)).collect();
            failures.join(",")
        }
        secret::LAST_APPLY_TIME => {
            (gotime::parse(&text()).unwrap().as_second() - now().as_second()).to_string()
        }
        _ => text(),
    }
}
