//! Codecs lose nothing, and no bytes from outside bring them down.

use std::collections::BTreeMap;

use jiff::Timestamp;
use plan::agent::Report;
use plan::document::{File, Instruction, OneTimeInstruction, PeriodicInstruction, Probe};
use plan::interlock::Interlock;
use plan::output::{self, PeriodicOutput};
use plan::position::Position;
use plan::secret::{self, Data, PlanSecret};
use plan::{Document, Plan, gotime, orchestrator, probe, validate};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn unknown_fields_survive_at_every_depth() {
    let text = json!({
        "files": [{"path": "/a", "x": {"z": 1, "a": [true, null]}}],
        "instructions": [{"name": "i", "saveOutput": true, "x": "<1>"}],
        "periodicInstructions": [{"name": "p", "periodSeconds": 3, "x": -2}],
        "probes": {"p": {"httpGet": {"url": "u", "x": 4}, "x": 3.5}},
        "resetFailureCountOnStartup": true,
    });
    let document = Document::parse(text.to_string()).unwrap();
    assert_eq!(document.plan().files[0].path, "/a");
    assert!(document.plan().instructions[0].save_output);
    let again: Value = serde_json::from_slice(Document::encode(document.plan().clone()).bytes()).unwrap();
    assert_eq!(again, text);
    assert_eq!(document.bytes(), text.to_string().as_bytes());
}

