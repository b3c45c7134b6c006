//! Images in archives on this machine: what `docker save` and other tools write, and OCI layouts.
//!
//! An archive may be compressed and cannot be read out of order, so it is read from the start for every question:
//! which images are in it, what an index leads to, at last the layers. Layers go into files of their own.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::compression;
use crate::digest::{Digest, Hasher};
use crate::limits::Limits;
use crate::manifest::{self, Descriptor, Manifest, Platform, select};
use crate::reference::{Reference, Selector};
use crate::root::relative;

/// The names of archives end so, in whatever case.
const EXTENSIONS: [&str; 8] =
    [".tar", ".tar.lz4", ".tar.bz2", ".tbz", ".tar.gz", ".tgz", ".tar.zst", ".tzst"];
/// Where tools note what an OCI manifest is called: the whole name, or the tag only.
const NAME_ANNOTATIONS: [&str; 2] = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];
/// `docker save` writes its list here.
const DOCKER_LIST: &str = "manifest.json";
/// An OCI layout begins here.
const OCI_INDEX: &str = "index.json";
/// How deep indexes may lie in indexes, and links lead to links.
const MAX_DEPTH: usize = 4;

/// Why an archive is of no use.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The archive.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// A file in it is not what it should be.
    #[error("{}: {name}: {message}", path.display())]
    Content {
        /// The archive.
        path: PathBuf,
        /// The file in it.
        name: String,
        /// What is wrong.
        message: String,
    },
    /// A manifest in it is not.
    #[error("{}: {source}", path.display())]
    Manifest {
        /// The archive.
        path: PathBuf,
        /// What is wrong.
        source: manifest::Error,
    },
}

/// A list entry of `docker save`.
#[derive(Deserialize)]
struct DockerImage {
    #[serde(rename = "RepoTags", default)]
    tags: Option<Vec<String>>,
    #[serde(rename = "Layers", default)]
    layers: Vec<String>,
}

/// A layer in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Layer {
    name: String,
    /// What it must be, where that is known.
    digest: Option<Digest>,
}

/// An image that was found.
pub(crate) struct FoundImage {
    /// In this archive.
    pub(crate) archive: PathBuf,
    /// Its layers, each in a file, the lowest first.
    pub(crate) layers: Vec<PathBuf>,
}

/// Looks for an image in all archives below a directory, in the order of their names, and puts its layers into files in
/// `spool`. An archive that cannot be read is passed over with a warning.
pub(crate) fn find(
    directory: &Path,
    reference: &Reference,
    platform: &Platform,
    limits: &Limits,
    spool: &Path,
) -> Result<Option<FoundImage>, Error> {
    for path in archives(directory).map_err(|source| Error::Read { path: directory.into(), source })? {
        let archive = Archive { path, limits };
        let found = archive.image(reference, platform).and_then(|layers| match layers {
            Some(layers) => archive.unpack(&layers, spool).map(Some),
            None => Ok(None),
        });
        match found {
            Ok(Some(layers)) => return Ok(Some(FoundImage { archive: archive.path, layers })),
            Ok(None) => {}
            Err(error) => tracing::warn!("looking for image {reference}: {error}"),
        }
    }
    Ok(None)
}

/// The archives below a directory, sorted; none if there is no directory. Hidden files are passed over.
fn archives(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match directory.read_dir() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if entry.file_type()?.is_dir() {
            found.extend(archives(&entry.path())?);
        } else if !name.starts_with('.') && EXTENSIONS.iter().any(|extension| name.ends_with(extension)) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

struct Archive<'a> {
    path: PathBuf,
    limits: &'a Limits,
}

