//! YAML bodies.

use kubeapi::limits::Limits;
use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;

/// The most values that aliases may stand for, all together: they are for people who write files by hand.
const ALIASED: usize = 10_000;

fn options(duplicate_keys: DuplicateKeyPolicy) -> serde_saphyr::Options {
    let Limits { depth, values, .. } = Limits::REQUEST;
    serde_saphyr::options! {
        // What an alias stands for counts each time.
        budget: serde_saphyr::budget! {
            max_depth: depth,
            flow_nesting_limit: depth,
            max_nodes: values,
            // A value is an event, and so is the end of a list.
            max_events: 2 * values,
            max_recorded_anchor_events: ALIASED,
            max_documents: 2,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: ALIASED,
        },
        duplicate_keys: duplicate_keys,
        with_snippet: false,
    }
}

/// Enough for a text that is as deep as it may be: a level takes up to 25 KB of it when nothing is optimised.
const STACK: usize = 8 << 20;

fn parse(text: &[u8], duplicate_keys: DuplicateKeyPolicy) -> Result<Value, serde_saphyr::Error> {
    serde_saphyr::from_slice_with_options(text, options(duplicate_keys))
}

/// Parses on a stack of its own: that of a thread of the runtime is too small for it.
fn parsed<T: Send>(parse: impl FnOnce() -> T + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, parse);
        let thread = thread.map_err(|error| format!("no thread to parse YAML on: {error}"))?;
        thread.join().map_err(|_| "the YAML parser failed".to_owned())
    })
}

/// The JSON that a text stands for. Of keys that are there twice the last counts.
pub(super) fn decode(text: &[u8]) -> Result<Value, String> {
    let value = parsed(|| parse(text, DuplicateKeyPolicy::LastWins).map_err(|error| error.to_string()))??;
    Limits::REQUEST.check(&value).map_err(|error| error.to_string())?;
    Ok(value)
}

/// What is said of the first key that is there twice.
pub(super) fn duplicate(text: &[u8]) -> Option<String> {
    let said = parsed(|| match parse(text, DuplicateKeyPolicy::Error).err()? {
        serde_saphyr::Error::DuplicateMappingKey { key, location } => {
            Some(format!("line {}: key {:?} already set in map", location.line(), key.unwrap_or_default()))
        }
        _ => None,
    });
    said.ok().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_reads_the_same() {
        let strings = [
            "yes", "true", "1", "1e3", "null", "~", "0x1f", "", " a ", "a\nb\n", "- a", "a: b", "#", "*a",
            "ü",
        ];
        let value = json!({"strings": strings, "others": [1, -1, 1.5, true, null, {}, []]});
        let text = serde_saphyr::to_string(&value).unwrap();
        assert_eq!(decode(text.as_bytes()).unwrap(), value, "{text}");
    }

    #[test]
    fn deep_and_multiplying_texts_are_refused() {
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(decode(deep(Limits::REQUEST.depth).as_bytes()).is_ok());
        let indented: String = (0..10_000).map(|level| " ".repeat(level % 300) + "a:\n").collect();
        let nested: String = (0..300).map(|level| " ".repeat(level) + "a:\n").collect();
        let dashes = "- ".repeat(10_000);
        let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..10 {
            let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
            laughs += &format!("a{level}: &a{level} [{aliases}]\n");
        }
        let recursive = "a: &a [*a]\n";
        for text in [
            &*deep(Limits::REQUEST.depth + 1),
            &deep(10_000),
            &indented,
            &nested,
            &dashes,
            &laughs,
            recursive,
        ] {
            assert!(decode(text.as_bytes()).is_err(), "{}", &text[..text.len().min(40)]);
            assert_eq!(duplicate(text.as_bytes()), None);
        }
    }

    #[test]
    fn keys_that_are_there_twice_are_found() {
        let text = b"a: 1\nb:\n  c: 1\n  c: 2\n";
        assert_eq!(decode(text).unwrap(), json!({"a": 1, "b": {"c": 2}}));
        assert_eq!(duplicate(text).unwrap(), "line 4: key \"c\" already set in map");
        assert_eq!(duplicate(b"a: 1\n"), None);
        assert_eq!(duplicate(b"a: [\n"), None);
        assert!(decode(b"a: [\n").is_err());
    }
}
