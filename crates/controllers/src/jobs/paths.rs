//! Paths on a Job's command line: they lead to the files of its own mounts, never to those of the server.

use std::collections::BTreeSet;
use std::path::{Component, Path};

/// The first value on a command line that names a file of this host other than the Job's own.
///
/// `inside` is where the Job's mounts are, `roots` has the names in this host's root directory: a value such as vSphere's
/// `/Datacenter/vm/folder` is no file here. Whether a file exists is not asked, so that nobody learns it from the answer.
pub(super) fn outside<'a>(words: &'a [String], inside: &Path, roots: &BTreeSet<String>) -> Option<&'a str> {
    words.iter().map(|word| value(word)).find(|value| leads_outside(value, inside, roots))
}

/// The names in this host's root directory.
pub(super) fn roots() -> BTreeSet<String> {
    let entries = std::fs::read_dir("/").into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn value(word: &str) -> &str {
    match word.strip_prefix("--") {
        Some(flag) => flag.split_once('=').map_or("", |(_, value)| value),
        None => word,
    }
}

fn leads_outside(value: &str, inside: &Path, roots: &BTreeSet<String>) -> bool {
    // Scripts and other texts are values, too.
    if value.contains(char::is_whitespace) {
        return false;
    }
    if value.starts_with("file:") {
        return true;
    }
    let path = Path::new(value);
    let climbs = value.contains('/') && path.components().any(|part| part == Component::ParentDir);
    if climbs || path.starts_with(inside) {
        return climbs;
    }
    let mut parts = path.components();
    let first = (parts.next() == Some(Component::RootDir)).then(|| parts.next()).flatten();
    first.is_some_and(|first| roots.contains(&*first.as_os_str().to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_jobs_own_files_are_named() {
        let roots = ["etc", "var", "proc"].map(str::to_owned).into();
        for (word, is_outside) in [
            ("--custom-install-script=/var/lib/herdsman/jobs/1/mounts/opt/script", false),
            ("--custom-install-script=/var/lib/herdsman/encryption.key", true),
            ("--custom-install-script=/var/lib/herdsman/jobs/1/mounts/../../../encryption.key", true),
            ("--x-key-file=/etc/shadow", true),
            ("--x-key-file=//etc/shadow", true),
            ("--x-key-file=/./etc/shadow", true),
            ("--x-key-file=../../../admin.kubeconfig", true),
            ("--x-url=file:///etc/shadow", true),
            ("/proc/self/environ", true),
            ("--vmwarevsphere-folder=/Datacenter/vm/folder", false),
            ("--x-range=10.0.0.0/8", false),
            ("--x-name=a..b", false),
            ("--x-userdata=#!/bin/sh\ncat /etc/../hosts", false),
            ("--x-enabled", false),
            ("create", false),
        ] {
            let words = [word.to_owned()];
            let found = outside(&words, Path::new("/var/lib/herdsman/jobs/1/mounts"), &roots);
            assert_eq!(found.is_some(), is_outside, "{word}");
        }
    }
}
