//! Layers into a directory: each one's files over those before, whiteouts applied.
//!
//! Owners, times and extended attributes are not taken over. Of a file's mode only what is in 0755 counts; archives made on
//! Windows have no modes, so that none means 0755. Directories are 0755. Devices and pipes are passed over.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tar::EntryType;

use crate::compression;
use crate::limits::Limits;
use crate::root::{Found, Missing, Root, relative};

/// What is masked out of modes, and what none becomes.
const MODE: u32 = 0o755;
/// How whiteouts' names begin.
const WHITEOUT: &[u8] = b".wh.";
/// The whiteout of everything in its directory.
const OPAQUE: &[u8] = b".wh..wh..opq";

/// Why the files are not, or not all, in the directory.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory cannot be used.
    #[error("cannot extract into {}: {source}", path.display())]
    Directory {
        /// Which one.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// A layer is no readable archive.
    #[error("layer {layer} cannot be read: {source}")]
    Layer {
        /// Its number, from 1 at the bottom.
        layer: usize,
        /// What is wrong.
        source: io::Error,
    },
    /// An entry's name, or the file that it links to, leads out of the directory.
    #[error("layer {layer}: `{path}` leads out of the directory")]
    IllegalPath {
        /// The layer's number.
        layer: usize,
        /// The name.
        path: String,
    },
    /// An entry could not be written.
    #[error("layer {layer}: cannot extract `{path}`: {source}")]
    Entry {
        /// The layer's number.
        layer: usize,
        /// Its name.
        path: String,
        /// What the operating system says.
        source: io::Error,
    },
    /// The image is larger than anything that is meant to be run here.
    #[error("layer {layer}: the image has more than {limit} {unit}")]
    TooLarge {
        /// The layer's number.
        layer: usize,
        /// The limit.
        limit: u64,
        /// Of what.
        unit: &'static str,
    },
}

/// What became of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extracted {
    /// How many entries were written.
    pub entries: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Entries that were passed over: devices and pipes.
    pub skipped: Vec<String>,
}

/// Extracts layers, the lowest first. Nothing outside of the directory is changed, whatever is in them.
pub(crate) fn layers(files: &[PathBuf], into: &Path, limits: &Limits) -> Result<Extracted, Error> {
    let directory = |source| Error::Directory { path: into.to_owned(), source };
    let mut extraction =
        Extraction { root: Root::open(into).map_err(directory)?, limits, done: Extracted::default() };
    for (index, file) in files.iter().enumerate() {
        let layer = index + 1;
        let opened = File::open(file).and_then(compression::reader);
        extraction.layer(opened.map_err(|source| Error::Layer { layer, source })?, layer)?;
    }
    Ok(extraction.done)
}

struct Extraction<'a> {
    root: Root,
    limits: &'a Limits,
    done: Extracted,
}

/// What a layer itself has put there: its whiteouts hide only what is below.
#[derive(Default)]
struct Written(BTreeSet<PathBuf>);

impl Written {
    fn add(&mut self, path: &Path) {
        // Directories above are kept with it.
        for path in path.ancestors().take_while(|path| !path.as_os_str().is_empty()) {
            if !self.0.insert(path.to_owned()) {
                break;
            }
        }
    }
}

