//! What a driver is.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::future::{Future, ready};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Flag, Special};

/// What a driver's work gives.
pub type Working<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

/// Makes and removes servers of one kind.
///
/// # Contract
/// - Everything by which a server can be found again follows from the order: its name, its arguments, and files that
///   the driver puts into [`Order::directory`] *before* it makes what they speak of. The directory is kept whatever
///   happens, and is there again when the server is removed.
/// - [`Driver::remove`] may be called however far [`Driver::create`] came, and however often. What is not there is
///   removed.
/// - Work may be dropped at any point.
pub trait Driver: Send + Sync + 'static {
    /// Its name, in small letters: `docker` has the kind `DockerMachine`.
    fn name(&self) -> &str;

    /// What a user can say of a server. Each flag begins with the driver's name and a dash.
    fn flags(&self) -> Vec<Flag>;

    /// Which of its fields are not like the others: files, credentials, secrets.
    fn special(&self) -> Special {
        Special::default()
    }

    /// Whether the server could be made. A refusal here means that nothing is there to be cleaned up.
    fn check<'a>(&'a self, _order: &'a Order) -> Working<'a, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Makes the server and has it run the bootstrap script.
    fn create<'a>(&'a self, order: &'a Order, output: &'a Output) -> Working<'a, Server>;

    /// Removes the server and everything that was made for it.
    fn remove<'a>(&'a self, order: &'a Order, output: &'a Output) -> Working<'a, ()>;
}

impl fmt::Debug for dyn Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "driver {}", self.name())
    }
}

/// One server that is to be made or removed.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// Its name, unique among all servers that this installation makes.
    pub name: String,
    /// What it is to call itself.
    pub hostname: String,
    /// What was said of it.
    pub arguments: Arguments,
    /// What it runs first, a shell script; empty when it is removed.
    pub bootstrap: String,
    /// Where the driver keeps files for later; they live as long as the server.
    pub directory: PathBuf,
    /// Credentials, by the names of environment variables.
    pub environment: BTreeMap<String, String>,
    /// The directory with the files that its arguments name: [`Order::file`] reads no others.
    pub files: PathBuf,
    /// The infrastructure machine that the server belongs to, as `namespace/name/uid`.
    pub owner: String,
    /// What the provider called the server when it was made; empty before that.
    pub instance: String,
}

/// The largest file that a driver is given.
const LARGEST_FILE: u64 = 1 << 20;

impl Order {
    /// The content of a file that came with the order. A path that leads elsewhere is refused: arguments are written by users, and
    /// files elsewhere are the server's.
    ///
    /// # Errors
    /// If it is not a text file of at most 1 MiB in [`Order::files`].
    pub fn file(&self, path: &str) -> Result<String, Failure> {
        let refused = || Failure::Check(format!("{path} is not a file of this machine's Job"));
        let root = fs::canonicalize(&self.files).map_err(|_| refused())?;
        let found = fs::canonicalize(path).map_err(|_| refused())?;
        let is_small = |found: &PathBuf| {
            fs::metadata(found).is_ok_and(|known| known.is_file() && known.len() <= LARGEST_FILE)
        };
        if !found.starts_with(&root) || !is_small(&found) {
            return Err(refused());
        }
        fs::read_to_string(&found).map_err(|_| refused())
    }
}

/// What was said of a server: by flag, without the driver's name before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Arguments(pub BTreeMap<String, Vec<String>>);

impl Arguments {
    /// A text; nothing if it was not given or is empty.
    pub fn text(&self, flag: &str) -> Option<&str> {
        self.list(flag).last().map(String::as_str).filter(|text| !text.is_empty())
    }

