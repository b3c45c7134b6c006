//! The machine that the agent runs on, as values and traits: its file system, what runs programs, gets images and
//! asks probes, its time. [`linux`](crate::linux) is the real one; a simulated machine brings its own.

use std::future::Future;
use std::path::{Component, Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use clock::{Clock, Entropy, SystemClock, SystemEntropy};
use plan::document::Probe;

use crate::linux::Processes;
use crate::probes::HttpProber;

/// What a trait's asynchronous function gives.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A machine.
#[derive(Clone)]
pub struct Machine {
    /// Its file system.
    pub root: Root,
    /// Runs programs.
    pub executor: Arc<dyn Executor>,
    /// Gets images.
    pub images: Arc<dyn Images>,
    /// Asks probes.
    pub prober: Arc<dyn Prober>,
    /// Its time.
    pub clock: Arc<dyn Clock>,
    /// Randomness: only to spread retries.
    pub entropy: Arc<Mutex<Box<dyn Entropy>>>,
    /// What a program of the agent inherits.
    pub environment: Vec<(String, String)>,
    /// The agent's own process.
    pub process: u32,
}

impl Machine {
    /// The one that this process runs on.
    pub fn this(environment: Vec<(String, String)>, images: Arc<dyn Images>) -> Self {
        let root = Root::system();
        Machine {
            executor: Arc::new(Processes),
            images,
            prober: Arc::new(HttpProber::new(root.clone())),
            clock: Arc::new(SystemClock),
            entropy: Arc::new(Mutex::new(Box::new(SystemEntropy))),
            environment,
            process: std::process::id(),
            root,
        }
    }

    /// A variable of the environment that programs inherit.
    pub fn variable(&self, name: &str) -> Option<String> {
        variable(&self.environment, name)
    }

    /// A number below `bound`.
    pub fn random(&self, bound: u32) -> u32 {
        self.entropy.lock().unwrap_or_else(PoisonError::into_inner).below(bound)
    }
}

/// The value of a variable; of two with one name the last counts.
pub(crate) fn variable(environment: &[(String, String)], name: &str) -> Option<String> {
    environment.iter().rfind(|(known, _)| known == name).map(|(_, value)| value.clone())
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine")
            .field("root", &self.root)
            .field("process", &self.process)
            .finish_non_exhaustive()
    }
}

/// A directory that the machine takes for `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    directory: PathBuf,
    /// Whether files get the owners that plans name. Only the superuser can give files away.
    pub owners: bool,
}

impl Root {
    /// The file system of this machine.
    pub fn system() -> Self {
        Root { directory: "/".into(), owners: true }
    }

    /// A directory that stands in for one; owners in plans do not count.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Root { directory: directory.into(), owners: false }
    }

    /// Where a path of the machine really is. It never leaves the root: `..` stops there.
    pub fn locate(&self, path: impl AsRef<Path>) -> PathBuf {
        let mut inside = PathBuf::new();
        for component in path.as_ref().components() {
            match component {
                Component::Normal(name) => inside.push(name),
                Component::ParentDir => {
                    inside.pop();
                }
                Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
            }
        }
        self.directory.join(inside)
    }

    /// The directory itself.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

/// A program to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Before its lines in the log.
    pub label: String,
    /// Looked up in the agent's `PATH` unless it has a slash.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// All of its environment; of two with one name the last counts.
    pub env: Vec<(String, String)>,
    /// Where it runs, as the machine sees it.
    pub directory: PathBuf,
}

/// What a program did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Standard output, cut if it is long.
    pub stdout: Vec<u8>,
    /// Standard error, cut if it is long.
    pub stderr: Vec<u8>,
    /// Both, as they came, cut if they are long.
    pub combined: Vec<u8>,
    /// -1 if it did not start or a signal ended it.
    pub exit_code: i64,
}

/// Runs programs.
pub trait Executor: Send + Sync {
    /// Runs a program to its end. Dropping the answer before that kills the program and what it started.
    fn run<'a>(&'a self, program: &'a Program) -> Later<'a, Ended>;

    /// Whether there is a process of this number.
    fn is_alive(&self, process: u32) -> bool;
}

/// Why an image could not be had, in words for the log and the output of the instruction.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ImageError(pub String);

/// Gets images.
pub trait Images: Send + Sync {
    /// Puts the files of an image into a directory, which is made if need be; `into` is where it really is.
    fn stage<'a>(&'a self, image: &'a str, into: &'a Path) -> Later<'a, Result<(), ImageError>>;
}

/// Asks probes.
pub trait Prober: Send + Sync {
    /// One try, within the probe's timeout. Whatever is not a success is an error, in words for the log.
    fn ask<'a>(&'a self, probe: &'a Probe) -> Later<'a, Result<(), String>>;
}

/// No image can be had.
#[derive(Clone, Copy, Debug)]
pub struct NoImages;

impl Images for NoImages {
    fn stage<'a>(&'a self, image: &'a str, _: &'a Path) -> Later<'a, Result<(), ImageError>> {
        Box::pin(std::future::ready(Err(ImageError(format!("{image}: this agent cannot get images")))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_inside() {
        let root = Root::at("/r");
        for (path, real) in [
            ("/etc/x", "/r/etc/x"),
            ("etc/x", "/r/etc/x"),
            ("/../../etc/./x", "/r/etc/x"),
            ("/a/../b", "/r/b"),
            ("/", "/r/"),
        ] {
            assert_eq!(root.locate(path), Path::new(real), "{path}");
        }
        assert_eq!(Root::system().locate("/etc/x"), Path::new("/etc/x"));
    }
}