impl Archive<'_> {
    /// The image's layers, if it is here.
    fn image(&self, reference: &Reference, platform: &Platform) -> Result<Option<Vec<Layer>>, Error> {
        let mut files = self.read(&[DOCKER_LIST, OCI_INDEX])?;
        if let Some(index) = files.remove(OCI_INDEX)
            && let Some(layers) = self.oci(&index, reference, platform)?
        {
            return Ok(Some(layers));
        }
        match files.remove(DOCKER_LIST) {
            Some(list) => self.docker(&list, reference),
            None => Ok(None),
        }
    }

    fn docker(&self, list: &[u8], reference: &Reference) -> Result<Option<Vec<Layer>>, Error> {
        let images: Vec<DockerImage> =
            serde_json::from_slice(list).map_err(|error| self.content(DOCKER_LIST, error))?;
        let is_it = |tag: &String| tag.parse::<Reference>().is_ok_and(|tag| tag == *reference);
        let image = images.into_iter().find(|image| image.tags.iter().flatten().any(is_it));
        let layer = |name: String| Layer { digest: digest_in_name(&name), name };
        Ok(image.map(|image| image.layers.into_iter().map(layer).collect()))
    }

    fn oci(
        &self,
        index: &[u8],
        reference: &Reference,
        platform: &Platform,
    ) -> Result<Option<Vec<Layer>>, Error> {
        let Manifest::Index(entries) = self.parse(index)? else {
            return Err(self.content(OCI_INDEX, "not an index"));
        };
        // What has the digest is the image, whether or not the index leads to it.
        let digest = match &reference.selector {
            Selector::Digest(digest) => digest.clone(),
            Selector::Tag(tag) => {
                let named = entries.iter().filter(|entry| is_named(entry, reference, tag));
                let named: Vec<Descriptor> = named.cloned().collect();
                match &named[..] {
                    [] => return Ok(None),
                    [one] => one.digest.clone(),
                    several => {
                        select(several, platform).map_err(|error| self.manifest(error))?.digest.clone()
                    }
                }
            }
        };
        self.follow(digest, platform, matches!(reference.selector, Selector::Tag(_)))
    }

    /// The layers of the image that a digest leads to, through indexes. Nothing at the digest is an error if the archive
    /// itself said that it is there.
    fn follow(
        &self,
        mut digest: Digest,
        platform: &Platform,
        mut promised: bool,
    ) -> Result<Option<Vec<Layer>>, Error> {
        for _ in 0..MAX_DEPTH {
            let name = blob(&digest);
            let Some(bytes) = self.read(&[&name])?.remove(&name) else {
                return if promised { Err(self.content(&name, "is missing")) } else { Ok(None) };
            };
            if Digest::of(&bytes) != digest {
                return Err(self.content(&name, "its contents have another digest"));
            }
            match self.parse(&bytes)? {
                Manifest::Image(layers) => {
                    let layer =
                        |layer: Descriptor| Layer { name: blob(&layer.digest), digest: Some(layer.digest) };
                    return Ok(Some(layers.into_iter().map(layer).collect()));
                }
                Manifest::Index(entries) => {
                    digest = select(&entries, platform).map_err(|error| self.manifest(error))?.digest.clone();
                    promised = true;
                }
            }
        }
        Err(self.manifest(manifest::Error::Nested))
    }

    /// Small files with these names, as far as they are there.
    fn read(&self, names: &[&str]) -> Result<BTreeMap<String, Vec<u8>>, Error> {
        let mut found = BTreeMap::new();
        self.scan(|name, entry| {
            if names.contains(&name) {
                let mut bytes = Vec::new();
                entry.take(self.limits.manifest + 1).read_to_end(&mut bytes)?;
                if bytes.len() as u64 > self.limits.manifest {
                    return Err(io::Error::other(format!("{name} is too large")));
                }
                found.insert(name.to_owned(), bytes);
            }
            Ok(found.len() < names.len())
        })?;
        Ok(found)
    }

    /// Writes layers into files and returns these in the layers' order.
    fn unpack(&self, layers: &[Layer], spool: &Path) -> Result<Vec<PathBuf>, Error> {
        let mut links: BTreeMap<String, String> = BTreeMap::new();
        let mut written: BTreeMap<String, PathBuf> = BTreeMap::new();
        let mut left = self.limits.packed;
        // A layer that other images share may be a link to a file that came before, so there can be another round.
        for _ in 0..MAX_DEPTH {
            let wanted: Vec<String> = layers.iter().map(|layer| resolve(&layer.name, &links)).collect();
            self.scan(|name, entry| {
                if wanted.iter().any(|wanted| wanted == name) && !written.contains_key(name) {
                    if entry.header().entry_type().is_symlink() || entry.header().entry_type().is_hard_link()
                    {
                        links.insert(name.to_owned(), link_target(name, entry)?);
                    } else {
                        let file = spool.join(format!("layer-{}", written.len()));
                        let digest = digest_of(layers, name);
                        left -= store(entry, &file, digest, left)?;
                        written.insert(name.to_owned(), file);
                    }
                }
                Ok(true)
            })?;
            let files = layers.iter().map(|layer| written.get(&resolve(&layer.name, &links)).cloned());
            if let Some(files) = files.collect() {
                return Ok(files);
            }
        }
        let missing = layers.iter().find(|layer| !written.contains_key(&resolve(&layer.name, &links)));
        Err(self.content(missing.map_or("layers", |layer| &layer.name), "is missing"))
    }

    /// Calls `visit` for every entry until it says no.
    fn scan(
        &self,
        mut visit: impl FnMut(&str, &mut tar::Entry<'_, Box<dyn Read>>) -> io::Result<bool>,
    ) -> Result<(), Error> {
        let mut scan = || -> io::Result<()> {
            let mut archive = tar::Archive::new(compression::reader(File::open(&self.path)?)?);
            for entry in archive.entries()? {
                let mut entry = entry?;
                let name = relative(&entry.path()?).unwrap_or_default();
                if !visit(&name.to_string_lossy(), &mut entry)? {
                    break;
                }
            }
            Ok(())
        };
        scan().map_err(|source| Error::Read { path: self.path.clone(), source })
    }

    fn parse(&self, bytes: &[u8]) -> Result<Manifest, Error> {
        Manifest::parse(bytes).map_err(|error| self.manifest(error))
    }

    fn manifest(&self, source: manifest::Error) -> Error {
        Error::Manifest { path: self.path.clone(), source }
    }

    fn content(&self, name: &str, message: impl ToString) -> Error {
        Error::Content { path: self.path.clone(), name: name.into(), message: message.to_string() }
    }
}

