//! Rules of this repository that no tool knows.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::report::Verdict;

/// Longer files are split by idea.
const MOST_LINES: usize = 800;

/// Where hand-written code is.
const CODE: [&str; 3] = ["crates", "xtask", "tests"];

/// Recorded or generated data may be as long as it is.
const DATA: [&str; 2] = ["testdata", "target"];

pub(crate) fn check(root: &Path) -> anyhow::Result<Verdict> {
    let mut files = Vec::new();
    for directory in CODE.map(|name| root.join(name)).iter().filter(|path| path.is_dir()) {
        collect(directory, &mut files).with_context(|| format!("cannot read {}", directory.display()))?;
    }
    let mut complaints = too_long(&files)?;
    complaints.extend(unlisted_decisions(&root.join("docs/adr"))?);
    if !complaints.is_empty() {
        bail!("{}", complaints.join("; "));
    }
    Ok(Verdict::Ran(format!("{} files", files.len())))
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if !path.is_dir() {
            files.push(path);
        } else if !DATA.iter().any(|name| path.ends_with(name)) {
            collect(&path, files)?;
        }
    }
    Ok(())
}

fn too_long(files: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    let mut complaints = Vec::new();
    for file in files {
        let content = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let lines = content.iter().filter(|&&byte| byte == b'\n').count();
        if lines > MOST_LINES {
            complaints.push(format!("{} has {lines} lines, {MOST_LINES} at most", file.display()));
        }
    }
    Ok(complaints)
}

/// Decision records that the index does not name.
fn unlisted_decisions(directory: &Path) -> anyhow::Result<Vec<String>> {
    let Ok(index) = fs::read_to_string(directory.join("README.md")) else { return Ok(Vec::new()) };
    let mut files = Vec::new();
    collect(directory, &mut files).with_context(|| format!("cannot read {}", directory.display()))?;
    let names = files.iter().filter_map(|file| file.file_name()).map(|name| name.to_string_lossy());
    Ok(names
        .filter(|name| name != "README.md" && !index.contains(name.as_ref()))
        .map(|name| format!("docs/adr/README.md does not list {name}"))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("herdsman-layout-{name}-{}", std::process::id()));
        for (path, content) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }

    fn complaint(name: &str, files: &[(&str, &str)]) -> String {
        let root = scratch(name, files);
        let result = check(&root);
        fs::remove_dir_all(root).unwrap();
        result.map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn long_files_are_named_and_data_is_not() {
        let long = "line\n".repeat(801);
        let found = complaint("long", &[("crates/a/src/lib.rs", &long), ("crates/a/testdata/b.yaml", &long)]);
        assert!(found.contains("lib.rs has 801 lines") && !found.contains("b.yaml"), "{found}");
        assert_eq!(complaint("short", &[("xtask/main.rs", &"line\n".repeat(800))]), "");
    }

    #[test]
    fn decisions_are_listed() {
        let listed = ("docs/adr/README.md", "- [one](0001-one.md)");
        let files = [listed, ("docs/adr/0001-one.md", ""), ("docs/adr/0002-two.md", "")];
        assert_eq!(complaint("adr", &files), "docs/adr/README.md does not list 0002-two.md");
        assert_eq!(complaint("adr-none", &[("docs/adr/0002-two.md", "")]), "");
    }
}
