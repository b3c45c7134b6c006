//! A directory that nothing is written outside of, whatever names and links say.
//!
//! Every path is walked component by component from an open directory, never following a link by the kernel's rules:
//! a link on the way is read and resolved as if this directory were `/`, and `..` goes back to the directory that we
//! came from, at most to the top. So neither absolute links, nor `..`, nor links that change between layers lead out,
//! and no newer kernel (`openat2`) is needed for it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// The mode of directories.
const DIRECTORY_MODE: Mode = Mode::from_bits_retain(0o755);
/// How many links one path may lead over; the kernel's own limit.
const MAX_LINKS: usize = 40;
const OPEN_DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The open directory.
pub(crate) struct Root(OwnedFd);

/// An entry's place: the directory that it is in, wherever links led, and its name there.
pub(crate) struct Place {
    directory: OwnedFd,
    name: OsString,
    /// The path from the root, without links.
    pub(crate) path: PathBuf,
}

/// What is at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    Directory,
    Other,
}

/// Whether directories on the way are made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Create,
    Refuse,
}

impl Root {
    /// Opens a directory, made if it is not there. The path to it is the caller's and trusted.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Root(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Removes everything, but nothing whose path `keep` holds on to.
    pub(crate) fn empty(&self, keep: &dyn Fn(&Path) -> bool) -> io::Result<()> {
        empty(&self.0, Path::new(""), keep)
    }

    /// The place of a path from [`relative`]; `None` for the root itself.
    pub(crate) fn place(&self, path: &Path, missing: Missing) -> io::Result<Option<Place>> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
        let (directory, parent) = self.walk(parent, missing)?;
        Ok(Some(Place { directory, name: name.to_owned(), path: parent.join(name) }))
    }

    /// Opens the directory at a path, links resolved inside of the root.
    fn walk(&self, path: &Path, missing: Missing) -> io::Result<(OwnedFd, PathBuf)> {
        let mut stack: Vec<(OwnedFd, OsString)> = Vec::new();
        // The next component is the last one.
        let mut pending: Vec<OsString> = components(path).rev().collect();
        let mut links = 0;
        while let Some(name) = pending.pop() {
            if name == ".." {
                stack.pop();
                continue;
            }
            let here = stack.last().map_or(self.0.as_fd(), |(directory, _)| directory.as_fd());
            match rustix::fs::openat(here, &name, OPEN_DIRECTORY, Mode::empty()) {
                Ok(directory) => stack.push((directory, name)),
                Err(Errno::NOENT) if missing == Missing::Create => {
                    rustix::fs::mkdirat(here, &name, DIRECTORY_MODE)?;
                    let directory = rustix::fs::openat(here, &name, OPEN_DIRECTORY, Mode::empty())?;
                    rustix::fs::fchmod(&directory, DIRECTORY_MODE)?;
                    stack.push((directory, name));
                }
                Err(error @ (Errno::LOOP | Errno::NOTDIR)) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Errno::LOOP.into());
                    }
                    // What is no link is no directory either: the first error stands.
                    let target = rustix::fs::readlinkat(here, &name, Vec::new()).map_err(|_| error)?;
                    let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                    if target.is_absolute() {
                        stack.clear();
                    }
                    pending.extend(components(&target).rev());
                }
                Err(error) => return Err(error.into()),
            }
        }
        let path = stack.iter().map(|(_, name)| name).collect();
        let directory = match stack.pop() {
            Some((directory, _)) => directory,
            None => self.0.try_clone()?,
        };
        Ok((directory, path))
    }
}

