//! What Kubernetes accepts as a name, in its words.

use std::sync::LazyLock;

use regex::Regex;

const LABEL_1123: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

static LABEL_1123_REGEX: LazyLock<Regex> = LazyLock::new(|| whole(LABEL_1123));
static LABEL_1035_REGEX: LazyLock<Regex> = LazyLock::new(|| whole(LABEL_1035));
static SUBDOMAIN_REGEX: LazyLock<Regex> = LazyLock::new(|| whole(SUBDOMAIN));
static QUALIFIED_REGEX: LazyLock<Regex> = LazyLock::new(|| whole(QUALIFIED));
static LABEL_VALUE_REGEX: LazyLock<Regex> = LazyLock::new(|| whole(LABEL_VALUE));

fn whole(pattern: &str) -> Regex {
    Regex::new(&format!("^{pattern}$"))
        .expect("the patterns of this module are fixed, and every one is tested")
}

fn pattern_error(what: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{what} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

fn too_long(text: &str, most: usize) -> Option<String> {
    (text.len() > most).then(|| format!("must be no more than {most} characters"))
}

/// A name of one part that starts with a letter.
pub(crate) fn dns1035_label(text: &str) -> Vec<String> {
    let what = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
    let wrong =
        (!LABEL_1035_REGEX.is_match(text)).then(|| pattern_error(what, LABEL_1035, &["my-name", "abc-123"]));
    too_long(text, 63).into_iter().chain(wrong).collect()
}

/// A name of one part.
pub(crate) fn dns1123_label(text: &str) -> Vec<String> {
    let what = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
    let wrong =
        (!LABEL_1123_REGEX.is_match(text)).then(|| pattern_error(what, LABEL_1123, &["my-name", "123-abc"]));
    too_long(text, 63).into_iter().chain(wrong).collect()
}

/// A name of parts with dots between.
pub(crate) fn dns1123_subdomain(text: &str) -> Vec<String> {
    let what = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
    let wrong = (!SUBDOMAIN_REGEX.is_match(text)).then(|| pattern_error(what, SUBDOMAIN, &["example.com"]));
    too_long(text, 253).into_iter().chain(wrong).collect()
}

/// A label's key, or an annotation's, or a finalizer.
pub(crate) fn qualified_name(text: &str) -> Vec<String> {
    let what = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    let malformed = || pattern_error(what, QUALIFIED, &["MyName", "my.name", "123-abc"]);
    let mut problems = Vec::new();
    let name = match text.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else {
                problems.extend(
                    dns1123_subdomain(prefix).into_iter().map(|problem| format!("prefix part {problem}")),
                );
            }
            name
        }
        _ => {
            return vec![format!(
                "a qualified name {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                malformed()
            )];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    }
    problems.extend(too_long(name, 63).map(|problem| format!("name part {problem}")));
    if !QUALIFIED_REGEX.is_match(name) {
        problems.push(format!("name part {}", malformed()));
    }
    problems
}

/// A label's value.
pub(crate) fn label_value(text: &str) -> Vec<String> {
    let what = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    let wrong = (!LABEL_VALUE_REGEX.is_match(text))
        .then(|| pattern_error(what, LABEL_VALUE, &["MyValue", "my_value", "12345"]));
    too_long(text, 63).into_iter().chain(wrong).collect()
}

/// A name that can be a part of a URL's path.
pub(crate) fn path_segment(name: &str, is_prefix: bool) -> Vec<String> {
    if !is_prefix && (name == "." || name == "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"]
        .into_iter()
        .filter(|bad| name.contains(bad))
        .map(|bad| format!("may not contain '{bad}'"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_and_bad_names() {
        type Rule = fn(&str) -> Vec<String>;
        let long = "a".repeat(64);
        let cases: [(Rule, &[&str], &[&str]); 5] = [
            (dns1035_label, &["a", "a-1"], &["1a", "A", "a.b", "", "a-", &long]),
            (dns1123_label, &["1", "a-1"], &["A", "a.b", "", &long]),
            (dns1123_subdomain, &["a.b", "1.2"], &["a..b", ".", "A", ""]),
            (qualified_name, &["a", "A_b.c", "x.y/z"], &["", "/a", "a/", "a/b/c", "X_/a", "-a", &long]),
            (label_value, &["", "A_b.c"], &["-a", "a b", &long]),
        ];
        for (index, (rule, good, bad)) in cases.into_iter().enumerate() {
            assert!(good.iter().all(|name| rule(name).is_empty()), "rule {index}");
            assert!(bad.iter().all(|name| !rule(name).is_empty()), "rule {index}");
        }
        assert_eq!(dns1123_label(&long), ["must be no more than 63 characters"]);
        assert_eq!(path_segment("..", false), ["may not be '..'"]);
        assert!(path_segment("..", true).is_empty());
    }
}
