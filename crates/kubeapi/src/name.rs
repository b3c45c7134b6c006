//! The shapes of names, and the words that say what is wrong with one.
//!
//! Every rule gives a list of sentences: empty if the name is right.

/// Most characters of a DNS label.
pub const LABEL_LENGTH: usize = 63;
/// Most characters of a DNS subdomain.
pub const SUBDOMAIN_LENGTH: usize = 253;

const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const DNS_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const CONFIG_KEY: &str = "[-._a-zA-Z0-9]+";

/// A rule for the names of a kind. `prefix` is for a `generateName`, which may end where a name may not.
pub type NameRule = fn(name: &str, prefix: bool) -> Vec<String>;

/// The value does not match a pattern: what it should be, examples, and the pattern.
pub fn pattern_error(what: &str, pattern: &str, examples: &[&str]) -> String {
    let used = format!("regex used for validation is '{pattern}')");
    match examples {
        [] => format!("{what} ({used}"),
        _ => {
            let shown: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
            format!("{what} (e.g. {}{used}", shown.join(" or "))
        }
    }
}

/// The value is longer than `most`.
pub fn too_long(most: usize) -> String {
    format!("must be no more than {most} characters")
}

/// `[a-z0-9]` at both ends, `middle` between them; at least one character.
fn framed(text: &str, end: fn(u8) -> bool, middle: fn(u8) -> bool) -> bool {
    match text.as_bytes() {
        [] => false,
        [one] => end(*one),
        [first, inner @ .., last] => end(*first) && end(*last) && inner.iter().all(|byte| middle(*byte)),
    }
}

fn lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn label_shape(text: &str) -> bool {
    framed(text, lower, |byte| lower(byte) || byte == b'-')
}

fn subdomain_shape(text: &str) -> bool {
    text.split('.').all(label_shape)
}

