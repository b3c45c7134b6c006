//! Files of a plan: everything is rendered first, so that a plan with a mistake in it touches nothing; then
//! everything is written, each file at once.
//!
//! Rancher's agent writes in place. Here a file is replaced, on the disk, or left as it is; a link is followed, so
//! that it is its target that changes. One consequence: a file that is a mount of its own cannot be written.

use std::io;
use std::path::{Path, PathBuf};

use plan::document::{File, FileError};

use crate::disk::{self, Attributes};
use crate::machine::Root;

/// Why files could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The plan is wrong; nothing was touched.
    #[error("files[{index}].{field}: {message}")]
    Plan {
        /// Which file.
        index: usize,
        /// Which field of it.
        field: &'static str,
        /// What is wrong.
        message: String,
    },
    /// The disk.
    #[error("files[{index}]")]
    Disk {
        /// Which file.
        index: usize,
        /// What it was.
        source: disk::Error,
    },
    /// A link that leads out of the root.
    #[error("files[{index}]: {} leads out of {}", path.display(), root.display())]
    Escape {
        /// Which file.
        index: usize,
        /// The link.
        path: PathBuf,
        /// The root.
        root: PathBuf,
    },
    /// A link that cannot be followed.
    #[error("files[{index}]: cannot follow {}", path.display())]
    Link {
        /// Which file.
        index: usize,
        /// The link.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl Error {
    /// Whether trying again may help: it is the machine's fault, not the plan's.
    pub fn is_machine(&self) -> bool {
        !matches!(self, Error::Plan { .. })
    }
}

/// What is to become of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Write(Vec<u8>, Attributes),
    Directory(Attributes),
    Remove { recursive: bool },
}

/// All that a plan wants of the disk, checked and ready.
#[derive(Debug)]
pub struct Rendered(Vec<(PathBuf, Change)>);

/// Prepares all files of a plan; nothing is touched.
pub fn render(files: &[File], root: &Root) -> Result<Rendered, Error> {
    let render = |(index, file): (usize, &File)| {
        let wrong = |field, message: String| Error::Plan { index, field, message };
        if file.path.is_empty() {
            return Err(wrong("path", "Required value".into()));
        }
        Ok((root.locate(&file.path), change(file, root).map_err(|(field, message)| wrong(field, message))?))
    };
    files.iter().enumerate().map(render).collect::<Result<_, _>>().map(Rendered)
}

fn change(file: &File, root: &Root) -> Result<Change, (&'static str, String)> {
    if file.is_delete() {
        return Ok(Change::Remove { recursive: file.directory });
    }
    let said = |error: FileError| match error {
        FileError::Content(source) => ("content", format!("Invalid value: not base64: {source}")),
        FileError::Permissions(text) => {
            ("permissions", format!("Invalid value: {text:?}: must be an octal number"))
        }
    };
    let id = |field: &'static str, id: i64| {
        u32::try_from(id).map_err(|_| (field, format!("Invalid value: {id}: must be a user or group number")))
    };
    // Checked whether or not they count here.
    let owner = (id("uid", file.uid)?, id("gid", file.gid)?);
    let attributes = Attributes { mode: file.mode().map_err(said)?, owner: root.owners.then_some(owner) };
    Ok(match file.directory {
        true => Change::Directory(attributes),
        false => Change::Write(file.decoded().map_err(said)?, attributes),
    })
}

impl Rendered {
    /// Writes them all, in their order; says how many were not as they should be.
    pub fn write(&self, root: &Root) -> Result<usize, Error> {
        let mut changed = 0;
        for (index, (path, change)) in self.0.iter().enumerate() {
            let disk = |source| Error::Disk { index, source };
            match change {
                Change::Remove { recursive: true } => disk::remove_all(path).map_err(disk)?,
                Change::Remove { recursive: false } => disk::remove(path).map_err(disk)?,
                Change::Directory(attributes) => disk::make_directory(path, *attributes).map_err(disk)?,
                Change::Write(content, attributes) => {
                    if let Some(parent) = path.parent() {
                        disk::make_directories(parent).map_err(disk)?;
                    }
                    let target = follow(index, path, root)?;
                    changed += usize::from(disk::write(&target, content, *attributes).map_err(disk)?);
                }
            }
        }
        Ok(changed)
    }
}