#[test]
fn null_is_nothing_and_the_last_key_counts() {
    let nulls = r#"{"files":null,"instructions":[{"name":null,"env":null,"saveOutput":null}],
        "periodicInstructions":null,"error":null,"probes":{"p":{"timeoutSeconds":null,"httpGet":null}},
        "files":[{"path":"/a","path":"/b","uid":null}]}"#;
    let plan = Document::parse(nulls).unwrap().plan().clone();
    assert_eq!(plan.files, [File { path: "/b".into(), ..File::default() }]);
    assert_eq!(plan.instructions, [OneTimeInstruction::default()]);
    assert_eq!(plan.probes["p"], Probe::default());
    assert!(*Document::parse("null").unwrap().plan() == Plan::default());
    for wrong in ["", "[]", "1", "{", r#"{"files":{}}"#, r#"{"files":[{"uid":"1"}]}"#] {
        assert!(Document::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn file_modes() {
    let mode = |permissions: &str, directory| {
        File { permissions: permissions.into(), directory, ..File::default() }.mode().ok()
    };
    assert_eq!(mode("", false), Some(0o600));
    assert_eq!(mode("", true), Some(0o755));
    assert_eq!(mode("0644", true), Some(0o644));
    assert_eq!(mode("4755", false), Some(0o755), "only rwx bits");
    assert_eq!((mode("9z", false), mode("-1", false), mode("0o644", false)), (None, None, None));
}

fn plans() -> impl Strategy<Value = Plan> {
    let extra = || btree_map("x[a-z<]{0,3}", any::<i32>().prop_map(Value::from), 0..2);
    let common = (".{0,5}", vec(".{0,5}", 0..3), ".{0,9}").prop_map(|(name, env, script)| Instruction {
        name,
        env,
        script,
        ..Instruction::default()
    });
    let file = ("[A-Za-z0-9+/]{0,4}", "/.{0,9}", any::<bool>(), any::<i64>(), extra()).prop_map(
        |(content, path, directory, uid, extra)| File {
            content,
            path,
            directory,
            uid,
            extra,
            ..File::default()
        },
    );
    let once = (common.clone(), any::<bool>(), extra())
        .prop_map(|(common, save_output, extra)| OneTimeInstruction { common, save_output, extra });
    let periodic = (common, any::<i64>(), extra()).prop_map(|(common, period_seconds, extra)| {
        PeriodicInstruction { common, period_seconds, extra, ..PeriodicInstruction::default() }
    });
    let probes = (any::<i64>(), extra()).prop_map(|(success_threshold, extra)| Probe {
        success_threshold,
        extra,
        ..Probe::default()
    });
    (vec(file, 0..3), vec(once, 0..3), vec(periodic, 0..3), btree_map(".{0,4}", probes, 0..3), extra())
        .prop_map(|(files, instructions, periodic_instructions, probes, extra)| Plan {
            files,
            instructions,
            periodic_instructions,
            probes,
            extra,
            ..Plan::default()
        })
}

proptest! {
    #[test]
    fn plans_survive(plan in plans()) {
        let encoded = Document::encode(plan.clone());
        let read = Document::parse(encoded.bytes()).unwrap();
        prop_assert!(*read.plan() == plan);
        prop_assert_eq!(read.checksum(), encoded.checksum());
        validate(&plan);
    }

    #[test]
    fn outputs_survive(outputs in btree_map(".{0,5}", vec(any::<u8>(), 0..50), 0..4), code in any::<i64>()) {
        prop_assert_eq!(&output::decode(&output::encode(&outputs)).unwrap(), &outputs);
        let periodic: BTreeMap<_, _> = outputs.into_iter().map(|(name, stdout)| {
            (name.clone(), PeriodicOutput { name, stdout, exit_code: code, ..PeriodicOutput::default() })
        }).collect();
        prop_assert_eq!(output::decode_periodic(&output::encode_periodic(&periodic)).unwrap(), periodic);
    }

    #[test]
    fn times_survive_to_the_second(second in -62_135_596_800_i64..253_402_200_000, nanos in 0..1_000_000_000_i32) {
        let time = Timestamp::new(second, 0).unwrap();
        let within = Timestamp::new(second, if second < 0 { 0 } else { nanos }).unwrap();
        prop_assert_eq!(gotime::parse(&gotime::format(within)), Some(time));
    }

    #[test]
    fn any_bytes_are_read_without_harm(bytes in vec(any::<u8>(), 0..200), key in 0..KEYS.len()) {
        harmless(&bytes, KEYS[key]);
    }

    #[test]
    fn any_text_is_read_without_harm(text in "[\\[\\]{}\",:a-z0-9 =+.-]{0,80}", key in 0..KEYS.len()) {
        harmless(text.as_bytes(), KEYS[key]);
    }

    #[test]
    fn damaged_values_are_read_without_harm(at in 0..60_usize, bit in 0..8) {
        let mut packed = output::encode(&BTreeMap::from([("name".to_owned(), b"output".to_vec())]));
        let at = at % packed.len();
        packed[at] ^= 1_u8 << bit;
        let _ = output::decode(&packed);
        harmless(&packed, secret::APPLIED_OUTPUT);
    }
}

const KEYS: [&str; 16] = [
    secret::PLAN,
    secret::MAX_FAILURES,
    secret::FAILURE_THRESHOLD,
    secret::PROBE_PERIOD,
    secret::PLAN_STATE,
    secret::PLAN_REVISION,
    secret::APPLIED_CHECKSUM,
    secret::APPLIED_OUTPUT,
    secret::APPLIED_PERIODIC_OUTPUT,
    secret::FAILED_CHECKSUM,
    secret::FAILED_OUTPUT,
    secret::FAILURE_COUNT,
    secret::SUCCESS_COUNT,
    secret::LAST_APPLY_TIME,
    secret::PROBE_STATUSES,
    secret::APPLIED_PLAN,
];

/// Reads the bytes as everything they could be; what matters is that all of it comes back.
fn harmless(bytes: &[u8], key: &str) {
    let data = Data::from([(key.to_owned(), bytes.to_vec())]);
    let secret = PlanSecret::read(&data);
    orchestrator::status(&secret, &BTreeMap::new());
    orchestrator::upkeep(&data, &BTreeMap::new(), Timestamp::UNIX_EPOCH);
    let _ = (Document::parse(bytes), probe::decode(bytes), Position::decode(bytes), Report::decode(bytes));
    let _ = Interlock::parse(bytes);
    let _ = gotime::parse(&String::from_utf8_lossy(bytes));
    if let Ok(document) = Document::parse(bytes) {
        validate(document.plan());
    }
}
