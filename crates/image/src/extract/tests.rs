use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use proptest::prelude::*;

use super::*;
use crate::testing::{Entry, archive, directory, file, hardlink, symlink};

/// A directory to extract into, with a neighbour that nothing may happen to.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        let scratch = Scratch(tempfile::tempdir().unwrap());
        std::fs::create_dir_all(scratch.canary().join("d")).unwrap();
        std::fs::write(scratch.canary().join("f"), "alive").unwrap();
        scratch
    }

    fn canary(&self) -> PathBuf {
        self.0.path().join("canary")
    }

    fn inside(&self) -> PathBuf {
        self.0.path().join("in")
    }

    fn extract(&self, images: &[Vec<Entry>]) -> Result<Extracted, Error> {
        self.extract_within(images, &Limits::default())
    }

    fn extract_within(&self, images: &[Vec<Entry>], limits: &Limits) -> Result<Extracted, Error> {
        let spool = tempfile::tempdir().unwrap();
        let write = |(index, entries): (usize, &Vec<Entry>)| {
            let path = spool.path().join(index.to_string());
            std::fs::write(&path, archive(entries)).unwrap();
            path
        };
        let files: Vec<PathBuf> = images.iter().enumerate().map(write).collect();
        layers(&files, &self.inside(), limits)
    }
}

/// Everything below a directory: kind, mode, number of names, and contents or target.
fn tree(top: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut pending = vec![top.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in directory.read_dir().unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let mode = metadata.permissions().mode() & 0o7777;
            let shown = if metadata.is_dir() {
                pending.push(path.clone());
                format!("d {mode:o}")
            } else if metadata.is_symlink() {
                format!("-> {}", path.read_link().unwrap().display())
            } else {
                format!("{mode:o} {} {}", metadata.nlink(), std::fs::read_to_string(&path).unwrap())
            };
            found.insert(path.strip_prefix(top).unwrap().display().to_string(), shown);
        }
    }
    found
}

fn extracted(images: &[Vec<Entry>]) -> Vec<String> {
    let scratch = Scratch::new();
    scratch.extract(images).unwrap();
    tree(&scratch.inside()).into_iter().map(|(path, what)| format!("{path}: {what}")).collect()
}

#[test]
fn modes_are_masked() {
    let with = |name: &str, mode| Entry { mode, ..file(name, "") };
    let layer = vec![
        with("setuid", 0o4777),
        with("plain", 0o644),
        with("private", 0o600),
        with("none", 0),
        with("others", 0o022),
        Entry { mode: 0o1777, ..directory("d") },
    ];
    let expected =
        ["d: d 755", "none: 755 1 ", "others: 755 1 ", "plain: 644 1 ", "private: 600 1 ", "setuid: 755 1 "];
    assert_eq!(extracted(&[layer]), expected);
}

#[test]
fn upper_layers_win() {
    let lower = vec![directory("a"), file("a/x", "1"), file("a/y", "1"), file("b", "1"), symlink("l", "b")];
    let upper = vec![file("a/x", "22"), file("b/c", "2"), file("l", "2")];
    // `b` is a file below: a layer that puts something under it says so.
    let scratch = Scratch::new();
    assert!(scratch.extract(&[lower.clone(), upper.clone()]).is_err());
    let upper = [vec![directory("b")], upper].concat();
    let expected = ["a: d 755", "a/x: 644 1 22", "a/y: 644 1 1", "b: d 755", "b/c: 644 1 2", "l: 644 1 2"];
    assert_eq!(extracted(&[lower, upper]), expected);
}

#[test]
fn whiteouts_hide_what_is_below() {
    let lower =
        vec![file("a/x", "1"), file("a/y", "1"), file("b/x", "1"), file("b/y/z", "1"), file("c", "1")];
    for (upper, expected) in [
        (vec![file("a/.wh.x", "")], "a a/y b b/x b/y b/y/z c"),
        (vec![file(".wh.b", "")], "a a/x a/y c"),
        (
            vec![file(".wh.none", ""), file("none/.wh.x", ""), file("c/.wh.x", "")],
            "a a/x a/y b b/x b/y b/y/z c",
        ),
        (vec![file("b/.wh..wh..opq", "")], "a a/x a/y b c"),
        (vec![file("b/new", ""), file("b/.wh..wh..opq", "")], "a a/x a/y b b/new c"),
        (vec![file("b/y/new", ""), file("b/.wh..wh..opq", "")], "a a/x a/y b b/y b/y/new c"),
        (vec![file(".wh.c", ""), file("c", "")], "a a/x a/y b b/x b/y b/y/z c"),
        (vec![file("c", ""), file(".wh.c", "")], "a a/x a/y b b/x b/y b/y/z c"),
        (vec![file("d", ""), file(".wh..wh..opq", "")], "d"),
        (vec![file(".wh...", ""), file(".wh..", ""), file(".wh.", "")], "a a/x a/y b b/x b/y b/y/z c"),
    ] {
        let scratch = Scratch::new();
        scratch.extract(&[lower.clone(), upper.clone()]).unwrap();
        let left: Vec<String> = tree(&scratch.inside()).into_keys().collect();
        assert_eq!(left.join(" "), expected, "{upper:?}");
    }
}

