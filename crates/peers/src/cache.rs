//! Directories that are built once, by version, and never seen half-done.

use std::error::Error as StdError;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clock::{Clock, SystemClock};
use sha2::{Digest, Sha256};

/// Why something is not in the cache.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no place for a cache.
    #[error("no cache directory: set HERDSMAN_PEERS_DIR, XDG_CACHE_HOME or HOME")]
    NoPlace,
    /// The file system refuses.
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The builder failed; the cache is as it was before.
    #[error("cannot make {entry}: {source}")]
    Build {
        /// The entry that was to be made.
        entry: String,
        /// What the builder says.
        source: Box<dyn StdError + Send + Sync>,
    },
}

/// Everything that an entry is made from. Two recipes with the same parts have the same digest.
#[derive(Clone, Debug, Default)]
pub struct Recipe(Sha256);

impl Recipe {
    /// A recipe without parts.
    pub fn new() -> Self {
        Recipe::default()
    }

    /// Adds a part: a file's content, a flag, a compiler's version.
    pub fn part(mut self, label: &str, content: impl AsRef<[u8]>) -> Self {
        // Lengths keep ("ab", "c") and ("a", "bc") apart.
        for piece in [label.as_bytes(), content.as_ref()] {
            self.0.update((piece.len() as u64).to_le_bytes());
            self.0.update(piece);
        }
        self
    }

    /// 16 hexadecimal digits that stand for all parts.
    pub fn digest(&self) -> String {
        self.0.clone().finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// What an entry is found by.
#[derive(Clone, Debug)]
pub struct Key {
    name: String,
    version: String,
    recipe: Option<Recipe>,
}

impl Key {
    /// An entry that its name and version describe fully.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Key { name: name.into(), version: version.into(), recipe: None }
    }

    /// The same, made anew whenever the recipe changes.
    pub fn with_recipe(self, recipe: Recipe) -> Self {
        Key { recipe: Some(recipe), ..self }
    }

    /// The entry's directory name.
    pub fn directory(&self) -> String {
        let digest = self.recipe.as_ref().map(|recipe| format!("-{}", recipe.digest())).unwrap_or_default();
        format!("{}-{}{digest}", self.name, self.version)
    }
}

/// An entry that is there.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its directory.
    pub path: PathBuf,
    /// How long it took to make; `None` if it was there already.
    pub took: Option<Duration>,
}

/// A directory of finished entries.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// The machine's cache: `HERDSMAN_PEERS_DIR`, or `herdsman/peers` in the user's cache directory.
    pub fn from_env() -> Result<Self, Error> {
        let [own, xdg, home] = ["HERDSMAN_PEERS_DIR", "XDG_CACHE_HOME", "HOME"].map(std::env::var_os);
        location(own, xdg, home).map(Cache::at).ok_or(Error::NoPlace)
    }

    /// The cache in this directory, which need not exist yet.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Cache { root: root.into() }
    }

    /// A cache of its own in a directory of this one.
    pub fn inside(&self, directory: &str) -> Self {
        Cache::at(self.root.join(directory))
    }

    /// A directory in it that is no entry: whoever uses it looks after it.
    pub fn directory(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.root.join(name);
        fs::create_dir_all(&path).map_err(at("create", &path))?;
        Ok(path)
    }

    /// The entry's directory, if it is finished.
    pub fn find(&self, key: &Key) -> Option<PathBuf> {
        let path = self.root.join(key.directory());
        path.is_dir().then_some(path)
    }

    /// Gives the entry, made by `build` if it is not there.
    ///
    /// `build` fills a directory that nobody else looks at; only when it has succeeded does the directory get the
    /// entry's name. Of several processes that want the same entry one builds and the others wait for it.
    pub fn provide<E>(&self, key: &Key, build: impl FnOnce(&Path) -> Result<(), E>) -> Result<Entry, Error>
    where
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        if let Some(path) = self.find(key) {
            return Ok(Entry { path, took: None });
        }
        let started = SystemClock.monotonic();
        let _lock = self.lock(key)?;
        if let Some(path) = self.find(key) {
            return Ok(Entry { path, took: None });
        }
        let partial = self.root.join(format!(".{}.partial", key.directory()));
        // Left by a builder that died: nobody alive uses it, since we hold the lock.
        remove(&partial)?;
        fs::create_dir(&partial).map_err(at("create", &partial))?;
        if let Err(error) = build(&partial) {
            remove(&partial)?;
            return Err(Error::Build { entry: key.directory(), source: error.into() });
        }
        let path = self.root.join(key.directory());
        fs::rename(&partial, &path).map_err(at("rename to", &path))?;
        Ok(Entry { path, took: Some(SystemClock.monotonic().since(started)) })
    }

    /// Waits until this process is the only builder of the entry. Freed when the file is closed, so even by a crash.
    fn lock(&self, key: &Key) -> Result<File, Error> {
        fs::create_dir_all(&self.root).map_err(at("create", &self.root))?;
        let path = self.root.join(format!(".{}.lock", key.directory()));
        let file = File::create(&path).map_err(at("create", &path))?;
        file.lock().map_err(at("lock", &path))?;
        Ok(file)
    }
}

fn location(own: Option<OsString>, xdg: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let given = |value: Option<OsString>| value.filter(|value| !value.is_empty()).map(PathBuf::from);
    // A relative XDG directory is to be ignored, says its specification.
    let xdg = given(xdg).filter(|path| path.is_absolute());
    let user = xdg.or_else(|| given(home).map(|home| home.join(".cache")));
    given(own).or_else(|| user.map(|user| user.join("herdsman").join("peers")))
}

fn remove(directory: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at("remove", directory)(error)),
        _ => Ok(()),
    }
}

/// What to make of an error of the file system.
pub(crate) fn at(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { what, path, source }
}

#[cfg(test)]
mod tests;
