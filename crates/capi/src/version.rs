//! Kubernetes versions: semantic versions, with the build tag of a distribution that counts where nothing else differs.

use std::cmp::Ordering;

/// A version such as `v1.34.1+rke2r2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// First number.
    pub major: u64,
    /// Second number.
    pub minor: u64,
    /// Third number.
    pub patch: u64,
    pre: Vec<Part>,
    build: Vec<Part>,
}

/// A part of a pre-release or build tag: numbers are less than words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Word(String),
}

impl Version {
    /// Reads a version, with or without `v`; none if the text is none.
    pub fn read(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let (text, build) = text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
        let (text, pre) = text.split_once('-').map_or((text, None), |(rest, pre)| (rest, Some(pre)));
        let mut numbers =
            text.split('.').map(|number| match number.bytes().all(|byte| byte.is_ascii_digit()) {
                true => number.parse().ok(),
                false => None,
            });
        let version = Version {
            major: numbers.next()??,
            minor: numbers.next()??,
            patch: numbers.next()??,
            pre: parts(pre, false)?,
            build: parts(build, true)?,
        };
        numbers.next().is_none().then_some(version)
    }
}

fn parts(text: Option<&str>, split_digits: bool) -> Option<Vec<Part>> {
    let Some(text) = text else { return Some(Vec::new()) };
    let mut found = Vec::new();
    for word in text.split('.') {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if word.is_empty() || !word.bytes().all(fits) {
            return None;
        }
        match split_digits {
            false => found.push(part(word)),
            // `rke2r10` comes after `rke2r9`: runs of digits are numbers.
            true => found.extend(runs(word).into_iter().map(part)),
        }
    }
    Some(found)
}

fn part(word: &str) -> Part {
    word.parse().map_or_else(|_| Part::Word(word.into()), Part::Number)
}

fn runs(word: &str) -> Vec<&str> {
    let mut runs = Vec::new();
    let mut start = 0;
    for (index, pair) in word.as_bytes().windows(2).enumerate() {
        if pair[0].is_ascii_digit() != pair[1].is_ascii_digit() {
            runs.push(&word[start..=index]);
            start = index + 1;
        }
    }
    runs.push(&word[start..]);
    runs
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let numbers = |version: &Version| (version.major, version.minor, version.patch);
        // A pre-release comes before its release.
        let pre = match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            _ => self.pre.cmp(&other.pre),
        };
        numbers(self).cmp(&numbers(other)).then(pre).then_with(|| self.build.cmp(&other.build))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_an_order() {
        let sorted = [
            "v1.33.9",
            "v1.34.0-alpha.1",
            "v1.34.0-alpha.2",
            "v1.34.0-beta.0",
            "v1.34.0-rc.10",
            "1.34.0",
            "v1.34.0+k3s1",
            "v1.34.0+rke2r1",
            "v1.34.0+rke2r2",
            "v1.34.0+rke2r10",
            "v1.34.1",
            "v1.100.0",
            "v2.0.0",
        ];
        for pair in sorted.windows(2) {
            assert!(Version::read(pair[0]).unwrap() < Version::read(pair[1]).unwrap(), "{pair:?}");
        }
    }

    #[test]
    fn other_texts_are_no_versions() {
        for text in ["", "v1", "v1.34", "v1.34.x", "v1.34.0.1", "v1.34.0+", "v1.34.0-", "v1.+3.0", "latest"] {
            assert_eq!(Version::read(text), None, "{text:?}");
        }
    }
}
