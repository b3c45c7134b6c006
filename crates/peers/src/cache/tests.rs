use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::scratch::Scratch;

/// A cache that is removed with its test.
struct ScratchCache(Cache, #[expect(dead_code, reason = "holds the directory")] Scratch);

impl ScratchCache {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(&format!("cache-{name}"));
        ScratchCache(Cache::at(scratch.path().join("cache")), scratch)
    }
}

fn write(directory: &Path, text: &str) -> io::Result<()> {
    fs::write(directory.join("file"), text)
}

#[test]
fn the_place_follows_the_environment() {
    let place = |own: &str, xdg: &str, home: &str| {
        location(Some(own.into()), Some(xdg.into()), Some(home.into())).unwrap().display().to_string()
    };
    assert_eq!(place("/own", "/xdg", "/home"), "/own");
    assert_eq!(place("", "/xdg", "/home"), "/xdg/herdsman/peers");
    assert_eq!(place("", "relative", "/home"), "/home/.cache/herdsman/peers");
    assert_eq!(location(None, None, None), None);
}

#[test]
fn a_recipe_is_its_parts_in_order() {
    let digest = |parts: &[(&str, &str)]| {
        parts.iter().fold(Recipe::new(), |recipe, (label, content)| recipe.part(label, content)).digest()
    };
    assert_eq!(digest(&[("go.mod", "x")]), digest(&[("go.mod", "x")]));
    assert_eq!(digest(&[]).len(), 16);
    let different =
        [digest(&[]), digest(&[("a", "bc")]), digest(&[("ab", "c")]), digest(&[("a", "b"), ("c", "")])];
    for (index, one) in different.iter().enumerate() {
        assert!(!different[..index].contains(one), "{different:?}");
    }
}

#[test]
fn a_key_names_its_directory() {
    assert_eq!(Key::new("tool", "1.2").directory(), "tool-1.2");
    let recipe = Recipe::new().part("flag", "-x");
    assert_eq!(
        Key::new("tool", "1.2").with_recipe(recipe.clone()).directory(),
        format!("tool-1.2-{}", recipe.digest())
    );
}

#[test]
fn an_entry_is_built_once() {
    let cache = ScratchCache::new("once");
    let key = Key::new("peer", "1");
    assert_eq!(cache.0.find(&key), None);
    let first = cache.0.provide(&key, |directory| write(directory, "one")).unwrap();
    let second = cache.0.provide(&key, |_| Err::<(), _>("built twice")).unwrap();
    assert!(first.took.is_some() && second.took.is_none());
    assert_eq!(fs::read_to_string(second.path.join("file")).unwrap(), "one");
}

#[test]
fn a_failed_build_leaves_nothing_behind() {
    let cache = ScratchCache::new("failed");
    let key = Key::new("peer", "1");
    let failed = cache.0.provide(&key, |directory| {
        write(directory, "half").unwrap();
        Err::<(), _>("no compiler")
    });
    assert!(failed.unwrap_err().to_string().contains("no compiler"));
    assert_eq!(cache.0.find(&key), None);
    let entry = cache.0.provide(&key, |directory| write(directory, "whole")).unwrap();
    assert_eq!(fs::read_to_string(entry.path.join("file")).unwrap(), "whole");
}

#[test]
fn what_a_dead_builder_left_is_not_used() {
    let cache = ScratchCache::new("dead");
    let key = Key::new("peer", "1");
    let partial = cache.0.root.join(".peer-1.partial");
    fs::create_dir_all(&partial).unwrap();
    fs::write(partial.join("half"), "").unwrap();
    assert_eq!(cache.0.find(&key), None);
    let entry = cache.0.provide(&key, |directory| write(directory, "whole")).unwrap();
    assert!(!entry.path.join("half").exists() && !partial.exists());
}

#[test]
fn of_many_builders_one_builds() {
    let cache = ScratchCache::new("many");
    let builds = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let build = |directory: &Path| {
                    builds.fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(20));
                    write(directory, "one")
                };
                let entry = cache.0.provide(&Key::new("peer", "1"), build).unwrap();
                assert!(entry.path.join("file").exists());
            });
        }
    });
    assert_eq!(builds.load(Ordering::SeqCst), 1);
}