/// Where a link leads; anything else is where it is.
fn follow(index: usize, path: &Path, root: &Root) -> Result<PathBuf, Error> {
    if !path.symlink_metadata().is_ok_and(|meta| meta.is_symlink()) {
        return Ok(path.to_owned());
    }
    let link = |source| Error::Link { index, path: path.to_owned(), source };
    let target = match path.canonicalize() {
        // A link to what is not there yet: its directory has to be.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let read = path.read_link().map_err(link)?;
            let joined = path.parent().unwrap_or(path).join(read);
            let parent = joined.parent().unwrap_or(&joined).canonicalize().map_err(link)?;
            parent.join(joined.file_name().unwrap_or_default())
        }
        other => other.map_err(link)?,
    };
    let real_root = root.directory().canonicalize().map_err(link)?;
    match target.starts_with(&real_root) {
        true => Ok(target),
        false => Err(Error::Escape { index, path: path.to_owned(), root: real_root }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;

    fn file(path: &str, content: &str) -> File {
        use base64::Engine as _;
        let content = base64::engine::general_purpose::STANDARD.encode(content);
        File { path: path.into(), content, ..File::default() }
    }

    fn write(root: &Root, files: &[File]) -> Result<usize, Error> {
        render(files, root)?.write(root)
    }

    fn mode(root: &Root, path: &str) -> u32 {
        root.locate(path).metadata().unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn content_and_modes() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at(directory.path());
        let files = [
            file("/etc/a/b", "one"),
            File { permissions: "04755".into(), ..file("c", "two") },
            File { path: "/d/e".into(), directory: true, ..File::default() },
            File { path: "/f".into(), directory: true, permissions: "0700".into(), ..File::default() },
        ];
        assert_eq!(write(&root, &files).unwrap(), 2);
        assert_eq!(fs::read_to_string(root.locate("/etc/a/b")).unwrap(), "one");
        let modes = ["/etc", "/etc/a/b", "/c", "/d/e", "/f"].map(|path| mode(&root, path));
        assert_eq!(modes, [0o755, 0o600, 0o755, 0o755, 0o700], "only the nine bits count");
        let inode = || root.locate("/etc/a/b").metadata().unwrap().ino();
        let before = inode();
        assert_eq!(write(&root, &files).unwrap(), 0);
        assert_eq!(inode(), before, "what is right is not touched");
        fs::set_permissions(root.locate("/etc/a/b"), fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(write(&root, &files).unwrap(), 1);
        assert_eq!((inode(), mode(&root, "/etc/a/b")), (before, 0o600), "the mode alone was wrong");
        assert_eq!(write(&root, &[file("/etc/a/b", "two")]).unwrap(), 1);
        assert_ne!(inode(), before, "a reader has the old file or the new one");
        assert_eq!(disk::names(&root.locate("/etc/a")).unwrap(), ["b"], "nothing is left behind");
    }

    #[test]
    fn what_a_crash_left_is_no_hindrance() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at(directory.path());
        write(&root, &[file("/a", "one")]).unwrap();
        let left = format!(".herdsman-{}.new", &plan::Checksum::of(b"a").to_string()[..16]);
        fs::write(root.locate(&left), "torn").unwrap();
        write(&root, &[file("/a", "two")]).unwrap();
        assert_eq!(disk::names(directory.path()).unwrap(), ["a"]);
        assert_eq!(fs::read_to_string(root.locate("/a")).unwrap(), "two");
    }

    #[test]
    fn deleting() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at(directory.path());
        let delete = |path: &str, directory| File {
            path: path.into(),
            action: "delete".into(),
            directory,
            ..File::default()
        };
        write(&root, &[file("/a", ""), file("/d/e/f", ""), file("/t/target", "")]).unwrap();
        symlink(root.locate("/t"), root.locate("/link")).unwrap();
        write(
            &root,
            &[delete("/a", false), delete("/none", false), delete("/none", true), delete("/d", true)],
        )
        .unwrap();
        write(&root, &[delete("/link", true)]).unwrap();
        assert_eq!(disk::names(directory.path()).unwrap(), ["t"]);
        assert!(root.locate("/t/target").exists(), "a link is removed, not what it points to");
        let error = write(&root, &[delete("/t", false)]).unwrap_err();
        assert!(error.is_machine(), "a directory with something in it: {error}");
    }

    #[test]
    fn links() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at(directory.path());
        write(&root, &[file("/real", "one")]).unwrap();
        symlink("real", root.locate("/link")).unwrap();
        symlink("later", root.locate("/dangling")).unwrap();
        symlink("/etc/passwd", root.locate("/out")).unwrap();
        write(&root, &[file("/link", "two"), file("/dangling", "three")]).unwrap();
        assert_eq!(fs::read_to_string(root.locate("/real")).unwrap(), "two");
        assert_eq!(fs::read_to_string(root.locate("/later")).unwrap(), "three");
        assert!(root.locate("/link").is_symlink());
        assert!(matches!(write(&root, &[file("/out", "x")]), Err(Error::Escape { .. })));
    }

    #[test]
    fn a_mistake_touches_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at(directory.path());
        let table = [
            (File::default(), "files[1].path: Required value"),
            (
                File { permissions: "9z".into(), ..file("/b", "") },
                "files[1].permissions: Invalid value: \"9z\": must be an octal number",
            ),
            (
                File { uid: -1, ..file("/b", "") },
                "files[1].uid: Invalid value: -1: must be a user or group number",
            ),
        ];
        for (wrong, said) in table {
            let error = write(&root, &[file("/a", ""), wrong]).unwrap_err();
            assert_eq!((error.to_string().as_str(), error.is_machine()), (said, false));
            assert_eq!(disk::names(directory.path()).unwrap(), [] as [&str; 0]);
        }
    }
}