impl Extraction<'_> {
    fn layer(&mut self, reader: impl Read, layer: usize) -> Result<(), Error> {
        let broken = |source| Error::Layer { layer, source };
        let mut archive = tar::Archive::new(reader);
        let mut written = Written::default();
        for entry in archive.entries().map_err(broken)? {
            self.entry(&mut entry.map_err(broken)?, layer, &mut written)?;
        }
        Ok(())
    }

    fn entry<R: Read>(
        &mut self,
        entry: &mut tar::Entry<'_, R>,
        layer: usize,
        written: &mut Written,
    ) -> Result<(), Error> {
        if entry.header().entry_type() == EntryType::XGlobalHeader {
            return Ok(());
        }
        let name = PathBuf::from(OsStr::from_bytes(&entry.path_bytes()));
        let shown = name.display().to_string();
        let illegal = |path: &Path| Error::IllegalPath { layer, path: path.display().to_string() };
        let path = relative(&name).ok_or_else(|| illegal(&name))?;
        self.count(entry, layer)?;
        let failed = |source| Error::Entry { layer, path: shown.clone(), source };
        if let Some(base) = path.file_name().map(OsStrExt::as_bytes)
            && base.starts_with(WHITEOUT)
        {
            return self.whiteout(&path, base, written).map_err(failed);
        }
        let link = match entry.header().entry_type() {
            EntryType::Link => {
                let target = PathBuf::from(OsStr::from_bytes(&entry.link_name_bytes().unwrap_or_default()));
                Some(relative(&target).ok_or_else(|| illegal(&target))?)
            }
            _ => None,
        };
        self.write(entry, &path, link.as_deref(), written).map_err(failed)
    }

    /// Counts an entry and what it says to hold, before any of it is written.
    fn count<R: Read>(&mut self, entry: &tar::Entry<'_, R>, layer: usize) -> Result<(), Error> {
        self.done.entries += 1;
        self.done.bytes = self.done.bytes.saturating_add(entry.size());
        let over = |limit, unit| Err(Error::TooLarge { layer, limit, unit });
        if self.done.entries > self.limits.entries {
            return over(self.limits.entries, "entries");
        }
        if self.done.bytes > self.limits.unpacked {
            return over(self.limits.unpacked, "bytes unpacked");
        }
        Ok(())
    }

    fn write<R: Read>(
        &mut self,
        entry: &mut tar::Entry<'_, R>,
        path: &Path,
        link: Option<&Path>,
        written: &mut Written,
    ) -> io::Result<()> {
        let kind = entry.header().entry_type();
        if !(kind.is_dir() || is_file(kind) || kind.is_symlink() || kind.is_hard_link()) {
            tracing::warn!("{} in an image is a {kind:?}: passed over", path.display());
            self.done.skipped.push(path.display().to_string());
            return Ok(());
        }
        let Some(place) = self.root.place(path, Missing::Create)? else { return Ok(()) };
        if kind.is_dir() {
            place.make_directory()?;
        } else if kind.is_symlink() {
            let target = entry.link_name_bytes().unwrap_or_default();
            place.make_symlink(OsStr::from_bytes(&target))?;
        } else if let Some(link) = link {
            let target = self.root.place(link, Missing::Refuse)?;
            place.make_hardlink(&target.ok_or(io::ErrorKind::IsADirectory)?)?;
        } else {
            let mode = entry.header().mode()? & MODE;
            let mut file = place.create_file(if mode == 0 { MODE } else { mode })?;
            io::copy(entry, &mut file)?;
        }
        written.add(&place.path);
        Ok(())
    }

    /// Removes what lower layers have put where the whiteout says.
    fn whiteout(&mut self, path: &Path, base: &[u8], written: &Written) -> io::Result<()> {
        let keep = |path: &Path| written.0.contains(path);
        let hidden = match base {
            OPAQUE => path.parent().map(Path::to_owned),
            _ => Some(path.with_file_name(OsStr::from_bytes(&base[WHITEOUT.len()..]))),
        };
        // Nothing stands for `.`, `..` and the root itself: they cannot be hidden.
        let Some(hidden) = hidden.and_then(|hidden| relative(&hidden)) else { return Ok(()) };
        let place = match self.root.place(&hidden, Missing::Refuse) {
            Ok(Some(place)) => place,
            Ok(None) if base == OPAQUE => return self.root.empty(&keep),
            // What is not there, or is below a file, needs no hiding.
            Ok(None) | Err(_) => return Ok(()),
        };
        match place.look()? {
            Found::Directory if base == OPAQUE => place.empty(&keep),
            _ if base == OPAQUE => Ok(()),
            _ => place.remove(&keep),
        }
    }
}

fn is_file(kind: EntryType) -> bool {
    kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse()
}

#[cfg(test)]
mod tests;
