//! What is known to be nasty, and what chance brings, for every decoder. A stack that overflows ends the whole test.

use fuzzing::{TARGETS, Target};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Texts that have brought parsers down.
fn nasty() -> Vec<Vec<u8>> {
    let mut texts: Vec<Vec<u8>> = vec![Vec::new(), vec![0; 64], vec![0xff; 64], b"\xef\xbb\xbf{}".to_vec()];
    for unit in [
        "[",
        "{\"a\":",
        "(",
        "!",
        "-",
        "- ",
        "a.",
        "a[",
        "[?(@.",
        "a,",
        "a in (",
        "{",
        "?",
        "\\",
        "\"",
        "a?b:",
        "[1].map(x,",
        "1+",
        "&a *a ",
        "%",
        "/",
        "//",
        ";",
        "((a|",
        "a:\n ",
        "\n",
        "..",
        "*",
    ] {
        texts.extend([100, 3_000].map(|times| unit.repeat(times).into_bytes()));
    }
    let closed = |open: &str, close: &str| (open.repeat(3_000) + "1" + &close.repeat(3_000)).into_bytes();
    for (open, close) in
        [("(", ")"), ("[", "]"), ("{\"a\":", "}"), ("a(", ")"), ("-(", ")"), ("[1].all(x, ", ")")]
    {
        texts.push(closed(open, close));
    }
    let properties =
        (0..90).fold(String::from("{}"), |inner, _| format!("{{\"properties\":{{\"a\":{inner}}}}}"));
    texts.push(properties.into_bytes());
    let all_of = (0..45).fold(String::from("{}"), |inner, _| format!("{{\"allOf\":[{inner}]}}"));
    texts.push(format!("{{\"type\":\"object\",\"allOf\":[{all_of}]}}").into_bytes());
    texts.push(format!("{{\"type\":\"string\",\"pattern\":\"{}\"}}", "(".repeat(3_000)).into_bytes());
    texts.push(format!("{{\"type\":\"string\",\"pattern\":\"{}\"}}", "(a{1000}){1000}").into_bytes());
    // A number with more digits than a float has: read, written and read again, it is the same.
    texts.push(b"{\"\":99111111111111111111111111111111111111111111.999}".to_vec());
    texts
}

#[test]
fn what_is_nasty_is_taken() {
    for Target { name, run, seed } in TARGETS {
        println!("{name}");
        run(seed);
        nasty().iter().for_each(|text| {
            run(text);
        });
    }
}

/// A seed with some bytes changed, left out, doubled or put in.
fn mutated(seed: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
    let change = (0_u8..4, any::<prop::sample::Index>(), any::<u8>(), 1_usize..20);
    prop::collection::vec(change, 0..6).prop_map(move |changes| {
        let mut bytes = seed.to_vec();
        for (kind, at, byte, length) in changes {
            let at = at.index(bytes.len() + 1);
            let end = (at + length).min(bytes.len());
            match kind {
                0 => bytes.insert(at, byte),
                1 => drop(bytes.drain(at..end)),
                2 => bytes.extend_from_within(at..end),
                _ => bytes.iter_mut().skip(at).take(1).for_each(|place| *place = byte),
            }
        }
        bytes
    })
}

#[test]
fn what_chance_brings_is_taken() {
    for Target { name, run, seed } in TARGETS {
        println!("{name}");
        let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
        let bytes = prop_oneof![3 => mutated(seed), 1 => prop::collection::vec(any::<u8>(), 0..200)];
        let outcome = runner.run(&bytes, |bytes| {
            run(&bytes);
            Ok(())
        });
        if let Err(error) = outcome {
            panic!("{name}: {error}");
        }
    }
}

/// The fuzz targets are those that there are.
#[test]
fn every_target_has_its_file() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest =
        std::fs::read_to_string(directory.join("Cargo.toml")).expect("the fuzz workspace is there");
    for Target { name, .. } in TARGETS {
        let file = directory.join(format!("fuzz_targets/{name}.rs"));
        assert!(file.is_file() && manifest.contains(&format!("name = \"{name}\"")), "{name}");
    }
}