impl Place {
    /// What is here, not following a link.
    pub(crate) fn look(&self) -> io::Result<Found> {
        match rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => Ok(Found::Directory),
            Ok(_) => Ok(Found::Other),
            Err(Errno::NOENT) => Ok(Found::Nothing),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a directory, unless one is here.
    pub(crate) fn make_directory(&self) -> io::Result<()> {
        match self.look()? {
            Found::Directory => return Ok(()),
            Found::Other => self.remove(&|_| false)?,
            Found::Nothing => {}
        }
        rustix::fs::mkdirat(&self.directory, &self.name, DIRECTORY_MODE)?;
        let made = rustix::fs::openat(&self.directory, &self.name, OPEN_DIRECTORY, Mode::empty())?;
        Ok(rustix::fs::fchmod(made, DIRECTORY_MODE)?)
    }

    /// A new file, instead of whatever is here: a file that another name leads to stays as it is.
    pub(crate) fn create_file(&self, mode: u32) -> io::Result<std::fs::File> {
        self.remove(&|_| false)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_bits_truncate(mode);
        let file = rustix::fs::openat(&self.directory, &self.name, flags, mode)?;
        rustix::fs::fchmod(&file, mode)?;
        Ok(file.into())
    }

    /// A symbolic link, instead of whatever is here. Its target is kept as it is: nobody here follows it outside.
    pub(crate) fn make_symlink(&self, target: &OsStr) -> io::Result<()> {
        self.remove(&|_| false)?;
        Ok(rustix::fs::symlinkat(target, &self.directory, &self.name)?)
    }

    /// Another name for what is at another place.
    pub(crate) fn make_hardlink(&self, target: &Place) -> io::Result<()> {
        if target.path == self.path {
            return Ok(());
        }
        if target.look()? != Found::Other {
            return Err(Errno::NOENT.into());
        }
        self.remove(&|_| false)?;
        let (from, to) = (&target.directory, &self.directory);
        Ok(rustix::fs::linkat(from, &target.name, to, &self.name, AtFlags::empty())?)
    }

    /// Removes what is here, but nothing whose path `keep` holds on to.
    pub(crate) fn remove(&self, keep: &dyn Fn(&Path) -> bool) -> io::Result<()> {
        match self.look()? {
            Found::Nothing => Ok(()),
            Found::Other if keep(&self.path) => Ok(()),
            Found::Other => Ok(rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty())?),
            Found::Directory => {
                self.empty(keep)?;
                if keep(&self.path) {
                    return Ok(());
                }
                Ok(rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::REMOVEDIR)?)
            }
        }
    }

    /// Removes what is in the directory that is here, but nothing whose path `keep` holds on to.
    pub(crate) fn empty(&self, keep: &dyn Fn(&Path) -> bool) -> io::Result<()> {
        let directory = rustix::fs::openat(&self.directory, &self.name, OPEN_DIRECTORY, Mode::empty())?;
        empty(&directory, &self.path, keep)
    }
}

fn empty(directory: &OwnedFd, path: &Path, keep: &dyn Fn(&Path) -> bool) -> io::Result<()> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    for name in names {
        let path = path.join(&name);
        Place { directory: directory.try_clone()?, name, path }.remove(keep)?;
    }
    Ok(())
}

/// A path in an archive, without `.`, `..` and the leading slash; `None` if it leads above the top.
pub(crate) fn relative(path: &Path) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir if !clean.pop() => return None,
            _ => {}
        }
    }
    Some(clean)
}

fn components(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn names_stay_below_the_top() {
        for (path, clean) in [
            ("a/b", Some("a/b")),
            ("/a/./b/", Some("a/b")),
            ("a/../b", Some("b")),
            (".", Some("")),
            ("..", None),
            ("a/../../b", None),
        ] {
            assert_eq!(relative(Path::new(path)), clean.map(PathBuf::from), "{path}");
        }
    }

    #[test]
    fn links_are_followed_inside_only() {
        let scratch = tempfile::tempdir().unwrap();
        let (inside, outside) = (scratch.path().join("in"), scratch.path().join("out"));
        std::fs::create_dir_all(inside.join("real/deep")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        symlink(&outside, inside.join("absolute")).unwrap();
        symlink("../../out", inside.join("upward")).unwrap();
        symlink("real/deep", inside.join("good")).unwrap();
        symlink("loop", inside.join("loop")).unwrap();
        let root = Root::open(&inside).unwrap();
        for (path, resolved) in [
            ("good/x", Some("real/deep/x".into())),
            ("good/../y", Some("real/y".into())),
            ("absolute/x", Some(outside.strip_prefix("/").unwrap().join("x"))),
            ("upward/x", Some("out/x".into())),
            ("loop/x", None),
        ] as [(&str, Option<PathBuf>); 5]
        {
            let place = root.place(Path::new(path), Missing::Create);
            assert_eq!(place.ok().flatten().map(|place| place.path), resolved, "{path}");
        }
        assert_eq!(outside.read_dir().unwrap().count(), 0);
        assert!(root.place(Path::new("none/x"), Missing::Refuse).is_err());
    }

    #[test]
    fn a_file_replaces_a_link_and_not_what_it_leads_to() {
        let scratch = tempfile::tempdir().unwrap();
        let (inside, canary) = (scratch.path().join("in"), scratch.path().join("canary"));
        std::fs::write(&canary, "alive").unwrap();
        let root = Root::open(&inside).unwrap();
        symlink(&canary, inside.join("f")).unwrap();
        let place = root.place(Path::new("f"), Missing::Refuse).unwrap().unwrap();
        drop(place.create_file(0o644).unwrap());
        assert_eq!(std::fs::read_to_string(&canary).unwrap(), "alive");
        assert!(inside.join("f").symlink_metadata().unwrap().is_file());
    }
}
