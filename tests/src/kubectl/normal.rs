//! Output without what differs from run to run.

use std::sync::LazyLock;

use regex::Regex;

/// Patterns and what stands in their place, in order.
const MASKS: [(&str, &str); 14] = [
    (r"\x1b\[[0-9;]*m", ""),
    (r"eyJ[\w-]+\.[\w-]+\.[\w-]+", "JWT"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| [+-]\d{4})?", "TIME"),
    (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
    (r#"(resourceVersion"?: )"\d+""#, "${1}RV"),
    (r"(Resource Version: +)\d+", "${1}RV"),
    (r"127\.0\.0\.1:\d+", "SERVER"),
    (r"\b10\.\d+\.\d+\.\d+\b", "IP"),
    (r"/(LIVE|MERGED)-\d+/", "/$1/"),
    (r"/tmp/[\w.-]+", "/tmp/X"),
    (r"X509SHA256=[0-9a-f]+", "X509SHA256=DIGEST"),
    (r"(?m)(^|\s)(<invalid>|\d+[smhd](\d+[smhd])?)( ago)?(\s|$)", "${1}AGE$5"),
    // Columns are as wide as what was masked.
    (r"(\S)[ \t]{2,}", "$1  "),
];

static COMPILED: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    MASKS.iter().filter_map(|(pattern, mask)| Some((Regex::new(pattern).ok()?, *mask))).collect()
});

/// The text with everything masked that differs from run to run.
pub(super) fn normal(text: &str) -> String {
    let masked = COMPILED
        .iter()
        .fold(text.to_owned(), |text, (regex, mask)| regex.replace_all(&text, *mask).into_owned());
    masked.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mask_is_a_pattern() {
        assert_eq!(COMPILED.len(), MASKS.len());
    }

    #[test]
    fn what_differs_is_masked() {
        let cases = [
            ("a      2      5m3s\nb  10   12d", "a  2  AGE\nb  10  AGE"),
            ("resourceVersion: \"12\"", "resourceVersion: RV"),
            ("\"resourceVersion\": \"12\",", "\"resourceVersion\": RV,"),
            ("at 2026-11-16T03:16:00Z", "at TIME"),
            ("https://127.0.0.1:40123/x", "https://SERVER/x"),
            ("uid: 2cdad774-445f-47d0-8202-9066b2711297", "uid: UID"),
            ("diff -u -N /tmp/LIVE-123/a /tmp/MERGED-45/a", "diff -u -N /tmp/X/a /tmp/X/a"),
        ];
        for (text, masked) in cases {
            assert_eq!(normal(text), masked);
        }
    }
}