/// Whether an index's entry is the image, by any of the names that tools write. A bare tag stands for any repository: there
/// is nothing else to go by.
fn is_named(entry: &Descriptor, reference: &Reference, tag: &str) -> bool {
    let names = NAME_ANNOTATIONS.iter().filter_map(|annotation| entry.annotations.get(*annotation));
    let whole = names.clone().any(|name| name.parse::<Reference>().is_ok_and(|name| name == *reference));
    whole || (names.clone().count() == 1 && names.into_iter().any(|name| name == tag))
}

fn blob(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// Newer versions of Docker name layers by their digests.
fn digest_in_name(name: &str) -> Option<Digest> {
    name.strip_prefix("blobs/sha256/").and_then(|hex| format!("sha256:{hex}").parse().ok())
}

fn digest_of<'a>(layers: &'a [Layer], name: &str) -> Option<&'a Digest> {
    layers.iter().find(|layer| layer.name == name)?.digest.as_ref()
}

fn resolve(name: &str, links: &BTreeMap<String, String>) -> String {
    let mut name = name;
    for _ in 0..MAX_DEPTH {
        name = links.get(name).map_or(name, String::as_str);
    }
    name.to_owned()
}

/// The name that a link in an archive leads to.
fn link_target<R: Read>(name: &str, entry: &tar::Entry<'_, R>) -> io::Result<String> {
    let target = entry.link_name()?.unwrap_or_default();
    let from_top = entry.header().entry_type().is_hard_link() || target.is_absolute();
    let parent = Path::new(name).parent().filter(|_| !from_top).unwrap_or(Path::new(""));
    let target = relative(&parent.join(&target)).ok_or(io::ErrorKind::InvalidData)?;
    Ok(target.to_string_lossy().into_owned())
}

/// Writes an entry into a file, checks it and returns its length.
fn store<R: Read>(
    entry: &mut tar::Entry<'_, R>,
    file: &Path,
    digest: Option<&Digest>,
    limit: u64,
) -> io::Result<u64> {
    if entry.size() > limit {
        return Err(io::Error::other("the layers are too large"));
    }
    let mut hashed = Hashed { hasher: Hasher::default(), inner: entry };
    let length = io::copy(&mut hashed, &mut File::create(file)?)?;
    if digest.is_some_and(|digest| *digest != hashed.hasher.finish()) {
        return Err(io::Error::other("a layer's contents have another digest"));
    }
    Ok(length)
}

struct Hashed<R> {
    hasher: Hasher,
    inner: R,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