    /// Every value of a flag that may be given often.
    pub fn list(&self, flag: &str) -> &[String] {
        self.0.get(flag).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether a switch is there.
    pub fn switch(&self, flag: &str) -> bool {
        self.0.contains_key(flag)
    }

    /// A number; nothing if it was not given.
    ///
    /// # Errors
    /// If it is not a number.
    pub fn number<T: std::str::FromStr>(&self, flag: &str) -> Result<Option<T>, Failure> {
        let read = |text: &str| {
            text.parse().map_err(|_| Failure::Check(format!("{flag}: {text:?} is not a number of that size")))
        };
        self.text(flag).map(read).transpose()
    }
}

/// A server that was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// What the provider calls it.
    pub id: String,
    /// The address at which others reach it.
    pub address: String,
    /// Its address among its own kind, if it has another.
    pub private_address: String,
    /// Its IPv6 address.
    pub ipv6_address: String,
    /// How it is reached by SSH, if it is.
    pub ssh: Option<Ssh>,
}

/// How a server is reached by SSH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ssh {
    /// As whom.
    pub user: String,
    /// On which port.
    pub port: u16,
    /// Name of the private key in [`Order::directory`]; empty if it is kept elsewhere.
    pub key: String,
}

/// Why a server was not made or removed. The words are what users see.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It was never begun: there is nothing to clean up.
    #[error("{0}")]
    Check(String),
    /// It failed, and something may be left.
    #[error("{0}")]
    Failed(String),
}

/// Takes what a driver has to say, line by line.
#[derive(Clone)]
pub struct Output(Arc<dyn Fn(&str) + Send + Sync>);

impl Output {
    /// Lines go to `sink`.
    pub fn new(sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Output(Arc::new(sink))
    }

    /// Lines go nowhere.
    pub fn none() -> Self {
        Output::new(|_| {})
    }

    /// Says something; each line of it by itself.
    pub fn say(&self, text: impl AsRef<str>) {
        text.as_ref().lines().for_each(|line| (self.0)(line));
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("output")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_order_are_read() {
        let data = tempfile::tempdir().unwrap();
        let files = data.path().join("jobs/u/mounts");
        fs::create_dir_all(files.join("machine")).unwrap();
        fs::write(files.join("machine/value"), "script").unwrap();
        fs::write(files.join("large"), vec![b'x'; (1 << 20) + 1]).unwrap();
        fs::write(data.path().join("encryption.key"), "secret").unwrap();
        std::os::unix::fs::symlink(data.path().join("encryption.key"), files.join("link")).unwrap();
        let order = Order { files: files.clone(), ..Order::default() };
        let read = |path: PathBuf| order.file(path.to_str().unwrap());
        assert_eq!(read(files.join("machine/value")), Ok("script".to_owned()));
        for path in [
            data.path().join("encryption.key"),
            files.join("../../../encryption.key"),
            files.join("link"),
            files.join("large"),
            files.join("machine"),
            files.join("missing"),
            data.path().join("missing"),
        ] {
            let words = format!("{} is not a file of this machine's Job", path.display());
            assert_eq!(read(path), Err(Failure::Check(words)));
        }
        assert!(Order::default().file("/etc/hostname").is_err(), "without a directory there are no files");
    }

    #[test]
    fn arguments_are_read_by_what_they_are() {
        let arguments = Arguments(BTreeMap::from([
            ("memory".to_owned(), vec!["512".to_owned()]),
            ("volume".to_owned(), vec!["/a".to_owned(), "/b".to_owned()]),
            ("privileged".to_owned(), Vec::new()),
            ("image".to_owned(), vec![String::new()]),
        ]));
        assert_eq!(arguments.number("memory"), Ok(Some(512_u64)));
        assert_eq!(arguments.number::<u64>("cpus"), Ok(None));
        assert_eq!(arguments.list("volume"), ["/a", "/b"]);
        assert!(arguments.switch("privileged") && !arguments.switch("other"));
        assert_eq!(arguments.text("image"), None, "an empty text is none");
        assert!(
            matches!(arguments.number::<u8>("memory"), Err(Failure::Check(words)) if words.contains("memory"))
        );
    }
}