#[test]
fn hard_links_are_other_names() {
    let lower = vec![file("a", "1"), hardlink("d/b", "a"), hardlink("c", "/d/b"), hardlink("a", "./a")];
    assert_eq!(
        extracted(std::slice::from_ref(&lower)),
        ["a: 644 3 1", "c: 644 3 1", "d: d 755", "d/b: 644 3 1"]
    );
    let upper = vec![file("a", "2")];
    assert_eq!(extracted(&[lower, upper]), ["a: 644 1 2", "c: 644 2 1", "d: d 755", "d/b: 644 2 1"]);
}

#[test]
fn links_between_layers_stay_inside() {
    let lower = vec![symlink("usr", "/real"), symlink("up", "../../..")];
    let upper = vec![file("usr/f", "1"), file("up/g", "2")];
    let expected = ["g: 644 1 2", "real: d 755", "real/f: 644 1 1", "up: -> ../../..", "usr: -> /real"];
    assert_eq!(extracted(&[lower, upper]), expected);
}

#[test]
fn what_leads_out_is_refused() {
    for entry in [file("../x", ""), file("a/../../x", ""), hardlink("x", "../canary/f"), directory("..")] {
        let scratch = Scratch::new();
        let error = scratch.extract(&[vec![entry.clone()]]).unwrap_err();
        assert!(matches!(error, Error::IllegalPath { .. }), "{entry:?}: {error}");
    }
    let scratch = Scratch::new();
    let canary = scratch.canary().join("f").display().to_string();
    assert!(scratch.extract(&[vec![hardlink("x", &canary)]]).is_err());
}

#[test]
fn devices_are_passed_over() {
    let node = |name: &str, kind| Entry { kind, ..file(name, "") };
    let layer = vec![
        node("c", EntryType::Char),
        node("b", EntryType::Block),
        node("p", EntryType::Fifo),
        node("g", EntryType::XGlobalHeader),
        file("f", ""),
    ];
    let scratch = Scratch::new();
    assert_eq!(scratch.extract(&[layer]).unwrap().skipped, ["c", "b", "p"]);
    assert_eq!(tree(&scratch.inside()).len(), 1);
}

#[test]
fn large_images_are_refused() {
    let layer = vec![file("a", "123"), file("b", "456")];
    let scratch = Scratch::new();
    let limits = Limits { unpacked: 5, ..Limits::default() };
    let error = scratch.extract_within(std::slice::from_ref(&layer), &limits).unwrap_err();
    assert!(error.to_string().contains("more than 5 bytes"), "{error}");
    let limits = Limits { entries: 1, ..Limits::default() };
    assert!(scratch.extract_within(&[layer], &limits).is_err());
}

/// Names that lead to trouble; `{canary}` becomes the neighbour's path.
fn name() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "a",
        "b",
        "c",
        "d",
        "f",
        "..",
        ".",
        "canary",
        ".wh.a",
        ".wh..wh..opq",
        ".wh.f",
    ]);
    prop_oneof![
        6 => prop::collection::vec(part, 1..4).prop_map(|parts| parts.join("/")),
        1 => Just("{canary}".to_owned()),
        1 => Just("{canary}/f".to_owned()),
        1 => Just("../canary/f".to_owned()),
        1 => Just("../canary".to_owned()),
        1 => Just("/".to_owned()),
    ]
}

fn entry() -> impl Strategy<Value = Entry> {
    use EntryType::{Char, Directory, Fifo, Link, Regular, Symlink};
    let kind = prop::sample::select(vec![
        Regular, Regular, Directory, Symlink, Symlink, Symlink, Link, Link, Fifo, Char,
    ]);
    (kind, name(), name(), 0..0o10000u32).prop_map(|(kind, name, content, mode)| Entry {
        kind,
        name,
        content,
        mode,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn nothing_gets_out(images in prop::collection::vec(prop::collection::vec(entry(), 1..8), 1..4)) {
        let scratch = Scratch::new();
        let canary = scratch.canary().display().to_string();
        let place = |text: &str| text.replace("{canary}", &canary);
        let real = |entry: &Entry| Entry { name: place(&entry.name), content: place(&entry.content), ..entry.clone() };
        // Layer by layer, entry by entry: an error must not end the attack.
        for layer in &images {
            for entry in layer {
                let _ = scratch.extract(&[vec![real(entry)]]);
            }
        }
        let _ = scratch.extract(&images.iter().map(|layer| layer.iter().map(real).collect()).collect::<Vec<_>>());
        let canary = tree(&scratch.canary()).into_iter().map(|(path, what)| format!("{path}: {what}"));
        prop_assert_eq!(canary.collect::<Vec<_>>(), ["d: d 755", "f: 644 1 alive"]);
        let mut beside: Vec<_> = scratch.0.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        beside.sort();
        prop_assert!(beside == ["canary"] || beside == ["canary", "in"], "{:?}", beside);
    }
}