fn qualified_shape(text: &str) -> bool {
    let end = |byte: u8| byte.is_ascii_alphanumeric();
    framed(text, end, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn within(text: &str, most: usize) -> Vec<String> {
    if text.len() > most { vec![too_long(most)] } else { Vec::new() }
}

/// A DNS label of RFC 1123, such as a namespace's name.
pub fn dns_label(text: &str) -> Vec<String> {
    let mut errors = within(text, LABEL_LENGTH);
    if !label_shape(text) {
        errors.push(match subdomain_shape(text) {
            true => "must not contain dots".to_owned(),
            false => pattern_error(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                DNS_LABEL,
                &["my-name", "123-abc"],
            ),
        });
    }
    errors
}

/// A DNS subdomain of RFC 1123, such as most names.
pub fn dns_subdomain(text: &str) -> Vec<String> {
    let mut errors = within(text, SUBDOMAIN_LENGTH);
    if !subdomain_shape(text) {
        errors.push(pattern_error(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            &format!(r"{DNS_LABEL}(\.{DNS_LABEL})*"),
            &["example.com"],
        ));
    }
    errors
}

/// A DNS label of RFC 1035, such as a Service's name.
pub fn dns_1035_label(text: &str) -> Vec<String> {
    let mut errors = within(text, LABEL_LENGTH);
    if !label_shape(text) || !text.starts_with(|first: char| first.is_ascii_lowercase()) {
        errors.push(pattern_error(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            DNS_1035,
            &["my-name", "abc-123"],
        ));
    }
    errors
}

/// A name with an optional domain before it: the key of a label or annotation, a finalizer.
pub fn qualified(text: &str) -> Vec<String> {
    let shape = pattern_error(
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
        QUALIFIED,
        &["MyName", "my.name", "123-abc"],
    );
    let mut errors = Vec::new();
    let name = match text.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        [prefix, name] => {
            let wrong = match prefix {
                "" => vec!["must be non-empty".to_owned()],
                _ => dns_subdomain(prefix),
            };
            errors.extend(wrong.into_iter().map(|error| format!("prefix part {error}")));
            name
        }
        _ => {
            return vec![format!(
                "a qualified name {shape} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".into());
    } else if name.len() > LABEL_LENGTH {
        errors.push(format!("name part {}", too_long(LABEL_LENGTH)));
    }
    if !qualified_shape(name) {
        errors.push(format!("name part {shape}"));
    }
    errors
}

/// The value of a label; may be empty.
pub fn label_value(text: &str) -> Vec<String> {
    let mut errors = within(text, LABEL_LENGTH);
    if !text.is_empty() && !qualified_shape(text) {
        errors.push(pattern_error(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            &format!("({QUALIFIED})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    errors
}

/// A key of a ConfigMap or Secret.
pub fn config_key(text: &str) -> Vec<String> {
    let mut errors = within(text, SUBDOMAIN_LENGTH);
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if text.is_empty() || !text.bytes().all(allowed) {
        errors.push(pattern_error(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            CONFIG_KEY,
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match text {
        "." | ".." => errors.push(format!("must not be '{text}'")),
        _ if text.starts_with("..") => errors.push("must not start with '..'".into()),
        _ => {}
    }
    errors
}

/// A name that can stand in a URL's path: the least that is asked of any name, and all that is of RBAC's.
pub fn path_segment(text: &str) -> Vec<String> {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    path_segment_prefix(text)
}

fn path_segment_prefix(text: &str) -> Vec<String> {
    let illegal = ["/", "%"].into_iter().filter(|illegal| text.contains(illegal));
    illegal.map(|illegal| format!("may not contain '{illegal}'")).collect()
}

/// A name rule: DNS subdomain.
pub fn is_subdomain(name: &str, prefix: bool) -> Vec<String> {
    dns_subdomain(&masked(name, prefix))
}

/// A name rule: DNS label.
pub fn is_label(name: &str, prefix: bool) -> Vec<String> {
    dns_label(&masked(name, prefix))
}

/// A name rule: DNS label that starts with a letter.
pub fn is_1035_label(name: &str, prefix: bool) -> Vec<String> {
    dns_1035_label(&masked(name, prefix))
}

/// A name rule: anything that fits into a path.
pub fn is_path_segment(name: &str, prefix: bool) -> Vec<String> {
    if prefix { path_segment_prefix(name) } else { path_segment(name) }
}

/// What will have a suffix may end in a dash. The last two characters become one `a`, so a name of two dashes
/// passes and one that is a character too long does as well: that is what upstream does.
fn masked(name: &str, prefix: bool) -> String {
    match prefix && name.len() > 1 && name.ends_with('-') {
        true => {
            let mut kept = name.to_owned();
            kept.pop();
            kept.pop();
            kept + "a"
        }
        false => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    const QUALIFIED_TEXT: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

    #[test]
    fn good_names_pass() {
        for name in ["a", "0", "a-b", "abc-123", &"a".repeat(63)] {
            assert_eq!(dns_label(name), Vec::<String>::new(), "{name}");
            assert_eq!(dns_subdomain(name), Vec::<String>::new(), "{name}");
        }
        for name in ["a.b", "0.1-x.y", &format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(61))] {
            assert_eq!(dns_subdomain(name), Vec::<String>::new(), "{name}");
        }
        for name in ["simple", "now-with-dashes", "1.2.3", "A/b_c", "0-domain/x.y", "example.com/MyName"] {
            assert_eq!(qualified(name).is_empty(), !name.starts_with('A'), "{name}");
        }
        for value in ["", "a", "A_b.c", "1-2"] {
            assert_eq!(label_value(value), Vec::<String>::new(), "{value}");
        }
    }

    #[test]
    fn wrong_names_are_told_why() {
        let long = "a".repeat(64);
        let cases: Vec<(Vec<String>, Vec<String>)> = vec![
            (dns_label("A"), vec![LABEL.into()]),
            (dns_label(""), vec![LABEL.into()]),
            (dns_label("-a"), vec![LABEL.into()]),
            (dns_label("a.b"), vec!["must not contain dots".into()]),
            (dns_label(&long), vec!["must be no more than 63 characters".into()]),
            (dns_subdomain("a..b"), vec![SUBDOMAIN.into()]),
            (dns_subdomain("a_b"), vec![SUBDOMAIN.into()]),
            (dns_subdomain(&"a".repeat(254)), vec!["must be no more than 253 characters".into()]),
            (qualified("/a"), vec!["prefix part must be non-empty".into()]),
            (qualified("A/a"), vec![format!("prefix part {SUBDOMAIN}")]),
            (
                qualified("a/"),
                vec!["name part must be non-empty".into(), format!("name part {QUALIFIED_TEXT}")],
            ),
            (qualified(&long), vec!["name part must be no more than 63 characters".into()]),
            (qualified("a b"), vec![format!("name part {QUALIFIED_TEXT}")]),
            (
                qualified("a/b/c"),
                vec![format!(
                    "a qualified name {QUALIFIED_TEXT} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
                )],
            ),
            (path_segment("."), vec!["may not be '.'".into()]),
            (path_segment("a/b%"), vec!["may not contain '/'".into(), "may not contain '%'".into()]),
            (config_key("..a"), vec!["must not start with '..'".into()]),
            (config_key(".."), vec!["must not be '..'".into()]),
        ];
        for (found, wanted) in cases {
            assert_eq!(found, wanted);
        }
        assert_eq!(dns_1035_label("1a").len(), 1);
        assert_eq!(dns_1035_label("a1").len(), 0);
        assert_eq!(label_value("-").len(), 1);
    }

    #[test]
    fn a_prefix_may_end_in_a_dash() {
        for (name, prefix, good) in [
            ("a-", true, true),
            ("a-", false, false),
            ("-", true, false),
            ("a.", true, false),
            ("a--", true, true),
        ] {
            assert_eq!(is_subdomain(name, prefix).is_empty(), good, "{name} {prefix}");
        }
        assert!(is_path_segment("..", true).is_empty());
        assert!(!is_path_segment("..", false).is_empty());
    }
}
